//! Scenarios of `fairgate simulate`: a TOML file that is read like the configuration.

mod rule;
mod tenant;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::time::Duration;

use self::tenant::{TenantDefaults, read_tenants};
use super::convert::{Choice, Refused};
use super::file;
use super::problem::{ConfigText, Error, Mistakes, Problem};
use super::reader::SettingsReader;
use super::report::Findings;
use super::tree::Origin;
use crate::domain::simulation::{MOST_JOBS, MOST_TENANTS, MOST_WORKERS, Mode, RunTime, Scenario};

/// Noun for files of this kind in errors.
const NOUN: &str = "scenario";
/// Default of `duration`.
const MINUTE: Duration = Duration::from_secs(60);
/// Longest `duration`.
const LONGEST: Duration = Duration::from_secs(30 * 86_400);
const INSTANT: Duration = Duration::from_millis(1);
/// Default of `workers` and of `run_time`.
const WORKERS: u32 = 10;
const RUN_TIME: RunTime = RunTime::Fixed { us: 100_000 };

impl Choice for Mode {
    const CHOICES: &'static [(&'static str, Self)] =
        &[(Self::Fair.name(), Self::Fair), (Self::Fifo.name(), Self::Fifo)];
}

/// Reads a scenario from a file, or reports all errors in it.
pub fn read_scenario(path: &Path) -> Result<Scenario, Error> {
    parse(file::read_existing(path, NOUN)?)
}

/// Reads a scenario from the text of a file.
fn parse(source: ConfigText) -> Result<Scenario, Error> {
    let (table, problems) = file::parse(&source);
    let mut report = Findings::new(problems);
    let name = source.path.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
    let scenario = SettingsReader::root(&table, &mut report, |root| read(root, name));
    let (mut problems, _) = report.finish();
    if problems.is_empty() && scenario.groups.is_empty() {
        problems.push(no_tenant(&source));
    }
    if problems.is_empty() { Ok(scenario) } else { Err(Mistakes::new(problems, Some(source)).into()) }
}

/// Returns the error about a file without tenants, which has no better place than its beginning.
fn no_tenant(source: &ConfigText) -> Problem {
    Problem {
        path: "tenant".to_owned(),
        origin: Origin::File { path: source.path.clone(), line: 1 },
        span: 0..0,
        message: "expected at least one [[tenant]], found none".to_owned(),
        help: Some("fairgate simulate --example prints a scenario".to_owned()),
    }
}

fn read(root: &mut SettingsReader<'_>, name: String) -> Scenario {
    let seed = root.find("seed").unwrap_or(1);
    let mode = root.find("mode").unwrap_or(Mode::Fair);
    let duration: Option<Duration> = root.find_in("duration", INSTANT..=LONGEST);
    let jobs: Option<u64> = root.find_in("jobs", 1..=MOST_JOBS);
    let workers = root.find_in("workers", 1..=MOST_WORKERS).unwrap_or(WORKERS);
    let run_time = tenant::find_run_time(root, "run_time").unwrap_or(RUN_TIME);
    let rule = root.section("rule", rule::read);
    let groups = read_tenants(root, TenantDefaults { rule: &rule, run_time });
    let tenants: u64 = groups.iter().map(|group| u64::from(group.count)).sum();
    if tenants > MOST_TENANTS {
        root.refuse("tenant", Refused::new(format!("at most {MOST_TENANTS} tenants in total (they have {tenants})")));
    }
    let longest = if jobs.is_some() { LONGEST } else { MINUTE };
    Scenario {
        name,
        seed,
        mode,
        duration_us: tenant::micros(duration.unwrap_or(longest)),
        jobs: jobs.unwrap_or(MOST_JOBS),
        workers,
        rule,
        groups,
    }
}
