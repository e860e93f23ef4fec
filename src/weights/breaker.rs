//! A circuit breaker: after repeated failures it blocks requests for a while, then lets one request
//! probe. Time is an argument.

use crate::backoff::Backoff;
use std::time::Duration;

/// Number of failures in a row that open the breaker.
const FAILURES: u32 = 5;
/// Initial and default maximum time for which it stays open; each failed probe doubles it.
const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(60);

/// A circuit breaker; initially closed.
#[derive(Debug)]
pub struct Breaker {
    /// Times for which it stays open.
    backoff: Backoff,
    /// Number of failures in a row, while closed.
    failures: u32,
    open: Option<Open>,
}

impl Default for Breaker {
    fn default() -> Self {
        Breaker::within(LONGEST)
    }
}

#[derive(Debug)]
struct Open {
    since_ms: i64,
    delay_ms: i64,
    /// True while a probe is in progress.
    probing: bool,
}

/// The state of a breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakerState {
    Closed,
    Open,
    HalfOpen,
}

/// The permission to send one request. Its result must be reported, because the breaker would wait
/// for a probe forever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    Regular,
    Probe,
}

impl BreakerState {
    /// Returns the name used in statistics.
    pub fn name(self) -> &'static str {
        match self {
            BreakerState::Closed => "closed",
            BreakerState::Open => "open",
            BreakerState::HalfOpen => "half_open",
        }
    }
}

impl Breaker {
    /// Creates a breaker that tries again after at most `longest`.
    pub fn within(longest: Duration) -> Breaker {
        Breaker { backoff: Backoff::new(SHORTEST, longest), failures: 0, open: None }
    }

    /// Requests permission to send a request. An error is the number of milliseconds until the next
    /// attempt.
    pub fn enter(&mut self, now_ms: i64) -> Result<Pass, i64> {
        let Some(open) = &mut self.open else { return Ok(Pass::Regular) };
        let wait = open.wait_ms(now_ms);
        if wait > 0 || open.probing {
            return Err(wait);
        }
        open.probing = true;
        Ok(Pass::Probe)
    }

    /// Records a success, which closes the breaker regardless of the sender.
    pub fn succeeded(&mut self) {
        self.backoff.reset();
        (self.failures, self.open) = (0, None);
    }

    /// Records a failure. A late result from before the breaker opened is ignored.
    pub fn failed(&mut self, pass: Pass, now_ms: i64) {
        let opens = match &self.open {
            Some(_) => pass == Pass::Probe,
            None => {
                self.failures += 1;
                self.failures >= FAILURES
            }
        };
        if opens {
            let delay_ms = self.backoff.next_delay().as_millis() as i64;
            self.open = Some(Open { since_ms: now_ms, delay_ms, probing: false });
        }
    }

    /// Records that a request was abandoned: another one may probe.
    pub fn abandoned(&mut self, pass: Pass) {
        if let (Some(open), Pass::Probe) = (&mut self.open, pass) {
            open.probing = false;
        }
    }

    /// Returns the time of the next attempt, if none is allowed now.
    pub fn next_attempt(&self, now_ms: i64) -> Option<i64> {
        let wait = self.open.as_ref()?.wait_ms(now_ms);
        (wait > 0).then_some(now_ms + wait)
    }

    /// Returns the current state.
    pub fn state(&self, now_ms: i64) -> BreakerState {
        match &self.open {
            None => BreakerState::Closed,
            Some(open) if open.wait_ms(now_ms) > 0 => BreakerState::Open,
            Some(_) => BreakerState::HalfOpen,
        }
    }
}

impl Open {
    /// Returns the remaining wait. If the clock stepped back, the wait is over, so that it never
    /// exceeds the delay.
    fn wait_ms(&self, now_ms: i64) -> i64 {
        if now_ms < self.since_ms { 0 } else { (self.since_ms + self.delay_ms - now_ms).max(0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a breaker that has just opened at `now_ms`.
    fn opened(now_ms: i64) -> Breaker {
        let mut breaker = Breaker::default();
        for _ in 0..FAILURES {
            let pass = breaker.enter(now_ms).unwrap();
            breaker.failed(pass, now_ms);
        }
        breaker
    }

    #[test]
    fn opens_after_five_failures_in_a_row() {
        let mut breaker = Breaker::default();
        // A success in between resets the count.
        for (at, fails) in [true, true, true, true, false, true, true, true, true].into_iter().enumerate() {
            let pass = breaker.enter(0).unwrap();
            if fails {
                breaker.failed(pass, 0)
            } else {
                breaker.succeeded()
            }
            assert_eq!(breaker.state(0), BreakerState::Closed, "after request {at}");
        }
        breaker.failed(Pass::Regular, 0);
        assert_eq!((breaker.state(0), breaker.enter(0)), (BreakerState::Open, Err(1_000)));
        assert_eq!(breaker.enter(400), Err(600));
        assert_eq!((breaker.next_attempt(400), breaker.next_attempt(1_000)), (Some(1_000), None));
    }

    #[test]
    fn backs_off_twice_as_long_each_time_up_to_a_minute() {
        let (mut breaker, mut now) = (opened(0), 0);
        for wait in [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000] {
            assert_eq!(breaker.enter(now + wait - 1), Err(1), "open for {wait} ms");
            now += wait;
            assert_eq!(breaker.state(now), BreakerState::HalfOpen);
            let pass = breaker.enter(now).unwrap();
            assert_eq!(pass, Pass::Probe);
            breaker.failed(pass, now);
            assert_eq!(breaker.state(now), BreakerState::Open);
        }
        breaker.succeeded();
        assert_eq!(breaker.enter(now), Ok(Pass::Regular));
        assert_eq!(opened(now).enter(now), Err(1_000), "a success resets the backoff");
    }

    #[test]
    fn one_probe_at_a_time() {
        let mut breaker = opened(0);
        assert_eq!(breaker.enter(1_000), Ok(Pass::Probe));
        assert_eq!(breaker.enter(1_000), Err(0));
        breaker.failed(Pass::Regular, 1_000);
        assert_eq!(breaker.enter(1_000), Err(0), "a late result does not end the probe");
        breaker.abandoned(Pass::Regular);
        assert_eq!(breaker.enter(1_000), Err(0), "nor does an abandoned one");
        breaker.abandoned(Pass::Probe);
        assert_eq!(breaker.enter(1_000), Ok(Pass::Probe));
        breaker.succeeded();
        assert_eq!(breaker.state(1_000), BreakerState::Closed);
    }

    #[test]
    fn a_clock_that_steps_back_does_not_keep_it_open() {
        assert_eq!(opened(1_000_000).enter(5), Ok(Pass::Probe));
    }
}
