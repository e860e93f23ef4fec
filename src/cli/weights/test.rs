//! `fairgate weights test`.

use super::super::Settings;
use super::verdict::{Verdict, verdicts};
use crate::clock::Clock;
use crate::config::{Config, Secret};
use crate::domain::plan::Rule;
use crate::domain::tenant::TenantRule;
use crate::domain::words::counted;
use crate::weights::{Ask, AskedTenant, Doubt, Trial, client_builder};
use anyhow::{Context, bail};
use clap::Args;
use std::fmt::{self, Display, Formatter};
use std::process::ExitCode;

/// Maximum number of configured tenants to ask about if the command line names none.
const MOST_CONFIGURED: usize = 10;
/// Tenant to ask about if neither the command line nor the configuration names any.
const EXAMPLE: &str = "example";

const EXAMPLES: &str = "\
Examples:
  fairgate weights test reports --tenant acme --tenant globex
  fairgate weights test reports --config /etc/fairgate.toml

The webhook receives a POST request and returns a weight for each tenant:
  {\"rule\": …, \"queue\": …, \"round\": 0, \"tenants\": [{\"id\": \"acme\"}, {\"id\": \"globex\"}]}
  {\"weights\": {\"acme\": 3, \"globex\": 0.5}}
Weights range from 0.05 to 1000; a tenant with weight 2 gets twice the promotions of one with
weight 1. Weight 0 holds a tenant. See docs/weights.md.

Exit status: 0 if the webhook works, 1 if it fails or returns an invalid weight, 64 if the
configuration is invalid.";

/// Call the weights webhook of a plan rule and explain its answer.
///
/// Sends one signed request to the webhook of a rule in the configuration, like the planner. Shows
/// the request (without secrets), the response, and the resulting weight of each tenant with the
/// reason. Changes nothing, and needs neither Redis nor a running server. Rules that were created
/// over HTTP are not available here.
#[derive(Args)]
#[command(after_long_help = EXAMPLES)]
pub(in crate::cli) struct Test {
    #[command(flatten)]
    settings: Settings,
    /// Name of the plan rule
    #[arg(value_name = "RULE")]
    rule: String,
    /// Tenant to request a weight for; can be repeated [default: tenants in the configuration]
    #[arg(long = "tenant", value_name = "ID")]
    tenants: Vec<String>,
}

/// Result of a trial request, and the resulting weights.
struct TrialReport<'a> {
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
        let ask = Ask { queue, round: 0, tenants: tenants.iter().map(|id| AskedTenant::named(id)).collect() };
        let http = client_builder().build().context("cannot create an HTTP client")?;
        let runtime = super::super::runtime()?;
        let trial = runtime.block_on(Trial::run(rule, secret, http, &ask, Clock::System.now_ms()))?;
        let Some(trial) = trial else {
            bail!("plan rule {:?} has no weights webhook; its tenants have static and default weights", rule.name);
        };
        let is_fine = trial.answer.as_ref().is_ok_and(|outcome| outcome.invalid_total == 0);
        let verdicts = verdicts(rule, &config.tenant, &trial, &tenants);
        print!("{}", TrialReport { rule, trial, verdicts });
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

impl Display for TrialReport<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let TrialReport { rule, trial, verdicts } = self;
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
                    1 => writeln!(f, "  FAILED: 1 value is not a valid weight")?,
                    some => writeln!(f, "  FAILED: {some} values are not valid weights")?,
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
            "\nThis applies to tenants whose weight is not known yet. Others keep the weight of the last answer for"
        )?;
        writeln!(
            f,
            "{} s (max_weight_age) if the webhook fails, omits them or returns an invalid weight.",
            rule.weights.max_weight_age / 1000
        )
    }
}
