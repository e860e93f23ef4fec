//! The dispatch policy: `[starvation_prevention]`, `[tenant_fairness]`, `[[pool]]` and `[[limit]]`
//! become a [`Policy`].
//!
//! Files and requests are read by the same functions. Values that are left out come from a base:
//! the built-in defaults, or the current policy.

mod describe;
mod limit;
mod pool;
mod request;
mod values;

use std::collections::BTreeMap;
use std::time::Duration;

use super::convert::Refused;
use super::reader::SettingsReader;
use crate::domain::fairness::TenantFairness;
use crate::domain::pool::{Aging, Policy, Starvation};
use crate::domain::tenant_id;

pub(super) use describe::describe;
pub(super) use request::{finish, table};
pub use request::{policy_from_json, pool_from_json, scheduling_from_json};
pub(super) use values::{Period, Share};

const SHORTEST: Duration = Duration::from_millis(100);
/// Longest rotation interval. Dispatches are counted for that long.
const LONGEST_ROTATION: Duration = Duration::from_secs(86_400);
const LONGEST_AGING: Duration = Duration::from_secs(31 * 86_400);
/// Distance from the lowest to the highest priority.
const PRIORITIES: u32 = 200;
const MOST_CONSECUTIVE: u32 = 1_000_000;

/// Reads the sections of the dispatch policy.
pub(super) fn read(root: &mut SettingsReader<'_>) -> Policy {
    let starvation =
        root.section("starvation_prevention", |reader| read_starvation(reader, &Starvation::default(), None));
    Policy {
        starvation,
        tenant_fairness: root.section("tenant_fairness", |reader| read_fairness(reader, &TenantFairness::default())),
        pools: pool::read_pools(root, &starvation),
        limits: limit::read_limits(root),
        queues: BTreeMap::new(),
    }
}

/// Reads the settings of starvation prevention. `queues` is the number of queues if they belong to
/// one pool.
fn read_starvation(reader: &mut SettingsReader<'_>, base: &Starvation, queues: Option<usize>) -> Starvation {
    let ms = |time: Duration| time.as_millis() as u64;
    let starvation = Starvation {
        enabled: reader.find("enabled").unwrap_or(base.enabled),
        rotation_interval: reader
            .find_in("rotation_interval", SHORTEST..=LONGEST_ROTATION)
            .map_or(base.rotation_interval, ms),
        min_dispatch_ratio: reader
            .find_in("min_dispatch_ratio", 0.0..=1.0)
            .map_or(base.min_dispatch_ratio, Starvation::round),
        max_consecutive: reader.find_in("max_consecutive", ..=MOST_CONSECUTIVE).unwrap_or(base.max_consecutive),
        priority_aging: reader.section("priority_aging", |reader| {
            let base = base.priority_aging;
            Aging {
                every: reader.find_in("every", SHORTEST..=LONGEST_AGING).map_or(base.every, ms),
                step: reader.find_in("step", ..=PRIORITIES).unwrap_or(base.step),
                max: reader.find_in("max", ..=PRIORITIES).unwrap_or(base.max),
            }
        }),
    };
    if let Some(queues) = queues.filter(|queues| !starvation.fits(*queues)) {
        refuse_ratio(reader, &starvation, queues, "the pool");
    }
    starvation
}

/// Reports that the queues of a pool cannot all have their minimum share.
fn refuse_ratio(reader: &mut SettingsReader<'_>, starvation: &Starvation, queues: usize, pool: &str) {
    let ratio = starvation.min_dispatch_ratio;
    let message = format!("{pool} has {queues} queues, which cannot each have a min_dispatch_ratio of {ratio}");
    let help = format!("set min_dispatch_ratio to {} at most", Starvation::largest_ratio(queues));
    // If the ratio is a default, the error points at `enabled`.
    reader.conflict(&["min_dispatch_ratio", "enabled"], message, Some(&help));
}

/// Reads the settings of tenant fairness.
fn read_fairness(reader: &mut SettingsReader<'_>, base: &TenantFairness) -> TenantFairness {
    // `null` restores the default, which depends on the isolation.
    let leaves_open = reader.is_null("enabled");
    TenantFairness {
        enabled: if leaves_open { None } else { reader.find("enabled").or(base.enabled) },
        strategy: reader.find("strategy").unwrap_or(base.strategy),
        weights: read_weights(reader).unwrap_or_else(|| base.weights.clone()),
        default_weight: reader.find("default_weight").map_or(base.default_weight, |Share(weight)| weight),
    }
}

fn read_weights(reader: &mut SettingsReader<'_>) -> Option<BTreeMap<String, crate::domain::tenant::Weight>> {
    let given: BTreeMap<String, Share> = reader.map("weights");
    reader.kind("weights")?;
    if given.len() > TenantFairness::MOST_WEIGHTS {
        let message = format!("expected at most {} weights, found {}", TenantFairness::MOST_WEIGHTS, given.len());
        reader.conflict(&["weights"], message, Some("leave out tenants with the default weight"));
    }
    let mut weights = BTreeMap::new();
    for (key, Share(weight)) in given {
        let id = TenantFairness::tenant_in(&key);
        if !tenant_id::is_id(id) {
            reader.refuse_name("weights", &key, Refused::new(tenant_id::EXPECTED));
        } else if weights.insert(id.to_owned(), weight).is_some() {
            let help = format!("\"{id}\" and \"tenant:{id}\" are the same tenant");
            reader.refuse_name("weights", &key, Refused::new("a tenant that is not listed yet").help(help));
        }
    }
    Some(weights)
}

#[cfg(test)]
mod tests;
