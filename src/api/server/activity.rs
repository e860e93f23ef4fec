//! The activity of one connection, from which its deadline follows.

use super::connection::Timeouts;
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::time::Instant;

/// A deadline that a client missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Overdue {
    /// The head of a request, or the preface of HTTP/2, did not arrive in time.
    Header,
    /// No request arrived.
    Idle,
    /// The client did not receive the next chunk of a response.
    Send,
}

impl Overdue {
    /// The name of the option that set the deadline.
    pub(super) fn name(self) -> &'static str {
        match self {
            Overdue::Header => "header_timeout",
            Overdue::Idle => "idle_timeout",
            Overdue::Send => "send_timeout",
        }
    }
}

/// The activity of one connection; clones share it.
///
/// There is no deadline while a handler runs, or while a response waits for its next event: handlers have a deadline of
/// their own.
#[derive(Clone)]
pub(super) struct Activity(Arc<Mutex<State>>);

struct State {
    /// The number of requests that are handled, and of responses that have nothing to send at the moment.
    working: usize,
    /// The number of responses with data that the client has not received.
    sending: usize,
    /// The latest of: accepted, last request done, last bytes sent.
    since: Instant,
    /// When the first byte of the next request arrived. Not used for HTTP/2, where other frames arrive between requests.
    head_since: Option<Instant>,
    protocol: Protocol,
}

/// The HTTP version of a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Protocol {
    /// Before the first request.
    Unknown,
    Http1,
    Http2,
}

impl Activity {
    pub(super) fn new(now: Instant) -> Self {
        let (working, sending, head_since) = (0, 0, None);
        Activity(Arc::new(Mutex::new(State { working, sending, since: now, head_since, protocol: Protocol::Unknown })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A poisoned lock means that a thread panicked while it held the lock. The state is still consistent.
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Records that bytes arrived.
    pub(super) fn received(&self, now: Instant) {
        let mut state = self.state();
        if state.working + state.sending == 0 && state.head_since.is_none() {
            state.head_since = Some(now);
        }
    }

    /// Records that the client received bytes. With HTTP/2, they need not belong to a response.
    pub(super) fn sent(&self, now: Instant) {
        let mut state = self.state();
        if state.protocol == Protocol::Http1 {
            state.since = now;
        }
    }

    /// Records that the head of a request is complete.
    pub(super) fn begin(&self, protocol: Protocol) -> InFlight {
        let mut state = self.state();
        state.working += 1;
        state.head_since = None;
        state.protocol = protocol;
        InFlight { activity: self.clone(), phase: Phase::Working }
    }

    /// Restarts the idle time.
    pub(super) fn restart(&self, now: Instant) {
        self.state().since = now;
    }

    pub(super) fn is_http2(&self) -> bool {
        self.state().protocol == Protocol::Http2
    }

    /// Returns the next deadline and its kind.
    pub(super) fn deadline(&self, timeouts: &Timeouts) -> Option<(Instant, Overdue)> {
        let state = self.state();
        match (state.working, state.sending, state.protocol, state.head_since) {
            (1.., ..) => None,
            (0, 1.., ..) => Some((state.since + timeouts.send, Overdue::Send)),
            (0, 0, Protocol::Unknown, _) => Some((state.since + timeouts.header, Overdue::Header)),
            (0, 0, Protocol::Http1, Some(since)) => Some((since + timeouts.header, Overdue::Header)),
            (0, 0, ..) => Some((state.since + timeouts.idle, Overdue::Idle)),
        }
    }
}

/// A request from its head to the end of its response.
pub(super) struct InFlight {
    activity: Activity,
    phase: Phase,
}

/// The phase of a request, which decides if the client has a deadline.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// The handler runs, or the response waits for the handler to produce more.
    Working,
    /// The response has data that the client has not received.
    Sending,
}

impl InFlight {
    /// Records the phase of the request.
    pub(super) fn set_phase(&mut self, phase: Phase, now: Instant) {
        if phase == Phase::Sending || self.phase == Phase::Sending {
            let mut state = self.activity.state();
            *state.count_of(self.phase) -= 1;
            *state.count_of(phase) += 1;
            state.since = now;
            self.phase = phase;
        }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let mut state = self.activity.state();
        *state.count_of(self.phase) -= 1;
        state.since = Instant::now();
    }
}

impl State {
    /// The number of requests in a phase.
    fn count_of(&mut self, phase: Phase) -> &mut usize {
        match phase {
            Phase::Working => &mut self.working,
            Phase::Sending => &mut self.sending,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const TIMEOUTS: Timeouts =
        Timeouts { header: Duration::from_secs(10), idle: Duration::from_secs(120), send: Duration::from_secs(60) };

    fn second(start: Instant, second: u64) -> Instant {
        start + Duration::from_secs(second)
    }

    #[test]
    fn the_deadline_of_the_first_head_does_not_move_when_bytes_arrive() {
        let start = Instant::now();
        let activity = Activity::new(start);
        assert_eq!(activity.deadline(&TIMEOUTS), Some((second(start, 10), Overdue::Header)));
        activity.received(second(start, 9));
        assert_eq!(activity.deadline(&TIMEOUTS), Some((second(start, 10), Overdue::Header)));
    }

    #[test]
    fn between_requests_there_are_an_idle_and_a_header_deadline() {
        let start = Instant::now();
        let activity = Activity::new(start);
        let request = activity.begin(Protocol::Http1);
        activity.received(start);
        assert_eq!(activity.deadline(&TIMEOUTS), None, "a handler runs");
        drop(request);
        activity.sent(second(start, 5));
        assert_eq!(activity.deadline(&TIMEOUTS), Some((second(start, 125), Overdue::Idle)));
        activity.received(second(start, 50));
        activity.received(second(start, 55));
        assert_eq!(activity.deadline(&TIMEOUTS), Some((second(start, 60), Overdue::Header)));
        drop(activity.begin(Protocol::Http1));
        assert_eq!(activity.deadline(&TIMEOUTS).map(|(_, overdue)| overdue), Some(Overdue::Idle));
    }

    #[test]
    fn http2_frames_between_requests_do_not_start_a_head() {
        let start = Instant::now();
        let activity = Activity::new(start);
        drop(activity.begin(Protocol::Http2));
        activity.received(second(start, 1));
        activity.sent(second(start, 3600));
        let (at, overdue) = activity.deadline(&TIMEOUTS).unwrap();
        assert!(at < second(start, 3600) && overdue == Overdue::Idle, "a client that only pings is idle");
    }

    #[test]
    fn the_send_deadline_needs_data_that_the_client_has_not_received() {
        let start = Instant::now();
        let activity = Activity::new(start);
        let mut stream = activity.begin(Protocol::Http2);
        stream.set_phase(Phase::Sending, second(start, 1));
        assert_eq!(activity.deadline(&TIMEOUTS), Some((second(start, 61), Overdue::Send)));
        stream.set_phase(Phase::Working, second(start, 2));
        assert_eq!(activity.deadline(&TIMEOUTS), None, "it waits for an event");
        stream.set_phase(Phase::Sending, second(start, 3));
        let other = activity.begin(Protocol::Http2);
        assert_eq!(activity.deadline(&TIMEOUTS), None, "another request is handled");
        drop(other);
        drop(stream);
        assert_eq!(activity.deadline(&TIMEOUTS).map(|(_, overdue)| overdue), Some(Overdue::Idle));
    }
}
