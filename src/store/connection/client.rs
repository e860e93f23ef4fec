//! The connection to Redis: reconnects in the background, gives every call a deadline, and fails
//! fast while Redis is unreachable.

use super::address::Opened;
use super::confirmer::Confirmer;
use super::sentinel::Sentinels;
use super::slot_hold::{FIRST_PAUSE, LONGEST_PAUSE, SlotHold};
use super::{Address, Confirmation, PrimaryClient, RawConnection, sentinel_watch};
use crate::backoff::Backoff;
use crate::config::Host;
use crate::store::error::{Error, Retry};
use crate::telemetry::StoreMetrics;
use redis::{Cmd, Value};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

/// How long callers wait for a lost connection. In a longer outage they fail at once.
const PATIENCE: Duration = Duration::from_millis(500);

/// Returns the delays between attempts to connect.
pub(super) fn reconnect_backoff() -> Backoff {
    Backoff::new(Duration::from_millis(20), Duration::from_secs(1))
}

/// A handle to the connection; clones share it.
#[derive(Clone)]
pub(in crate::store) struct Connection {
    shared: Arc<Shared>,
    status: watch::Receiver<Status>,
}

struct Shared {
    target: PrimaryClient,
    deadline: Duration,
    broken: Notify,
    metrics: StoreMetrics,
    /// False once Redis has refused to load functions.
    functions: AtomicBool,
    /// Time for which a cluster has refused to serve the namespace's slot.
    hold: SlotHold,
    /// The confirmation that writes require; `None` without `store.wait_replicas`.
    confirmation: Option<Confirmation>,
}

/// An established connection.
#[derive(Clone)]
pub(super) struct LiveConnection {
    pub(super) connection: RawConnection,
    /// Distinguishes this connection from earlier and later ones; counts from 1.
    pub(super) generation: u64,
    /// The server's address, if sentinels named it.
    pub(super) server: Option<Host>,
    confirmer: Option<Arc<Confirmer>>,
}

#[derive(Clone)]
enum Status {
    Connected(LiveConnection),
    Away { since: Instant, reason: Error, retired: u64 },
}

impl Connection {
    /// Creates the connection and the task that keeps it open until `stop`. `check` runs on every
    /// new connection before it is used.
    pub(in crate::store) fn open<C, F>(
        address: &Address,
        deadline: Duration,
        confirmation: Option<Confirmation>,
        metrics: StoreMetrics,
        stop: CancellationToken,
        check: C,
    ) -> Result<(Connection, impl Future<Output = ()> + Send + 'static), Error>
    where
        C: Fn(RawConnection) -> F + Send + Sync + 'static,
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
            confirmation,
        });
        let connection = Connection { shared: Arc::clone(&shared), status };
        let watch = sentinel_watch::run(connection.clone(), stop.clone());
        let keep = Self::keep_connected(shared, sender, stop, check);
        Ok((connection, async { _ = tokio::join!(keep, watch) }))
    }

    async fn keep_connected<C, F>(shared: Arc<Shared>, status: watch::Sender<Status>, stop: CancellationToken, check: C)
    where
        C: Fn(RawConnection) -> F,
        F: Future<Output = Result<(), Error>>,
    {
        let (mut backoff, mut since) = (reconnect_backoff(), Instant::now());
        let mut generation = 0;
        loop {
            match shared.open_session(generation + 1, &check).await {
                Ok(session) => {
                    generation = session.generation;
                    if generation > 1 {
                        tracing::info!("reconnected to Redis");
                    }
                    status.send_replace(Status::Connected(session));
                    tokio::select! {
                        () = shared.broken.notified() => {}
                        () = stop.cancelled() => return,
                    }
                    since = Instant::now();
                    let reason = Error::Unavailable("the connection broke".to_owned());
                    status.send_replace(Status::Away { since, reason, retired: generation });
                    tracing::warn!("connection to Redis lost; reconnecting");
                }
                Err(error) => {
                    status.send_if_modified(|status| match status {
                        Status::Away { reason, .. } => {
                            *reason = error.clone();
                            true
                        }
                        Status::Connected(_) => false,
                    });
                    tracing::debug!(%error, "cannot connect to Redis");
                    // Retry quickly while callers still wait for the connection, and back off
                    // afterwards.
                    if since.elapsed() <= PATIENCE {
                        backoff.reset();
                    }
                    tokio::select! {
                        () = tokio::time::sleep(backoff.next_delay()) => {}
                        () = stop.cancelled() => return,
                    }
                }
            }
        }
    }

    /// Returns true unless Redis has refused to load functions.
    pub(in crate::store) fn has_functions(&self) -> bool {
        self.shared.functions.load(Ordering::Relaxed)
    }

    /// Records that Redis loads no functions: it is too old, or the user may not load them.
    pub(in crate::store) fn without_functions(&self) {
        self.shared.functions.store(false, Ordering::Relaxed);
    }

    /// Waits at most `patience` for a connection. Returns the last failure if there is none.
    pub(in crate::store) async fn connected_within(&self, patience: Duration) -> Result<(), Error> {
        self.connection(0, patience).await.map(drop)
    }

    /// Waits for a connection that is newer than generation `failed`.
    async fn connection(&self, failed: u64, patience: Duration) -> Result<LiveConnection, Error> {
        let mut status = self.status.clone();
        let fresh = |status: &Status| matches!(status, Status::Connected(session) if session.generation > failed);
        // An error means that the keeper has ended; then the last status has the reason.
        _ = tokio::time::timeout(patience, status.wait_for(fresh)).await;
        match &*self.status.borrow() {
            Status::Connected(session) if session.generation > failed => Ok(session.clone()),
            Status::Connected(_) => Err(Error::Unavailable("the connection broke".to_owned())),
            Status::Away { reason, .. } => Err(reason.clone()),
        }
    }

    /// Returns how long a caller may wait for a connection: what is left of [`PATIENCE`] in this
    /// outage.
    fn patience(&self) -> Duration {
        match &*self.status.borrow() {
            Status::Connected(_) => PATIENCE,
            Status::Away { since, .. } => PATIENCE.saturating_sub(since.elapsed()),
        }
    }

    /// Sends a call. If the connection breaks, sends it again on a new one; if a cluster does not
    /// serve the slot, sends it again after a pause. `make` gets true if an earlier attempt may
    /// have been carried out. Every call must be idempotent.
    pub(in crate::store) async fn call(&self, name: &'static str, make: impl Fn(bool) -> Cmd) -> Result<Value, Error> {
        self.measured(name, make, false).await
    }

    /// Like [`Connection::call`], and waits for replicas to confirm the writes if the configuration
    /// requires it.
    pub(in crate::store) async fn call_confirmed(
        &self,
        name: &'static str,
        make: impl Fn(bool) -> Cmd,
    ) -> Result<Value, Error> {
        self.measured(name, make, self.shared.confirmation.is_some()).await
    }

    async fn measured(
        &self,
        name: &'static str,
        make: impl Fn(bool) -> Cmd,
        is_confirmed: bool,
    ) -> Result<Value, Error> {
        let started = Instant::now();
        let outcome = self.call_since(&make, is_confirmed, started).await;
        self.shared.metrics.observe(name, started.elapsed(), outcome.is_ok());
        outcome
    }

    async fn call_since(
        &self,
        make: &impl Fn(bool) -> Cmd,
        is_confirmed: bool,
        started: Instant,
    ) -> Result<Value, Error> {
        let deadline = started + self.shared.deadline;
        let (mut failed, mut again, mut backoff) = (0, false, Backoff::new(FIRST_PAUSE, LONGEST_PAUSE));
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            // After a break, wait until the deadline: the call may have been carried out, and its
            // reply is needed.
            let patience = if failed > 0 { left } else { self.patience().min(left) };
            let mut session = self.connection(failed, patience).await?;
            let generation = session.generation;
            let command = make(again);
            let attempt = async {
                let value =
                    session.connection.send(&command).await.map_err(|error| Error::of_command(&command, &error))?;
                if is_confirmed {
                    // From here on, the call has been carried out.
                    again = true;
                    session.confirm().await?;
                }
                Ok(value)
            };
            let left = deadline.saturating_duration_since(Instant::now());
            match tokio::time::timeout(left, attempt).await {
                Ok(Ok(value)) => return Ok(value),
                Ok(Err(failure)) => match failure {
                    (error, Retry::ReconnectOnce) if failed > 0 => {
                        self.retire(generation);
                        return Err(error);
                    }
                    (_, Retry::Reconnect | Retry::ReconnectOnce) => {
                        self.retire(generation);
                        (failed, again) = (generation, true);
                    }
                    (error, Retry::AfterPause) => {
                        let now = Instant::now();
                        let since = self.shared.hold.record_refusal(now, &error);
                        // If the slot has been refused for longer than a deadline, fail at once:
                        // other requests wait behind this call.
                        let is_late = started.saturating_duration_since(since) > self.shared.deadline;
                        let pause = backoff.next_delay();
                        if is_late || now + pause >= deadline {
                            return Err(error);
                        }
                        tokio::time::sleep(pause).await;
                    }
                    (Error::NoScript { .. }, _) => return Err(Error::NoScript { again }),
                    (error, _) => return Err(error),
                },
                Err(_) => {
                    self.retire(generation);
                    return Err(Error::Timeout(self.shared.deadline));
                }
            }
        }
    }

    /// Requests a new connection, unless generation `generation` has been replaced already.
    pub(super) fn retire(&self, generation: u64) {
        let current = match &*self.status.borrow() {
            Status::Connected(session) => session.generation,
            Status::Away { retired, .. } => retired + 1,
        };
        if current == generation {
            self.shared.broken.notify_one();
        }
    }

    /// Returns the current connection, if there is one.
    pub(super) fn session(&self) -> Option<LiveConnection> {
        match &*self.status.borrow() {
            Status::Connected(session) => Some(session.clone()),
            Status::Away { .. } => None,
        }
    }

    /// Returns the sentinels, if the address has any.
    pub(super) fn sentinels(&self) -> Option<Arc<Sentinels>> {
        match &self.shared.target {
            PrimaryClient::Sentinel(sentinels, _) => Some(Arc::clone(sentinels)),
            PrimaryClient::Single(_) | PrimaryClient::Cluster(..) => None,
        }
    }

    /// Waits for a connection that is newer than the current one.
    pub(super) async fn replaced(&self) {
        let known = match &*self.status.borrow() {
            Status::Connected(session) => session.generation,
            Status::Away { retired, .. } => *retired,
        };
        let mut status = self.status.clone();
        let newer = |status: &Status| matches!(status, Status::Connected(session) if session.generation > known);
        if status.wait_for(newer).await.is_err() {
            // the store is closing and makes no more connections
            std::future::pending::<()>().await;
        }
    }
}

impl Shared {
    async fn open_session<C, F>(&self, generation: u64, check: &C) -> Result<LiveConnection, Error>
    where
        C: Fn(RawConnection) -> F,
        F: Future<Output = Result<(), Error>>,
    {
        let Opened { mut connection, server } =
            self.target.connect().await.map_err(|error| Error::from_redis(&error).0)?;
        check(connection.clone()).await?;
        let confirmer = match &self.confirmation {
            Some(wanted) => {
                let opening = Confirmer::open(&self.target, &mut connection, wanted.clone());
                let opened = tokio::time::timeout(self.deadline, opening).await;
                Some(Arc::new(opened.unwrap_or(Err(Error::Timeout(self.deadline)))?))
            }
            None => None,
        };
        Ok(LiveConnection { connection, generation, server, confirmer })
    }
}

impl LiveConnection {
    /// Waits for replicas to confirm all writes so far.
    async fn confirm(&self) -> Result<(), (Error, Retry)> {
        let Some(confirmer) = &self.confirmer else { return Ok(()) };
        let confirmed = match confirmer.confirm().await {
            Ok(confirmed) => confirmed,
            Err(error) => match Error::from_redis(&error) {
                lost @ (_, Retry::Reconnect | Retry::ReconnectOnce | Retry::AfterPause) => return Err(lost),
                // The primary refuses writes because it has lost its replicas or is full.
                (error, _) => {
                    tracing::debug!(%error, "cannot ask replicas for confirmation");
                    0
                }
            },
        };
        confirmer.shortfall(confirmed).map_or(Ok(()), |error| Err((error, Retry::Never)))
    }
}
