//! Jobs by tenant, those first that were served first.

use crate::store::Served;
use serde_json::{Value, json};
use std::collections::HashMap;

/// Counts jobs of tenants; a round may serve tens of thousands of them.
#[derive(Clone, Debug, Default)]
pub struct TenantCounts {
    served: Vec<Served>,
    /// Where a tenant stands in `served`.
    places: HashMap<String, usize>,
}

impl TenantCounts {
    /// Counts jobs of a tenant; the last weight is the one that is told.
    pub fn add(&mut self, more: Served) {
        match self.places.get(&more.tenant).and_then(|place| self.served.get_mut(*place)) {
            Some(known) => (known.jobs, known.weight) = (known.jobs + more.jobs, more.weight),
            None => {
                self.places.insert(more.tenant.clone(), self.served.len());
                self.served.push(more);
            }
        }
    }

    /// All of them, in the order in which they were first served.
    pub fn served(&self) -> &[Served] {
        &self.served
    }
}

/// A tenant's jobs as answers show them.
pub fn show(served: &Served) -> Value {
    json!({"tenant_id": served.tenant, "jobs": served.jobs, "weight": served.weight.as_f64()})
}
