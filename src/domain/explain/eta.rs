//! The estimate of the time at which a waiting job moves on, and its basis.

use super::check::{Check, CheckName};
use super::dispatch::jobs_before;
use super::facts::{DispatchFacts, Dispatched, JobFacts, LimitFacts, QueuePlace, RateWindow, StagedPlace};
use super::planner::PlannerFacts;
use super::staging::promotions_before;
use crate::domain::plan::{Batch, Pace};
use crate::domain::words::{counted, per_second};

/// The event that is estimated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EtaTarget {
    /// A worker gets the job.
    Start,
    /// The job is promoted to a main queue in another system.
    Promotion,
}

impl EtaTarget {
    /// All names.
    pub const NAMES: [&'static str; 2] = ["start", "promotion"];

    /// Returns the name used in API answers.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}

/// An estimate.
#[derive(Clone, Debug, PartialEq)]
pub struct Eta {
    /// Time of the event, in milliseconds since the epoch.
    pub at: i64,
    pub of: EtaTarget,
    /// The figures from which it was computed, in words.
    pub basis: String,
}

impl Dispatched {
    /// Returns the number of jobs that workers take per second, if they have taken some lately.
    pub(super) fn per_second(&self, now: i64) -> Option<f64> {
        let (first, last) = self.first.zip(self.last)?;
        if self.jobs < 2 || now - last * 1000 > super::dispatch::UNSERVED_MS {
            return None;
        }
        // The first second is counted as a whole.
        Some(self.jobs as f64 * 1e3 / (now - first * 1000).max(1000) as f64)
    }
}

impl RateWindow {
    /// Returns the time at which a job may start that is preceded by `before` others.
    fn slot(&self, before: u64, now: i64) -> i64 {
        let started: u64 = self.starts.iter().map(|starts| starts.jobs).sum();
        let Some(later) = before.checked_sub(self.limit.saturating_sub(started)) else { return now };
        // Each start makes room for another one period later: first those in the window, then those
        // that use its room now.
        let (round, number) = (later / self.limit.max(1), later % self.limit.max(1));
        let mut passed = 0;
        let start = self.starts.iter().find(|starts| {
            passed += starts.jobs;
            passed > number
        });
        start.map_or(now, |start| start.at) + self.period * (round as i64 + 1)
    }
}

impl LimitFacts {
    /// Returns the time at which the limit has room for the next job, if time alone makes room.
    pub(super) fn opens_at(&self, now: i64) -> Option<i64> {
        (self.is_blocking && self.room.is_some_and(|room| room <= 0.0)).then(|| self.slot(0, now)).flatten()
    }

    /// Returns the time at which a job may start that is preceded by `before` others; `None` if it
    /// depends on the end of other jobs.
    fn slot(&self, before: u64, now: i64) -> Option<i64> {
        let is_full = self.concurrency.is_some_and(|most| self.running >= most);
        if is_full || self.rate.as_ref().is_some_and(|rate| rate.limit == 0) {
            return None;
        }
        let rate = self.rate.as_ref().map(|rate| rate.slot(before, now));
        let throttle = self.throttle.filter(|throttle| throttle.limit > 0);
        let throttle =
            throttle.map(|window| window.next.max(now) + before as i64 * window.period / window.limit as i64);
        rate.into_iter().chain(throttle).chain(self.hold_until).max()
    }
}

/// Blocking checks that jobs pass in the course of time, as long as workers take jobs.
fn passes_with_time(check: &Check) -> bool {
    use CheckName::{Batch, FairTurn, Gate, Planner, Postponement, QueueOrder, RateLimit, Retry, Schedule};
    match check.name {
        FairTurn | Gate | QueueOrder => true,
        Batch | Planner | Postponement | RateLimit | Retry | Schedule => check.until.is_some(),
        // A full pool or queue is usual if all workers are busy.
        CheckName::Pool => true,
        CheckName::Limit => check.key.as_deref().is_some_and(|key| key.starts_with("queue:")),
        // A throttle by weight only costs turns.
        CheckName::Throttle => check.figures.contains_key("weight_factor"),
        _ => false,
    }
}

/// Estimates when a waiting job moves on. `None` if there is nothing to estimate it from.
pub(super) fn estimate(job: &JobFacts, planner: Option<&PlannerFacts<'_>>, checks: &[Check]) -> Option<Eta> {
    let is_stuck = |check: &Check| check.is_blocking() && !passes_with_time(check);
    if checks.iter().any(is_stuck) {
        return None;
    }
    match (&job.staged, planner, &job.dispatch) {
        (Some(place), Some(planner), dispatch) => staged(job, place, planner, dispatch.as_ref()),
        (None, _, Some(dispatch)) => match (&dispatch.place, job.due) {
            (Some(place), _) => queued(job, dispatch, place),
            (None, Some(due)) => Some(due_later(job, dispatch, due)),
            (None, None) => None,
        },
        (None, _, None) => job.due.map(|at| Eta { at, of: EtaTarget::Start, basis: "its time".to_owned() }),
        (Some(_), None, _) => None,
    }
}

/// Returns the time after which so many jobs are taken. The job itself follows half a step later.
fn after(jobs: u64, rate: f64, now: i64) -> i64 {
    now + ((jobs as f64 + 0.5) * 1e3 / rate) as i64
}

fn queued(job: &JobFacts, dispatch: &DispatchFacts, place: &QueuePlace) -> Option<Eta> {
    let (before, rate) = (jobs_before(place), dispatch.dispatched.per_second(job.now));
    let under_limit = |limit: &LimitFacts| match limit.is_of_queue() {
        true => before,
        false => place.in_lane + place.waiting.unwrap_or(0),
    };
    let timed = dispatch
        .limits
        .iter()
        .filter(|limit| limit.rate.is_some() || limit.throttle.is_some() || limit.hold_until.is_some());
    let slot = timed
        .filter_map(|limit| Some((limit.slot(under_limit(limit), job.now)?, under_limit(limit), limit)))
        .filter(|(at, ..)| *at > job.now)
        .max_by_key(|(at, ..)| *at);
    let by_rate = rate.map(|rate| (after(before, rate, job.now), rate));
    let eta = |at, basis| Some(Eta { at, of: EtaTarget::Start, basis });
    match (slot, by_rate) {
        (Some((at, ahead, limit)), by_rate) if by_rate.is_none_or(|(later, _)| at >= later) => {
            let label = limit.label.as_deref().unwrap_or("its limit");
            eta(at, format!("the next free start under {label}, with {} before it", counted(ahead, "job")))
        }
        (_, Some((at, rate))) => eta(
            at,
            format!("{} before it, and workers take {} from the queue", counted(before, "job"), per_second(rate)),
        ),
        (_, None) => None,
    }
}

/// Estimates the start of a job that becomes available later. Jobs that arrive until then are not
/// foreseen.
fn due_later(job: &JobFacts, dispatch: &DispatchFacts, due: i64) -> Eta {
    let time = match job.postponed {
        Some(_) => "the time to which its limit has postponed it",
        None if job.state == crate::domain::job::State::Retryable => "the time of its next attempt",
        None => "the time for which it is scheduled",
    };
    let drained = dispatch.dispatched.per_second(job.now).map(|rate| (after(dispatch.depth, rate, job.now), rate));
    match drained.filter(|(at, _)| *at > due) {
        Some((at, rate)) => {
            let jobs = counted(dispatch.depth, "job");
            let basis = format!("{time}, {jobs} in the queue, and workers take {}", per_second(rate));
            Eta { at, of: EtaTarget::Start, basis }
        }
        None => Eta { at: due, of: EtaTarget::Start, basis: time.to_owned() },
    }
}

fn staged(
    job: &JobFacts,
    place: &StagedPlace,
    planner: &PlannerFacts<'_>,
    dispatch: Option<&DispatchFacts>,
) -> Option<Eta> {
    let before = promotions_before(place)?;
    let (of, jobs, rate, source) = match dispatch {
        Some(dispatch) => {
            let depth = planner.queue.map_or(dispatch.depth, |queue| queue.depth);
            (EtaTarget::Start, before + depth, dispatch.dispatched.per_second(job.now), "workers take")
        }
        None => (EtaTarget::Promotion, before, planner.promoted.map(|rate| rate.per_second()), "rounds promote"),
    };
    let by_rounds = by_rounds(job, place, planner, before);
    let by_rate = rate.filter(|rate| *rate > 0.0).map(|rate| (after(jobs, rate, job.now), rate));
    let promotions = counted(before, "promotion");
    match (by_rounds, by_rate) {
        (Some(at), by_rate) if by_rate.is_none_or(|(later, _)| at >= later) => {
            Some(Eta { at, of, basis: format!("{promotions} before it, and the batches of scheduled rounds") })
        }
        (_, Some((at, rate))) => {
            let queued = jobs - before;
            let queued =
                if queued > 0 { format!(" and {} in the main queue", counted(queued, "job")) } else { String::new() };
            Some(Eta { at, of, basis: format!("{promotions}{queued} before it, and {source} {}", per_second(rate)) })
        }
        (_, None) => None,
    }
}

/// Returns the time of the round that promotes the job, if only scheduled rounds promote and the
/// job is not part of the present batch.
fn by_rounds(job: &JobFacts, place: &StagedPlace, planner: &PlannerFacts<'_>, before: u64) -> Option<i64> {
    let Batch::Jobs(batch) = planner.rule.batch else { return None };
    let later = before.checked_sub(place.room)?;
    if !planner.rule.strict_interval || planner.due == 0 {
        return None;
    }
    let first = planner.due.max(job.now);
    let rounds = later / u64::from(batch.max(1));
    match planner.rule.pace {
        Pace::Every(ms) => Some(first + (rounds * ms) as i64),
        Pace::Cron { .. } => (rounds == 0).then_some(first),
    }
}
