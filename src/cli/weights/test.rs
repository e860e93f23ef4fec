//! `fairgate weights test`.

use super::super::{Settings, counted};
use super::verdict::{Verdict, verdicts};
use crate::clock::Clock;
use crate::config::{Config, Secret};
use crate::fairness::{Rule, TenantRule};
use crate::weights::{Ask, Doubt, Tenant, Trial, client_builder};
use anyhow::{Context, bail};
use clap::Args;
use std::fmt::{self, Display, Formatter};
use std::process::ExitCode;

/// Tenants that are asked about if none is named.
const MOST_CONFIGURED: usize = 10;
/// The tenant that is asked about if none is named and the configuration has none.
const EXAMPLE: &str = "example";

const EXAMPLES: &str = "\
Examples:
  fairgate weights test reports --tenant acme --tenant globex
  fairgate weights test reports --config /etc/fairgate.toml

The webhook gets `POST` with {\"rule\": …, \"queue\": …, \"round\": 0, \"tenants\": [{\"id\": \"acme\"}, …]} and returns
{\"weights\": {\"acme\": 3, \"globex\": 0.5}}: a number for each id. Weight 0 holds a tenant, other weights count from
0.05 to 1000, and a tenant of weight 2 gets twice the promotions of one of weight 1. docs/weights.md has the rest.

Exit status: 0 if the webhook works, 1 if it fails or returns a value that is no weight, 64 for a mistake in the
configuration.";

/// Call the weights webhook of a plan rule, and show what its answer means.
///
/// Sends one signed request, as the planner does, to the webhook of a rule in the configuration. Shows the request
/// (without secrets), the response, and for each tenant which weight would be used and why. Needs neither Redis nor a
/// running fairgate, and changes nothing. Rules that were added by API are not known here.
#[derive(Args)]
#[command(after_long_help = EXAMPLES)]
pub(in crate::cli) struct Test {
    #[command(flatten)]
    settings: Settings,
    /// Name of the plan rule
    #[arg(value_name = "RULE")]
    rule: String,
    /// Tenant to ask about; may be given several times [default: tenants that the configuration names]
    #[arg(long = "tenant", value_name = "ID")]
    tenants: Vec<String>,
}

/// A trial, and what it means.
struct Report<'a> {
    rule: &'a Rule,
    trial: Trial,
    verdicts: Vec<Verdict>,
}

impl Test {
    pub(in crate::cli) fn run(self) -> anyhow::Result<ExitCode> {
        let config = match self.settings.load() {
            Ok(loaded) => loaded.config,
            Err(code) => return Ok(code),
        };
        let rule = self.find(&config)?;
        let secret = rule.weights.webhook.as_ref().and_then(|webhook| webhook.secret_env.as_deref());
        let secret = secret.and_then(|name| std::env::var(name).ok()).map(Secret::new);
        let tenants = self.tenants(rule, &config.tenant);
        let queue = rule.queue.clone().unwrap_or_else(|| "default".to_owned());
        let ask = Ask { queue, round: 0, tenants: tenants.iter().map(|id| Tenant::named(id)).collect() };
        let http = client_builder().build().context("cannot make an HTTP client")?;
        let runtime = super::super::runtime()?;
        let trial = runtime.block_on(Trial::run(rule, secret, http, &ask, Clock::System.now_ms()))?;
        let Some(trial) = trial else {
            bail!("plan rule {:?} has no weights webhook; its tenants have static and default weights", rule.name);
        };
        let is_fine = trial.answer.as_ref().is_ok_and(|outcome| outcome.invalid_total == 0);
        let verdicts = verdicts(rule, &config.tenant, &trial, &tenants);
        print!("{}", Report { rule, trial, verdicts });
        Ok(if is_fine { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    fn find<'a>(&self, config: &'a Config) -> anyhow::Result<&'a Rule> {
        let found = config.plan.iter().find(|rule| rule.name == self.rule);
        let names = || match config.plan.iter().map(|rule| rule.name.as_str()).collect::<Vec<_>>() {
            names if names.is_empty() => "it has none".to_owned(),
            names => format!("it has {}", names.join(", ")),
        };
        found.with_context(|| format!("there is no plan rule {:?} in the configuration: {}", self.rule, names()))
    }

    fn tenants(&self, rule: &Rule, terms: &[TenantRule]) -> Vec<String> {
        if !self.tenants.is_empty() {
            return self.tenants.clone();
        }
        let with_terms = terms.iter().map(|terms| &terms.id).filter(|id| !id.ends_with('*'));
        let mut configured: Vec<String> = rule.weights.fixed.keys().chain(with_terms).cloned().collect();
        configured.sort();
        configured.dedup();
        configured.truncate(MOST_CONFIGURED);
        if configured.is_empty() { vec![EXAMPLE.to_owned()] } else { configured }
    }
}

impl Display for Report<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Report { rule, trial, verdicts } = self;
        writeln!(f, "request of plan rule {:?}, timeout {:?}", rule.name, trial.timeout)?;
        writeln!(f, "  POST {}", trial.url)?;
        for (name, value) in &trial.headers {
            writeln!(f, "  {name}: {value}")?;
        }
        writeln!(f, "  {}", trial.body)?;
        writeln!(f, "\nresponse after {:.0} ms", trial.took.as_secs_f64() * 1e3)?;
        match &trial.response {
            None => writeln!(f, "  none")?,
            Some(response) => {
                writeln!(f, "  {} ({})", response.status, response.media_type)?;
                response.body.lines().try_for_each(|line| writeln!(f, "  {line}"))?;
            }
        }
        writeln!(f, "\nresult")?;
        match &trial.answer {
            Err(error) => writeln!(f, "  FAILED: {error}")?,
            Ok(outcome) => {
                let total = outcome.weights.len() as u64 + outcome.invalid_total + outcome.missing;
                writeln!(f, "  {} of {} got a weight", outcome.weights.len(), counted(total, "tenant"))?;
                match outcome.invalid_total {
                    0 => {}
                    1 => writeln!(f, "  FAILED: 1 value is no weight")?,
                    some => writeln!(f, "  FAILED: {some} values are no weights")?,
                }
                match outcome.unknown {
                    0 => {}
                    1 => writeln!(f, "  1 id in the answer was not asked for and is ignored")?,
                    some => writeln!(f, "  {some} ids in the answer were not asked for and are ignored")?,
                }
                if let Some(doubt) = Doubt::of(outcome) {
                    writeln!(f, "  WARNING: {}", doubt.describe())?;
                }
            }
        }
        let width = verdicts.iter().map(|verdict| verdict.tenant.chars().count()).max().unwrap_or(0).max(6);
        writeln!(f, "\n  {:width$}  {:>6}  why", "tenant", "weight")?;
        for Verdict { tenant, weight, why } in verdicts {
            writeln!(f, "  {tenant:width$}  {weight:>6}  {why}", weight = weight.to_string())?;
        }
        writeln!(
            f,
            "\nThis is for tenants that the webhook has not answered for yet. Others keep the weight of its last answer"
        )?;
        writeln!(
            f,
            "for {} s (max_weight_age) if it fails, leaves them out or returns no weight.",
            rule.weights.max_weight_age / 1000
        )
    }
}
