//! Answers for autoscalers.

use crate::planner::ScalingReport;
use schemars::JsonSchema;
use serde::Serialize;

/// The backlog of a plan rule or a queue, and the number of workers that it needs. A number of which too little is known is
/// `null`, and `basis` says so.
#[derive(Serialize, JsonSchema)]
pub struct Autoscale<'a> {
    /// `rule` or `queue`.
    #[schemars(extend("enum" = crate::planner::ScalingKind::NAMES))]
    pub kind: &'static str,
    pub name: &'a str,
    /// Staged jobs, and available jobs in the main queues.
    pub backlog_jobs: Option<u64>,
    /// The time that the present workers need for the jobs that they may start.
    #[schemars(range(min = 0))]
    pub backlog_seconds: Option<f64>,
    /// The used part of the workers' capacity. More than 1 means that jobs arrive faster than the workers can run them, or
    /// that workers are leaving.
    #[schemars(range(min = 0))]
    pub load: Option<f64>,
    /// Workers that reported to serve the queues, or processes of a Sidekiq.
    pub workers: Option<u64>,
    /// Workers that keep up with arrivals and work off the backlog within `inputs.target_seconds`.
    pub workers_wanted: Option<u64>,
    /// Age of the oldest job of the backlog; 0 without one.
    #[schemars(range(min = 0))]
    pub oldest_seconds: Option<f64>,
    pub basis: Basis,
    pub jobs: Jobs,
    pub inputs: Inputs,
    /// The gate of the rule; `null` for a queue.
    pub gate: Option<Gate>,
}

/// The source of each number. `no_data` means that the number is `null`.
#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
pub struct Basis {
    /// `counted`, or `no_data` if a main queue cannot be read.
    #[schemars(extend("enum" = ["counted", "no_data"]))]
    pub backlog_jobs: &'static str,
    #[schemars(extend("enum" = ["empty", "drain_rate", "run_time", "no_data"]))]
    pub backlog_seconds: &'static str,
    #[schemars(extend("enum" = ["busy_slots", "arrival_rate", "no_data"]))]
    pub load: &'static str,
    #[schemars(extend("enum" = ["idle", "run_time", "drain_rate", "first_worker", "no_data"]))]
    pub workers_wanted: &'static str,
}

/// The jobs of the backlog.
#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
pub struct Jobs {
    pub staged: u64,
    /// Available jobs in the main queues.
    pub available: u64,
    /// Those of the available jobs that wait for a limit. More workers do not help them.
    pub blocked: u64,
    /// Promoted jobs on their way to a main queue in another system.
    pub undelivered: u64,
}

/// The facts from which the numbers are computed.
#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
pub struct Inputs {
    /// The backlog without blocked jobs.
    pub startable_jobs: u64,
    pub active_jobs: Option<u64>,
    /// Number of jobs that `workers` can run at the same time.
    pub slots: Option<u64>,
    /// Number of jobs that one worker runs at the same time; 1 if it is unknown.
    #[schemars(range(min = 0))]
    pub slots_per_worker: f64,
    /// Jobs that arrived per second within `window_seconds`. Promotions are no arrivals.
    #[schemars(range(min = 0))]
    pub arrivals_per_second: Option<f64>,
    /// Jobs that workers started per second within `window_seconds`.
    #[schemars(range(min = 0))]
    pub drain_per_second: Option<f64>,
    /// Mean run time of the attempts that ended within `run_window_seconds`.
    #[schemars(range(min = 0))]
    pub run_seconds: Option<f64>,
    #[schemars(range(min = 0))]
    pub target_seconds: f64,
    #[schemars(range(min = 0))]
    pub window_seconds: f64,
    #[schemars(range(min = 0))]
    pub run_window_seconds: f64,
}

/// The gate of a rule.
#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
pub struct Gate {
    pub open: bool,
    /// The reason for which it is closed.
    pub reason: Option<&'static str>,
}

impl<'a> Autoscale<'a> {
    /// Describes a report. `run_window_seconds` is the period over which run times are averaged.
    pub fn of(report: &'a ScalingReport, run_window_seconds: f64) -> Autoscale<'a> {
        use crate::domain::plan::Closed;
        use crate::planner::ScalingKind;
        let (facts, advice, jobs) = (&report.facts, &report.advice, &report.jobs);
        let gate = || Gate { open: report.closed.is_none(), reason: report.closed.map(Closed::name) };
        Autoscale {
            kind: report.kind.name(),
            name: &report.name,
            backlog_jobs: report.backlog_jobs(),
            backlog_seconds: advice.backlog_seconds.map(rounded),
            load: advice.load.map(rounded),
            workers: facts.workers,
            workers_wanted: advice.workers_wanted,
            oldest_seconds: report.oldest_seconds().map(rounded),
            basis: Basis {
                backlog_jobs: if report.is_complete { "counted" } else { "no_data" },
                backlog_seconds: advice.wait_basis.name(),
                load: advice.load_basis.name(),
                workers_wanted: advice.wanted_basis.name(),
            },
            jobs: Jobs {
                staged: jobs.staged,
                available: jobs.available,
                blocked: jobs.blocked,
                undelivered: jobs.undelivered,
            },
            inputs: Inputs {
                startable_jobs: facts.startable_jobs,
                active_jobs: facts.active_jobs,
                slots: facts.slots,
                slots_per_worker: rounded(facts.slots_of_a_worker()),
                arrivals_per_second: facts.arrivals_per_second.map(rounded),
                drain_per_second: facts.drain_per_second.map(rounded),
                run_seconds: facts.run_seconds.map(rounded),
                target_seconds: facts.target_seconds,
                window_seconds: facts.window_seconds,
                run_window_seconds,
            },
            gate: (report.kind == ScalingKind::Rule).then(gate),
        }
    }
}

/// Rounds to four digits.
fn rounded(number: f64) -> f64 {
    (number * 1e4).round() / 1e4
}
