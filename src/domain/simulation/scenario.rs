//! A scenario: tenants with their jobs, workers, and the rule that plans the jobs.

use super::arrivals::Arrivals;
use super::run_time::RunTime;
use crate::domain::plan::Rule;
use crate::domain::tenant::Weight;
use std::sync::Arc;

/// Maximum number of jobs that a simulation enqueues; further ones are left out.
pub const MOST_JOBS: u64 = 10_000_000;
/// Maximum number of tenants, over all groups.
pub const MOST_TENANTS: u64 = 100_000;
/// Maximum number of groups, each of which has a histogram of waits.
pub const MOST_GROUPS: usize = 1000;
/// Maximum number of workers.
pub const MOST_WORKERS: u32 = 100_000;

/// A workload, and the system that runs it.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// Name in reports.
    pub name: String,
    /// The seed of all random numbers.
    pub seed: u64,
    pub mode: Mode,
    /// Time after which nothing is enqueued, in microseconds. Workers finish the jobs that are
    /// left.
    pub duration_us: u64,
    /// Number of jobs after which nothing is enqueued.
    pub jobs: u64,
    /// Number of workers, each of which runs one job at a time.
    pub workers: u32,
    pub rule: Rule,
    pub groups: Vec<TenantGroup>,
}

/// The order of jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Planned by the rule.
    Fair,
    /// First in, first out, without a rule.
    Fifo,
}

impl Mode {
    /// Returns the name used in scenarios and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Mode::Fair => "fair",
            Mode::Fifo => "fifo",
        }
    }
}

/// One tenant, or several that are alike.
#[derive(Clone, Debug, PartialEq)]
pub struct TenantGroup {
    pub name: String,
    /// Number of tenants.
    pub count: u32,
    pub weight: Weight,
    pub arrivals: Arrivals,
    pub run_time: RunTime,
    pub retry: Retry,
}

/// Failures of a tenant's jobs, and their retries. The delay doubles with each attempt, as in the
/// default retry policy of OJS, but without jitter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Retry {
    /// Share of the attempts that fail, from 0 to 1.
    pub failures: f64,
    /// Maximum number of attempts of a job, including the first.
    pub attempts: u8,
    /// Delay before the second attempt, in microseconds.
    pub delay_us: u64,
}

impl Retry {
    /// Returns the delay after a failed attempt; attempts count from 1.
    pub(super) fn delay_after(self, attempt: u8) -> u64 {
        self.delay_us.saturating_mul(1_u64.checked_shl(u32::from(attempt) - 1).unwrap_or(u64::MAX))
    }
}

impl TenantGroup {
    /// Returns the name of a tenant of this group: with a number if the group has several.
    pub(super) fn tenant_name(&self, place: u32) -> Arc<str> {
        match self.count {
            1 => Arc::from(self.name.as_str()),
            _ => Arc::from(format!("{}-{:0width$}", self.name, place + 1, width = self.digits())),
        }
    }

    /// Returns true if one of several tenants of this group has this name.
    pub fn has_tenant(&self, name: &str) -> bool {
        let number = name.strip_prefix(&self.name).and_then(|rest| rest.strip_prefix('-'));
        let fits = |number: &&str| number.len() == self.digits() && number.bytes().all(|byte| byte.is_ascii_digit());
        let number: Option<u32> = number.filter(fits).and_then(|number| number.parse().ok());
        self.count > 1 && number.is_some_and(|number| (1..=self.count).contains(&number))
    }

    fn digits(&self) -> usize {
        self.count.max(1).ilog10() as usize + 1
    }
}

impl Scenario {
    /// Returns the expected number of jobs, without retries.
    pub fn expected_jobs(&self) -> u64 {
        let of_group = |group: &TenantGroup| group.arrivals.expected(self.duration_us) * f64::from(group.count);
        let expected = self.groups.iter().map(of_group).sum::<f64>().ceil() as u64;
        expected.min(self.jobs).min(MOST_JOBS)
    }

    /// Returns the work that arrives per second until the end of the arrivals, in seconds of one
    /// worker's time. More than [`workers`](Self::workers) is an overload.
    pub fn offered_load(&self) -> f64 {
        let of_group = |group: &TenantGroup| {
            let attempts: f64 = (0..i32::from(group.retry.attempts)).map(|more| group.retry.failures.powi(more)).sum();
            let jobs = group.arrivals.expected(self.duration_us) * f64::from(group.count);
            jobs * attempts * group.run_time.mean_us()
        };
        self.groups.iter().map(of_group).sum::<f64>() / self.duration_us.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tenants_that_are_alike_have_numbers() {
        let alike = TenantGroup { count: 20, ..super::super::tests::group("quiet", 1.0, Arrivals::default()) };
        assert_eq!([0, 19].map(|place| alike.tenant_name(place)), [Arc::from("quiet-01"), Arc::from("quiet-20")]);
        let names = ["quiet-01", "quiet-20", "quiet-00", "quiet-21", "quiet-1", "quiet", "quiet01"];
        assert_eq!(names.map(|name| alike.has_tenant(name)), [true, true, false, false, false, false, false]);
        let lone = TenantGroup { count: 1, ..alike };
        assert_eq!((&*lone.tenant_name(0), lone.has_tenant("quiet-1")), ("quiet", false));
    }

    #[test]
    fn the_delay_of_a_retry_doubles() {
        let retry = Retry { failures: 0.5, attempts: 255, delay_us: 1000 };
        assert_eq!([1, 2, 5].map(|attempt| retry.delay_after(attempt)), [1000, 2000, 16_000]);
        assert_eq!(retry.delay_after(200), u64::MAX);
    }
}
