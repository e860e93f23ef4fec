//! The result of a simulation as data. It is also the JSON output, so names are for users.

use serde::Serialize;

/// The result of a simulation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    pub scenario: String,
    /// `fair` or `fifo`.
    pub mode: &'static str,
    pub seed: u64,
    pub workers: u32,
    /// One entry for each `[[tenant]]`, in the order of the scenario.
    pub tenants: Vec<TenantReport>,
    pub totals: Totals,
    /// Cumulative numbers of dispatched jobs.
    pub timeline: Series,
}

/// The result for one tenant, or for several that are alike.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TenantReport {
    pub name: String,
    /// Number of tenants that this entry covers together.
    pub tenants: u32,
    pub weight: f64,
    /// Number of enqueued jobs.
    pub jobs: u64,
    /// Number of attempts that workers started. Without failures, one for each job.
    pub dispatches: u64,
    pub completed: u64,
    /// Number of jobs whose last attempt failed.
    pub discarded: u64,
    /// Number of jobs that were never finished, because their tenant is held.
    pub left: u64,
    /// Share of the dispatches at which at least two tenants had jobs waiting; `None` if there were
    /// none.
    pub share: Option<f64>,
    /// The same under exact sharing by weight.
    pub expected_share: Option<f64>,
    pub wait: WaitQuantiles,
    /// Largest distance of one of these tenants from exact sharing, in jobs.
    pub deviation: Deviation,
}

/// Waits from the moment at which an attempt could run, to its start, in milliseconds. Quantiles
/// have an error of at most 1 %.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct WaitQuantiles {
    pub p50_ms: f64,
    pub p95_ms: f64,
    pub p99_ms: f64,
    pub max_ms: f64,
}

/// Distances from exact sharing, in jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Deviation {
    pub ahead_jobs: f64,
    pub behind_jobs: f64,
}

impl Deviation {
    pub(super) fn include(&mut self, ahead: f64) {
        self.ahead_jobs = self.ahead_jobs.max(ahead);
        self.behind_jobs = self.behind_jobs.max(-ahead);
    }

    pub(super) fn merge(&mut self, other: Deviation) {
        self.include(other.ahead_jobs);
        self.include(-other.behind_jobs);
    }

    pub(super) fn rounded(self) -> Deviation {
        Deviation { ahead_jobs: round(self.ahead_jobs, 1e3), behind_jobs: round(self.behind_jobs, 1e3) }
    }
}

/// The result for all tenants together.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Totals {
    pub tenants: u64,
    pub jobs: u64,
    /// True if the scenario has more jobs than a simulation enqueues; the rest was left out.
    pub jobs_left_out: bool,
    pub dispatches: u64,
    pub completed: u64,
    pub discarded: u64,
    pub left: u64,
    pub wait: WaitQuantiles,
    /// Mean of Jain's index of dispatches per weight, over windows and the tenants that had enough
    /// jobs waiting throughout them to use their shares; `None` if no two tenants had.
    pub jain_index: Option<f64>,
    /// Share of the workers' time in which they ran jobs.
    pub utilisation: f64,
    pub throughput_per_s: f64,
    /// Time from the start to the end of the last job.
    pub makespan_ms: f64,
    /// Rounds of the planner.
    pub rounds: u64,
    /// Time in which a worker was idle although jobs were staged.
    pub wasted_ms: f64,
    /// Largest distance of a tenant's promotions from exact sharing of promotions.
    pub promotions: Deviation,
}

/// Cumulative numbers over time. `tenants` has the entries of [`Report::tenants`].
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Series {
    pub at_ms: Vec<f64>,
    pub tenants: Vec<Vec<u64>>,
}

/// Rounds to a fraction such as `1e3` for thousandths.
pub(super) fn round(number: f64, parts: f64) -> f64 {
    // Adding 0 turns -0 into 0.
    (number * parts).round() / parts + 0.0
}

/// Converts microseconds to milliseconds.
pub(super) fn ms(us: u64) -> f64 {
    us as f64 / 1e3
}
