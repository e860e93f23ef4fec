//! The tenants of a rule, as a sortable list.

use super::RunnerRegistry;
use crate::domain::fairness::wait_bound;
use crate::domain::tenant::Weight;
use crate::store::{Error, StagedTenant};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::HashMap;

/// Maximum number of tenants read for one list; beyond it, the list is marked as truncated.
const MOST: usize = 10_000;
const PORTION: usize = 1000;

/// The order of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TenantOrder {
    /// Most staged jobs first.
    #[default]
    Pending,
    /// Longest waiting first.
    Oldest,
    /// Largest weight first.
    Weight,
    Name,
}

impl TenantOrder {
    /// Parses the name of an order.
    pub fn from_name(name: &str) -> Option<TenantOrder> {
        Some(match name {
            "pending" => TenantOrder::Pending,
            "oldest" => TenantOrder::Oldest,
            "weight" => TenantOrder::Weight,
            "name" => TenantOrder::Name,
            _ => return None,
        })
    }
}

/// Tenants of a rule with staged jobs.
pub struct TenantList {
    tenants: Vec<(String, StagedTenant)>,
    now: i64,
    queues: HashMap<String, Whole>,
    /// True if there are more tenants than were read.
    pub truncated: bool,
}

/// A tenant with staged jobs, as the API lists it.
#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
pub struct ListedTenant {
    pub tenant_id: String,
    /// The main queue for which its jobs are staged.
    pub queue: String,
    /// Number of its staged jobs.
    pub pending: u64,
    pub oldest_age_ms: Option<u64>,
    pub weight: f64,
    /// True if the weight is 0, so that no jobs are promoted.
    pub held: bool,
    /// True while the webhook is asked for the weight of the tenant.
    pub awaits_weight: bool,
    /// The age of the weight, if the webhook returned it.
    pub weight_age_ms: Option<u64>,
    pub promoted_total: u64,
    /// Its share of the promotions of the listed tenants.
    #[schemars(range(min = 0, max = 1))]
    pub share: f64,
    /// Its share of the weights.
    #[schemars(range(min = 0, max = 1))]
    pub expected_share: f64,
    /// The largest number of promotions of other tenants before its next one.
    pub wait_bound_jobs: Option<u64>,
}

/// Totals of one main queue, from which tenants' shares are computed.
#[derive(Clone, Copy, Default)]
struct Whole {
    /// Sum of the weights of all waiting tenants, at all priorities.
    weight: u64,
    /// Sum of the weights of the listed tenants, each counted once.
    listed_weight: u64,
    promoted: u64,
}

impl TenantList {
    /// Reads the tenants of a rule. Returns `None` if there is no such rule.
    pub async fn read(registry: &RunnerRegistry, name: &str, order: TenantOrder) -> Result<Option<TenantList>, Error> {
        let known = registry.rules().known().await?;
        if !known.has(name) {
            return Ok(None);
        }
        let store = registry.store();
        let status = store.rule_status(name, None).await?;
        let mut list = TenantList { tenants: Vec::new(), now: status.now, queues: HashMap::new(), truncated: false };
        for queue in &status.queues {
            list.queues.insert(queue.queue.clone(), Whole { weight: queue.total_weight, ..Whole::default() });
            let mut cursor = 0;
            loop {
                let (next, names) = store.tenant_names(name, &queue.queue, cursor, PORTION).await?;
                let tenants = store.tenants(name, &queue.queue, &names).await?;
                list.tenants.extend(tenants.into_iter().map(|tenant| (queue.queue.clone(), tenant)));
                cursor = next;
                if cursor == 0 || list.tenants.len() >= MOST {
                    break;
                }
            }
            list.truncated |= cursor != 0;
        }
        list.sort(order);
        for (queue, tenant) in &list.tenants {
            let whole = list.queues.entry(queue.clone()).or_default();
            whole.promoted += tenant.promoted;
            whole.listed_weight += u64::from(weight_of(tenant).thousandths());
        }
        Ok(Some(list))
    }

    fn sort(&mut self, order: TenantOrder) {
        self.tenants.sort_by(|(_, left), (_, right)| {
            let by = match order {
                TenantOrder::Pending => right.staged.cmp(&left.staged),
                TenantOrder::Oldest => left.oldest.unwrap_or(i64::MAX).cmp(&right.oldest.unwrap_or(i64::MAX)),
                TenantOrder::Weight => right.weight.cmp(&left.weight),
                TenantOrder::Name => std::cmp::Ordering::Equal,
            };
            by.then_with(|| left.name.cmp(&right.name))
        });
        // A scan may return a tenant twice while its table grows.
        self.tenants.dedup_by(|(queue, tenant), (kept_queue, kept)| queue == kept_queue && tenant.name == kept.name);
    }

    /// Returns the number of tenants.
    pub fn len(&self) -> usize {
        self.tenants.len()
    }

    /// Returns true if there are no tenants.
    pub fn is_empty(&self) -> bool {
        self.tenants.is_empty()
    }

    /// Returns a part of the list.
    pub fn page(&self, offset: usize, limit: usize) -> Vec<ListedTenant> {
        self.tenants.iter().skip(offset).take(limit).map(|(queue, tenant)| self.show(queue, tenant)).collect()
    }

    fn show(&self, queue: &str, tenant: &StagedTenant) -> ListedTenant {
        let weight = weight_of(tenant);
        let whole = self.queues.get(queue).copied().unwrap_or_default();
        let of = |part: u64, whole: u64| if whole == 0 { 0.0 } else { part as f64 / whole as f64 };
        let age = |since: i64| u64::try_from(self.now - since).unwrap_or(0);
        let expected_of = if self.truncated { whole.weight } else { whole.listed_weight };
        ListedTenant {
            tenant_id: tenant.name.clone(),
            queue: queue.to_owned(),
            pending: tenant.staged,
            oldest_age_ms: tenant.oldest.map(age),
            weight: tenant.weight.as_f64(),
            held: tenant.weight.is_held(),
            awaits_weight: tenant.is_unknown,
            weight_age_ms: (tenant.asked > 1).then(|| age(tenant.asked)),
            promoted_total: tenant.promoted,
            share: of(tenant.promoted, whole.promoted),
            expected_share: of(weight.thousandths().into(), expected_of),
            wait_bound_jobs: wait_bound(whole.weight, weight),
        }
    }
}

/// Returns the weight that determines a tenant's share: 0 until the webhook has returned it.
fn weight_of(tenant: &StagedTenant) -> Weight {
    if tenant.is_unknown { Weight::HELD } else { tenant.weight }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenant(name: &str, weight: f64, staged: u64, oldest: Option<i64>) -> (String, StagedTenant) {
        let weight = Weight::of(weight).expect("a weight");
        let (name, promoted) = (name.to_owned(), staged);
        let (start, since, is_unknown, asked, everywhere) = (None, 0, false, 0, None);
        let tenant =
            StagedTenant { name, weight, start, promoted, since, is_unknown, asked, staged, oldest, everywhere };
        ("q".to_owned(), tenant)
    }

    fn list(tenants: Vec<(String, StagedTenant)>) -> TenantList {
        TenantList { tenants, now: 1000, queues: HashMap::new(), truncated: false }
    }

    #[test]
    fn each_order_has_its_first_tenant_and_names_break_ties() {
        let tenants = || {
            vec![
                tenant("c", 1.0, 2, Some(500)),
                tenant("b", 5.0, 1, None),
                tenant("a", 1.0, 2, Some(900)),
                tenant("b", 5.0, 1, None),
            ]
        };
        for (name, expected) in [
            ("pending", ["a", "c", "b"]),
            ("oldest", ["c", "a", "b"]),
            ("weight", ["b", "a", "c"]),
            ("name", ["a", "b", "c"]),
        ] {
            let mut list = list(tenants());
            list.sort(TenantOrder::from_name(name).expect("an order"));
            let names: Vec<&str> = list.tenants.iter().map(|(_, tenant)| tenant.name.as_str()).collect();
            assert_eq!(names, expected, "{name}; a scan may return a tenant twice");
        }
        assert_eq!(TenantOrder::from_name("age"), None);
    }

    #[test]
    fn shares_are_of_what_is_listed_or_of_all_if_the_list_is_cut_off() {
        let mut list = list(vec![tenant("a", 1.0, 6, Some(400)), tenant("b", 3.0, 2, None)]);
        list.queues.insert("q".to_owned(), Whole { weight: 8000, listed_weight: 4000, promoted: 8 });
        let shares = |list: &TenantList| {
            let page = list.page(0, 9);
            page.iter().map(|shown| (shown.share, shown.expected_share)).collect::<Vec<_>>()
        };
        assert_eq!(shares(&list), [(0.75, 0.25), (0.25, 0.75)]);
        assert_eq!(list.page(0, 1)[0].oldest_age_ms, Some(600));
        list.truncated = true;
        assert_eq!(shares(&list), [(0.75, 0.125), (0.25, 0.375)]);
    }
}
