//! The queues of waiting fetches: one line per job queue, in order of arrival. Pure: returns the
//! tickets to wake, and wakes nothing itself.
//!
//! A signal for a queue is *offered* to the first waiter in its line, which *holds* the offer until
//! it has checked for jobs. If the holder leaves, with jobs or because its client disconnected, the
//! offer passes to the next waiter, because there may be more jobs. If the holder finds nothing, it
//! keeps its place and the offer ends. A signal that arrives while the offer is held causes it to
//! be repeated, because the holder may have checked before the job arrived.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Maximum number of times an offer is passed on by waiters that cannot take it, until the next
/// signal. It bounds the cost of a queue whose jobs no waiter may have.
const MOST_PASSES: u8 = 16;

/// Identifies a waiter; numbered in the order of arrival.
pub(super) type Ticket = u64;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Standing {
    /// Waits to be woken.
    Idle,
    /// Is checking for jobs.
    Busy,
    /// Could not take the jobs that were there. It comes after all others, so that a worker that
    /// gets no work does not block those behind it.
    Passed,
}

/// The result of a check that found nothing for the waiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    NoJobs,
    /// There are jobs that the waiter cannot have, but others may.
    JobsForOthers,
}

/// The position in a line; the smallest is the first.
type LinePosition = (Standing, u64);

#[derive(Debug, Default)]
struct Line {
    places: BTreeMap<LinePosition, Ticket>,
    holder: Option<Ticket>,
    /// A signal arrived after the holder may have checked.
    again: bool,
    passes: u8,
}

#[derive(Debug)]
struct Entry {
    queues: Vec<Arc<str>>,
    place: LinePosition,
}

/// The lines of all queues with waiters.
#[derive(Debug, Default)]
pub(super) struct WaitQueues {
    last: u64,
    lines: HashMap<Arc<str>, Line>,
    entries: HashMap<Ticket, Entry>,
}

impl WaitQueues {
    /// Returns the number of waiters.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Joins the lines of some queues, in the state `Busy` because of the first check.
    pub(super) fn enter(&mut self, queues: &[String]) -> Ticket {
        let ticket = self.number();
        let place = (Standing::Busy, ticket);
        let mut names: Vec<Arc<str>> = queues.iter().map(|queue| Arc::from(queue.as_str())).collect();
        names.sort();
        names.dedup();
        for queue in &names {
            self.lines.entry(Arc::clone(queue)).or_default().places.insert(place, ticket);
        }
        self.entries.insert(ticket, Entry { queues: names, place });
        ticket
    }

    /// Signals that a queue may have jobs. Returns the ticket to wake, if there is one.
    pub(super) fn signal(&mut self, queue: &str) -> Option<Ticket> {
        self.lines.get_mut(queue)?.passes = MOST_PASSES;
        self.offer(queue)
    }

    /// Signals that every queue may have jobs.
    pub(super) fn signal_all(&mut self) -> Vec<Ticket> {
        let queues: Vec<Arc<str>> = self.lines.keys().cloned().collect();
        queues.iter().filter_map(|queue| self.signal(queue)).collect()
    }

    /// Returns the queues whose offers a waiter holds.
    pub(super) fn held(&self, ticket: Ticket) -> Vec<String> {
        let queues = self.entries.get(&ticket).map_or(&[][..], |entry| &entry.queues);
        let is_held = |queue: &&Arc<str>| self.lines.get(*queue).is_some_and(|line| line.holder == Some(ticket));
        queues.iter().filter(is_held).map(|queue| queue.to_string()).collect()
    }

    /// Returns to waiting after a check that found nothing for this waiter.
    pub(super) fn rest(&mut self, ticket: Ticket, seen: Seen) -> Vec<Ticket> {
        let place = match seen {
            Seen::JobsForOthers => (Standing::Passed, self.number()),
            Seen::NoJobs => (Standing::Idle, ticket),
        };
        self.stand(ticket, place);
        let mut woken = Vec::new();
        for queue in self.held(ticket) {
            let Some(line) = self.lines.get_mut(&*queue) else { continue };
            line.holder = None;
            let again = std::mem::take(&mut line.again);
            let is_alone = line.places.values().next() == Some(&ticket);
            if !again {
                if seen == Seen::NoJobs || is_alone || line.passes == 0 {
                    continue;
                }
                line.passes -= 1;
            }
            woken.extend(self.offer(&queue));
        }
        woken
    }

    /// Leaves all lines; offers that it held pass to the next waiters.
    pub(super) fn leave(&mut self, ticket: Ticket) -> Vec<Ticket> {
        let held = self.held(ticket);
        let Some(entry) = self.entries.remove(&ticket) else { return Vec::new() };
        for queue in &entry.queues {
            let Some(line) = self.lines.get_mut(queue) else { continue };
            line.places.remove(&entry.place);
            if line.places.is_empty() {
                self.lines.remove(queue);
            } else if line.holder == Some(ticket) {
                (line.holder, line.again) = (None, false);
            }
        }
        held.iter().filter_map(|queue| self.offer(queue)).collect()
    }

    fn offer(&mut self, queue: &str) -> Option<Ticket> {
        let line = self.lines.get_mut(queue)?;
        if line.holder.is_some() {
            line.again = true;
            return None;
        }
        let (&(standing, _), &first) = line.places.first_key_value()?;
        line.holder = Some(first);
        if standing == Standing::Busy {
            line.again = true; // it may have checked already
            return None;
        }
        self.stand(first, (Standing::Busy, first));
        Some(first)
    }

    fn stand(&mut self, ticket: Ticket, place: LinePosition) {
        let Some(entry) = self.entries.get_mut(&ticket) else { return };
        for queue in &entry.queues {
            if let Some(line) = self.lines.get_mut(queue) {
                line.places.remove(&entry.place);
                line.places.insert(place, ticket);
            }
        }
        entry.place = place;
    }

    fn number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOBODY: [Ticket; 0] = [];

    /// Creates lines with idle waiters, each for the queues named by the letters of a word.
    fn waiting<const N: usize>(words: [&str; N]) -> (WaitQueues, [Ticket; N]) {
        let mut lines = WaitQueues::default();
        let tickets = words.map(|word| lines.enter(&word.chars().map(String::from).collect::<Vec<_>>()));
        for ticket in tickets {
            assert_eq!(lines.rest(ticket, Seen::NoJobs), NOBODY);
        }
        (lines, tickets)
    }

    #[test]
    fn a_signal_wakes_the_first_of_its_queue_only() {
        let (mut lines, [_, b, _]) = waiting(["r", "qr", "q"]);
        assert_eq!(lines.signal("q"), Some(b));
        assert_eq!(lines.signal("nobody's"), None);
    }

    #[test]
    fn who_got_jobs_or_is_gone_leaves_the_turn_to_the_next() {
        let (mut lines, [a, b, c]) = waiting(["q", "q", "q"]);
        assert_eq!(lines.signal("q"), Some(a));
        assert_eq!(lines.leave(a), [b]);
        assert_eq!(lines.leave(b), [c]);
        assert_eq!(lines.rest(c, Seen::NoJobs), NOBODY, "the offer ends when nothing was found");
        assert_eq!(lines.leave(c), NOBODY);
        assert!(lines.lines.is_empty() && lines.len() == 0, "all lines are removed");
    }

    #[test]
    fn who_found_nothing_is_first_again() {
        let (mut lines, [a, _]) = waiting(["q", "q"]);
        for _ in 0..3 {
            assert_eq!(lines.signal("q"), Some(a));
            assert_eq!(lines.rest(a, Seen::NoJobs), NOBODY);
        }
    }

    #[test]
    fn signals_during_a_look_become_one_more_look() {
        let (mut lines, [a, b]) = waiting(["q", "q"]);
        assert_eq!(lines.signal("q"), Some(a));
        assert_eq!((lines.signal("q"), lines.signal("q")), (None, None));
        assert_eq!(lines.rest(a, Seen::NoJobs), [a]);
        assert_eq!(lines.rest(a, Seen::NoJobs), NOBODY);
        assert_eq!(lines.signal("q"), Some(a));
        assert_eq!(lines.signal("q"), None);
        assert_eq!(lines.leave(a), [b], "they pass to the next if the first gets jobs");
        assert_eq!(lines.rest(b, Seen::NoJobs), NOBODY);
    }

    #[test]
    fn a_signal_during_the_first_look_is_kept() {
        let mut lines = WaitQueues::default();
        let a = lines.enter(&["q".to_owned(), "q".to_owned()]);
        assert_eq!(lines.signal("q"), None);
        assert_eq!(lines.rest(a, Seen::NoJobs), [a]);
    }

    #[test]
    fn one_who_looks_for_another_queue_does_not_hold_up_the_line() {
        let (mut lines, [a, b]) = waiting(["qr", "q"]);
        assert_eq!(lines.signal("r"), Some(a));
        assert_eq!(lines.signal("q"), Some(b));
        assert_eq!(lines.leave(b), NOBODY, "the only waiter left is checking already");
        assert_eq!(lines.rest(a, Seen::NoJobs), [a], "but may have checked too early");
    }

    #[test]
    fn who_cannot_take_what_is_there_lets_others_pass() {
        let (mut lines, [a, b, c]) = waiting(["q", "q", "q"]);
        assert_eq!(lines.signal("q"), Some(a));
        assert_eq!(lines.rest(a, Seen::JobsForOthers), [b]);
        assert_eq!(lines.rest(b, Seen::JobsForOthers), [c]);
        assert_eq!(lines.leave(c), [a], "waiters that passed come after all others, in order");
        assert_eq!(lines.rest(a, Seen::NoJobs), NOBODY);
        assert_eq!(lines.signal("q"), Some(a), "and regain their place when nothing was there");
        assert_eq!(lines.rest(a, Seen::JobsForOthers), [b]);
        let d = lines.enter(&["q".to_owned()]);
        assert_eq!(lines.rest(d, Seen::NoJobs), NOBODY);
        assert_eq!(lines.rest(b, Seen::JobsForOthers), [d]);
    }

    #[test]
    fn an_offer_that_nobody_can_take_ends() {
        let (mut lines, tickets) = waiting(["q"; 40]);
        let mut looked = Vec::from_iter(lines.signal("q"));
        while let [next] = lines.rest(looked[looked.len() - 1], Seen::JobsForOthers)[..] {
            looked.push(next);
        }
        assert_eq!(looked, tickets[..1 + usize::from(MOST_PASSES)]);
        assert_eq!(lines.signal("q"), Some(tickets[17]), "the next signal continues where it ended");
        let (mut lines, [a]) = waiting(["q"]);
        assert_eq!(lines.signal("q"), Some(a));
        assert_eq!(lines.rest(a, Seen::JobsForOthers), NOBODY, "a single waiter cannot pass the offer on");
    }

    #[test]
    fn after_an_outage_every_line_is_woken() {
        let (mut lines, [a, b, _]) = waiting(["q", "r", "q"]);
        let mut woken = lines.signal_all();
        woken.sort();
        assert_eq!(woken, [a, b]);
    }
}
