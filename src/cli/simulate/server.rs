//! `fairgate simulate --from-server`: recorded rounds of a server, promoted again with a change.

use super::format::{percent, time, weight};
use super::table::{Columns, MOST_ROWS};
use crate::cli::server::{KeyFile, client};
use crate::domain::names;
use crate::domain::simulation::{Replay, ReplayChange, ReplayedWaits, replay};
use crate::domain::tenant::Weight;
use crate::domain::words::counted;
use crate::domain::words::grouped;
use anyhow::{Context, bail};
use clap::Args;
use std::fmt::{self, Display, Formatter};

/// The server and the change to simulate.
#[derive(Args)]
pub(super) struct FromServer {
    /// URL of a running fairgate, such as http://127.0.0.1:8080, whose recorded rounds to promote
    /// again with --weight or --jobs
    #[arg(long = "from-server", value_name = "URL", requires = "rule",
        conflicts_with_all = ["scenarios", "compare", "seed", "html"])]
    pub url: Option<String>,
    /// Plan rule whose rounds to read
    #[arg(long, value_name = "NAME", requires = "url", value_parser = read_rule)]
    rule: Option<String>,
    /// Weight of a tenant instead of the recorded one; can be repeated
    #[arg(long = "weight", value_name = "TENANT=WEIGHT", requires = "url", value_parser = read_weight)]
    weights: Vec<TenantWeight>,
    /// Number of jobs per round instead of the recorded numbers
    #[arg(long, value_name = "JOBS", requires = "url", value_parser = clap::value_parser!(u64).range(1..=100_000))]
    jobs: Option<u64>,
    #[command(flatten)]
    key: KeyFile,
}

#[derive(Clone, Debug)]
struct TenantWeight {
    tenant: String,
    weight: Weight,
}

fn read_rule(text: &str) -> Result<String, String> {
    if names::is_label(text) { Ok(text.to_owned()) } else { Err(format!("expected {}", names::LABEL_EXPECTED)) }
}

fn read_weight(text: &str) -> Result<TenantWeight, String> {
    let expected =
        || format!("expected a tenant and a weight from {} to {}, such as acme=3", Weight::LEAST, Weight::MOST);
    // A tenant may have a `=` in its id, a weight has none.
    let (tenant, number) = text.rsplit_once('=').filter(|(tenant, _)| !tenant.is_empty()).ok_or_else(expected)?;
    let fits = |number: &f64| *number == 0.0 || (Weight::LEAST.as_f64()..=Weight::MOST.as_f64()).contains(number);
    let weight = number.parse().ok().filter(fits).and_then(Weight::of).ok_or_else(expected)?;
    Ok(TenantWeight { tenant: tenant.to_owned(), weight })
}

/// A replay and what it was asked for.
pub(super) struct ServerReplay {
    url: String,
    rule: String,
    pub replay: Replay,
}

impl FromServer {
    /// Reads the rounds of the server and promotes their jobs again.
    pub(super) fn run(&self) -> anyhow::Result<Option<ServerReplay>> {
        let (Some(url), Some(rule)) = (&self.url, &self.rule) else { return Ok(None) };
        let remote = client(url, self.key.read()?).context("--from-server")?;
        let rounds = super::super::runtime()?.block_on(remote.recorded_rounds(rule))?;
        if rounds.is_empty() {
            bail!("the server has recorded no round of rule {rule:?} that promoted jobs");
        }
        let weights = self.weights.iter().map(|one| (one.tenant.clone(), one.weight)).collect();
        let replay = replay(&rounds, &ReplayChange { weights, jobs: self.jobs });
        for TenantWeight { tenant, .. } in &self.weights {
            if !replay.tenants.iter().any(|entry| entry.name == *tenant) {
                eprintln!("warning: the record has no tenant {tenant:?}");
            }
        }
        Ok(Some(ServerReplay { url: remote.place().to_owned(), rule: rule.clone(), replay }))
    }
}

/// The gaps of the record, in the words of the output.
const GAPS: &str = "\
The record does not say when jobs were enqueued. A tenant counts as waiting from the first of its
rounds until it is left out for longer than its turn takes, with all jobs that it got in between;
waits count from that first round. Actual waits in staging may be longer. Jobs that passed straight
through, waits in the main queue and run times are not recorded.";

impl Display for ServerReplay {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let ServerReplay { url, rule, replay } = self;
        let rounds = counted(replay.rounds, "recorded round");
        let (jobs, tenants) = (counted(replay.jobs, "job"), counted(replay.tenants.len() as u64, "tenant"));
        let within = time(replay.duration_ms as f64);
        writeln!(f, "rule {rule} at {url}: {rounds} within {within}, {jobs} of {tenants}")?;
        writeln!(f, "A  as recorded\nB  simulated\n")?;
        let mut columns = Columns::default();
        let names = [
            "tenant",
            "jobs",
            "weight A",
            "B",
            "share A",
            "B",
            "p50 A",
            "B",
            "p95 A",
            "B",
            "max wait A",
            "B",
            "left B",
        ];
        columns.push(names.map(str::to_owned));
        for tenant in replay.tenants.iter().take(MOST_ROWS) {
            let both = |show: fn(&ReplayedWaits) -> String| [show(&tenant.recorded), show(&tenant.simulated)];
            let values = [
                both(|side| weight(side.weight)),
                both(|side| percent(side.share)),
                both(|side| time(side.wait.p50_ms)),
                both(|side| time(side.wait.p95_ms)),
                both(|side| time(side.wait.max_ms)),
            ];
            let first = [tenant.name.clone(), grouped(tenant.jobs)];
            columns.push(first.into_iter().chain(values.concat()).chain([grouped(tenant.left)]));
        }
        write!(f, "{columns}")?;
        if replay.tenants.len() > MOST_ROWS {
            writeln!(f, "{} more tenants: see --json", replay.tenants.len() - MOST_ROWS)?;
        }
        writeln!(f, "\n{GAPS}")?;
        if replay.tenants.iter().any(|tenant| tenant.left > 0) {
            writeln!(f, "Waits in B leave out the jobs that were still staged after the last recorded round.")?;
        }
        if replay.unnamed_jobs > 0 {
            let jobs = counted(replay.unnamed_jobs, "job");
            writeln!(f, "A round names 100 tenants; {jobs} of others are left out.")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_given_by_tenant() {
        let read = |text| read_weight(text).map(|one| (one.tenant, one.weight.as_f64()));
        assert_eq!(read("acme=3"), Ok(("acme".to_owned(), 3.0)));
        assert_eq!(read("a=b=0"), Ok(("a=b".to_owned(), 0.0)));
        for wrong in ["acme", "=3", "acme=", "acme=-1", "acme=0.01", "acme=1001", "acme=nan"] {
            assert!(read(wrong).is_err_and(|error| error.ends_with("such as acme=3")), "{wrong}");
        }
    }
}
