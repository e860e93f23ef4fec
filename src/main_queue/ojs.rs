//! Another OJS server as the main queue. Jobs are posted under their own ids, so the server
//! recognises repetitions.

use super::pace::DrainPace;
use super::request_guard::RequestGuard;
use crate::domain::plan::Closed;
use crate::remote::{self, BatchOutcome, QueueState, Remote, Single, id_of};
use crate::store::{DeliveryRoute, Destination, Error, Observation, OutboxEntry, Promoted, Returned, Store};
use futures_util::future::try_join_all;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::OnceCell;

/// Minimum time between two readings of a queue.
const POLL: Duration = Duration::from_secs(1);
/// Minimum time between two readings of a queue that was empty, because its workers may be idle.
pub const POLL_EMPTY: Duration = Duration::from_millis(200);
/// Minimum target latency of `auto` in milliseconds. With less, workers would empty the queue
/// between two readings and wait.
pub const LEAST_LATENCY_MS: u64 = 3_000;
/// Maximum number of queues that are read concurrently.
const AT_ONCE: usize = 8;
/// Maximum number of queues that are remembered; clients choose their names.
const MOST_QUEUES: usize = 1000;

/// An OJS server that jobs are promoted into.
pub struct Ojs {
    name: String,
    store: Store,
    remote: Remote,
    /// Separate guards for reading and posting, because a token may permit only one of them.
    looking: RequestGuard,
    posting: RequestGuard,
    destination: OnceCell<Destination>,
    /// The server's conformance level, once it is known.
    level: tokio::sync::Mutex<Option<u64>>,
    /// Serializes readings of queues, so that none is read twice.
    asking: tokio::sync::Mutex<()>,
    looks: Mutex<HashMap<String, RemoteReading>>,
    /// Number of jobs that the server refused.
    refused: AtomicU64,
}

/// The last reading of a queue.
#[derive(Clone, Default)]
struct RemoteReading {
    at: Option<Instant>,
    state: QueueState,
    /// Number of jobs pushed since the reading.
    pushed: u64,
    pace: DrainPace,
    taken: u64,
}

impl RemoteReading {
    fn is_fresh(&self) -> bool {
        let holds = if self.state.depth == 0 && !self.state.paused { POLL_EMPTY } else { POLL };
        self.at.is_some_and(|at| at.elapsed() < holds)
    }
}

impl Ojs {
    /// Creates the main queue of that name.
    pub fn new(name: &str, store: Store, remote: Remote) -> Ojs {
        let guard = |purpose| RequestGuard::new(name, purpose, store.clock().clone());
        let (looking, posting) = (guard("read queues"), guard("post jobs"));
        let (destination, level, asking, looks, refused) = Default::default();
        Ojs { name: name.to_owned(), store, remote, looking, posting, destination, level, asking, looks, refused }
    }

    /// Returns true if the server asked to be left alone.
    fn is_busy(&self) -> bool {
        self.posting.busy_for().or_else(|| self.looking.busy_for()).is_some()
    }

    /// Returns the client of the server.
    pub fn remote(&self) -> &Remote {
        &self.remote
    }

    /// Adds to the store's data about queues what the server reports, at most a second old. `now`
    /// is the store's time.
    pub async fn observe(&self, queues: &mut [Observation], now: i64) -> Result<(), Error> {
        if queues.is_empty() {
            return Ok(());
        }
        let level = if self.is_busy() { Ok(0) } else { self.level(&self.looking).await };
        if self.is_busy() {
            queues.iter_mut().for_each(|queue| self.fill(queue, now, Some(Closed::RetryAfter)));
            return Ok(());
        }
        let level = level?;
        let _turn = self.asking.lock().await;
        for queues in queues.chunks_mut(AT_ONCE) {
            let look = async |queue: &mut Observation| {
                if !self.looks(|looks| looks.get(&queue.queue).is_some_and(RemoteReading::is_fresh)) {
                    let asked = self.looking.ask(self.remote.queue(&queue.queue, level, now)).await;
                    let state = match asked {
                        Ok(state) => state,
                        Err(_) if self.is_busy() => {
                            self.fill(queue, now, Some(Closed::RetryAfter));
                            return Ok(());
                        }
                        Err(error) => return Err(self.failed(error)),
                    };
                    self.look(&queue.queue, |look| {
                        look.taken = look.pace.observe(state.depth);
                        (look.at, look.state, look.pushed) = (Some(Instant::now()), state, 0);
                    });
                }
                self.fill(queue, now, None);
                Ok(())
            };
            try_join_all(queues.iter_mut().map(look)).await?;
        }
        Ok(())
    }

    fn fill(&self, queue: &mut Observation, now: i64, hindrance: Option<Closed>) {
        let look = self.looks(|looks| looks.get(&queue.queue).cloned()).unwrap_or_default();
        let RemoteReading { at, state, pushed, taken, .. } = look;
        let since = at.map_or(0, |at| at.elapsed().as_millis() as u64);
        queue.depth = state.depth + pushed;
        queue.active = state.active;
        queue.oldest = state.latency_ms.map(|ms| now.saturating_sub_unsigned(ms + since));
        (queue.taken, queue.idle_ms, queue.seen) = (taken, None, at);
        queue.hindrance = hindrance.or(state.paused.then_some(Closed::QueuePaused));
    }

    /// Promotes up to `jobs` staged jobs.
    pub async fn promote(&self, rule: &str, token: &str, queue: &str, jobs: u64) -> Result<Promoted, Error> {
        // Deliver first, so that the outbox holds at most one entry, apart from those of processes
        // that died. Otherwise entries would pile up while the server is down.
        self.settle(rule).await?;
        if self.is_busy() {
            return Ok(Promoted::Closed(Closed::RetryAfter));
        }
        let outcome = self.store.promote_external(rule, token, queue, jobs, self.destination().await?).await?;
        if let Promoted::Jobs { promoted, .. } = &outcome {
            match self.settle(rule).await {
                Ok(()) => self.look(queue, |look| {
                    look.pace.pushed(*promoted);
                    look.pushed += promoted;
                }),
                // The jobs are promoted and in the outbox. If delivery keeps failing, the next call
                // returns an error.
                Err(error) => {
                    tracing::warn!(rule, main_queue = self.name, %error, "cannot deliver promoted jobs yet; trying again");
                }
            }
        }
        Ok(outcome)
    }

    /// Delivers jobs in the outbox, unless the server asked to be left alone. Safe to repeat and to
    /// run concurrently.
    pub async fn settle(&self, rule: &str) -> Result<(), Error> {
        loop {
            if self.is_busy() {
                return Ok(());
            }
            let entries = self.store.outbox(rule).await?;
            if entries.is_empty() {
                return Ok(());
            }
            for entry in &entries {
                match self.deliver(rule, entry).await {
                    Ok(()) => self.store.confirm_outbox(rule, entry.sequence).await?,
                    Err(_) if self.is_busy() => return Ok(()),
                    Err(error) => return Err(error),
                }
            }
        }
    }

    /// Returns the number of jobs in the first entries of a rule's outbox.
    pub async fn undelivered(&self, rule: &str) -> Result<u64, Error> {
        Ok(self.store.outbox(rule).await?.iter().map(|entry| entry.payloads.len() as u64).sum())
    }

    /// Returns the server's health for statistics.
    pub fn health(&self) -> Value {
        let guard = if self.posting.is_troubled() { &self.posting } else { &self.looking };
        let mut health = guard.to_json();
        health["url"] = json!(self.remote.place());
        health["refused_total"] = json!(self.refused.load(Ordering::Relaxed));
        health
    }

    /// Posts an entry of an outbox. Jobs that the server refuses permanently return to the store,
    /// with the server's reason.
    async fn deliver(&self, rule: &str, entry: &OutboxEntry) -> Result<(), Error> {
        self.level(&self.posting).await?;
        let taken = match self.ask(self.remote.enqueue_batch(&entry.payloads)).await? {
            BatchOutcome::Taken(ids) => ids,
            // Another process may have delivered it already.
            BatchOutcome::None if !self.is_in_outbox(rule, entry).await? => return Ok(()),
            BatchOutcome::None => Default::default(),
        };
        let mut returned = Vec::new();
        // One at a time, to keep their order.
        for payload in &entry.payloads {
            let id =
                id_of(payload).ok_or_else(|| Error::Backend("outbox entry contains a job without an id".to_owned()))?;
            if !taken.contains(&id) {
                returned.extend(self.deliver_alone(payload, id).await?);
            }
        }
        if returned.is_empty() {
            return Ok(());
        }
        self.refused.fetch_add(returned.len() as u64, Ordering::Relaxed);
        for Returned { id, code, message, .. } in &returned {
            tracing::warn!(rule, main_queue = self.name, id, code, message, "main queue refused a job");
        }
        self.store.take_back(&returned).await
    }

    async fn is_in_outbox(&self, rule: &str, entry: &OutboxEntry) -> Result<bool, Error> {
        Ok(self.store.outbox(rule).await?.iter().any(|waiting| waiting.sequence == entry.sequence))
    }

    async fn deliver_alone(&self, payload: &str, id: String) -> Result<Option<Returned>, Error> {
        let duplicate = |id| {
            let message = "the server has another job with the same unique key".to_owned();
            Some(Returned { id, code: "duplicate".to_owned(), message, is_dead: false })
        };
        Ok(match self.ask(self.remote.enqueue(payload, &id)).await? {
            Single::Taken => None,
            Single::Unwanted => duplicate(id),
            // Either the job was posted before, or another job with the same unique key exists.
            Single::Conflict if self.ask(self.remote.has(&id)).await? => None,
            Single::Conflict => duplicate(id),
            Single::Refused { code, message } => Some(Returned { id, code, message, is_dead: true }),
        })
    }

    /// Returns the server's conformance level. The manifest is requested until it was read once,
    /// and again after failures, because the server may have been replaced.
    async fn level(&self, guard: &RequestGuard) -> Result<u64, Error> {
        let mut known = self.level.lock().await;
        if let Some(level) = known.filter(|_| !guard.is_troubled()) {
            return Ok(level);
        }
        let manifest = guard.ask_first(self.remote.manifest()).await.map_err(|error| self.failed(error))?;
        if known.is_none() {
            let (main_queue, place) = (&self.name, self.remote.place());
            let remote::Manifest { name, level, .. } = &manifest;
            tracing::info!(main_queue, place, implementation = name, level, "connected to the main queue's OJS server");
        }
        *known = Some(manifest.level);
        Ok(manifest.level)
    }

    async fn ask<T>(&self, question: impl Future<Output = Result<T, remote::Error>>) -> Result<T, Error> {
        self.posting.ask(question).await.map_err(|error| self.failed(error))
    }

    async fn destination(&self) -> Result<&Destination, Error> {
        let find = async || {
            let route = DeliveryRoute::Outbox { origin: self.store.origin().await? };
            Ok(Destination { name: self.name.clone(), prefix: String::new(), route })
        };
        self.destination.get_or_try_init(find).await
    }

    fn looks<T>(&self, act: impl FnOnce(&mut HashMap<String, RemoteReading>) -> T) -> T {
        // A panic cannot leave it inconsistent: each closure only makes a few assignments.
        act(&mut self.looks.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn look(&self, queue: &str, act: impl FnOnce(&mut RemoteReading)) {
        self.looks(|looks| {
            if looks.len() >= MOST_QUEUES && !looks.contains_key(queue) {
                looks.clear();
            }
            act(looks.entry(queue.to_owned()).or_default());
        });
    }

    /// Adds the name of the main queue to an error, so that it is not mistaken for one of the
    /// store.
    fn failed(&self, error: remote::Error) -> Error {
        Error::MainQueue { name: self.name.clone(), cause: error.kind.name(), reason: error.text }
    }
}
