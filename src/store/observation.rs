//! A main queue as scripts see it, before anything is promoted into it.

use super::{Error, reply};
use crate::fairness::{Closed, Gate, Rule};
use redis::Value;
use std::time::Instant;

/// A main queue as a round finds it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observation {
    pub queue: String,
    pub staged: u64,
    /// Tenants that wait for their turn.
    pub waiting_tenants: u64,
    /// Tenants with staged jobs: those that wait, those that are held, those of unknown weight and those whose
    /// promoted jobs are blocked.
    pub staged_tenants: u64,
    /// Tenants that have no turn before the webhook was asked what they weigh.
    pub unknown_tenants: u64,
    /// Runnable jobs in the main queue.
    pub depth: u64,
    /// Since when its oldest runnable job waits.
    pub oldest: Option<i64>,
    /// Jobs handed to workers since the queue's first use.
    pub taken: u64,
    pub active: u64,
    /// For how long workers have found nothing since the last promotion, in milliseconds; none if the main queue does not know.
    pub idle_ms: Option<u64>,
    /// Sum of the weights of all who wait, in thousandths.
    pub total_weight: u64,
    /// The depth up to which jobs pass straight through, while the planner's last word holds.
    pub aim: u64,
    /// Threads that were idle when their processes last reported.
    pub spare: u64,
    /// When a main queue was looked at that is not looked at each time; none means now.
    pub seen: Option<Instant>,
    /// Processes that serve it, where that is told.
    pub processes: Option<u64>,
    /// Why nothing can be promoted, whatever the rule says.
    pub hindrance: Option<Closed>,
}

impl Observation {
    /// Whether somebody waits for it who is not held.
    pub fn is_wanted(&self) -> bool {
        self.waiting_tenants + self.unknown_tenants > 0
    }

    /// The gate of this queue under a rule.
    pub fn gate(&self, rule: &Rule, now: i64) -> Gate {
        let gate = Gate::read(rule, self.depth, self.oldest, now);
        match self.hindrance {
            Some(closed) => Gate { closed: Some(closed), room: 0, ..gate },
            None => gate,
        }
    }
}

pub(super) fn observation(value: Value) -> Result<Observation, Error> {
    let unreadable = || Error::unreadable("a queue's observation");
    let mut parts = reply::texts(value, "a queue's observation")?.into_iter();
    let queue = parts.next().ok_or_else(unreadable)?;
    let mut next = || parts.next().ok_or_else(unreadable);
    let mut number = || Ok::<u64, Error>(next()?.parse().unwrap_or(0));
    let (staged, waiting_tenants, depth, oldest) = (number()?, number()?, number()?, number()?);
    let (taken, active, idle_ms) = (number()?, number()?, number()?);
    let (total_weight, aim, staged_tenants, unknown_tenants) = (number()?, number()?, number()?, number()?);
    let oldest = (oldest > 0).then_some(oldest as i64);
    Ok(Observation {
        queue,
        staged,
        waiting_tenants,
        staged_tenants,
        unknown_tenants,
        depth,
        oldest,
        taken,
        active,
        idle_ms: Some(idle_ms),
        total_weight,
        aim,
        spare: 0,
        seen: None,
        processes: None,
        hindrance: None,
    })
}
