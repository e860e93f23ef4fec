//! The store: operations on Redis, each of them one script. The only module that knows Redis.
//!
//! A [`Store`] is a cheap handle. Operations that many clients call at once (enqueue, fetch, ack,
//! nack) go through group commit; the others are sent one by one. Every call that writes is
//! idempotent, so a call whose reply was lost is sent again.

mod batch;
#[cfg(test)]
mod bundler;
mod codec;
mod commands;
mod connection;
mod due_timer;
mod error;
mod keys;
mod packed;
mod reply;
mod script;
mod script_metrics;

pub use commands::*;
pub use connection::{Address, CheckFinding, ServerChecks, Severity, Signal, embedded};
pub use error::Error;
pub use reply::JobOutcome;
pub use script::{library_text, script_texts};

use crate::clock::Clock;
use crate::domain::tenant::Scope;
use crate::telemetry::StoreMetrics;
use batch::Batcher;
use commands::{ack, jobs, leases};
use connection::{Confirmation, Connection, health, signals};
use due_timer::DueTimer;
use keys::Keys;
use redis::Cmd;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Schema version of the data in Redis. Data with another version is refused, because guessing its
/// meaning could damage jobs.
const SCHEMA: &str = "4";

/// How long to wait for a connection after the start before giving up on removing old libraries.
const TIDY_WITHIN: Duration = Duration::from_secs(600);

/// Options of the store.
#[derive(Clone)]
pub struct Options {
    pub address: Address,
    pub namespace: String,
    /// Deadline of every call to Redis.
    pub call_timeout: Duration,
    /// Number of replicas that must confirm a write before a client gets its reply; 0 for none.
    pub wait_replicas: usize,
    /// Time limit for that confirmation.
    pub wait_replicas_timeout: Duration,
    pub clock: Clock,
    pub settings: Settings,
    pub older_data: OlderData,
}

/// The treatment of data that an older version stored in another format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OlderData {
    /// Migrate it, as a server does when it starts.
    Migrate,
    /// Refuse it, because processes of the older version may still be running.
    Refuse,
}

/// Settings that scripts use. Times are in milliseconds.
#[derive(Clone, Debug)]
pub struct Settings {
    pub visibility: u64,
    pub timeout: u64,
    pub completed: u64,
    pub cancelled: u64,
    pub discarded: u64,
    pub dead_letter: u64,
    pub dead_after: u64,
    pub max_finished: u64,
    pub max_dead_letters: u64,
    pub max_events: u64,
    pub idle_queues: u64,
    pub test_directives: bool,
}

impl Default for Settings {
    fn default() -> Self {
        const DAY: u64 = 86_400_000;
        Settings {
            visibility: 1_800_000,
            timeout: 1_800_000,
            completed: DAY,
            cancelled: DAY,
            discarded: 7 * DAY,
            dead_letter: 180 * DAY,
            dead_after: 30_000,
            max_finished: 100_000,
            max_dead_letters: 10_000,
            max_events: 100_000,
            idle_queues: 7 * DAY,
            test_directives: false,
        }
    }
}

/// A handle to the store; clones share it.
#[derive(Clone)]
pub struct Store {
    core: Arc<Core>,
    enqueue: Arc<Batcher<jobs::EnqueueCommand>>,
    fetch: Arc<Batcher<leases::FetchCommand>>,
    ack: Arc<Batcher<ack::AckCommand>>,
    nack: Arc<Batcher<ack::NackCommand>>,
    /// The jobs that this handle can see and change.
    scope: Scope,
}

/// State that all operations share.
pub(crate) struct Core {
    connection: Connection,
    keys: Keys,
    clock: Clock,
    settings: Settings,
    /// The first seven settings as text, in the order in which `lua/lib/runtime.lua` reads them.
    for_scripts: [String; 7],
    tasks: TaskTracker,
    metrics: StoreMetrics,
    signals: broadcast::Sender<Signal>,
    due_timer: DueTimer,
    /// Cancelled when the store closes.
    stop: CancellationToken,
}

impl Store {
    /// Opens the store. The connection is made in the background and kept until `stop`.
    pub fn open(
        options: Options,
        metrics: StoreMetrics,
        tasks: &TaskTracker,
        stop: CancellationToken,
    ) -> Result<Store, Error> {
        let keys = Keys::new(&options.namespace);
        let (schema_key, deadline) = (keys.schema(), options.call_timeout);
        let confirmation = (options.wait_replicas > 0).then(|| Confirmation {
            replicas: options.wait_replicas,
            timeout: options.wait_replicas_timeout,
            schema_key: schema_key.clone(),
        });
        let older = options.older_data;
        let check = move |connection| health::check_server(connection, schema_key.clone(), older, deadline);
        let (connection, keeper) =
            Connection::open(&options.address, deadline, confirmation, metrics.clone(), stop.clone(), check)?;
        tasks.spawn(keeper);
        let signals = signals::channel();
        tasks.spawn(tidy(connection.clone(), stop.clone()));
        let target = options.address.open().map_err(|error| Error::Backend(error.to_string()))?;
        tasks.spawn(signals::listen(target, connection.clone(), keys.signals(), signals.clone(), stop.clone()));
        let s = &options.settings;
        let for_scripts = [s.visibility, s.timeout, s.completed, s.cancelled, s.discarded, s.dead_letter, s.dead_after]
            .map(|number| number.to_string());
        let core = Arc::new(Core {
            connection,
            keys,
            clock: options.clock,
            settings: options.settings,
            for_scripts,
            tasks: tasks.clone(),
            metrics,
            signals,
            due_timer: DueTimer::default(),
            stop,
        });
        Ok(Store {
            enqueue: Arc::new(Batcher::start(jobs::EnqueueCommand::new(Arc::clone(&core)), tasks)),
            fetch: Arc::new(Batcher::start(leases::FetchCommand::new(Arc::clone(&core)), tasks)),
            ack: Arc::new(Batcher::start(ack::AckCommand(Arc::clone(&core)), tasks)),
            nack: Arc::new(Batcher::start(ack::NackCommand(Arc::clone(&core)), tasks)),
            core,
            scope: Scope::ALL,
        })
    }

    /// Returns a handle that is limited to a scope; anything outside it seems not to exist.
    /// Operations on jobs, leases, workers, events and limits obey it. So do those on queues and
    /// crons if the tenant has its own: they take and return the names that the tenant uses.
    /// Operations on rules, pools and keys span all tenants and ignore the scope.
    pub fn within(&self, scope: &Scope) -> Store {
        Store { scope: scope.clone(), ..self.clone() }
    }

    /// Returns the scope: the jobs that this handle can see and change.
    pub fn scope(&self) -> &Scope {
        &self.scope
    }

    /// Waits at most `patience` for the first connection. Returns the last failure if there is
    /// none.
    pub async fn connected_within(&self, patience: Duration) -> Result<(), Error> {
        self.core.connection.connected_within(patience).await
    }

    /// Checks that calls can be carried out now: Redis is reachable and runs the scripts.
    pub async fn ready_within(&self, patience: Duration) -> Result<(), Error> {
        let probe = async {
            self.connected_within(patience).await?;
            script::READ.call(&self.core.connection, |command, _| _ = self.core.begin(command)).await
        };
        tokio::time::timeout(patience, probe).await.map_err(|_| Error::Timeout(patience))?.map(drop)
    }

    /// Subscribes to the signals that scripts send to all processes.
    pub fn signals(&self) -> broadcast::Receiver<Signal> {
        self.core.signals.subscribe()
    }

    /// Waits until something is due that an earlier call of this process has announced.
    pub async fn due(&self) {
        self.core.due_timer.elapsed().await;
    }

    /// Returns the clock whose time the calls carry.
    pub fn clock(&self) -> &Clock {
        &self.core.clock
    }

    /// Returns the settings that scripts use.
    pub fn settings(&self) -> &Settings {
        &self.core.settings
    }
}

impl Core {
    /// Appends the first arguments of every script call: the key, the time and the settings.
    fn begin<'a>(&self, command: &'a mut Cmd) -> &'a mut Cmd {
        command.arg(1).arg(&self.keys.prefix);
        match self.clock.for_script() {
            Some(ms) => command.arg(ms),
            None => command.arg(""),
        }
        .arg(&self.for_scripts)
    }

    async fn command(&self, name: &'static str, command: Cmd) -> Result<redis::Value, Error> {
        self.connection.call(name, |_| command.clone()).await
    }
}

/// Removes the function libraries of other versions once there is a connection. They only cost
/// memory.
async fn tidy(connection: Connection, stop: CancellationToken) {
    let work = async {
        connection.connected_within(TIDY_WITHIN).await?;
        script::forget_others(&connection).await
    };
    tokio::select! {
        () = stop.cancelled() => {}
        outcome = work => {
            if let Err(error) = outcome {
                tracing::debug!(%error, "cannot remove functions of other versions");
            }
        }
    }
}

/// Formats an optional number as an argument; empty if there is none.
fn or_empty(number: Option<u64>) -> String {
    number.map(|number| number.to_string()).unwrap_or_default()
}
