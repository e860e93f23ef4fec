//! Verbs of the planner: the rules that hold, rounds under a lock, promotion.

use super::script::{PAUSE, PROMOTE, RECORD, RENEW, REWEIGH, ROUND, RULES};
use super::{Error, Store, or_empty, reply};
use crate::fair::{Batch, Closed, Gate, OnWebhookError, Pace, Rule, Weight};
use crate::job::escape::{escape, unescape};
use crate::job::id;
use redis::Value;

/// Main queues that one round looks at; `MOST_QUEUES` in `plan.lua` is the same.
pub const QUEUES_A_ROUND: usize = 64;
/// Rounds of a rule that are kept for whoever asks.
pub(super) const ROUNDS_KEPT: usize = 1000;

/// A rule as scripts need it, and as a document that only its writer understands.
#[derive(Clone, Debug)]
pub struct StoredRule<'a> {
    pub rule: &'a Rule,
    pub document: String,
}

/// The rules that hold.
#[derive(Clone, Debug, Default)]
pub struct RuleSet {
    /// Empty where there never was a rule.
    pub version: String,
    /// Name and document.
    pub documents: Vec<(String, String)>,
    /// Rules that are gone but have jobs staged, and the main queue that they are for.
    pub draining: Vec<(String, String)>,
    /// Document of the dispatch policy; empty where there never was one.
    pub policy: String,
}

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

/// What a promotion did.
#[derive(Clone, Debug, PartialEq)]
pub enum Promoted {
    /// Jobs of each tenant, and how many are left in staging.
    Jobs {
        promoted: u64,
        left: u64,
        tenants: Vec<Served>,
        /// The call had enough before it came to the number that was asked for.
        more: bool,
    },
    /// The lock is another's.
    Lost,
    Paused,
    /// The main queue takes nothing now.
    Closed(Closed),
}

/// A tenant that was served.
#[derive(Clone, Debug, PartialEq)]
pub struct Served {
    pub tenant: String,
    pub weight: Weight,
    pub jobs: u64,
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
    /// The plan rules that hold.
    pub async fn rules(&self) -> Result<RuleSet, Error> {
        self.exchange_rules(None).await
    }

    /// Replaces all plan rules if `expected` still holds; whether it did.
    pub async fn replace_rules(&self, expected: &str, rules: &[StoredRule<'_>]) -> Result<bool, Error> {
        let version = id::generate();
        Ok(self.exchange_rules(Some((expected, &version, rules))).await?.version == version)
    }

    async fn exchange_rules(&self, new: Option<(&str, &str, &[StoredRule<'_>])>) -> Result<RuleSet, Error> {
        let fill = |command: &mut redis::Cmd, _: bool| {
            let command = self.core.begin(command);
            let Some((expected, version, rules)) = new else {
                command.arg("");
                return;
            };
            command.arg(expected).arg(version).arg(rules.len());
            rules.iter().for_each(|stored| push_rule(command, stored));
        };
        let answer = RULES.call(&self.core.link, fill).await?;
        let mut parts = reply::array(answer, "rules")?.into_iter();
        let mut next = || parts.next().ok_or_else(|| Error::unreadable("rules"));
        let version = reply::text(next()?);
        let documents = reply::pairs(next()?, "rules")?;
        let draining = reply::pairs(next()?, "rules")?;
        Ok(RuleSet { version, documents, draining, policy: reply::text(next()?) })
    }

    /// Begins a round, if the rule's lock and time allow it; `next` is for rules that have a schedule.
    pub async fn begin_round(&self, rule: &Rule, holder: &str, why: Why, next: Option<Next>) -> Result<Begun, Error> {
        let nonce = id::generate();
        let fill = |command: &mut redis::Cmd, _: bool| {
            let command = self.core.begin(command).arg(&rule.name).arg(escape(holder)).arg(&nonce);
            command.arg(rule.planner_lock_ttl).arg(why.word());
            command.arg(or_empty(next.map(|next| next.at as u64))).arg(or_empty(next.map(|next| next.since as u64)));
        };
        let answer = ROUND.call(&self.core.link, fill).await?;
        begun(answer)
    }

    /// Lets the next round look at a main queue first, where a rule has more of them than a round looks at.
    pub async fn prefer_queue(&self, rule: &str, queue: &str) -> Result<(), Error> {
        let mut command = redis::cmd("ZADD");
        command.arg(self.core.keys.plan_queues(rule)).arg("XX").arg(-1).arg(queue);
        self.core.command("prefer", command).await.map(drop)
    }

    /// Changes tenants' weights; how many changed, or `None` if the lock is another's.
    pub async fn reweigh(
        &self,
        rule: &str,
        token: &str,
        queue: &str,
        told: bool,
        weights: &[(String, Weight)],
    ) -> Result<Option<u64>, Error> {
        let fill = |command: &mut redis::Cmd, _: bool| {
            let command = self.core.begin(command).arg(rule).arg(token).arg(queue).arg(u8::from(told));
            weights.iter().for_each(|(tenant, weight)| _ = command.arg(escape(tenant)).arg(weight.thousandths()));
        };
        let answer = REWEIGH.call(&self.core.link, fill).await?;
        Ok(u64::try_from(reply::number(answer)).ok())
    }

    /// Promotes up to `jobs` staged jobs into the main queue, in one atomic step.
    pub async fn promote(&self, rule: &str, token: &str, queue: &str, jobs: u64) -> Result<Promoted, Error> {
        let call_id = id::generate();
        let fill = |command: &mut redis::Cmd, again: bool| {
            let command = self.core.begin(command).arg(rule).arg(token).arg(queue).arg(jobs);
            command.arg(&call_id).arg(u8::from(again));
        };
        let answer = PROMOTE.call(&self.core.link, fill).await?;
        promoted(answer)
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
        let answer = RECORD.call(&self.core.link, fill).await?;
        Ok(reply::number(answer) == 1)
    }

    /// Pauses a rule or lets it go on; nothing is promoted meanwhile, nothing is lost.
    pub async fn pause_rule(&self, rule: &str, paused: bool) -> Result<(), Error> {
        let fill = |command: &mut redis::Cmd, _: bool| {
            self.core.begin(command).arg(rule).arg(u8::from(paused));
        };
        PAUSE.call(&self.core.link, fill).await.map(drop)
    }

    /// Prolongs the lock of a rule by `ms`, or gives it up with 0; whether it is ours.
    pub async fn renew_lock(&self, rule: &str, holder: &str, ms: u64) -> Result<bool, Error> {
        let fill = |command: &mut redis::Cmd, _: bool| {
            self.core.begin(command).arg(rule).arg(escape(holder)).arg(ms);
        };
        let answer = RENEW.call(&self.core.link, fill).await?;
        Ok(reply::number(answer) == 1)
    }
}

fn push_rule(command: &mut redis::Cmd, StoredRule { rule, document }: &StoredRule<'_>) {
    let jobs = match rule.batch {
        Batch::Auto => 0,
        Batch::Jobs(jobs) => jobs,
    };
    let every = match rule.pace {
        Pace::Every(ms) => Some(ms),
        Pace::Cron { .. } => None,
    };
    command.arg(&rule.name).arg(document).arg(if rule.shadow { "shadow" } else { "running" });
    command.arg(u8::from(rule.restage)).arg(rule.latency_threshold).arg(rule.max_depth);
    command.arg(u8::from(rule.strict_interval)).arg(jobs).arg(or_empty(every)).arg(or_empty(rule.max_staged));
    let weights = &rule.weights;
    let asks = weights.webhook.is_some();
    command.arg(or_empty(asks.then_some(weights.max_weight_age)));
    command.arg(u8::from(asks && weights.on_webhook_error == Some(OnWebhookError::Hold)));
    command
        .arg(rule.max_blocked)
        .arg(&rule.main_queue)
        .arg(weights.default_weight.thousandths())
        .arg(weights.fixed.len());
    for (tenant, weight) in &weights.fixed {
        command.arg(escape(tenant)).arg(weight.thousandths());
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

pub(super) fn promoted(answer: Value) -> Result<Promoted, Error> {
    let mut parts = reply::texts(answer, "promote")?.into_iter();
    let tag = parts.next().unwrap_or_default();
    let mut number = || parts.next().and_then(|text| text.parse().ok()).unwrap_or(0);
    match tag.as_str() {
        "lost" => Ok(Promoted::Lost),
        "paused" => Ok(Promoted::Paused),
        "ok" | "more" => {
            let (promoted, left) = (number(), number());
            let rest: Vec<String> = parts.collect();
            let served = |part: &[String]| Served {
                tenant: unescape(&part[0]),
                weight: Weight::from_thousandths(part[1].parse().unwrap_or(0)),
                jobs: part[2].parse().unwrap_or(0),
            };
            let tenants = rest.chunks_exact(3).map(served).collect();
            Ok(Promoted::Jobs { promoted, left, tenants, more: tag == "more" })
        }
        _ => Err(Error::unreadable("promote")),
    }
}
