//! The gate: decides if a round may promote into a main queue, and how many jobs at most.

use super::Rule;

/// The reason for which a gate is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closed {
    /// The rule is paused.
    Paused,
    /// The oldest runnable job has waited too long.
    Latency,
    /// There are too many runnable jobs.
    Depth,
    /// The main queue is paused by its operators.
    QueuePaused,
    /// All processes that serve the main queue are about to stop.
    Quiet,
    /// The main queue asked to be left alone for a while.
    RetryAfter,
    /// The main queue cannot be reached.
    Unreachable,
}

impl Closed {
    pub const ALL: [Closed; 7] = [
        Closed::Paused,
        Closed::Latency,
        Closed::Depth,
        Closed::QueuePaused,
        Closed::Quiet,
        Closed::RetryAfter,
        Closed::Unreachable,
    ];

    /// Returns the name used in API answers.
    pub fn name(self) -> &'static str {
        match self {
            Closed::Paused => "paused",
            Closed::Latency => "latency",
            Closed::Depth => "depth",
            Closed::QueuePaused => "queue_paused",
            Closed::Quiet => "quiet",
            Closed::RetryAfter => "retry_after",
            Closed::Unreachable => "unreachable",
        }
    }
}

/// The state of a gate at the start of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gate {
    /// Age of the oldest runnable job in milliseconds; 0 if there is none.
    pub latency_ms: u64,
    pub closed: Option<Closed>,
    /// Number of jobs that fit below the maximum depth.
    pub room: u64,
}

impl Gate {
    /// Computes the gate of a queue from its number of runnable jobs and the time at which the
    /// oldest of them became runnable.
    pub fn read(rule: &Rule, depth: u64, oldest: Option<i64>, now: i64) -> Gate {
        let latency_ms = oldest.map_or(0, |since| u64::try_from(now - since).unwrap_or(0));
        let closed = if latency_ms > rule.latency_threshold {
            Some(Closed::Latency)
        } else if depth >= rule.max_depth {
            Some(Closed::Depth)
        } else {
            None
        };
        let room = if closed.is_some() { 0 } else { rule.max_depth - depth };
        Gate { latency_ms, closed, room }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closes_above_either_bound() {
        let mut rule = Rule::new("r", &["*"]);
        (rule.latency_threshold, rule.max_depth) = (1000, 5);
        let read = |depth, oldest, now| Gate::read(&rule, depth, oldest, now);
        assert_eq!(read(0, None, 9), Gate { latency_ms: 0, closed: None, room: 5 });
        assert_eq!(read(2, Some(0), 1000), Gate { latency_ms: 1000, closed: None, room: 3 });
        assert_eq!(read(2, Some(0), 1001).closed, Some(Closed::Latency));
        assert_eq!(read(5, Some(0), 10).closed, Some(Closed::Depth));
        assert_eq!(read(1, Some(50), 10).latency_ms, 0, "a clock that stepped back does not age jobs");
    }
}
