//! The explanation of a waiting job: its position, the ordered checks, and the one that binds now.

use super::check::{Check, CheckName, CheckState};
use super::dispatch::{self, jobs_before};
use super::eta::{Eta, estimate};
use super::facts::JobFacts;
use super::planner::PlannerFacts;
use super::staging::{self, promotions_before};
use crate::domain::job::State;
use crate::domain::words::duration;

/// The explanation of a waiting job.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    pub position: Option<Position>,
    /// The checks, in the order in which the job must pass them.
    pub checks: Vec<Check>,
    pub eta: Option<Eta>,
}

/// The position of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// In staging: jobs of its tenant, and promotions in fair order.
    Staging { of_tenant: u64, promotions_before: Option<u64> },
    /// In one of fairgate's own queues.
    Queue {
        jobs_before: u64,
        /// True if the number is counted, false if tenants take turns or there are too many lanes.
        is_exact: bool,
    },
}

impl Explanation {
    /// Returns the first check that blocks.
    pub fn binding(&self) -> Option<&Check> {
        self.checks.iter().find(|check| check.is_blocking())
    }
}

/// Explains why a job waits. `planner` has the facts about its rule, if it is staged. Returns
/// `None` if the job does not wait.
pub fn explain(job: &JobFacts, planner: Option<&PlannerFacts<'_>>) -> Option<Explanation> {
    if job.has_left {
        return None;
    }
    let mut checks = match (job.state, planner) {
        (State::Pending, Some(planner)) if job.is_staged => staging::checks(job, planner),
        (State::Pending, None) if job.is_staged => vec![unplanned(job)],
        (State::Pending, _) => vec![activation(job)],
        (State::Scheduled | State::Retryable, _) => vec![time(job)],
        (State::Available, _) => Vec::new(),
        _ => return None,
    };
    for check in job.dispatch.iter().flat_map(|facts| dispatch::checks(job, facts)) {
        let place = place_of(&check, &checks);
        checks.insert(place, check);
    }
    let eta = estimate(job, planner, &checks);
    Some(Explanation { position: position(job), checks, eta })
}

/// Returns the place of a further check: at the end, unless the queue is paused, which keeps a closed
/// gate from opening.
fn place_of(check: &Check, before: &[Check]) -> usize {
    let closed = before.iter().position(|earlier| earlier.name == CheckName::Gate && earlier.is_blocking());
    let is_cause = check.name == CheckName::QueuePaused && check.is_blocking();
    closed.filter(|_| is_cause).unwrap_or(before.len())
}

fn position(job: &JobFacts) -> Option<Position> {
    let place = job.dispatch.as_ref().and_then(|facts| facts.place.as_ref());
    match (&job.staged, place) {
        (Some(place), _) => {
            Some(Position::Staging { of_tenant: place.of_tenant, promotions_before: promotions_before(place) })
        }
        (None, Some(place)) => {
            let is_exact = place.turn.is_none() && place.is_counted;
            Some(Position::Queue { jobs_before: jobs_before(place), is_exact })
        }
        (None, None) => None,
    }
}

/// The check of a staged job whose rule this process does not know.
fn unplanned(job: &JobFacts) -> Check {
    let rule = job.rule.as_deref().unwrap_or_default();
    Check::new(
        CheckName::Planner,
        CheckState::Blocking,
        format!("There is no plan rule {rule}, so no round promotes the job."),
    )
}

fn activation(job: &JobFacts) -> Check {
    let summary = "The job was enqueued as pending; it waits until a client activates it.";
    Check::new(CheckName::Activation, CheckState::Blocking, summary).since(Some(job.created))
}

fn time(job: &JobFacts) -> Check {
    let left = job.due.map_or_else(|| "an unknown time".to_owned(), |due| duration(due - job.now));
    let (name, summary, since) = match (&job.postponed, job.state) {
        (Some(postponed), _) => {
            let label = postponed.key.as_deref().map(|key| format!("Limit {key}")).unwrap_or("A limit".to_owned());
            (
                CheckName::Postponement,
                format!("{label} has postponed the job; it is available in {left}."),
                Some(postponed.since),
            )
        }
        (None, State::Retryable) => {
            (CheckName::Retry, format!("The last attempt failed; the next one is due in {left}."), None)
        }
        (None, _) => (CheckName::Schedule, format!("The job is scheduled; it is available in {left}."), None),
    };
    // The tick handles what is due, so a job stays in this state for a moment.
    let is_due = job.due.is_some_and(|due| due <= job.now);
    let mut check = Check::new(name, CheckState::blocking_if(!is_due), summary).since(since).until(job.due);
    check.key = job.postponed.as_ref().and_then(|postponed| postponed.key.clone());
    check.figure_if("left_ms", job.due.map(|due| (due - job.now).max(0)))
}
