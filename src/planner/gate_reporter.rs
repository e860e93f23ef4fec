//! Reports when the gate of a main queue closes or opens, in the log and as an event.

use crate::fairness::Closed;
use crate::job::json;
use crate::store::Store;
use std::collections::HashMap;

/// Minimum time between two reports about a queue, in milliseconds. Otherwise a gate that closes
/// whenever the queue is full and opens as soon as a worker takes a job would be reported in every
/// round.
const BETWEEN_REPORTS_MS: i64 = 60_000;

/// The last reported states of one rule's gates.
#[derive(Debug, Default)]
pub struct GateReporter {
    reported: HashMap<String, Reported>,
}

#[derive(Clone, Copy, Debug)]
struct Reported {
    is_closed: bool,
    at: i64,
}

impl GateReporter {
    /// Reports the gate of a queue as a round found it, if the state has changed.
    pub async fn observe(&mut self, store: &Store, rule: &str, queue: &str, closed: Option<Closed>, now: i64) {
        if !self.is_news(queue, closed.is_some(), now) {
            return;
        }
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

    /// Forgets queues that a round did not read. Clients choose the names of queues, so the map
    /// would grow without bound.
    pub fn keep(&mut self, looked_at: impl Fn(&str) -> bool) {
        self.reported.retain(|queue, _| looked_at(queue));
    }

    /// Records a state. Returns true if it differs from the reported one and may be reported now.
    fn is_news(&mut self, queue: &str, is_closed: bool, now: i64) -> bool {
        let Some(last) = self.reported.get_mut(queue) else {
            // Without a report, gates are assumed to be open.
            self.reported.insert(queue.to_owned(), Reported { is_closed, at: if is_closed { now } else { i64::MIN } });
            return is_closed;
        };
        // A clock that was set back must not suppress reports.
        let is_quiet = now < last.at || now.saturating_sub(last.at) >= BETWEEN_REPORTS_MS;
        if last.is_closed == is_closed || !is_quiet {
            return false;
        }
        *last = Reported { is_closed, at: now };
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn news(reporter: &mut GateReporter, looks: &[(i64, bool)]) -> Vec<i64> {
        looks.iter().filter(|(now, closed)| reporter.is_news("q", *closed, *now)).map(|(now, _)| *now).collect()
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
    fn queues_that_are_gone_are_forgotten() {
        let mut reporter = GateReporter::default();
        assert!(reporter.is_news("a", true, 0) && reporter.is_news("b", true, 0));
        reporter.keep(|queue| queue == "b");
        assert_eq!(reporter.reported.len(), 1);
    }
}
