//! Rounds of the planner. The process that runs a round holds the rule's lock until the round ends
//! or the lock expires, so that each rule has at most one round at a time.

use super::observation::Observation;
use super::script::{LOCK_RENEW, ROUND_BEGIN, ROUND_END};
use super::{Error, Store};
use crate::fairness::Rule;
use crate::job::escape::{escape, unescape};
use crate::job::id;
use serde::{Deserialize, Serialize};

/// Number of main queues that one round handles; equal to `MOST_QUEUES` in `lua/staging/plan.lua`.
pub const QUEUES_A_ROUND: usize = 64;
/// Number of recorded rounds that are kept for each rule.
pub(super) const ROUNDS_KEPT: usize = 1000;

/// The reason for requesting a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// A timer: the round may be due.
    Tick,
    /// The main queue runs low, or a rule without staged jobs has some now.
    Wake,
    /// A person requested the round.
    Run,
}

/// The outcome of starting a round.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "snake_case")]
pub enum Begun {
    /// The rule does not exist.
    Gone,
    Paused,
    /// Nothing is staged.
    Empty,
    /// The round is not due before `due`; `now` is the store's time.
    Early {
        due: i64,
        now: i64,
    },
    /// The next scheduled time must be computed again, from this time of the store.
    Again(i64),
    /// Another process holds the lock; it expires after `left_ms` unless renewed.
    Held {
        by: String,
        left_ms: u64,
    },
    Round(Round),
}

/// A started round.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub struct Round {
    pub token: String,
    pub number: u64,
    pub scheduled: bool,
    /// Number of jobs that may still be promoted in the current interval, if the batch size is
    /// fixed.
    pub room: u64,
    /// Time at which the next scheduled round is due, in milliseconds.
    pub due: i64,
    pub now: i64,
    pub queues: Vec<Observation>,
}

/// The next scheduled time after a given time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Next {
    pub since: i64,
    pub at: i64,
}

/// The record of a finished round.
#[derive(Clone, Debug, Default)]
pub struct Ended {
    pub document: String,
    pub promoted: u64,
    pub skipped: bool,
    /// Low-water marks of the queues.
    pub marks: Vec<Mark>,
}

/// A low-water mark: scripts wake the planner when the queue has at most `low` jobs. `aim` is the
/// depth up to which jobs pass straight through. Both hold for `holds_ms`.
#[derive(Clone, Debug, Serialize)]
pub struct Mark {
    pub queue: String,
    pub low: u64,
    pub aim: u64,
    pub holds_ms: u64,
}

#[derive(Serialize)]
struct RoundBegin<'a> {
    rule: &'a str,
    holder: &'a str,
    nonce: &'a str,
    life: u64,
    why: Why,
    next: Option<Next>,
}

#[derive(Serialize)]
struct RoundEnd<'a> {
    rule: &'a str,
    token: &'a str,
    round: u64,
    document: &'a str,
    promoted: u64,
    skipped: bool,
    most: usize,
    marks: &'a [Mark],
}

#[derive(Serialize)]
struct LockRenew<'a> {
    rule: &'a str,
    holder: &'a str,
    life: u64,
}

impl Store {
    /// Starts a round, if the rule's lock and schedule allow it. `next` is for rules with a cron
    /// schedule.
    pub async fn begin_round(&self, rule: &Rule, holder: &str, why: Why, next: Option<Next>) -> Result<Begun, Error> {
        let args = RoundBegin {
            rule: &rule.name,
            holder: &escape(holder),
            nonce: &id::generate(),
            life: rule.planner_lock_ttl,
            why,
            next,
        };
        Ok(match ROUND_BEGIN.call_packed(&self.core, &args).await? {
            Begun::Held { by, left_ms } => Begun::Held { by: unescape(&by), left_ms },
            begun => begun,
        })
    }

    /// Puts a main queue first in the next round, which matters if the rule has more than
    /// [`QUEUES_A_ROUND`].
    pub async fn prefer_queue(&self, rule: &str, queue: &str) -> Result<(), Error> {
        let mut command = redis::cmd("ZADD");
        command.arg(self.core.keys.plan_queues(rule)).arg("XX").arg(-1).arg(queue);
        self.core.command("prefer", command).await.map(drop)
    }

    /// Records a round and ends it. Returns false if the caller has lost the lock.
    pub async fn end_round(&self, rule: &str, token: &str, number: u64, ended: &Ended) -> Result<bool, Error> {
        let args = RoundEnd {
            rule,
            token,
            round: number,
            document: &ended.document,
            promoted: ended.promoted,
            skipped: ended.skipped,
            most: ROUNDS_KEPT,
            marks: &ended.marks,
        };
        ROUND_END.call_packed(&self.core, &args).await
    }

    /// Renews the lock of a rule for `ms`, or releases it with 0. Returns false if `holder` does
    /// not hold it.
    pub async fn renew_lock(&self, rule: &str, holder: &str, ms: u64) -> Result<bool, Error> {
        LOCK_RENEW.call_packed(&self.core, &LockRenew { rule, holder: &escape(holder), life: ms }).await
    }
}
