//! What tenants' jobs met with in a queue: how long they waited, and how long they would have waited under a rule.

use super::Waits;
use std::collections::HashMap;
use std::sync::Arc;

/// Tenants whose waits are counted by themselves; all others together are `OTHERS`.
pub(super) const MOST_TENANTS: usize = 5000;
/// What tenants are counted under for whom there is no room.
pub const OTHERS: &str = "_other";

/// What a tenant's jobs met with.
#[derive(Clone, Debug, Default)]
pub struct WaitStats {
    /// Jobs that wait in the queue as it is.
    pub waiting: u64,
    pub as_is: Waits,
    /// As they would have waited.
    pub planned: Waits,
}

impl WaitStats {
    /// A worker took a job that had waited so long.
    fn took(&mut self, waited: u64) {
        self.as_is.record(waited);
        self.waiting = self.waiting.saturating_sub(1);
    }
}

/// What jobs met with, of each tenant and of all together.
#[derive(Clone, Debug, Default)]
pub(super) struct WaitStatsByTenant {
    tenants: HashMap<Arc<str>, WaitStats>,
    all: WaitStats,
}

impl WaitStatsByTenant {
    pub(super) fn tenants(&self) -> impl Iterator<Item = (&Arc<str>, &WaitStats)> {
        self.tenants.iter()
    }

    pub(super) fn all(&self) -> &WaitStats {
        &self.all
    }

    /// A job of a tenant came.
    pub(super) fn came(&mut self, tenant: &Arc<str>) {
        self.of(tenant).waiting += 1;
        self.all.waiting += 1;
    }

    /// A worker took one that had waited so long.
    pub(super) fn took(&mut self, tenant: &Arc<str>, waited: u64) {
        self.of(tenant).took(waited);
        self.all.took(waited);
    }

    /// A worker would have got one that would have waited so long.
    pub(super) fn would_take(&mut self, tenant: &Arc<str>, waited: u64) {
        self.of(tenant).planned.record(waited);
        self.all.planned.record(waited);
    }

    fn of(&mut self, tenant: &Arc<str>) -> &mut WaitStats {
        let is_full = self.tenants.len() >= MOST_TENANTS && !self.tenants.contains_key(tenant);
        let name = if is_full { Arc::from(OTHERS) } else { Arc::clone(tenant) };
        self.tenants.entry(name).or_default()
    }
}
