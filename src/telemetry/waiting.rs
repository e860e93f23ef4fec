//! Gauge of tasks that are currently waiting.

use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// A gauge that counts guards. It cannot drift, because each guard decrements it when dropped.
#[derive(Clone, Default)]
pub struct Waiting(Gauge);

impl Waiting {
    pub(super) fn register(&self, name: &str, help: &str, registry: &mut Registry) {
        registry.register(name, help, self.0.clone());
    }

    /// Increments the gauge until the returned guard is dropped.
    pub fn one(&self) -> WaitingOne {
        self.0.inc();
        WaitingOne(self.0.clone())
    }

    /// Returns the current value.
    pub fn count(&self) -> i64 {
        self.0.get()
    }
}

/// Guard of one waiting task.
pub struct WaitingOne(Gauge);

impl Drop for WaitingOne {
    fn drop(&mut self) {
        self.0.dec();
    }
}
