//! The current state of a rule and its tenants, for previews, statistics and requests to the
//! weights webhook. Changes nothing.

use super::observation::Observation;
use super::script::{RULE_STATUS, RULE_TENANTS};
use super::{Error, Store, reply};
use crate::domain::escape::{escape, unescape};
use crate::domain::tenant::Weight;
use redis::Value;
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::{HashMap, HashSet};

/// Number of tenants that one call reads; bounds how long the call occupies Redis.
const PORTION: usize = 200;
/// A cursor through the tenants of all priorities encodes the priority, from -100 to 100, as its
/// last digit in this base. Priority 0 is first and has the digit 0, so that a scan begins and ends
/// with cursor 0.
const LEVELS: u64 = 256;
const LEVEL_OFFSET: i32 = 101;

/// The current state of a rule.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct RuleStatus {
    pub now: i64,
    pub paused: bool,
    pub staged: u64,
    pub rounds: u64,
    pub promoted: u64,
    pub skipped: u64,
    /// Time at which the next scheduled round is due, in milliseconds; 0 before the first round.
    pub due: i64,
    /// Time since which the rule has staged jobs, in milliseconds; 0 if it never had any.
    pub staged_at: i64,
    /// True if the last round has not ended: it is running, or its process died.
    pub is_unfinished: bool,
    /// Time during which workers found the main queue empty although jobs were staged, in
    /// milliseconds.
    pub wasted_ms: u64,
    pub lock: Option<Lock>,
    /// The reason why the main queue cannot be observed; set by the caller.
    #[serde(skip)]
    pub trouble: Option<String>,
    pub queues: Vec<Observation>,
}

/// The lock of a rule and the process that holds it.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub struct Lock {
    pub holder: String,
    pub token: u64,
    pub left_ms: u64,
    /// True while a round runs.
    pub is_busy: bool,
}

/// Tenants with staged jobs for a main queue, by priority. A rule that orders priorities only
/// within each tenant has one level.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct StagedTenants {
    pub now: i64,
    /// Levels in the order in which rounds serve them. Those beyond the requested number of tenants
    /// are omitted.
    pub levels: Vec<PriorityLevel>,
}

/// The fair queue of one priority.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct PriorityLevel {
    pub priority: i32,
    pub clock: f64,
    pub total_weight: u64,
    /// Number of all tenants that wait for their turn, including those not in `tenants`.
    pub waiting_tenants: u64,
    pub leavers: Vec<DepartedTenant>,
    pub tenants: Vec<StagedTenant>,
}

impl StagedTenants {
    /// Merges the levels and returns each tenant once.
    pub fn into_tenants(self) -> Vec<StagedTenant> {
        let mut tenants: Vec<StagedTenant> = Vec::new();
        let mut places: HashMap<String, usize> = HashMap::new();
        for tenant in self.levels.into_iter().flat_map(|level| level.tenants) {
            match places.get(&tenant.name) {
                Some(place) => tenants[*place].join(&tenant),
                None => {
                    places.insert(tenant.name.clone(), tenants.len());
                    tenants.push(tenant);
                }
            }
        }
        tenants
    }
}

/// The weight of tenants that have left the queue but count until the clock reaches their start.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub struct DepartedTenant {
    pub start: f64,
    /// Sum of their weights, in thousandths.
    pub weight: u64,
}

/// A tenant with staged jobs.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub struct StagedTenant {
    pub name: String,
    #[serde(deserialize_with = "weight")]
    pub weight: Weight,
    /// The tenant's virtual start; `None` while it has no turn.
    pub start: Option<f64>,
    /// Number of jobs promoted since the tenant last became busy, which was at `since`.
    pub promoted: u64,
    pub since: i64,
    /// True if the tenant has no turn until the weights webhook has returned its weight.
    pub is_unknown: bool,
    /// Time of the last answer of the webhook about this tenant, in milliseconds; 0 for never.
    pub asked: i64,
    pub staged: u64,
    /// Time since which the tenant's first job waits, if requested.
    pub oldest: Option<i64>,
    /// The tenant's weight in rules that do not set one.
    #[serde(default, deserialize_with = "some_weight")]
    pub everywhere: Option<Weight>,
}

fn weight<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Weight, D::Error> {
    u32::deserialize(deserializer).map(Weight::from_thousandths)
}

fn some_weight<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Weight>, D::Error> {
    weight(deserializer).map(Some)
}

impl StagedTenant {
    /// Adds the tenant's figures at another priority. The weight is the same at all of them.
    fn join(&mut self, other: &StagedTenant) {
        self.start = self.start.or(other.start);
        self.promoted += other.promoted;
        self.since = self.since.min(other.since);
        self.asked = self.asked.max(other.asked);
        self.staged += other.staged;
        self.oldest = self.oldest.into_iter().chain(other.oldest).min();
    }
}

/// A recorded round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedRound {
    /// The stream entry's id, for paging to older rounds.
    pub id: String,
    pub document: String,
}

#[derive(Serialize)]
struct RuleStatusArgs<'a> {
    rule: &'a str,
    queue: Option<&'a str>,
}

#[derive(Serialize)]
struct RuleTenants<'a> {
    rule: &'a str,
    queue: &'a str,
    most: usize,
    ages: bool,
    others: bool,
    names: Vec<String>,
}

impl Store {
    /// Returns the current state of a rule. `queue` is included even if no jobs are staged for it.
    pub async fn rule_status(&self, rule: &str, queue: Option<&str>) -> Result<RuleStatus, Error> {
        let mut status: RuleStatus = RULE_STATUS.call_packed(&self.core, &RuleStatusArgs { rule, queue }).await?;
        if let Some(lock) = &mut status.lock {
            lock.holder = unescape(&lock.holder);
        }
        Ok(status)
    }

    /// Returns about `most` tenants whose turn comes next, by priority and spread over all weights.
    pub async fn next_tenants(&self, rule: &str, queue: &str, most: usize) -> Result<StagedTenants, Error> {
        self.read_tenants(rule, queue, most, false, false, &[]).await
    }

    /// Returns the same tenants as [`Store::next_tenants`], with the time since which they wait.
    pub async fn next_tenants_with_ages(&self, rule: &str, queue: &str, most: usize) -> Result<StagedTenants, Error> {
        self.read_tenants(rule, queue, most, true, false, &[]).await
    }

    /// Returns about `most` tenants whose turn comes next, and about as many that have no turn
    /// because they are held, blocked or of unknown weight. Includes the time since which they
    /// wait.
    pub async fn staged_tenants(&self, rule: &str, queue: &str, most: usize) -> Result<StagedTenants, Error> {
        self.read_tenants(rule, queue, most, true, true, &[]).await
    }

    /// Returns tenants by name, with their staged jobs of all priorities.
    pub async fn tenants(&self, rule: &str, queue: &str, names: &[String]) -> Result<Vec<StagedTenant>, Error> {
        let mut tenants = Vec::with_capacity(names.len());
        for portion in names.chunks(PORTION) {
            tenants.extend(self.read_tenants(rule, queue, 0, true, false, portion).await?.into_tenants());
        }
        Ok(tenants)
    }

    /// Returns about `count` names of tenants with staged jobs, in no particular order, and the
    /// next cursor; 0 at the end. A tenant may be returned more than once.
    pub async fn tenant_names(
        &self,
        rule: &str,
        queue: &str,
        cursor: u64,
        count: usize,
    ) -> Result<(u64, Vec<String>), Error> {
        let (priority, at) = scan_place(cursor);
        let mut command = redis::cmd("HSCAN");
        command.arg(self.core.keys.busy(rule, queue, priority)).arg(at).arg("COUNT").arg(count);
        let mut parts = reply::array(self.core.command("tenants", command).await?, "tenants")?.into_iter();
        let at = reply::number(parts.next().unwrap_or(Value::Nil), "tenants")? as u64;
        let pairs = parts.next().map(|pairs| reply::pairs(pairs, "tenants")).transpose()?.unwrap_or_default();
        let next = match at {
            0 => self.next_level(rule, queue, priority).await?.map_or(0, |level| scan_cursor(level, 0)),
            _ => scan_cursor(priority, at),
        };
        Ok((next, pairs.into_iter().map(|(name, _)| unescape(&name)).collect()))
    }

    /// Returns the priority whose tenants follow those of `after`: 0 is first, then the others in
    /// ascending order.
    async fn next_level(&self, rule: &str, queue: &str, after: i32) -> Result<Option<i32>, Error> {
        let levels = self.other_levels(rule, queue).await?;
        Ok(levels.into_iter().filter(|level| after == 0 || *level > after).min())
    }

    /// Returns the priorities other than 0 that have fair queues.
    async fn other_levels(&self, rule: &str, queue: &str) -> Result<Vec<i32>, Error> {
        let mut command = redis::cmd("HGET");
        command.arg(self.core.keys.fair(rule, queue)).arg("levels");
        let levels = reply::text(self.core.command("tenants", command).await?, "tenants")?;
        Ok(levels.split_whitespace().filter_map(|level| level.parse().ok()).collect())
    }

    /// Returns held tenants. At each priority, the one whose webhook answer is oldest comes first.
    /// A tenant may be returned more than once.
    pub async fn held_tenants(&self, rule: &str, queue: &str, count: usize) -> Result<Vec<String>, Error> {
        let mut names = Vec::new();
        for priority in [0].into_iter().chain(self.other_levels(rule, queue).await?) {
            names.extend(self.first_tenants(self.core.keys.held(rule, queue, priority), count).await?);
        }
        Ok(names)
    }

    /// Returns tenants of unknown weight, sorted by priority and then by waiting time.
    pub async fn unknown_tenants(&self, rule: &str, queue: &str, count: usize) -> Result<Vec<StagedTenant>, Error> {
        let mut priorities = self.other_levels(rule, queue).await?;
        priorities.push(0);
        priorities.sort_unstable_by_key(|priority| std::cmp::Reverse(*priority));
        let mut names: Vec<String> = Vec::new();
        for priority in priorities {
            let first = self.first_tenants(self.core.keys.unknown(rule, queue, priority), count - names.len()).await?;
            let known: HashSet<String> = names.iter().cloned().collect();
            names.extend(first.into_iter().filter(|name| !known.contains(name)));
        }
        self.tenants(rule, queue, &names).await
    }

    async fn first_tenants(&self, key: String, count: usize) -> Result<Vec<String>, Error> {
        let mut command = redis::cmd("ZRANGEBYSCORE");
        command.arg(key).arg("-inf").arg("+inf").arg("LIMIT").arg(0).arg(count);
        let names = reply::texts(self.core.command("tenants", command).await?, "tenants")?;
        Ok(names.iter().map(|name| unescape(name)).collect())
    }

    async fn read_tenants(
        &self,
        rule: &str,
        queue: &str,
        most: usize,
        ages: bool,
        without_turn: bool,
        names: &[String],
    ) -> Result<StagedTenants, Error> {
        let names = names.iter().map(|name| escape(name)).collect();
        let args = RuleTenants { rule, queue, most: most.max(1), ages, others: without_turn, names };
        let mut staged: StagedTenants = RULE_TENANTS.call_packed(&self.core, &args).await?;
        for tenant in staged.levels.iter_mut().flat_map(|level| &mut level.tenants) {
            tenant.name = unescape(&tenant.name);
        }
        Ok(staged)
    }

    /// Returns recorded rounds older than `before`, newest first.
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
            let id = reply::text(parts.next().unwrap_or(Value::Nil), "rounds")?;
            let fields = parts.next().map(|fields| reply::pairs(fields, "rounds")).transpose()?.unwrap_or_default();
            let document = fields.into_iter().find(|(name, _)| name == "d").map(|(_, text)| text).unwrap_or_default();
            Ok(RecordedRound { id, document })
        };
        entries.into_iter().map(round).collect()
    }

    /// Returns the number of recorded rounds.
    pub async fn recorded_total(&self, rule: &str) -> Result<u64, Error> {
        let mut command = redis::cmd("XLEN");
        command.arg(self.core.keys.rounds(rule));
        Ok(reply::number(self.core.command("rounds", command).await?, "rounds")?.max(0) as u64)
    }
}

/// Returns the cursor of a scan at a priority; `at` is Redis' cursor within it.
fn scan_cursor(priority: i32, at: u64) -> u64 {
    let level = if priority == 0 { 0 } else { (priority + LEVEL_OFFSET) as u64 };
    at * LEVELS + level
}

fn scan_place(cursor: u64) -> (i32, u64) {
    let level = (cursor % LEVELS) as i32;
    (if level == 0 { 0 } else { level - LEVEL_OFFSET }, cursor / LEVELS)
}
