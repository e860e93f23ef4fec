//! How many wait for something at this moment.

use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// A gauge that cannot be left too high: each that counts is counted as long as its guard lives.
#[derive(Clone, Default)]
pub struct Waiting(Gauge);

impl Waiting {
    pub(super) fn register(&self, name: &str, help: &str, registry: &mut Registry) {
        registry.register(name, help, self.0.clone());
    }

    /// One more, until dropped.
    pub fn one(&self) -> WaitingOne {
        self.0.inc();
        WaitingOne(self.0.clone())
    }

    /// How many there are.
    pub fn count(&self) -> i64 {
        self.0.get()
    }
}

/// One that waits.
pub struct WaitingOne(Gauge);

impl Drop for WaitingOne {
    fn drop(&mut self) {
        self.0.dec();
    }
}
