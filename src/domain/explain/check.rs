//! A check: one condition that a job must meet before a worker gets it.

use super::facts::Holder;
use serde_json::{Map, Value};

/// Declares the checks with their names, in the order in which the documentation lists them.
macro_rules! check_names {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)+) => {
        /// The name of a check.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum CheckName {
            $($(#[$doc])* $variant,)+
        }

        impl CheckName {
            /// All names.
            pub const NAMES: &'static [&'static str] = &[$($name),+];

            /// Returns the stable name used in API answers.
            pub fn name(self) -> &'static str {
                match self {
                    $(CheckName::$variant => $name,)+
                }
            }
        }
    };
}

check_names! {
    /// A client must activate the job.
    Activation = "activation",
    /// The job is scheduled for later.
    Schedule = "schedule",
    /// The job waits for its next attempt.
    Retry = "retry",
    /// A limit has postponed the job.
    Postponement = "postponement",
    /// Its plan rule must not be paused.
    RulePaused = "rule_paused",
    /// A process must plan the rule.
    Planner = "planner",
    /// The main queue must be reachable.
    MainQueue = "main_queue",
    /// The processes that serve the main queue must not be stopping.
    Processes = "processes",
    /// The weights webhook must work.
    WeightsWebhook = "weights_webhook",
    /// The gate of the main queue must be open.
    Gate = "gate",
    /// The batch of the interval must not be spent.
    Batch = "batch",
    /// The tenant must have a weight above 0.
    TenantWeight = "tenant_weight",
    /// Not too many promoted jobs of the tenant may wait for limits.
    TenantBlocked = "tenant_blocked",
    /// The tenant must not be throttled as a noisy neighbour.
    Throttle = "throttle",
    /// The promotions before it must be done.
    FairTurn = "fair_turn",
    /// The queue must not be paused.
    QueuePaused = "queue_paused",
    /// A pool that serves the queue must have room.
    Pool = "pool",
    /// A limit on running jobs must have room.
    Limit = "limit",
    /// A limit on starts must have room.
    RateLimit = "rate_limit",
    /// The tenant must be below its `max_concurrency`.
    TenantConcurrency = "tenant_concurrency",
    /// Workers must fetch from the queue.
    Workers = "workers",
    /// The jobs before it must be fetched.
    QueueOrder = "queue_order",
}

/// The outcome of a check. Checks that do not apply to a job are left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckState {
    /// The job may pass.
    Ok,
    /// The job cannot pass now.
    Blocking,
    /// It is not known if the job may pass.
    Unknown,
}

impl CheckState {
    /// All names.
    pub const NAMES: [&'static str; 3] = ["ok", "blocking", "unknown"];

    /// Returns the name used in API answers.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }

    /// Returns `Blocking` if the condition holds, else `Ok`.
    pub fn blocking_if(condition: bool) -> CheckState {
        if condition { CheckState::Blocking } else { CheckState::Ok }
    }
}

/// A check and its outcome. Times are in milliseconds since the epoch.
#[derive(Clone, Debug, PartialEq)]
pub struct Check {
    pub name: CheckName,
    pub state: CheckState,
    /// Time since which it blocks, if known.
    pub since: Option<i64>,
    /// Time at which it ends without any action, if known.
    pub until: Option<i64>,
    /// The key of a limit, if the caller may see it.
    pub key: Option<String>,
    /// Some of the jobs that hold the slots.
    pub holders: Vec<Holder>,
    /// The numbers that decided.
    pub figures: Map<String, Value>,
    /// One sentence for people.
    pub summary: String,
}

impl Check {
    /// Creates a check with a summary.
    pub fn new(name: CheckName, state: CheckState, summary: impl Into<String>) -> Check {
        Check {
            name,
            state,
            since: None,
            until: None,
            key: None,
            holders: Vec::new(),
            figures: Map::new(),
            summary: summary.into(),
        }
    }

    /// Sets the time since which it blocks.
    pub fn since(mut self, since: Option<i64>) -> Check {
        self.since = since;
        self
    }

    /// Sets the time at which it ends without any action.
    pub fn until(mut self, until: Option<i64>) -> Check {
        self.until = until;
        self
    }

    /// Adds a number or another value that decided.
    pub fn figure(mut self, name: &str, value: impl Into<Value>) -> Check {
        self.figures.insert(name.to_owned(), value.into());
        self
    }

    /// Adds a value that decided, if it is known.
    pub fn figure_if(self, name: &str, value: Option<impl Into<Value>>) -> Check {
        match value {
            Some(value) => self.figure(name, value),
            None => self,
        }
    }

    /// Returns true if the job cannot pass now.
    pub fn is_blocking(&self) -> bool {
        self.state == CheckState::Blocking
    }
}
