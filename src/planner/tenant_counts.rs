//! Numbers of jobs by tenant.

use crate::store::PromotedTenant;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::HashMap;

/// Numbers of jobs by tenant, in the order in which tenants were first served. A map finds the
/// tenant, because a round may serve tens of thousands.
#[derive(Clone, Debug, Default)]
pub struct TenantCounts {
    served: Vec<PromotedTenant>,
    /// The index of each tenant in `served`.
    places: HashMap<String, usize>,
}

impl TenantCounts {
    /// Adds jobs of a tenant. The last weight replaces earlier ones.
    pub fn add(&mut self, more: PromotedTenant) {
        match self.places.get(&more.tenant).and_then(|place| self.served.get_mut(*place)) {
            Some(known) => (known.jobs, known.weight) = (known.jobs + more.jobs, more.weight),
            None => {
                self.places.insert(more.tenant.clone(), self.served.len());
                self.served.push(more);
            }
        }
    }

    /// Returns all tenants in the order in which they were first served.
    pub fn served(&self) -> &[PromotedTenant] {
        &self.served
    }

    /// Returns all tenants as the API shows them.
    pub fn shown(&self) -> Vec<ServedTenant> {
        self.served.iter().map(ServedTenant::from).collect()
    }
}

/// Jobs of a tenant within a round, as the API shows them.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Served")]
pub struct ServedTenant {
    pub tenant_id: String,
    pub jobs: u64,
    pub weight: f64,
}

impl From<&PromotedTenant> for ServedTenant {
    fn from(served: &PromotedTenant) -> Self {
        ServedTenant { tenant_id: served.tenant.clone(), jobs: served.jobs, weight: served.weight.as_f64() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::tenant::Weight;
    use serde_json::json;

    #[test]
    fn jobs_of_a_tenant_are_summed_and_its_last_weight_counts() {
        let mut counts = TenantCounts::default();
        for (tenant, jobs, weight) in [("b", 1, 1.0), ("a", 2, 1.0), ("b", 4, 3.0)] {
            let weight = Weight::of(weight).expect("a weight");
            counts.add(PromotedTenant { tenant: tenant.to_owned(), weight, jobs });
        }
        let shown =
            counts.served().iter().map(|served| serde_json::to_value(ServedTenant::from(served)).expect("JSON"));
        let (b, a) =
            (json!({"tenant_id": "b", "jobs": 5, "weight": 3.0}), json!({"tenant_id": "a", "jobs": 2, "weight": 1.0}));
        assert_eq!(shown.collect::<Vec<_>>(), [b, a], "in the order in which they were first served");
    }
}
