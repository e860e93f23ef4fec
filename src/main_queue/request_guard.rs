//! A circuit breaker around the requests to another server for one purpose, with its recent
//! results.

use crate::clock::Clock;
use crate::remote::{Error, ErrorKind};
use crate::weights::{Breaker, BreakerState, Pass};
use serde_json::{Value, json};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Maximum delay of the breaker; short, because nothing is promoted meanwhile.
const LONGEST: Duration = Duration::from_secs(5);

/// Holds back requests to a server that is down or asked to be left alone.
pub struct RequestGuard {
    name: String,
    purpose: &'static str,
    clock: Clock,
    memory: Mutex<Memory>,
}

struct Memory {
    breaker: Breaker,
    /// The time until which the server asked to be left alone.
    busy_until: Option<Instant>,
    /// The last failure; `None` after a success.
    trouble: Option<Error>,
    errors: u64,
}

impl RequestGuard {
    /// Creates the guard of requests to a main queue for one purpose.
    pub fn new(name: &str, purpose: &'static str, clock: Clock) -> RequestGuard {
        let breaker = Breaker::within(LONGEST);
        let memory = Memory { breaker, busy_until: None, trouble: None, errors: 0 };
        RequestGuard { name: name.to_owned(), purpose, clock, memory: Mutex::new(memory) }
    }

    /// Returns the remaining time for which the server asked to be left alone.
    pub fn busy_for(&self) -> Option<Duration> {
        let until = self.memory().busy_until?;
        Some(until.saturating_duration_since(Instant::now())).filter(|left| !left.is_zero())
    }

    /// Returns true if the last request failed.
    pub fn is_troubled(&self) -> bool {
        self.memory().trouble.is_some()
    }

    /// Sends a request, unless too many have failed recently.
    pub async fn ask<T>(&self, question: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        let pass = self.enter()?;
        let asking = Asking { guard: self, pass: Some(pass) };
        let answer = question.await;
        asking.end(answer.as_ref().err());
        answer
    }

    /// Sends a request whose success does not prove that the server works: only a failure is
    /// recorded.
    pub async fn ask_first<T>(&self, question: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        let pass = self.enter()?;
        let asking = Asking { guard: self, pass: Some(pass) };
        let answer = question.await;
        match &answer {
            Ok(_) => drop(asking),
            Err(error) => asking.end(Some(error)),
        }
        answer
    }

    fn enter(&self) -> Result<Pass, Error> {
        let mut memory = self.memory();
        let last = memory.trouble.clone();
        memory.breaker.enter(self.clock.now_ms()).map_err(|wait_ms| {
            let (kind, text) =
                last.map_or((ErrorKind::Unreachable, "unknown".to_owned()), |last| (last.kind, last.text));
            Error {
                kind,
                text: format!("not sent after repeated failures; next attempt in {wait_ms} ms; last error: {text}"),
            }
        })
    }

    fn note(&self, pass: Pass, error: Option<&Error>) {
        let mut memory = self.memory();
        let (main_queue, purpose, was_troubled) = (&self.name, self.purpose, memory.trouble.is_some());
        match error {
            None => {
                memory.breaker.succeeded();
                (memory.trouble, memory.busy_until) = (None, None);
                if was_troubled {
                    tracing::info!(main_queue, purpose, "requests to the main queue succeed again");
                }
            }
            // The server is reachable and works.
            Some(error) if matches!(error.kind, ErrorKind::Busy(_)) => {
                memory.breaker.succeeded();
                if let ErrorKind::Busy(wait) = error.kind {
                    memory.busy_until = Some(Instant::now() + wait);
                }
                tracing::warn!(main_queue, purpose, %error, "main queue asked to wait; its gate is closed until then");
                memory.errors += 1;
                memory.trouble = Some(error.clone());
            }
            Some(error) => {
                memory.breaker.failed(pass, self.clock.now_ms());
                memory.errors += 1;
                if !was_troubled {
                    tracing::warn!(main_queue, purpose, %error, "requests to the main queue fail; jobs stay where they are");
                }
                memory.trouble = Some(error.clone());
            }
        }
    }

    /// Returns the state for statistics.
    pub fn to_json(&self) -> Value {
        let busy_ms = self.busy_for().map(|left| left.as_millis() as u64);
        let memory = self.memory();
        let breaker = memory.breaker.state(self.clock.now_ms());
        let state = match (&memory.trouble, busy_ms, breaker) {
            (_, Some(_), _) => "busy",
            (None, None, BreakerState::Closed) => "ok",
            _ => "failing",
        };
        json!({
            "state": state,
            "breaker": breaker.name(),
            "retry_after_ms": busy_ms,
            "error": memory.trouble.as_ref().map(|error| json!({"kind": error.kind.name(), "message": error.text})),
            "errors_total": memory.errors,
        })
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        // Each field is valid on its own, even if a thread panicked while it held the lock.
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request in progress. If it is dropped at an await, the breaker stops waiting for its result.
struct Asking<'a> {
    guard: &'a RequestGuard,
    pass: Option<Pass>,
}

impl Asking<'_> {
    fn end(mut self, error: Option<&Error>) {
        if let Some(pass) = self.pass.take() {
            self.guard.note(pass, error);
        }
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        if let Some(pass) = self.pass.take() {
            self.guard.memory().breaker.abandoned(pass);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guard() -> (RequestGuard, Clock) {
        let clock = Clock::manual(0);
        (RequestGuard::new("legacy", "post jobs", clock.clone()), clock)
    }

    fn error(kind: ErrorKind) -> Error {
        Error { kind, text: "no route".to_owned() }
    }

    async fn fail(guard: &RequestGuard) -> Error {
        guard.ask(async { Err::<(), _>(error(ErrorKind::Unreachable)) }).await.expect_err("an error")
    }

    #[tokio::test]
    async fn after_repeated_failures_nothing_is_sent_for_a_while() {
        let (guard, clock) = guard();
        let mut sent = 0;
        while fail(&guard).await.text == "no route" {
            sent += 1;
            assert!(sent < 100, "the breaker never opens");
        }
        let refused = guard.ask::<()>(async { panic!("it is not sent") }).await.expect_err("an error");
        assert_eq!(refused.kind, ErrorKind::Unreachable);
        assert!(refused.text.contains("last error: no route"), "{}", refused.text);
        assert_eq!((guard.to_json()["state"].clone(), guard.is_troubled()), (json!("failing"), true));
        clock.advance(LONGEST.as_millis() as i64);
        guard.ask(async { Ok(()) }).await.expect("it is sent again");
        assert_eq!((guard.to_json()["state"].clone(), guard.is_troubled()), (json!("ok"), false));
    }

    #[tokio::test]
    async fn a_server_that_asks_to_wait_is_left_alone_but_works() {
        let (guard, _) = guard();
        let busy = error(ErrorKind::Busy(Duration::from_secs(60)));
        guard.ask(async { Err::<(), _>(busy) }).await.expect_err("an error");
        assert!(guard.busy_for().is_some_and(|left| left <= Duration::from_secs(60)));
        let shown = guard.to_json();
        assert_eq!((&shown["state"], &shown["breaker"]), (&json!("busy"), &json!("closed")));
    }

    #[tokio::test]
    async fn a_first_request_that_succeeds_proves_nothing() {
        let (guard, _) = guard();
        fail(&guard).await;
        guard.ask_first(async { Ok(()) }).await.expect("an answer");
        assert!(guard.is_troubled());
        guard.ask(async { Ok(()) }).await.expect("an answer");
        assert!(!guard.is_troubled());
    }
}
