//! Rounds of the planner, one at a time of each rule: who begins one has the rule's lock, until it ends or lapses.

use super::observation::{Observation, observation};
use super::script::{LOCK_RENEW, ROUND_BEGIN, ROUND_END};
use super::{Error, Store, or_empty, reply};
use crate::fairness::Rule;
use crate::job::escape::{escape, unescape};
use crate::job::id;
use redis::Value;

/// Main queues that one round looks at; `MOST_QUEUES` in `lua/staging/plan.lua` is the same.
pub const QUEUES_A_ROUND: usize = 64;
/// Rounds of a rule that are kept for whoever asks.
pub(super) const ROUNDS_KEPT: usize = 1000;

/// Why a round is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// Its time may have come.
    Tick,
    /// The main queue runs low, or jobs were staged where none were.
    Wake,
    /// Somebody asked for it.
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

/// What became of the wish to begin a round.
#[derive(Clone, Debug, PartialEq)]
pub enum Begun {
    /// The rule is nowhere.
    Gone,
    Paused,
    /// Nothing is staged.
    Empty,
    /// Not before `due`, on the store's clock as `now`.
    Early {
        due: i64,
        now: i64,
    },
    /// The schedule's next time must be computed from this time, which is the store's.
    Again(i64),
    /// Another process has the lock, for so many ms unless it renews.
    Held {
        by: String,
        left_ms: u64,
    },
    Round(Round),
}

/// A round under way.
#[derive(Clone, Debug, PartialEq)]
pub struct Round {
    pub token: String,
    pub number: u64,
    pub scheduled: bool,
    /// Jobs that the present interval may still promote, where the batch is a number.
    pub room: u64,
    /// When the next scheduled round is due.
    pub due: i64,
    pub now: i64,
    pub queues: Vec<Observation>,
}

/// The next time of a schedule, as seen from some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Next {
    pub since: i64,
    pub at: i64,
}

/// How a round ended, to be recorded.
#[derive(Clone, Debug, Default)]
pub struct Ended {
    pub document: String,
    pub promoted: u64,
    pub skipped: bool,
    /// For each queue: when to wake the planner, and the depth that it wants.
    pub marks: Vec<Mark>,
}

/// When the planner wants to hear of a queue, and the depth that it wants it to have.
#[derive(Clone, Debug)]
pub struct Mark {
    pub queue: String,
    pub low: u64,
    pub aim: u64,
    pub holds_ms: u64,
}

impl Store {
    /// Begins a round, if the rule's lock and time allow it; `next` is for rules that have a schedule.
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

    /// Lets the next round look at a main queue first, where a rule has more of them than a round looks at.
    pub async fn prefer_queue(&self, rule: &str, queue: &str) -> Result<(), Error> {
        let mut command = redis::cmd("ZADD");
        command.arg(self.core.keys.plan_queues(rule)).arg("XX").arg(-1).arg(queue);
        self.core.command("prefer", command).await.map(drop)
    }

    /// Records a round and ends it; whether the lock was still ours.
    pub async fn end_round(&self, rule: &str, token: &str, number: u64, ended: &Ended) -> Result<bool, Error> {
        let fill = |command: &mut redis::Cmd, _: bool| {
            let command = self.core.begin(command).arg(rule).arg(token).arg(number).arg(&ended.document);
            command.arg(ended.promoted).arg(u8::from(ended.skipped)).arg(ROUNDS_KEPT);
            for mark in &ended.marks {
                command.arg(&mark.queue).arg(mark.low).arg(mark.aim).arg(mark.holds_ms);
            }
        };
        let answer = ROUND_END.call(&self.core.connection, fill).await?;
        Ok(reply::number(answer) == 1)
    }

    /// Prolongs the lock of a rule by `ms`, or gives it up with 0; whether it is ours.
    pub async fn renew_lock(&self, rule: &str, holder: &str, ms: u64) -> Result<bool, Error> {
        let fill = |command: &mut redis::Cmd, _: bool| {
            self.core.begin(command).arg(rule).arg(escape(holder)).arg(ms);
        };
        let answer = LOCK_RENEW.call(&self.core.connection, fill).await?;
        Ok(reply::number(answer) == 1)
    }
}

fn begun(answer: Value) -> Result<Begun, Error> {
    let unreadable = || Error::unreadable("round");
    let mut parts = reply::array(answer, "round")?.into_iter();
    let tag = parts.next().map(reply::text).unwrap_or_default();
    let mut number = || parts.next().map(reply::number).ok_or_else(unreadable);
    Ok(match tag.as_str() {
        "gone" => Begun::Gone,
        "paused" => Begun::Paused,
        "empty" => Begun::Empty,
        "early" => Begun::Early { due: number()?, now: number()? },
        "again" => Begun::Again(number()?),
        "held" => {
            let by = unescape(&parts.next().map(reply::text).unwrap_or_default());
            Begun::Held { by, left_ms: parts.next().map(reply::number).unwrap_or(0).max(0) as u64 }
        }
        "ok" => {
            let token = parts.next().map(reply::text).ok_or_else(unreadable)?;
            let mut number = || parts.next().map(reply::number).ok_or_else(unreadable);
            let (round, scheduled, room, due, now) = (number()?, number()?, number()?, number()?, number()?);
            let queues = parts.map(observation).collect::<Result<_, _>>()?;
            let (number, room) = (round as u64, room.max(0) as u64);
            Begun::Round(Round { token, number, scheduled: scheduled == 1, room, due, now, queues })
        }
        _ => return Err(unreadable()),
    })
}
