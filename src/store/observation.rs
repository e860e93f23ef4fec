//! A main queue as scripts see it, before anything is promoted into it.

use super::{Error, reply};
use crate::fair::{Closed, Gate, Rule};
use redis::Value;

/// A main queue as a round finds it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observation {
    pub queue: String,
    pub staged: u64,
    pub waiting_tenants: u64,
    /// Runnable jobs in the main queue.
    pub depth: u64,
    /// Since when its oldest runnable job waits.
    pub oldest: Option<i64>,
    /// Jobs handed to workers since the queue's first use.
    pub taken: u64,
    pub active: u64,
    /// Workers came away empty-handed since the last promotion.
    pub ran_dry: bool,
    /// Sum of the weights of all who wait, in thousandths.
    pub total_weight: u64,
    /// The depth up to which jobs pass straight through, while the planner's last word holds.
    pub aim: u64,
    /// Workers that are known to have nothing to do.
    pub idle: u64,
    /// Processes that serve it, where that is told.
    pub processes: Option<u64>,
    /// Why nothing can be promoted, whatever the rule says.
    pub hindrance: Option<Closed>,
}

impl Observation {
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
    let (taken, active, dry) = (number()?, number()?, number()?);
    let (total_weight, aim) = (number()?, number()?);
    let oldest = (oldest > 0).then_some(oldest as i64);
    Ok(Observation {
        queue,
        staged,
        waiting_tenants,
        depth,
        oldest,
        taken,
        active,
        ran_dry: dry == 1,
        total_weight,
        aim,
        idle: 0,
        processes: None,
        hindrance: None,
    })
}
