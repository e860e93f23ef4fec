//! The number of jobs that may enter a main queue: by a round, and by passing straight through.

use super::{Batch, DepthTarget, Gate, Rule};

/// Time for which [`RoundSize::aim`] of the last round allows pass-through, in milliseconds.
pub const AIM_HOLDS_MS: u64 = 10_000;

/// The number of jobs that a round wants to promote into one main queue, and the depths that the
/// planner wants there until the next round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoundSize {
    pub want: u64,
    /// A depth below this starts a round.
    pub low: u64,
    /// Depth up to which jobs may pass straight through; 0 if a fixed batch decides.
    pub aim: u64,
}

impl Rule {
    /// Returns the part of a fixed batch that a round may promote into all main queues, if `room`
    /// is left of the interval's batch. An empty main queue gets a whole batch again, unless the
    /// interval is strict.
    pub fn batch_left(&self, room: u64, is_any_empty: bool) -> u64 {
        match self.batch {
            Batch::Jobs(jobs) if is_any_empty && !self.strict_interval => u64::from(jobs),
            Batch::Jobs(_) => room,
            Batch::Auto => u64::MAX,
        }
    }

    /// Returns the size of a round for a main queue. `left` is its share of a fixed batch, `target`
    /// its target depth with `Batch::Auto`.
    pub fn round_size(&self, left: u64, target: DepthTarget, depth: u64) -> RoundSize {
        match self.batch {
            Batch::Jobs(_) => RoundSize { want: left, low: u64::from(!self.strict_interval), aim: 0 },
            Batch::Auto => RoundSize { want: target.batch(depth), low: target.low, aim: target.depth },
        }
    }

    /// Returns the number of jobs that may pass straight to a main queue if no tenant waits for it.
    /// `room` is left of the interval's batch, and `aim` is [`RoundSize::aim`] of the last round.
    ///
    /// `staging/plan` does the same arithmetic in Redis.
    pub fn pass_through_room(&self, gate: Gate, depth: u64, room: u64, aim: u64) -> u64 {
        let wanted = match self.batch {
            Batch::Auto if !self.strict_interval => aim.max(1).saturating_sub(depth),
            Batch::Jobs(_) if !self.strict_interval && depth == 0 => room.max(1),
            Batch::Auto | Batch::Jobs(_) => room,
        };
        wanted.min(gate.room)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TARGET: DepthTarget = DepthTarget { depth: 10, low: 5 };

    fn rule(batch: Batch, strict_interval: bool) -> Rule {
        Rule { batch, strict_interval, ..Rule::new("r", &["*"]) }
    }

    #[test]
    fn a_fixed_batch_is_whole_again_for_an_empty_queue_unless_the_interval_is_strict() {
        let left = |batch, strict, is_empty| rule(batch, strict).batch_left(3, is_empty);
        assert_eq!([left(Batch::Jobs(50), false, false), left(Batch::Jobs(50), false, true)], [3, 50]);
        assert_eq!([left(Batch::Jobs(50), true, true), left(Batch::Auto, true, false)], [3, u64::MAX]);
    }

    #[test]
    fn an_automatic_round_fills_the_queue_up_to_its_target() {
        let size = |batch, strict, depth| rule(batch, strict).round_size(7, TARGET, depth);
        assert_eq!(size(Batch::Auto, false, 4), RoundSize { want: 6, low: 5, aim: 10 });
        assert_eq!(size(Batch::Auto, false, 40).want, 0);
        assert_eq!(size(Batch::Jobs(50), false, 4), RoundSize { want: 7, low: 1, aim: 0 });
        assert_eq!(size(Batch::Jobs(50), true, 4).low, 0);
    }

    #[test]
    fn jobs_pass_through_while_there_is_room_and_the_gate_is_open() {
        let room = |batch, strict, depth, room, aim| {
            let rule = Rule { max_depth: 30, ..rule(batch, strict) };
            rule.pass_through_room(Gate::read(&rule, depth, None, 0), depth, room, aim)
        };
        assert_eq!([room(Batch::Auto, false, 0, 0, 0), room(Batch::Auto, false, 4, 0, 10)], [1, 6]);
        assert_eq!([room(Batch::Auto, false, 12, 0, 10), room(Batch::Auto, true, 0, 0, 10)], [0, 0]);
        assert_eq!([room(Batch::Jobs(50), false, 0, 0, 0), room(Batch::Jobs(50), true, 0, 0, 0)], [1, 0]);
        assert_eq!([room(Batch::Jobs(50), false, 4, 40, 0), room(Batch::Jobs(50), false, 30, 40, 0)], [26, 0]);
    }
}
