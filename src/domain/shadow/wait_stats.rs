//! Waits of tenants' jobs in a queue: the actual waits and those under a simulated rule.

use super::Waits;
use std::collections::HashMap;
use std::sync::Arc;

/// Maximum number of tenants that are counted separately; the rest are counted together as
/// `OTHERS`.
pub(super) const MOST_TENANTS: usize = 5000;
/// The name under which all further tenants are counted.
pub const OTHERS: &str = "_other";

/// The waits of a tenant's jobs.
#[derive(Clone, Debug, Default)]
pub struct WaitStats {
    /// Number of jobs in the actual queue.
    pub waiting: u64,
    pub as_is: Waits,
    /// Waits under the simulated rule.
    pub planned: Waits,
}

impl WaitStats {
    /// Records that a worker took a job after `waited` milliseconds.
    fn took(&mut self, waited: u64) {
        self.as_is.record(waited);
        self.waiting = self.waiting.saturating_sub(1);
    }
}

/// The waits of each tenant's jobs and of all jobs together.
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

    /// Records the arrival of a tenant's job.
    pub(super) fn came(&mut self, tenant: &Arc<str>) {
        self.of(tenant).waiting += 1;
        self.all.waiting += 1;
    }

    /// Records that a worker took a job after `waited` milliseconds.
    pub(super) fn took(&mut self, tenant: &Arc<str>, waited: u64) {
        self.of(tenant).took(waited);
        self.all.took(waited);
    }

    /// Records that a worker would have taken a job after `waited` milliseconds.
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
