//! The state of a round in progress: the rest of its batch and its outcome so far.

use super::{RoundOutcome, RoundReason, RoundReport};
use crate::domain::plan::{Batch, Rule};
use crate::store::{Mark, Observation, Round, Why};

/// A round in progress.
pub(super) struct RoundState<'a> {
    pub round: &'a Round,
    pub report: RoundReport,
    /// The rest of the batch, if its size is fixed.
    pub left: u64,
    pub marks: Vec<Mark>,
    /// The lock was lost to another process.
    pub lost: bool,
    /// All waiting tenants are held.
    pub held: bool,
    /// A main queue would accept more jobs than tenants of known weight have.
    pub lacks_known: bool,
}

impl RoundState<'_> {
    /// Creates the state of a round that has just begun.
    pub fn new<'a>(rule: &Rule, round: &'a Round, why: Why) -> RoundState<'a> {
        let dry = round.queues.iter().any(|queue| queue.depth == 0);
        let left = match rule.batch {
            Batch::Jobs(jobs) if why == Why::Run => u64::from(jobs),
            Batch::Jobs(_) | Batch::Auto => rule.batch_left(round.room, dry),
        };
        let mut report = RoundReport::new(rule, round.number, round.now, round.scheduled);
        report.depth = round.queues.iter().map(|queue| queue.depth).sum();
        RoundState { round, report, left, marks: Vec::new(), lost: false, held: true, lacks_known: false }
    }

    /// Returns the report with its outcome, and the low-water marks.
    pub fn end(self) -> (RoundReport, Vec<Mark>) {
        let mut report = self.report;
        if self.lost {
            (report.outcome, report.reason) = (RoundOutcome::LostLock, None);
        } else if report.outcome != RoundOutcome::Failed && report.promoted > 0 {
            (report.outcome, report.reason) = (RoundOutcome::Promoted, None);
        } else if report.reason.is_none() {
            report.reason = Some(match self.left {
                _ if self.held => RoundReason::Hold,
                0 => RoundReason::BatchSpent,
                _ => RoundReason::EnoughQueued,
            });
        }
        (report, self.marks)
    }
}

/// Returns a rule's main queues in the order in which a round serves them, each with the number of
/// queues that share the rest of the batch at its turn. The order rotates with each round, and
/// empty queues come first, so that no queue takes the whole batch every time.
pub(super) fn in_turn(queues: &[Observation], round: u64) -> Vec<(&Observation, u64)> {
    let mut queues: Vec<&Observation> = queues.iter().collect();
    let first = round as usize % queues.len().max(1);
    queues.rotate_left(first);
    queues.sort_by_key(|queue| queue.depth > 0);
    let sharers = |place: usize| queues[place..].iter().filter(|queue| queue.is_wanted()).count() as u64;
    queues.iter().enumerate().map(|(place, queue)| (*queue, sharers(place).max(1))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::plan::Closed;

    #[test]
    fn a_round_that_promotes_nothing_says_why() {
        let mut rule = Rule::new("r", &["*"]);
        rule.batch = Batch::Jobs(5);
        let reason = |room: u64, held: bool, seen: Option<RoundReason>| {
            let queues = vec![Observation { depth: 1, ..Observation::default() }];
            let (token, now) = (String::new(), 0);
            let round = Round { token, number: 1, scheduled: false, room, due: 0, now, queues };
            let mut state = RoundState::new(&rule, &round, Why::Wake);
            (state.held, state.report.reason) = (held, seen);
            state.end().0.reason
        };
        assert_eq!(reason(5, false, None), Some(RoundReason::EnoughQueued));
        assert_eq!(reason(0, false, None), Some(RoundReason::BatchSpent));
        assert_eq!(reason(5, true, None), Some(RoundReason::Hold));
        let closed = Some(RoundReason::Gate(Closed::Depth));
        assert_eq!(reason(5, false, closed), closed, "the reason of the closed gate");
    }

    fn queue(name: &str, depth: u64, waiting_tenants: u64) -> Observation {
        Observation { queue: name.to_owned(), depth, waiting_tenants, ..Observation::default() }
    }

    #[test]
    fn a_batch_is_what_the_interval_left_and_whole_again_for_an_empty_queue() {
        let left = |batch: Batch, strict: bool, depth: u64, why: Why| {
            let rule = Rule { batch, strict_interval: strict, ..Rule::new("r", &["*"]) };
            let (token, queues) = (String::new(), vec![queue("a", 9, 1), queue("b", depth, 1)]);
            let round = Round { token, number: 1, scheduled: false, room: 3, due: 0, now: 0, queues };
            RoundState::new(&rule, &round, why).left
        };
        assert_eq!(left(Batch::Jobs(50), false, 1, Why::Wake), 3);
        assert_eq!(left(Batch::Jobs(50), false, 0, Why::Wake), 50);
        assert_eq!(left(Batch::Jobs(50), true, 0, Why::Wake), 3, "the interval is strict");
        assert_eq!(left(Batch::Jobs(50), true, 1, Why::Run), 50, "somebody asked for the round");
        assert_eq!(left(Batch::Auto, true, 1, Why::Tick), u64::MAX);
    }

    #[test]
    fn queues_take_turns_and_empty_ones_go_first() {
        let queues = [queue("a", 1, 1), queue("b", 0, 1), queue("c", 5, 0), queue("d", 5, 1)];
        let turns = |round: u64| -> Vec<(String, u64)> {
            in_turn(&queues, round).into_iter().map(|(queue, sharers)| (queue.queue.clone(), sharers)).collect()
        };
        let named = |turns: [(&str, u64); 4]| turns.map(|(name, sharers)| (name.to_owned(), sharers));
        // Nobody waits for c, so it shares in nothing.
        assert_eq!(turns(0), named([("b", 3), ("a", 2), ("c", 1), ("d", 1)]));
        assert_eq!(turns(3), named([("b", 3), ("d", 2), ("a", 1), ("c", 1)]));
        assert_eq!(turns(4), turns(0));
        assert_eq!(in_turn(&[], 7), []);
    }
}
