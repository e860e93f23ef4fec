//! Contact with a server for one purpose: whether it is to be asked now, and how that went so far.

use crate::clock::Clock;
use crate::remote::{Error, ErrorKind};
use crate::weights::{Breaker, Pass, State};
use serde_json::{Value, json};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A server that is away is tried again after so long at the latest: nothing is promoted meanwhile.
const LONGEST_MS: i64 = 5_000;

/// Keeps us from asking a server that is away or wants to be left alone.
pub struct Contact {
    name: String,
    purpose: &'static str,
    clock: Clock,
    memory: Mutex<Memory>,
}

struct Memory {
    breaker: Breaker,
    /// Until when it wants to be left alone.
    busy_until: Option<Instant>,
    /// What went wrong last; none since something went well.
    trouble: Option<Error>,
    errors: u64,
}

impl Contact {
    /// Contact with a main queue of that name.
    pub fn new(name: &str, purpose: &'static str, clock: Clock) -> Contact {
        let breaker = Breaker::within(LONGEST_MS);
        let memory = Memory { breaker, busy_until: None, trouble: None, errors: 0 };
        Contact { name: name.to_owned(), purpose, clock, memory: Mutex::new(memory) }
    }

    /// How long the server still wants to be left alone.
    pub fn busy_for(&self) -> Option<Duration> {
        let until = self.memory().busy_until?;
        Some(until.saturating_duration_since(Instant::now())).filter(|left| !left.is_zero())
    }

    /// Whether the last question failed.
    pub fn is_troubled(&self) -> bool {
        self.memory().trouble.is_some()
    }

    /// Asks, unless the server has failed too often lately.
    pub async fn ask<T>(&self, question: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        let pass = self.enter()?;
        let asking = Asking { contact: self, pass: Some(pass) };
        let answer = question.await;
        asking.end(answer.as_ref().err());
        answer
    }

    /// Asks for something that is no proof of its working: only a failure counts.
    pub async fn ask_first<T>(&self, question: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        let pass = self.enter()?;
        let asking = Asking { contact: self, pass: Some(pass) };
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
            Error { kind, text: format!("not asked after repeated failures, next try in {wait_ms} ms; last: {text}") }
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
                    tracing::info!(main_queue, purpose, "the main queue's server answers again");
                }
            }
            // It is there, and knows what it is doing.
            Some(error) if matches!(error.kind, ErrorKind::Busy(_)) => {
                memory.breaker.succeeded();
                if let ErrorKind::Busy(wait) = error.kind {
                    memory.busy_until = Some(Instant::now() + wait);
                }
                tracing::warn!(main_queue, purpose, %error, "the main queue's server asks to wait: its gate is closed");
                memory.errors += 1;
                memory.trouble = Some(error.clone());
            }
            Some(error) => {
                memory.breaker.failed(pass, self.clock.now_ms());
                memory.errors += 1;
                if !was_troubled {
                    tracing::warn!(main_queue, purpose, %error, "the main queue's server fails: jobs stay where they are");
                }
                memory.trouble = Some(error.clone());
            }
        }
    }

    /// How it is doing, as stats show it.
    pub fn to_json(&self) -> Value {
        let busy_ms = self.busy_for().map(|left| left.as_millis() as u64);
        let memory = self.memory();
        let breaker = memory.breaker.state(self.clock.now_ms());
        let state = match (&memory.trouble, busy_ms, breaker) {
            (_, Some(_), _) => "busy",
            (None, None, State::Closed) => "ok",
            _ => "failing",
        };
        json!({
            "state": state,
            "breaker": breaker.as_str(),
            "retry_after_ms": busy_ms,
            "error": memory.trouble.as_ref().map(|error| json!({"kind": error.kind.name(), "message": error.text})),
            "errors_total": memory.errors,
        })
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        // Each field is whole, whoever panicked while it was locked.
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A question on its way. Its asker may drop it at any await; the breaker must not wait for it then.
struct Asking<'a> {
    contact: &'a Contact,
    pass: Option<Pass>,
}

impl Asking<'_> {
    fn end(mut self, error: Option<&Error>) {
        if let Some(pass) = self.pass.take() {
            self.contact.note(pass, error);
        }
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        if let Some(pass) = self.pass.take() {
            self.contact.memory().breaker.abandoned(pass);
        }
    }
}
