//! The facts about a plan rule and its main queue, and the checks that concern the rule as a whole.

use super::check::{Check, CheckName, CheckState};
use super::words::are;
use crate::domain::plan::{Closed, Gate, Rule};
use crate::domain::words::{counted, duration};

/// Time by which a due round may be late before its planner counts as dead, in milliseconds. It is
/// longer than any check of a process that plans.
const LATE_MS: i64 = 7_000;

/// The facts about a plan rule. Times are in milliseconds since the epoch.
#[derive(Clone, Debug)]
pub struct PlannerFacts<'a> {
    pub rule: &'a Rule,
    pub is_paused: bool,
    /// True if no process plans the rule although it should.
    pub is_stalled: bool,
    pub lock: Option<LockFacts>,
    /// Time of the next scheduled round; 0 before the first one.
    pub due: i64,
    /// Time since which jobs are staged; 0 if there were none.
    pub staged_at: i64,
    /// The main queue of the job, if it could be read.
    pub queue: Option<MainQueueFacts>,
    /// The reason why the main queue cannot be used, if the caller may see it.
    pub trouble: Option<String>,
    /// Number of promoted jobs that have not arrived in the main queue.
    pub undelivered: u64,
    /// The state of the weights webhook, if the rule has one.
    pub webhook: Option<WebhookFacts>,
    /// The promotions of the last rounds.
    pub promoted: Option<PromotionRate>,
}

/// The planner lock of a rule.
#[derive(Clone, Debug)]
pub struct LockFacts {
    /// The process that holds it, if the caller may see it.
    pub holder: Option<String>,
    pub left_ms: u64,
    /// True while a round runs.
    pub is_busy: bool,
}

/// The state of the main queue of a job.
#[derive(Clone, Copy, Debug)]
pub struct MainQueueFacts {
    /// Number of runnable jobs.
    pub depth: u64,
    /// Time since which the oldest runnable job waits.
    pub oldest: Option<i64>,
    pub active: u64,
    /// The depth that the planner aims at.
    pub aim: u64,
    /// Time during which workers have found it empty, in milliseconds, if known.
    pub idle_ms: Option<u64>,
    /// Number of processes that serve it, if known.
    pub processes: Option<u64>,
    /// The reason why nothing can be promoted, regardless of the rule.
    pub hindrance: Option<Closed>,
}

impl MainQueueFacts {
    /// Returns the gate by latency and depth.
    pub(super) fn gate(&self, rule: &Rule, now: i64) -> Gate {
        Gate::read(rule, self.depth, self.oldest, now)
    }
}

/// The state of the weights webhook after the last round.
#[derive(Clone, Debug)]
pub struct WebhookFacts {
    pub failing_since: Option<i64>,
    /// The last error, if the caller may see it.
    pub last_error: Option<String>,
    /// True if all tenants are held until it answers.
    pub holds_all: bool,
    pub next_attempt_at: Option<i64>,
}

/// Promotions over a period.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PromotionRate {
    pub jobs: u64,
    pub period_ms: i64,
}

impl PromotionRate {
    /// Returns the number of promoted jobs per second.
    pub fn per_second(self) -> f64 {
        self.jobs as f64 * 1e3 / self.period_ms.max(1) as f64
    }
}

/// Checks that the rule is not paused and that a process plans it.
pub(super) fn planned(facts: &PlannerFacts<'_>, now: i64) -> [Check; 2] {
    let name = &facts.rule.name;
    let paused = CheckState::blocking_if(facts.is_paused);
    let sentence = if facts.is_paused { "is paused" } else { "is not paused" };
    [Check::new(CheckName::RulePaused, paused, format!("Plan rule {name} {sentence}.")), planner(facts, now)]
}

fn planner(facts: &PlannerFacts<'_>, now: i64) -> Check {
    let name = &facts.rule.name;
    let check = |state, summary| {
        let lock = facts.lock.as_ref();
        Check::new(CheckName::Planner, state, summary)
            .figure_if("lock_holder", lock.and_then(|lock| lock.holder.clone()))
            .figure_if("lock_left_ms", lock.map(|lock| lock.left_ms))
            .figure("lock_ttl_ms", facts.rule.planner_lock_ttl)
            .figure_if("next_round_in_ms", (facts.due > 0).then(|| (facts.due - now).max(0)))
    };
    if facts.is_stalled && !facts.is_paused {
        let since = Some(facts.due.max(facts.staged_at)).filter(|since| *since > 0);
        let summary = format!("No process plans rule {name}, although jobs are staged.");
        return check(CheckState::Blocking, summary).since(since);
    }
    let Some(lock) = &facts.lock else {
        return check(CheckState::Ok, format!("No round of rule {name} runs now; any process may begin the next one."));
    };
    let holder = lock.holder.as_deref().unwrap_or("another process");
    let ttl = facts.rule.planner_lock_ttl;
    // A process that runs a round renews its lock three times within its life.
    let silent = ttl.saturating_sub(lock.left_ms) as i64;
    let lost = if lock.is_busy {
        (silent > ttl as i64 / 2).then(|| format!("has not renewed it for {}", duration(silent)))
    } else {
        let late = now - facts.due;
        let idle = facts.queue.and_then(|queue| queue.idle_ms).unwrap_or(0) as i64;
        // A round that began later has taken the lock again, which renews it.
        match silent > LATE_MS {
            true if facts.due > 0 && late > LATE_MS => {
                Some(format!("has not begun the round that was due {} ago", duration(late)))
            }
            true if idle > LATE_MS && !facts.rule.strict_interval => {
                Some(format!("begins no round, although workers have found the queue empty for {}", duration(idle)))
            }
            _ => None,
        }
    };
    match lost {
        Some(fault) => {
            let left = duration(lock.left_ms as i64);
            let summary = format!(
                "{holder} holds the planner lock of rule {name} and {fault}; another process takes over when the lock expires in {left}."
            );
            check(CheckState::Blocking, summary).since(Some(now - silent)).until(Some(now + lock.left_ms as i64))
        }
        None => check(CheckState::Ok, format!("{holder} plans rule {name}.")),
    }
}

/// Checks that the main queue of another system can be reached.
pub(super) fn reachable(facts: &PlannerFacts<'_>) -> Option<Check> {
    if facts.rule.is_builtin() && facts.trouble.is_none() {
        return None;
    }
    let main_queue = &facts.rule.main_queue;
    let hindrance = facts.queue.and_then(|queue| queue.hindrance);
    // Errors begin with the name of the main queue, for logs.
    let cause =
        |reason: &String| reason.strip_prefix(&format!("main queue {main_queue}: ")).unwrap_or(reason).to_owned();
    let reason = facts.trouble.as_ref().map(|reason| format!(": {}", cause(reason))).unwrap_or_default();
    let (state, summary) = match hindrance {
        Some(Closed::Unreachable) => {
            (CheckState::Blocking, format!("Main queue {main_queue} cannot be reached{reason}."))
        }
        Some(Closed::RetryAfter) => {
            (CheckState::Blocking, format!("Main queue {main_queue} asked to be left alone for a while."))
        }
        _ if facts.queue.is_none() => {
            (CheckState::Unknown, format!("The state of main queue {main_queue} is not known."))
        }
        _ if facts.undelivered > 0 => {
            let jobs = counted(facts.undelivered, "promoted job");
            (
                CheckState::Ok,
                format!("Main queue {main_queue} is reachable; {jobs} {} on the way.", are(facts.undelivered)),
            )
        }
        _ => (CheckState::Ok, format!("Main queue {main_queue} is reachable.")),
    };
    let check = Check::new(CheckName::MainQueue, state, summary).figure("main_queue", main_queue.as_str());
    Some(check.figure("undelivered", facts.undelivered))
}
