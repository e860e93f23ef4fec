//! The state of a main queue, as scripts report it before a promotion.

use crate::domain::plan::{Closed, Gate, Rule};
use serde::Deserialize;
use std::time::Instant;

/// The state of a main queue at the start of a round.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
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
    #[serde(skip)]
    pub spare: u64,
    /// Time at which the main queue was observed, if it is not observed every time; `None` means
    /// now.
    #[serde(skip)]
    pub seen: Option<Instant>,
    /// Number of processes that serve the queue, if known.
    #[serde(skip)]
    pub processes: Option<u64>,
    /// Number of jobs that these processes can run at the same time, if known.
    #[serde(skip)]
    pub slots: Option<u64>,
    /// The reason why nothing can be promoted, regardless of the rule.
    #[serde(skip)]
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

#[cfg(test)]
mod tests {
    use super::Observation;
    use crate::store::packed;
    use redis::Value;
    use serde_json::json;

    #[test]
    fn an_observation_has_all_its_numbers_or_is_an_error() {
        let reply = json!({"queue": "mail", "staged": 5, "waiting_tenants": 2, "depth": 3, "taken": 10, "active": 1,
            "idle_ms": 0, "total_weight": 2000, "aim": 8, "staged_tenants": 3, "unknown_tenants": 1});
        let read = |reply: &serde_json::Value| {
            packed::decode::<Observation>(Value::BulkString(packed::encode(reply).unwrap()), "rule_status")
        };
        let seen = read(&reply).expect("an observation");
        assert_eq!((seen.queue.as_str(), seen.staged, seen.depth, seen.oldest), ("mail", 5, 3, None));
        assert_eq!((seen.total_weight, seen.aim, seen.staged_tenants, seen.unknown_tenants), (2000, 8, 3, 1));
        for (field, value) in [("staged", json!("x")), ("depth", json!(-1)), ("oldest", json!("soon"))] {
            let mut reply = reply.clone();
            reply[field] = value;
            assert!(read(&reply).is_err(), "{field}");
        }
        let mut reply = reply;
        reply.as_object_mut().unwrap().remove("unknown_tenants");
        let error = read(&reply).expect_err("an error").reason();
        assert_eq!(error, "unexpected reply to rule_status: missing field `unknown_tenants`");
    }
}
