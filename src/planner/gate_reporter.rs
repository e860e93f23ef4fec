//! Reports when the gate of a main queue closes or opens, in the log and as an event.

use crate::domain::json;
use crate::domain::plan::{Closed, Rule};
use crate::main_queue::MainQueue;
use crate::store::{Begun, Error, Store};
use std::collections::HashMap;

/// Minimum time between two reports about a queue, in milliseconds. Otherwise a gate that closes
/// whenever the queue is full and opens as soon as a worker takes a job would be reported in every
/// round.
const BETWEEN_REPORTS_MS: i64 = 60_000;

/// Number of queues above which states of queues that a round did not read are forgotten. Clients
/// choose the names of queues, so the map would grow without bound.
const MOST_QUEUES: usize = 1000;

/// The queues that a round read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueuesRead {
    /// All queues with staged jobs.
    All,
    /// Some of them, because the rule has more than one round reads.
    Some,
}

/// The observed and the reported states of one rule's gates.
#[derive(Debug, Default)]
pub struct GateReporter {
    gates: HashMap<String, GateState>,
}

#[derive(Clone, Copy, Debug)]
struct GateState {
    /// The state that was observed last.
    closed: Option<Closed>,
    is_reported_closed: bool,
    /// Time of the last report.
    reported_at: i64,
}

impl GateReporter {
    /// Records the gate of a queue. Reports it if it differs from the last report and may be
    /// reported now.
    pub async fn observe(&mut self, store: &Store, rule: &str, queue: &str, closed: Option<Closed>, now: i64) {
        if self.is_news(queue, closed, now) {
            report(store, rule, queue, closed).await;
        }
    }

    /// Reports changes if no round runs to report them: those that were held back and may be
    /// reported now, and openings after the last staged job is gone.
    pub async fn report_without_round(
        &mut self,
        store: &Store,
        main_queue: &MainQueue,
        rule: &Rule,
        begun: &Begun,
    ) -> Result<(), Error> {
        match begun {
            Begun::Early { now, .. } => {
                for (queue, closed) in self.overdue(*now) {
                    report(store, &rule.name, &queue, closed).await;
                }
                Ok(())
            }
            Begun::Empty => self.observe_reported_closed(store, main_queue, rule).await,
            _ => Ok(()),
        }
    }

    /// Reads the gates that were reported as closed, if no job of the rule is staged.
    async fn observe_reported_closed(
        &mut self,
        store: &Store,
        main_queue: &MainQueue,
        rule: &Rule,
    ) -> Result<(), Error> {
        let reported = self.reported_closed();
        if reported.is_empty() {
            return Ok(());
        }
        let mut status = store.rule_status(&rule.name, rule.queue.as_deref()).await?;
        if let Err(error) = main_queue.observe(&mut status.queues, status.now).await {
            tracing::debug!(rule = rule.name, %error, "cannot read the main queue");
            return Ok(());
        }
        for queue in reported {
            // The gate of another queue holds nothing back, as no job is staged for it.
            let observed = status.queues.iter().find(|observed| observed.queue == queue);
            let closed = observed.and_then(|observed| observed.gate(rule, status.now).closed);
            self.observe(store, &rule.name, &queue, closed, status.now).await;
        }
        Ok(())
    }

    /// Returns the queues whose gates were last reported as closed.
    fn reported_closed(&self) -> Vec<String> {
        self.gates.iter().filter(|(_, gate)| gate.is_reported_closed).map(|(queue, _)| queue.clone()).collect()
    }

    /// Forgets queues that a round did not read. If the round read all queues with staged jobs, the
    /// other gates hold nothing back: those that were reported as closed are kept until their
    /// opening is reported.
    pub fn keep(&mut self, is_read: impl Fn(&str) -> bool, read: QueuesRead) {
        if read == QueuesRead::Some && self.gates.len() <= MOST_QUEUES {
            return;
        }
        self.gates.retain(|queue, gate| {
            let is_read = is_read(queue);
            if !is_read {
                gate.closed = None;
            }
            is_read || (read == QueuesRead::All && gate.is_reported_closed)
        });
    }

    /// Records a state. Returns true if it is to be reported now.
    fn is_news(&mut self, queue: &str, closed: Option<Closed>, now: i64) -> bool {
        // Without a report, gates are assumed to be open.
        let unknown = GateState { closed, is_reported_closed: false, reported_at: i64::MIN };
        let gate = self.gates.entry(queue.to_owned()).or_insert(unknown);
        gate.closed = closed;
        gate.is_due(now)
    }

    fn overdue(&mut self, now: i64) -> Vec<(String, Option<Closed>)> {
        let due =
            self.gates.iter_mut().filter_map(|(queue, gate)| gate.is_due(now).then(|| (queue.clone(), gate.closed)));
        due.collect()
    }
}

impl GateState {
    /// Returns true if the state is to be reported now, and counts it as reported then.
    fn is_due(&mut self, now: i64) -> bool {
        // A clock that was set back must not suppress reports.
        let is_quiet = now < self.reported_at || now.saturating_sub(self.reported_at) >= BETWEEN_REPORTS_MS;
        let is_due = is_quiet && self.closed.is_some() != self.is_reported_closed;
        if is_due {
            (self.is_reported_closed, self.reported_at) = (self.closed.is_some(), now);
        }
        is_due
    }
}

/// Writes the log line and the event about a change.
async fn report(store: &Store, rule: &str, queue: &str, closed: Option<Closed>) {
    let (event, reason) = match closed {
        Some(closed) => {
            let reason = closed.name();
            tracing::warn!(rule, queue, reason, "gate closed; nothing is promoted until it opens");
            ("planner.gate_closed", format!(",\"reason\":\"{reason}\""))
        }
        None => {
            tracing::info!(rule, queue, "gate opened");
            ("planner.gate_opened", String::new())
        }
    };
    let data = format!("\"queue\":{}{reason}", json::quoted(queue));
    if let Err(error) = store.announce(event, rule, &data).await {
        tracing::debug!(%error, "cannot store an event about a gate");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(is_closed: bool) -> Option<Closed> {
        is_closed.then_some(Closed::Depth)
    }

    fn news(reporter: &mut GateReporter, looks: &[(i64, bool)]) -> Vec<i64> {
        let is_news = |(now, closed): &&(i64, bool)| reporter.is_news("q", state(*closed), *now);
        looks.iter().filter(is_news).map(|(now, _)| *now).collect()
    }

    #[test]
    fn a_change_is_reported_once() {
        let mut reporter = GateReporter::default();
        let looks = [(0, false), (10, true), (20, true), (70_000, true), (80_000, false), (90_000, false)];
        assert_eq!(news(&mut reporter, &looks), [10, 80_000]);
    }

    #[test]
    fn a_gate_that_is_closed_at_first_is_reported() {
        assert_eq!(news(&mut GateReporter::default(), &[(5, true), (6, true)]), [5]);
    }

    #[test]
    fn a_gate_that_flaps_is_reported_once_a_minute() {
        let looks: Vec<_> = (0..3000).map(|look| (look * 100, look % 2 == 1)).collect();
        assert_eq!(news(&mut GateReporter::default(), &looks).len(), 5);
    }

    #[test]
    fn a_state_that_lasts_is_reported_in_the_end() {
        let looks = [(0, true), (1000, false), (59_000, false), (60_000, false), (61_000, true), (120_000, true)];
        assert_eq!(news(&mut GateReporter::default(), &looks), [0, 60_000, 120_000]);
    }

    #[test]
    fn a_clock_that_is_set_back_does_not_silence_it() {
        assert_eq!(news(&mut GateReporter::default(), &[(1_000_000, true), (5, false)]), [1_000_000, 5]);
    }

    #[test]
    fn a_change_that_was_held_back_is_overdue_without_a_further_look() {
        let mut reporter = GateReporter::default();
        assert_eq!(news(&mut reporter, &[(0, true), (1000, false)]), [0]);
        assert_eq!(reporter.overdue(59_999), []);
        assert_eq!(reporter.overdue(60_000), [("q".to_owned(), None)]);
        assert_eq!(reporter.overdue(600_000), []);
        assert_eq!(news(&mut reporter, &[(601_000, true), (602_000, false), (603_000, true)]), [601_000]);
        assert_eq!(reporter.overdue(700_000), [], "it is as it was reported");
    }

    #[test]
    fn a_gate_that_flaps_is_not_reported_more_often_by_looks_for_overdue_changes() {
        let mut reporter = GateReporter::default();
        let looks = (0..3000).map(|look| {
            let now = look * 100;
            usize::from(reporter.is_news("q", state(look % 2 == 1), now)) + reporter.overdue(now + 50).len()
        });
        assert_eq!(looks.sum::<usize>(), 5);
    }

    #[test]
    fn queues_that_are_gone_are_forgotten_after_their_opening_was_reported() {
        let mut reporter = GateReporter::default();
        assert!(reporter.is_news("a", state(true), 0) && reporter.is_news("b", state(true), 0));
        assert!(!reporter.is_news("c", None, 0));
        reporter.keep(|queue| queue == "b", QueuesRead::All);
        assert_eq!(reporter.gates.len(), 2);
        assert_eq!(reporter.overdue(60_000), [("a".to_owned(), None)]);
        reporter.keep(|queue| queue == "b", QueuesRead::All);
        assert_eq!(reporter.gates.len(), 1);
        assert_eq!(reporter.reported_closed(), ["b"]);
    }

    #[test]
    fn a_bounded_number_of_queues_is_remembered() {
        let mut reporter = GateReporter::default();
        for number in 0..=MOST_QUEUES {
            reporter.keep(|_| false, QueuesRead::Some);
            assert!(reporter.is_news(&number.to_string(), state(true), 0));
            assert_eq!(reporter.gates.len(), number + 1);
        }
        reporter.keep(|_| false, QueuesRead::Some);
        assert_eq!(reporter.gates.len(), 0);
    }
}
