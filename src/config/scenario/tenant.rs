//! `[[tenant]]` of a scenario: a tenant, or several that are alike, and their jobs.

use std::time::Duration;

use super::{INSTANT, LONGEST};
use crate::config::convert::Refused;
use crate::config::reader::SettingsReader;
use crate::config::tree::Kind;
use crate::domain::job::retry::DEFAULT_MAX_ATTEMPTS;
use crate::domain::plan::Rule;
use crate::domain::simulation::{
    Arrivals, Burst, MOST_GROUPS, MOST_JOBS, MOST_TENANTS, Phases, Retry, RunTime, TenantGroup,
};
use crate::domain::tenant_id;

/// Highest `rate`, in jobs per second.
const HIGHEST_RATE: f64 = 1e6;
/// Shortest `every`. More jobs per second need a `rate`.
const SHORTEST_GAP: Duration = INSTANT;
/// Longest run time that can be configured.
const LONGEST_RUN: Duration = Duration::from_secs(86_400);
const MOST_ATTEMPTS: u32 = 25;
const SECOND: Duration = Duration::from_secs(1);

/// Values that tenants have if they do not set their own.
#[derive(Clone, Copy)]
pub(super) struct TenantDefaults<'a> {
    pub rule: &'a Rule,
    pub run_time: RunTime,
}

/// Reads all `[[tenant]]` tables.
pub(super) fn read_tenants(root: &mut SettingsReader<'_>, defaults: TenantDefaults<'_>) -> Vec<TenantGroup> {
    let mut names: Vec<String> = Vec::new();
    let groups = root.each("tenant", |reader| {
        let group = read(reader, defaults);
        if reader.is_sound(&["name"]) && names.contains(&group.name) {
            reader.refuse("name", Refused::new("a name that no other [[tenant]] has"));
        }
        names.push(group.name.clone());
        group
    });
    if let Some((name, other)) = overlap(&groups) {
        let message = format!("tenants with the name {name:?} are in two [[tenant]] tables: also in that of {other:?}");
        root.conflict(&["tenant"], message, Some("give one of the tables another name"));
    }
    if groups.len() > MOST_GROUPS {
        let help = "tenants that are alike need one [[tenant]] with a count";
        root.refuse("tenant", Refused::new(format!("at most {MOST_GROUPS} [[tenant]] tables")).help(help));
    }
    groups
}

/// Returns the name of a group that is also the name of a tenant in another group, and the name of
/// that group.
fn overlap(groups: &[TenantGroup]) -> Option<(&str, &str)> {
    let several = groups.iter().take(MOST_GROUPS).filter(|group| group.count > 1);
    let mut pairs = several.flat_map(|group| groups.iter().take(MOST_GROUPS).map(move |other| (group, other)));
    let (group, other) = pairs.find(|(group, other)| group.has_tenant(&other.name))?;
    Some((&other.name, &group.name))
}

fn read(reader: &mut SettingsReader<'_>, defaults: TenantDefaults<'_>) -> TenantGroup {
    let name: String = reader.get_such("name", tenant_id::EXPECTED, |name: &String| tenant_id::is_id(name));
    let count = reader.find_in("count", 1..=MOST_TENANTS as u32).unwrap_or(1);
    let weight = reader.find("weight").unwrap_or_else(|| defaults.rule.own_weight(&name, None));
    let arrivals = read_arrivals(reader);
    let run_time = find_run_time(reader, "run_time").unwrap_or(defaults.run_time);
    let retry = Retry {
        failures: reader.find_in("failures", 0.0..=1.0).unwrap_or(0.0),
        attempts: reader.find_in("attempts", 1..=MOST_ATTEMPTS).unwrap_or(DEFAULT_MAX_ATTEMPTS) as u8,
        delay_us: micros(reader.find_in("retry_delay", INSTANT..=LONGEST).unwrap_or(SECOND)),
    };
    TenantGroup { name, count, weight, arrivals, run_time, retry }
}

fn read_arrivals(reader: &mut SettingsReader<'_>) -> Arrivals {
    let rate =
        reader.find_such("rate", &format!("a number of jobs per second above 0 and at most {HIGHEST_RATE}"), |rate| {
            *rate > 0.0 && *rate <= HIGHEST_RATE
        });
    let every = reader.find_in("every", SHORTEST_GAP..=LONGEST);
    let burst = find_burst(reader);
    let on: Option<Duration> = reader.find_in("on", INSTANT..=LONGEST);
    let off: Option<Duration> = reader.find_in("off", INSTANT..=LONGEST);
    let start = reader.find_in("start", Duration::ZERO..=LONGEST).unwrap_or_default();
    let has_set = |reader: &SettingsReader<'_>, key: &str| reader.origin(key).is_some();
    let is_steady = has_set(reader, "rate") || has_set(reader, "every");
    if !is_steady && !has_set(reader, "burst") && reader.is_sound(&[]) {
        let help = "add rate = 5 (jobs per second, at random times), every = \"200ms\" or burst = 1000";
        reader.blame("this tenant enqueues no jobs", Some(help));
    }
    for (one, other) in [("on", "off"), ("off", "on")] {
        if has_set(reader, one) && !has_set(reader, other) {
            reader.conflict(&[one], format!("{one} requires {other}"), Some("on and off are the lengths of phases"));
        }
    }
    if has_set(reader, "on") && !is_steady {
        reader.conflict(
            &["on"],
            "phases apply to rate and every, and this tenant has neither",
            Some("remove on and off"),
        );
    }
    Arrivals {
        rate,
        every_us: every.map(micros),
        burst,
        phases: on.zip(off).map(|(on, off)| Phases { on_us: micros(on), off_us: micros(off) }),
        start_us: micros(start),
    }
}

/// Reads `burst`: a number of jobs at the start, or a table.
fn find_burst(reader: &mut SettingsReader<'_>) -> Option<Burst> {
    if !matches!(reader.kind("burst"), Some(Kind::Table(_))) {
        let jobs = reader.find_in("burst", 1..=MOST_JOBS)?;
        return Some(Burst { jobs, at_us: 0, every_us: None });
    }
    reader.find_section("burst", |reader| Burst {
        jobs: reader.get_in("jobs", 1..=MOST_JOBS),
        at_us: micros(reader.find_in("at", Duration::ZERO..=LONGEST).unwrap_or_default()),
        every_us: reader.find_in("every", SHORTEST_GAP..=LONGEST).map(micros),
    })
}

/// Reads a run time: a duration, or a table with a distribution.
pub(super) fn find_run_time(reader: &mut SettingsReader<'_>, key: &str) -> Option<RunTime> {
    if !matches!(reader.kind(key), Some(Kind::Table(_))) {
        let fixed = reader.find_in(key, INSTANT..=LONGEST_RUN)?;
        return Some(RunTime::Fixed { us: micros(fixed) });
    }
    reader.find_section(key, |reader| {
        let distribution: String = reader.get_such("distribution", DISTRIBUTIONS, |name: &String| {
            ["uniform", "exponential", "lognormal"].contains(&name.as_str())
        });
        let read = |reader: &mut SettingsReader<'_>, key| micros(reader.get_in(key, INSTANT..=LONGEST_RUN));
        match distribution.as_str() {
            "uniform" => {
                let [from_us, to_us] = ["from", "to"].map(|key| read(reader, key));
                ordered(reader, ["from", "to"], from_us <= to_us);
                RunTime::Uniform { from_us, to_us }
            }
            "lognormal" => {
                let [median_us, p99_us] = ["median", "p99"].map(|key| read(reader, key));
                ordered(reader, ["median", "p99"], median_us <= p99_us);
                RunTime::Lognormal { median_us, p99_us }
            }
            _ => RunTime::Exponential { mean_us: read(reader, "mean") },
        }
    })
}

const DISTRIBUTIONS: &str = "one of uniform, exponential, lognormal";

fn ordered(reader: &mut SettingsReader<'_>, [lower, upper]: [&'static str; 2], are_ordered: bool) {
    if reader.is_sound(&[lower, upper]) && !are_ordered {
        reader.refuse(upper, Refused::new(format!("a duration of at least `{lower}`")));
    }
}

/// Returns a duration in microseconds, of which a month has few enough.
pub(super) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
