//! A dry run of the next round: the same arithmetic as in the scripts, on a copy.

use super::RunnerRegistry;
use super::round_state::in_turn;
use super::tenant_counts::{ServedTenant, TenantCounts};
use crate::domain::escape::{escape, unescape};
use crate::domain::fairness::{FairQueue, TenantTime};
use crate::domain::plan::Batch;
use crate::domain::tenant::Weight;
use crate::store::{Error, Observation, PriorityLevel, PromotedTenant};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::HashMap;

/// Maximum number of promotions to preview for each main queue.
const MOST: u64 = 1000;
/// Maximum number of tenants to read, which bounds how long Redis is busy.
const SURVEYED: usize = 500;

/// The explanation of the order.
const WHY: &str = "The highest priority is promoted first, unless the rule orders priorities only within tenants. Among the tenants whose virtual start has been reached, the one with the earliest deadline is next; each job moves its tenant by 1/weight.";

/// A round as it would be, as the API shows it.
#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
pub struct Preview {
    pub rule: String,
    pub gate: GatePreview,
    /// Number of jobs that the round would promote.
    pub batch: u64,
    pub tenants: Vec<ServedTenant>,
    /// The tenant of each promotion, in order.
    pub order: Vec<String>,
    /// True if the order ends early, because only the next tenants were read.
    pub truncated: bool,
    pub queues: Vec<QueuePreview>,
    /// An explanation of the order.
    pub why: &'static str,
}

/// A round as it would be, for one main queue.
#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
pub struct QueuePreview {
    pub name: String,
    pub batch: u64,
    pub gate: GatePreview,
    pub tenants: Vec<ServedTenant>,
    pub order: Vec<String>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
pub struct GatePreview {
    pub open: bool,
    pub reason: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_threshold_ms: Option<u64>,
}

impl GatePreview {
    fn of(closed: Option<&'static str>) -> GatePreview {
        GatePreview { open: closed.is_none(), reason: closed, latency_threshold_ms: None }
    }
}

/// Previews a rule's next round, or a round of `jobs` jobs. Returns `None` if there is no such
/// rule.
pub async fn preview(registry: &RunnerRegistry, name: &str, jobs: Option<u64>) -> Result<Option<Preview>, Error> {
    let known = registry.rules().known().await?;
    let Some(rule) = known.find(name) else { return Ok(None) };
    let status = registry.status(&rule).await?;
    let (mut queues, mut order, mut tenants) = (Vec::new(), Vec::new(), TenantCounts::default());
    let (mut batch, mut truncated) = (0, false);
    let mut closed = status.paused.then_some("paused");
    // A fixed batch is shared by all main queues; with `auto`, each queue has its own.
    let mut left = match (jobs, rule.batch) {
        _ if status.paused => 0,
        (Some(jobs), _) => jobs,
        (None, Batch::Jobs(jobs)) => u64::from(jobs),
        (None, Batch::Auto) => u64::MAX,
    };
    let staged: Vec<Observation> = status.queues.iter().filter(|queue| queue.staged > 0).cloned().collect();
    for (queue, sharers) in in_turn(&staged, status.rounds + 1) {
        let gate = queue.gate(&rule, status.now);
        closed = closed.or(gate.closed.map(|closed| closed.name()));
        let needed = match (jobs, rule.batch) {
            // The target depth is only known as far as the planning process has stored it.
            (None, Batch::Auto) => queue.aim.max(1).saturating_sub(queue.depth).min(left),
            _ => left.div_ceil(sharers),
        };
        let wanted = needed.min(gate.room).min(queue.staged);
        let mut picks = Vec::new();
        let mut own = TenantCounts::default();
        if wanted > 0 {
            let survey = registry.store().next_tenants(name, &queue.queue, SURVEYED).await?;
            picks = foresee_all(&survey.levels, wanted.min(MOST));
            let surveyed = survey.levels.iter().flat_map(|level| &level.tenants);
            let weights: HashMap<&str, Weight> = surveyed.map(|tenant| (tenant.name.as_str(), tenant.weight)).collect();
            for tenant in &picks {
                let weight = weights.get(tenant.as_str()).copied().unwrap_or_default();
                let served = PromotedTenant { tenant: tenant.clone(), weight, jobs: 1 };
                own.add(served.clone());
                tenants.add(served);
            }
            truncated |= (picks.len() as u64) < wanted;
        }
        (batch, left) = (batch + wanted, left - wanted);
        order.extend_from_slice(&picks);
        queues.push(QueuePreview {
            name: queue.queue.clone(),
            batch: wanted,
            gate: GatePreview::of(gate.closed.map(|closed| closed.name())),
            tenants: own.shown(),
            order: picks,
        });
    }
    Ok(Some(Preview {
        rule: name.to_owned(),
        gate: GatePreview { latency_threshold_ms: Some(rule.latency_threshold), ..GatePreview::of(closed) },
        batch,
        tenants: tenants.shown(),
        order,
        truncated,
        queues,
        why: WHY,
    }))
}

/// Returns the tenants of the next promotions in order, at most `most`. Ends early if the next one
/// might be a tenant that was not read. A priority is served once no tenant waits at a higher one.
fn foresee_all(levels: &[PriorityLevel], most: u64) -> Vec<String> {
    let mut picks = Vec::new();
    for level in levels {
        picks.extend(foresee(level, most - picks.len() as u64));
        if (waiting(level).count() as u64) < level.waiting_tenants {
            break;
        }
    }
    picks
}

fn waiting(level: &PriorityLevel) -> impl Iterator<Item = &crate::store::StagedTenant> {
    level.tenants.iter().filter(|tenant| tenant.start.is_some())
}

/// Returns the next tenants of one priority.
fn foresee(level: &PriorityLevel, most: u64) -> Vec<String> {
    let waiting = level.tenants.iter().filter_map(|tenant| {
        let start = tenant.start?;
        // Escaped like the names that scripts compare, so that ties are broken in the same way.
        Some((
            escape(&tenant.name),
            TenantTime { start, weight: tenant.weight, share: tenant.weight, jobs: tenant.staged },
        ))
    });
    // Leavers have no names here, only a time and a weight, which may be the sum of many.
    let leaving = level.leavers.iter().enumerate().flat_map(|(number, leaver)| {
        let heaviest = u64::from(Weight::MOST.thousandths());
        let parts = leaver.weight.div_ceil(heaviest);
        (0..parts).map(move |part| {
            let weight = Weight::from_thousandths((leaver.weight - part * heaviest).min(heaviest) as u32);
            let name = format!("\u{0}{number}.{part}");
            (name, TenantTime { start: leaver.start, weight: Weight::HELD, share: weight, jobs: 0 })
        })
    });
    let mut queue = FairQueue::restore(level.clock, level.total_weight, waiting.chain(leaving));
    let mut ahead = Ahead::of(level);
    let mut picks = Vec::new();
    while (picks.len() as u64) < most && !ahead.is_spent {
        let Some(tenant) = queue.pick() else { break };
        ahead.went(&tenant);
        picks.push(unescape(&tenant));
    }
    picks
}

/// The tenants of which the order is known. In each weight class, only the first ones were read;
/// after the last of those, the next one may be a tenant that was not read.
struct Ahead {
    /// Tenants that were not served yet, with their classes; only classes that may have more
    /// tenants.
    classes: HashMap<String, u32>,
    left: HashMap<u32, usize>,
    is_spent: bool,
}

impl Ahead {
    fn of(level: &PriorityLevel) -> Ahead {
        let waiting = || waiting(level);
        let mut left: HashMap<u32, usize> = HashMap::new();
        waiting().for_each(|tenant| *left.entry(tenant.weight.class()).or_default() += 1);
        // The same number was requested of every class, so a class with fewer tenants than another
        // is complete.
        let asked_for = left.values().copied().max().unwrap_or(0);
        let is_whole = waiting().count() as u64 >= level.waiting_tenants;
        left.retain(|_, count| !is_whole && *count == asked_for);
        let in_part = waiting().filter(|tenant| left.contains_key(&tenant.weight.class()));
        let classes = in_part.map(|tenant| (escape(&tenant.name), tenant.weight.class())).collect();
        Ahead { classes, left, is_spent: false }
    }

    /// Records that a tenant was served, given its escaped name.
    fn went(&mut self, tenant: &str) {
        let Some(left) = self.classes.remove(tenant).and_then(|class| self.left.get_mut(&class)) else { return };
        *left -= 1;
        self.is_spent |= *left == 0;
    }
}
