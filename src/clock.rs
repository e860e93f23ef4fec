//! The source of time: the machine's clock in production, a manual one in tests.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// A source of time, in milliseconds since the epoch.
#[derive(Clone, Debug, Default)]
pub enum Clock {
    /// The machine's clock. Scripts read the clock of the Redis server instead, on which all
    /// processes agree.
    #[default]
    System,
    /// A clock that stands still until a test moves it.
    Manual(Arc<AtomicI64>),
    /// The machine's clock with an offset in milliseconds, for tests with wrong clocks.
    Skewed(i64),
}

impl Clock {
    /// Creates a clock that stands at `ms`.
    pub fn manual(ms: i64) -> Self {
        Clock::Manual(Arc::new(AtomicI64::new(ms)))
    }

    /// Creates a clock that is wrong by `ms`.
    pub fn skewed(ms: i64) -> Self {
        Clock::Skewed(ms)
    }

    /// Moves a manual clock forward; other clocks are not affected.
    pub fn advance(&self, ms: i64) {
        if let Clock::Manual(now) = self {
            now.fetch_add(ms, Ordering::SeqCst);
        }
    }

    /// Returns the time to pass to a script, or `None` if the script should read the server's
    /// clock.
    pub fn for_script(&self) -> Option<i64> {
        match self {
            Clock::System | Clock::Skewed(_) => None,
            Clock::Manual(now) => Some(now.load(Ordering::SeqCst)),
        }
    }

    /// Returns the time on this machine.
    pub fn now_ms(&self) -> i64 {
        // Return 0 for a clock before 1970, which keeps the error visible without a panic.
        let system = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64);
        match self {
            Clock::System => system(),
            Clock::Skewed(by) => system() + by,
            Clock::Manual(now) => now.load(Ordering::SeqCst),
        }
    }
}
