//! Where time comes from: the store's own clock in production, a hand that turns it in tests.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// A source of time, in milliseconds since the epoch.
#[derive(Clone, Debug, Default)]
pub enum Clock {
    /// The machine's clock; scripts read that of the Redis server instead, on which all processes agree.
    #[default]
    System,
    /// A clock that stands still until a test moves it.
    Manual(Arc<AtomicI64>),
    /// The machine's clock, wrong by so many milliseconds: for tests of what a wrong clock may do.
    Skewed(i64),
}

impl Clock {
    /// A clock that stands at `ms`.
    pub fn manual(ms: i64) -> Self {
        Clock::Manual(Arc::new(AtomicI64::new(ms)))
    }

    /// A machine's clock that is wrong by `ms`.
    pub fn skewed(ms: i64) -> Self {
        Clock::Skewed(ms)
    }

    /// Moves a manual clock forward; a system clock moves by itself.
    pub fn advance(&self, ms: i64) {
        if let Clock::Manual(now) = self {
            now.fetch_add(ms, Ordering::SeqCst);
        }
    }

    /// The time to pass to a script, or `None` to let it read the server's.
    pub fn for_script(&self) -> Option<i64> {
        match self {
            Clock::System | Clock::Skewed(_) => None,
            Clock::Manual(now) => Some(now.load(Ordering::SeqCst)),
        }
    }

    /// The time on this machine.
    pub fn now_ms(&self) -> i64 {
        // A clock before 1970 is a broken clock; 0 keeps it visible without a panic.
        let system = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64);
        match self {
            Clock::System => system(),
            Clock::Skewed(by) => system() + by,
            Clock::Manual(now) => now.load(Ordering::SeqCst),
        }
    }
}
