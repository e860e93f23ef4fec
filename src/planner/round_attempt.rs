//! The result of an attempt to run a round.

use super::RoundReport;
use crate::store::Begun;

/// The result of an attempt to run a round.
#[derive(Debug)]
pub enum RoundAttempt {
    /// The round ran. The next scheduled round is due in `next_ms` milliseconds.
    Ran {
        report: Box<RoundReport>,
        next_ms: u64,
    },
    /// The next round is due in `in_ms` milliseconds.
    Early {
        in_ms: u64,
    },
    /// Another process plans the rule. Its lock expires in `left_ms` milliseconds unless it is
    /// renewed.
    Elsewhere {
        by: String,
        left_ms: u64,
    },
    Paused,
    /// Nothing is staged.
    Empty,
    /// There is no such rule.
    Gone,
}

impl RoundAttempt {
    /// Converts the answer of a store that did not begin a round.
    pub fn not_run(begun: Begun) -> RoundAttempt {
        match begun {
            Begun::Early { due, now } => RoundAttempt::Early { in_ms: u64::try_from(due - now).unwrap_or(0) },
            Begun::Again(_) | Begun::Round(_) => RoundAttempt::Early { in_ms: 0 },
            Begun::Held { by, left_ms } => RoundAttempt::Elsewhere { by, left_ms },
            Begun::Paused => RoundAttempt::Paused,
            Begun::Gone => RoundAttempt::Gone,
            Begun::Empty => RoundAttempt::Empty,
        }
    }
}
