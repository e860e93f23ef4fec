//! The one connection to Redis: connects anew by itself, gives every call a deadline, and says at once when Redis is away.

use super::address::{Address, Connection, Target};
use super::error::{Error, Loss};
use super::slot_hold::{FIRST_PAUSE, LONGEST_PAUSE, SlotHold};
use crate::telemetry::StoreMetrics;
use redis::{Cmd, Value};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

/// A short break is waited out; in a longer one callers are told at once.
const PATIENCE: Duration = Duration::from_millis(500);
pub(super) const FIRST_BACKOFF: Duration = Duration::from_millis(20);
pub(super) const LONGEST_BACKOFF: Duration = Duration::from_secs(1);

/// A handle to the connection; clones share it.
#[derive(Clone)]
pub(super) struct Link {
    shared: Arc<Shared>,
    status: watch::Receiver<Status>,
}

struct Shared {
    target: Target,
    deadline: Duration,
    broken: Notify,
    metrics: StoreMetrics,
    /// Whether Redis keeps functions for us, as far as is known.
    functions: AtomicBool,
    /// How long a cluster has refused our slot.
    hold: SlotHold,
}

#[derive(Clone)]
enum Status {
    /// Generations tell a caller's broken connection from the one that has replaced it meanwhile.
    Connected {
        connection: Connection,
        generation: u64,
    },
    Away {
        since: Instant,
        reason: Error,
        retired: u64,
    },
}

impl Link {
    /// A link that connects in the background until `stop`; `check` runs on every new connection before it is used.
    pub(super) fn open<C, F>(
        address: &Address,
        deadline: Duration,
        metrics: StoreMetrics,
        stop: CancellationToken,
        check: C,
    ) -> Result<(Link, impl Future<Output = ()> + Send + 'static), Error>
    where
        C: Fn(Connection) -> F + Send + 'static,
        F: Future<Output = Result<(), Error>> + Send + 'static,
    {
        let target = address.open().map_err(|error| Error::Backend(error.to_string()))?;
        let away = Status::Away {
            since: Instant::now(),
            reason: Error::Unavailable("not connected yet".to_owned()),
            retired: 0,
        };
        let (sender, status) = watch::channel(away);
        let shared = Arc::new(Shared {
            target,
            deadline,
            broken: Notify::new(),
            metrics,
            functions: AtomicBool::new(true),
            hold: SlotHold::default(),
        });
        let keeper = Self::keep_connected(Arc::clone(&shared), sender, stop, check);
        Ok((Link { shared, status }, keeper))
    }

    async fn keep_connected<C, F>(shared: Arc<Shared>, status: watch::Sender<Status>, stop: CancellationToken, check: C)
    where
        C: Fn(Connection) -> F,
        F: Future<Output = Result<(), Error>>,
    {
        let mut backoff = FIRST_BACKOFF;
        let mut generation = 0;
        loop {
            let opened = match shared.target.connect().await {
                Ok(connection) => check(connection.clone()).await.map(|()| connection),
                Err(error) => Err(Error::from_redis(&error).0),
            };
            match opened {
                Ok(connection) => {
                    generation += 1;
                    backoff = FIRST_BACKOFF;
                    if generation > 1 {
                        tracing::info!("connected to Redis again");
                    }
                    status.send_replace(Status::Connected { connection, generation });
                    tokio::select! {
                        () = shared.broken.notified() => {}
                        () = stop.cancelled() => return,
                    }
                    let since = Instant::now();
                    let reason = Error::Unavailable("the connection broke".to_owned());
                    status.send_replace(Status::Away { since, reason, retired: generation });
                    tracing::warn!("lost the connection to Redis, connecting anew");
                }
                Err(error) => {
                    status.send_if_modified(|status| match status {
                        Status::Away { reason, .. } => {
                            *reason = error.clone();
                            true
                        }
                        Status::Connected { .. } => false,
                    });
                    tracing::debug!(%error, "cannot connect to Redis");
                    tokio::select! {
                        () = tokio::time::sleep(backoff) => {}
                        () = stop.cancelled() => return,
                    }
                    backoff = (backoff * 2).min(LONGEST_BACKOFF);
                }
            }
        }
    }

    /// Whether Redis keeps functions for us. Taken for granted until it refuses to.
    pub(super) fn has_functions(&self) -> bool {
        self.shared.functions.load(Ordering::Relaxed)
    }

    /// Redis keeps no functions for us: it is too old, or our user may not load them.
    pub(super) fn without_functions(&self) {
        self.shared.functions.store(false, Ordering::Relaxed);
    }

    /// Waits until there is a connection, as long as the caller likes; the reason if there is none.
    pub(super) async fn connected_within(&self, patience: Duration) -> Result<(), Error> {
        self.connection(0, patience).await.map(drop)
    }

    /// A connection that is newer than the one that failed the caller.
    async fn connection(&self, failed: u64, patience: Duration) -> Result<(Connection, u64), Error> {
        let mut status = self.status.clone();
        let fresh = |status: &Status| matches!(status, Status::Connected { generation, .. } if *generation > failed);
        // An error means that the keeper has ended; then the last status tells why there is nothing to wait for.
        _ = tokio::time::timeout(patience, status.wait_for(fresh)).await;
        match &*self.status.borrow() {
            Status::Connected { connection, generation } if *generation > failed => {
                Ok((connection.clone(), *generation))
            }
            Status::Connected { .. } => Err(Error::Unavailable("the connection broke".to_owned())),
            Status::Away { reason, .. } => Err(reason.clone()),
        }
    }

    /// How long to wait for a connection before giving up: the rest of the patience with this outage.
    fn patience(&self) -> Duration {
        match &*self.status.borrow() {
            Status::Connected { .. } => PATIENCE,
            Status::Away { since, .. } => PATIENCE.saturating_sub(since.elapsed()),
        }
    }

    /// Sends a call; if the connection breaks under it, sends it again on a new one, and if a cluster does not serve our slot,
    /// after a pause. `make` is told whether it may have been carried out before. Every call must be harmless when repeated.
    pub(super) async fn call(&self, name: &'static str, make: impl Fn(bool) -> Cmd) -> Result<Value, Error> {
        let started = Instant::now();
        let outcome = self.call_since(&make, started).await;
        self.shared.metrics.observe(name, started.elapsed(), outcome.is_ok());
        outcome
    }

    async fn call_since(&self, make: &impl Fn(bool) -> Cmd, started: Instant) -> Result<Value, Error> {
        let deadline = started + self.shared.deadline;
        let (mut failed, mut pause) = (0, FIRST_PAUSE);
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            // After a break the answer matters more than speed: the call may have been carried out.
            let patience = if failed > 0 { left } else { self.patience().min(left) };
            let (mut connection, generation) = self.connection(failed, patience).await?;
            let command = make(failed > 0);
            let left = deadline.saturating_duration_since(Instant::now());
            match tokio::time::timeout(left, connection.send(&command)).await {
                Ok(Ok(value)) => return Ok(value),
                Ok(Err(error)) => match Error::of_command(&command, &error) {
                    (error, Loss::Moved) if failed > 0 => {
                        self.retire(generation);
                        return Err(error);
                    }
                    (_, Loss::Connection | Loss::Moved) => {
                        self.retire(generation);
                        failed = generation;
                    }
                    (error, Loss::Slot) => {
                        let now = Instant::now();
                        let since = self.shared.hold.note(now, &error);
                        // Whoever comes after a whole deadline of refusals is told at once: others wait behind every call.
                        let is_late = started.saturating_duration_since(since) > self.shared.deadline;
                        if is_late || now + pause >= deadline {
                            return Err(error);
                        }
                        tokio::time::sleep(pause).await;
                        pause = (pause * 2).min(LONGEST_PAUSE);
                    }
                    (Error::NoScript { .. }, _) => return Err(Error::NoScript { again: failed > 0 }),
                    (error, _) => return Err(error),
                },
                Err(_) => {
                    self.retire(generation);
                    return Err(Error::Timeout(self.shared.deadline));
                }
            }
        }
    }

    /// Asks for a new connection, unless somebody has already.
    fn retire(&self, generation: u64) {
        let current = match &*self.status.borrow() {
            Status::Connected { generation, .. } => *generation,
            Status::Away { retired, .. } => retired + 1,
        };
        if current == generation {
            self.shared.broken.notify_one();
        }
    }
}
