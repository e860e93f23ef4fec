//! The report of a rule in shadow: the actual waits of tenants and the simulated ones.

use super::weights::ShadowWeights;
use crate::domain::plan::Rule;
use crate::domain::shadow::{MOST_JOBS, Shadow};
use crate::domain::shadow::{WaitStats, Waits};
use crate::domain::tenant::Weight;
use crate::domain::time::rfc3339;
use crate::telemetry::{ShadowLevels, TenantWaits};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::Arc;

/// Maximum number of tenants in the report; the rest are only counted.
const MOST_SHOWN: usize = 200;
/// Maximum number of tenants in a log line.
const MOST_TOLD: usize = 3;

/// The observations so far.
pub(super) struct ShadowReport<'a> {
    pub(super) rule: &'a Rule,
    pub(super) queue: &'a str,
    pub(super) shadow: &'a Shadow,
    pub(super) shadow_weights: &'a ShadowWeights,
    pub(super) since: i64,
    pub(super) now: i64,
    /// Number of waiting jobs in the actual queue, including those that were not read.
    pub(super) depth: u64,
    pub(super) rounds: u64,
    pub(super) promoted: u64,
    pub(super) trouble: Option<&'a str>,
}

impl ShadowReport<'_> {
    /// Returns the tenants, those with the most jobs first.
    fn tenants(&self) -> Vec<(&Arc<str>, &WaitStats)> {
        let mut tenants: Vec<_> = self.shadow.tenants().collect();
        tenants.sort_by(|(name, one), (other_name, other)| {
            let jobs = |met: &WaitStats| met.waiting + met.as_is.total();
            jobs(other).cmp(&jobs(one)).then_with(|| name.cmp(other_name))
        });
        tenants
    }

    /// Returns the report for API answers.
    pub(super) fn to_json(&self) -> Value {
        let mut oldest: HashMap<&str, i64> = HashMap::new();
        for seen in self.shadow.line() {
            if let Some(tenant) = seen.tenant.as_deref() {
                oldest.entry(tenant).or_insert(seen.since);
            }
        }
        let tenants = self.tenants();
        let show = |(name, met): &(&Arc<str>, &WaitStats)| {
            json!({
                "tenant_id": ***name,
                "weight": self.shadow_weights.weight(name).map(Weight::as_f64),
                "waiting": met.waiting,
                "oldest_age_ms": oldest.get(&***name).map(|since| (self.now - since).max(0)),
                "as_is": waits(&met.as_is),
                "planned": waits(&met.planned),
            })
        };
        let (staged, staged_tenants) = self.shadow.staged();
        let all = self.shadow.all();
        json!({
            "rule": self.rule.name,
            "main_queue": self.rule.main_queue,
            "queue": self.queue,
            "since": rfc3339(self.since),
            "looked_at": rfc3339(self.now),
            "trouble": self.trouble,
            "line": {
                "jobs": self.depth,
                "looked_at": self.shadow.len(),
                "most_looked_at": MOST_JOBS,
                "truncated": self.depth as usize > self.shadow.len(),
                "planned": all.waiting,
                "tenants": oldest.len(),
            },
            "taken_total": self.shadow.taken(),
            "drain_per_s": (self.shadow.drain_per_s() * 100.0).round() / 100.0,
            "would": {
                "staged": staged,
                "tenants": staged_tenants,
                "depth": self.shadow.depth(),
                "rounds_total": self.rounds,
                "promoted_total": self.promoted,
            },
            "as_is": waits(&all.as_is),
            "planned": waits(&all.planned),
            "tenants": tenants.iter().take(MOST_SHOWN).map(show).collect::<Vec<_>>(),
            "tenants_total": tenants.len(),
        })
    }

    /// Returns the report for metrics.
    pub(super) fn levels(&self) -> ShadowLevels {
        let p95 = |waits: &Waits| waits.quantile(0.95).map(|ms| ms as f64 / 1e3);
        let of = |(name, met): (&Arc<str>, &WaitStats)| TenantWaits {
            tenant: name.to_string(),
            as_is: p95(&met.as_is),
            planned: p95(&met.planned),
        };
        ShadowLevels {
            waiting: self.depth,
            looked_at: self.shadow.len() as u64,
            tenants: self.tenants().into_iter().take(MOST_SHOWN).map(of).collect(),
        }
    }

    /// Logs the tenants whose waits would change most.
    pub(super) fn tell(&self) {
        let both = |met: &WaitStats| Some((met.as_is.quantile(0.95)?, met.planned.quantile(0.95)?));
        let mut changes: Vec<(&str, u64, u64)> = self
            .shadow
            .tenants()
            .filter_map(|(name, met)| both(met).map(|(as_is, planned)| (&**name, as_is, planned)))
            .collect();
        changes.sort_by_key(|(name, as_is, planned)| (std::cmp::Reverse(as_is.abs_diff(*planned)), *name));
        let tenants: Vec<String> = changes
            .iter()
            .take(MOST_TOLD)
            .map(|(name, as_is, planned)| format!("{name} {as_is} ms → {planned} ms"))
            .collect();
        tracing::info!(
            rule = self.rule.name,
            queue = self.queue,
            waiting = self.depth,
            taken_total = self.shadow.taken(),
            p95 = tenants.join(", "),
            "shadow report; p95 lists actual → simulated waits"
        );
    }
}

fn waits(waits: &Waits) -> Value {
    json!({"jobs": waits.total(), "p50_ms": waits.quantile(0.5), "p95_ms": waits.quantile(0.95)})
}
