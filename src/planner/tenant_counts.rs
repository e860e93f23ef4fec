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
