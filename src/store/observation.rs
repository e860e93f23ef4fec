//! The state of a main queue, as scripts report it before a promotion.

use super::{Error, reply};
use crate::fairness::{Closed, Gate, Rule};
use redis::Value;
use std::time::Instant;

/// The state of a main queue at the start of a round.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observation {
    pub queue: String,
    pub staged: u64,
    /// Number of tenants that wait for their turn.
    pub waiting_tenants: u64,
    /// Number of tenants with staged jobs: waiting, held, blocked, or of unknown weight.
    pub staged_tenants: u64,
    /// Number of tenants that have no turn until the weights webhook has returned their weight.
    pub unknown_tenants: u64,
    /// Number of runnable jobs in the main queue.
    pub depth: u64,
    /// Time since which the oldest runnable job waits, in milliseconds.
    pub oldest: Option<i64>,
    /// Number of jobs handed to workers since the queue's first use.
    pub taken: u64,
    pub active: u64,
    /// Time during which workers have found the queue empty since the last promotion, in
    /// milliseconds; `None` if the main queue does not report it.
    pub idle_ms: Option<u64>,
    /// Sum of the weights of all waiting tenants, in thousandths.
    pub total_weight: u64,
    /// The depth up to which jobs pass straight through; set by the last round, and 0 after it has
    /// expired.
    pub aim: u64,
    /// Number of worker threads that were idle at the last report of their process.
    pub spare: u64,
    /// Time at which the main queue was observed, if it is not observed every time; `None` means
    /// now.
    pub seen: Option<Instant>,
    /// Number of processes that serve the queue, if known.
    pub processes: Option<u64>,
    /// The reason why nothing can be promoted, regardless of the rule.
    pub hindrance: Option<Closed>,
}

impl Observation {
    /// Returns true if a tenant that is not held waits for the queue.
    pub fn is_wanted(&self) -> bool {
        self.waiting_tenants + self.unknown_tenants > 0
    }

    /// Returns the gate of this queue under a rule.
    pub fn gate(&self, rule: &Rule, now: i64) -> Gate {
        let gate = Gate::read(rule, self.depth, self.oldest, now);
        match self.hindrance {
            Some(closed) => Gate { closed: Some(closed), room: 0, ..gate },
            None => gate,
        }
    }
}

/// Parses an observation in the reply to a command.
pub(super) fn observation(value: Value, command: &str) -> Result<Observation, Error> {
    let unreadable = || Error::unreadable(command);
    let mut parts = reply::texts(value, command)?.into_iter();
    let queue = parts.next().ok_or_else(unreadable)?;
    let mut next = || parts.next().ok_or_else(unreadable);
    let number = |text: &str| Ok::<u64, Error>(reply::parse::<i64>(text, command)?.max(0) as u64);
    let (staged, waiting_tenants, depth) = (number(&next()?)?, number(&next()?)?, number(&next()?)?);
    let oldest = Some(next()?).filter(|text| !text.is_empty());
    let oldest = oldest.map(|text| reply::parse(&text, command)).transpose()?;
    let mut next = || number(&next()?);
    let (taken, active, idle_ms) = (next()?, next()?, next()?);
    let (total_weight, aim, staged_tenants, unknown_tenants) = (next()?, next()?, next()?, next()?);
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

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &[&str]) -> Result<Observation, Error> {
        let words = words.iter().map(|word| Value::BulkString(word.as_bytes().to_vec()));
        observation(Value::Array(words.collect()), "rule_status")
    }

    #[test]
    fn an_observation_has_all_its_numbers_or_is_an_error() {
        let words = ["mail", "5", "2", "3", "", "10", "1", "0", "2000", "8", "3", "1"];
        let seen = read(&words).expect("an observation");
        assert_eq!((seen.queue.as_str(), seen.staged, seen.depth, seen.oldest), ("mail", 5, 3, None));
        assert_eq!((seen.total_weight, seen.aim, seen.staged_tenants, seen.unknown_tenants), (2000, 8, 3, 1));
        for (place, word) in [(1, "x"), (3, ""), (4, "soon"), (11, "")] {
            let mut words = words;
            words[place] = word;
            assert_eq!(read(&words).expect_err("an error").reason(), "unexpected reply to rule_status", "{place}");
        }
        assert!(read(&words[..11]).is_err());
    }
}
