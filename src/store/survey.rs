//! The planner's state as it is: for previews, statistics and questions to the webhook. Changes nothing.

use super::observation::{Observation, observation};
use super::script::{STATUS, SURVEY};
use super::{Error, Store, reply};
use crate::fair::Weight;
use crate::job::escape::{escape, unescape};
use std::collections::HashMap;

/// Tenants described by one call, which bounds how long Redis is busy with it.
const PORTION: usize = 200;

/// A rule as it is now.
#[derive(Clone, Debug, Default)]
pub struct RuleStatus {
    pub now: i64,
    pub paused: bool,
    pub staged: u64,
    pub rounds: u64,
    pub promoted: u64,
    pub skipped: u64,
    /// When the next scheduled round is due; 0 before the first.
    pub due: i64,
    /// Time in which workers found the main queue empty although jobs were staged.
    pub wasted_ms: u64,
    pub lock: Option<Lock>,
    /// Why its main queue cannot be looked at.
    pub trouble: Option<String>,
    pub queues: Vec<Observation>,
}

/// Who plans a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lock {
    pub holder: String,
    pub token: u64,
    pub left_ms: u64,
}

/// Tenants of a fair queue.
#[derive(Clone, Debug, Default)]
pub struct Survey {
    pub now: i64,
    pub clock: f64,
    pub total_weight: u64,
    pub leavers: Vec<Leaver>,
    pub tenants: Vec<Tenant>,
}

/// Weight of tenants that wait no more but count until the clock reaches their start.
#[derive(Clone, Debug, PartialEq)]
pub struct Leaver {
    pub start: f64,
    /// In thousandths.
    pub weight: u64,
}

/// A tenant with staged jobs.
#[derive(Clone, Debug, PartialEq)]
pub struct Tenant {
    pub name: String,
    pub weight: Weight,
    /// Its virtual start; none while it is held.
    pub start: Option<f64>,
    /// Jobs promoted since it last became busy.
    pub promoted: u64,
    pub since: i64,
    /// When a webhook last said something about it; 0 for never.
    pub asked: i64,
    pub staged: u64,
    /// Since when its first job waits, where that was asked for.
    pub oldest: Option<i64>,
    /// The weight that it has everywhere, unless a rule says otherwise.
    pub everywhere: Option<Weight>,
}

/// One recorded round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedRound {
    /// Place in the stream, from which older ones are asked for.
    pub id: String,
    pub document: String,
}

impl Store {
    /// A rule as it is now. A main queue of the rule is looked at whether or not jobs are staged for it.
    pub async fn rule_status(&self, rule: &str, queue: Option<&str>) -> Result<RuleStatus, Error> {
        let fill = |command: &mut redis::Cmd, _: bool| _ = self.core.begin(command).arg(rule).arg(queue.unwrap_or(""));
        let answer = STATUS.call(&self.core.link, fill).await?;
        let mut parts = reply::array(answer, "status")?.into_iter();
        let mut next = || parts.next().ok_or_else(|| Error::unreadable("status"));
        let now = reply::number(next()?);
        let fields: HashMap<String, String> = reply::pairs(next()?, "status")?.into_iter().collect();
        let field = |name: &str| fields.get(name).and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
        let (holder, token, left) = (reply::text(next()?), reply::text(next()?), reply::number(next()?));
        let token = token.split(':').next().and_then(|count| count.parse().ok()).unwrap_or(0);
        let lock = (!holder.is_empty()).then(|| Lock { holder: unescape(&holder), token, left_ms: left.max(0) as u64 });
        Ok(RuleStatus {
            now,
            paused: field("paused") == 1,
            staged: field("staged"),
            rounds: field("rounds"),
            promoted: field("promoted"),
            skipped: field("skipped"),
            due: field("due") as i64,
            wasted_ms: field("wasted"),
            lock,
            trouble: None,
            queues: parts.map(observation).collect::<Result<_, _>>()?,
        })
    }

    /// The tenants whose turn comes next: about `most`, spread over all weights.
    pub async fn next_tenants(&self, rule: &str, queue: &str, most: usize, ages: bool) -> Result<Survey, Error> {
        self.survey(rule, queue, most, ages, &[]).await
    }

    /// Some tenants by name.
    pub async fn tenants(&self, rule: &str, queue: &str, names: &[String]) -> Result<Vec<Tenant>, Error> {
        let mut tenants = Vec::with_capacity(names.len());
        for portion in names.chunks(PORTION) {
            tenants.extend(self.survey(rule, queue, 0, true, portion).await?.tenants);
        }
        Ok(tenants)
    }

    /// Names of tenants with staged jobs, in no order: about `count` of them, and where to go on (0: that was all).
    pub async fn tenant_names(
        &self,
        rule: &str,
        queue: &str,
        cursor: u64,
        count: usize,
    ) -> Result<(u64, Vec<String>), Error> {
        let mut command = redis::cmd("HSCAN");
        command.arg(self.core.keys.busy(rule, queue)).arg(cursor).arg("COUNT").arg(count);
        let mut parts = reply::array(self.core.command("tenants", command).await?, "tenants")?.into_iter();
        let cursor = parts.next().map(reply::number).unwrap_or(0) as u64;
        let pairs = parts.next().map(|pairs| reply::pairs(pairs, "tenants")).transpose()?.unwrap_or_default();
        Ok((cursor, pairs.into_iter().map(|(name, _)| unescape(&name)).collect()))
    }

    /// Tenants of weight 0, those asked about longest ago first.
    pub async fn held_tenants(&self, rule: &str, queue: &str, count: usize) -> Result<Vec<String>, Error> {
        let mut command = redis::cmd("ZRANGE");
        command.arg(self.core.keys.held(rule, queue)).arg(0).arg(count as i64 - 1);
        let names = reply::texts(self.core.command("tenants", command).await?, "tenants")?;
        Ok(names.iter().map(|name| unescape(name)).collect())
    }

    async fn survey(
        &self,
        rule: &str,
        queue: &str,
        most: usize,
        ages: bool,
        names: &[String],
    ) -> Result<Survey, Error> {
        let fill = |command: &mut redis::Cmd, _: bool| {
            let command = self.core.begin(command).arg(rule).arg(queue).arg(most.max(1)).arg(u8::from(ages));
            names.iter().for_each(|name| _ = command.arg(escape(name)));
        };
        let answer = SURVEY.call(&self.core.link, fill).await?;
        let mut parts = reply::array(answer, "survey")?.into_iter();
        let mut next = || parts.next().ok_or_else(|| Error::unreadable("survey"));
        let (now, clock, total) = (reply::number(next()?), reply::text(next()?), reply::number(next()?));
        let (leavers, tenants) = (reply::texts(next()?, "leavers")?, reply::texts(next()?, "tenants")?);
        Ok(Survey {
            now,
            clock: clock.parse().unwrap_or(0.0),
            total_weight: total.max(0) as u64,
            leavers: leavers.chunks_exact(2).map(leaver).collect(),
            tenants: tenants.chunks_exact(6).filter_map(tenant).collect(),
        })
    }

    /// Recorded rounds, newest first, older than `before`.
    pub async fn recorded_rounds(
        &self,
        rule: &str,
        before: Option<&str>,
        count: usize,
    ) -> Result<Vec<RecordedRound>, Error> {
        let mut command = redis::cmd("XREVRANGE");
        let end = before.map_or_else(|| "+".to_owned(), |id| format!("({id}"));
        command.arg(self.core.keys.rounds(rule)).arg(end).arg("-").arg("COUNT").arg(count);
        let entries = reply::array(self.core.command("rounds", command).await?, "rounds")?;
        let round = |entry| {
            let mut parts = reply::array(entry, "rounds")?.into_iter();
            let id = parts.next().map(reply::text).unwrap_or_default();
            let fields = parts.next().map(|fields| reply::pairs(fields, "rounds")).transpose()?.unwrap_or_default();
            let document = fields.into_iter().find(|(name, _)| name == "d").map(|(_, text)| text).unwrap_or_default();
            Ok(RecordedRound { id, document })
        };
        entries.into_iter().map(round).collect()
    }

    /// How many rounds are recorded.
    pub async fn recorded_total(&self, rule: &str) -> Result<u64, Error> {
        let mut command = redis::cmd("XLEN");
        command.arg(self.core.keys.rounds(rule));
        Ok(reply::number(self.core.command("rounds", command).await?).max(0) as u64)
    }
}

fn leaver(part: &[String]) -> Leaver {
    Leaver { start: part[0].parse().unwrap_or(0.0), weight: part[1].parse().unwrap_or(0) }
}

/// Reads name, `weight state promoted since asked`, start, staged jobs, the oldest one's time and the weight
/// everywhere.
fn tenant(part: &[String]) -> Option<Tenant> {
    let mut busy = part[1].split(' ');
    let mut number = || busy.next()?.parse::<i64>().ok();
    let weight = Weight::from_thousandths(u32::try_from(number()?).ok()?);
    let state = busy.next()?;
    let mut number = || busy.next()?.parse::<i64>().ok();
    let (promoted, since, asked) = (number()?, number()?, number()?);
    Some(Tenant {
        name: unescape(&part[0]),
        weight,
        start: part[2].parse().ok().filter(|_| state == "w"),
        promoted: promoted.max(0) as u64,
        since,
        asked,
        staged: part[3].parse().unwrap_or(0),
        oldest: part[4].parse().ok(),
        everywhere: part[5].parse().ok().map(Weight::from_thousandths),
    })
}
