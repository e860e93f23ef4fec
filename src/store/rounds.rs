//! Rounds of the planner. The process that runs a round holds the rule's lock until the round ends
//! or the lock expires, so that each rule has at most one round at a time.

use super::observation::{Observation, observation};
use super::script::{LOCK_RENEW, ROUND_BEGIN, ROUND_END};
use super::{Error, Store, or_empty, reply};
use crate::fairness::Rule;
use crate::job::escape::{escape, unescape};
use crate::job::id;
use redis::Value;

/// Number of main queues that one round handles; equal to `MOST_QUEUES` in `lua/staging/plan.lua`.
pub const QUEUES_A_ROUND: usize = 64;
/// Number of recorded rounds that are kept for each rule.
pub(super) const ROUNDS_KEPT: usize = 1000;

/// The reason for requesting a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// A timer: the round may be due.
    Tick,
    /// The main queue runs low, or a rule without staged jobs has some now.
    Wake,
    /// A person requested the round.
    Run,
}

impl Why {
    fn word(self) -> &'static str {
        match self {
            Why::Tick => "tick",
            Why::Wake => "wake",
            Why::Run => "run",
        }
    }
}

/// The outcome of starting a round.
#[derive(Clone, Debug, PartialEq)]
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
#[derive(Clone, Debug, PartialEq)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
#[derive(Clone, Debug)]
pub struct Mark {
    pub queue: String,
    pub low: u64,
    pub aim: u64,
    pub holds_ms: u64,
}

impl Store {
    /// Starts a round, if the rule's lock and schedule allow it. `next` is for rules with a cron
    /// schedule.
    pub async fn begin_round(&self, rule: &Rule, holder: &str, why: Why, next: Option<Next>) -> Result<Begun, Error> {
        let nonce = id::generate();
        let fill = |command: &mut redis::Cmd, _: bool| {
            let command = self.core.begin(command).arg(&rule.name).arg(escape(holder)).arg(&nonce);
            command.arg(rule.planner_lock_ttl).arg(why.word());
            command.arg(or_empty(next.map(|next| next.at as u64))).arg(or_empty(next.map(|next| next.since as u64)));
        };
        let answer = ROUND_BEGIN.call(&self.core.connection, fill).await?;
        begun(answer)
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
        let fill = |command: &mut redis::Cmd, _: bool| {
            let command = self.core.begin(command).arg(rule).arg(token).arg(number).arg(&ended.document);
            command.arg(ended.promoted).arg(u8::from(ended.skipped)).arg(ROUNDS_KEPT);
            for mark in &ended.marks {
                command.arg(&mark.queue).arg(mark.low).arg(mark.aim).arg(mark.holds_ms);
            }
        };
        let answer = ROUND_END.call(&self.core.connection, fill).await?;
        Ok(reply::number(answer, "round_end")? == 1)
    }

    /// Renews the lock of a rule for `ms`, or releases it with 0. Returns false if `holder` does
    /// not hold it.
    pub async fn renew_lock(&self, rule: &str, holder: &str, ms: u64) -> Result<bool, Error> {
        let fill = |command: &mut redis::Cmd, _: bool| {
            self.core.begin(command).arg(rule).arg(escape(holder)).arg(ms);
        };
        let answer = LOCK_RENEW.call(&self.core.connection, fill).await?;
        Ok(reply::number(answer, "lock_renew")? == 1)
    }
}

fn begun(answer: Value) -> Result<Begun, Error> {
    let unreadable = || Error::unreadable("round_begin");
    let mut parts = reply::array(answer, "round_begin")?.into_iter();
    let tag = reply::text(parts.next().ok_or_else(unreadable)?, "round_begin")?;
    let mut number = || reply::number(parts.next().ok_or_else(unreadable)?, "round_begin");
    Ok(match tag.as_str() {
        "gone" => Begun::Gone,
        "paused" => Begun::Paused,
        "empty" => Begun::Empty,
        "early" => Begun::Early { due: number()?, now: number()? },
        "again" => Begun::Again(number()?),
        "held" => {
            let by = unescape(&reply::text(parts.next().ok_or_else(unreadable)?, "round_begin")?);
            let left = reply::number(parts.next().ok_or_else(unreadable)?, "round_begin")?;
            Begun::Held { by, left_ms: left.max(0) as u64 }
        }
        "ok" => {
            let token = reply::text(parts.next().ok_or_else(unreadable)?, "round_begin")?;
            let mut number = || reply::number(parts.next().ok_or_else(unreadable)?, "round_begin");
            let (round, scheduled, room, due, now) = (number()?, number()?, number()?, number()?, number()?);
            let queues = parts.map(|queue| observation(queue, "round_begin")).collect::<Result<_, _>>()?;
            let (number, room) = (round as u64, room.max(0) as u64);
            Begun::Round(Round { token, number, scheduled: scheduled == 1, room, due, now, queues })
        }
        _ => return Err(unreadable()),
    })
}
