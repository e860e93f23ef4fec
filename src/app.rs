//! The composition root: starts and stops all parts. The only module that spawns long-lived tasks.

use crate::api::{Api, Server, Services, Timeouts};
use crate::auth::{self, ApiKey, AuthMode, KeyCache};
use crate::background::{Auditor, CronRunner, HistoryRecorder, NoisyNeighborWatcher, Ticker, WebhookDelivery};
use crate::clock::Clock;
use crate::config::{self, Config, MainQueue as MainQueueConfig, MainQueueKind, Role};
use crate::domain::plan::Rules;
use crate::enqueue::EnqueueService;
use crate::long_poll::Waiters;
use crate::main_queue::{ImportSource, MainQueue, MainQueues, Ojs, RedisLocation, Sidekiq};
use crate::planner::{Planner, RunnerRegistry};
use crate::remote::{self, Remote};
use crate::rules::Rulebook;
use crate::shadow::ShadowScheduler;
use crate::sidekiq::{ImportSources, Importer};
use crate::store::embedded::{self, PrivateRedis};
use crate::store::{self, AddKeyOutcome, Address, OlderData, Options, Settings, Store};
use crate::telemetry::{Metrics, SidekiqMetrics, StoreMetrics};
use crate::webhooks::{Destinations, Sender};
use anyhow::Context;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Time for which the start waits for Redis before it logs a warning and continues without it.
const PATIENCE_WITH_STORE: Duration = Duration::from_secs(5);

/// A running fairgate.
pub struct App {
    pub address: SocketAddr,
    pub store: Store,
    pub metrics: Metrics,
    pub keys: KeyCache,
    /// The key that was created at the start because there was none. It is shown once.
    pub generated_key: Option<String>,
    api: Api,
    stop: CancellationToken,
    stop_store: CancellationToken,
    tasks: TaskTracker,
    store_tasks: TaskTracker,
    /// Stopped last, after all writers.
    private: Option<PrivateRedis>,
}

impl App {
    /// Starts everything; returns once requests are accepted.
    pub async fn start(config: &Config, clock: Clock) -> anyhow::Result<App> {
        let listener = TcpListener::bind(config.server.listen).await.with_context(|| {
            format!("cannot listen on {}; choose another address with --listen", config.server.listen)
        })?;
        let (at, private) = store_address(&config.store).await?;
        let (stop, stop_store) = (CancellationToken::new(), CancellationToken::new());
        let (tasks, store_tasks) = (TaskTracker::new(), TaskTracker::new());
        let metrics = Metrics::default();
        let options = Options {
            address: at.clone(),
            namespace: config.store.namespace.clone(),
            call_timeout: config.store.call_timeout,
            wait_replicas: config.store.wait_replicas,
            wait_replicas_timeout: config.store.wait_replicas_timeout,
            clock,
            settings: settings(config),
            older_data: OlderData::Migrate,
        };
        let store = Store::open(options, metrics.store.clone(), &store_tasks, stop_store.clone())?;
        match store.connected_within(PATIENCE_WITH_STORE).await {
            Ok(()) => {}
            Err(error @ crate::store::Error::Schema(_)) => return Err(error.into()),
            Err(error) => tracing::warn!(%error, "starting without Redis; requests get 503 until it is reachable"),
        }
        let keys = KeyCache::new(store.clone(), config.api_keys.clone());
        if let Err(error) = keys.reload().await {
            tracing::warn!(%error, "waiting for Redis: API keys are not loaded yet, so requests are refused");
        }
        let generated_key = if config.server.generate_key { first_key(&keys).await? } else { None };
        let rules = Rulebook::with_tenants(
            store.clone(),
            config.plan.clone(),
            config.policy.clone(),
            config.plan_defaults.clone(),
            config.tenant.clone(),
        );
        for covered in Rules::new(config.plan.clone()).covered() {
            tracing::warn!(rule = covered.rule, "{covered}");
        }
        if let Err(error) = rules.start().await {
            tracing::warn!(%error, "cannot write the plan rules yet; the first request tries again");
        }
        let main_queues = main_queues(config, &at, &store, &metrics, &store_tasks, &stop_store)?;
        let tenancy = Arc::new(config.tenancy.clone());
        let enqueue_service = EnqueueService::new(store.clone(), rules.clone(), main_queues.clone(), tenancy);
        let enqueue_service =
            if config.server.pass_through.is_some() { enqueue_service.of_planned() } else { enqueue_service };
        let process: Arc<str> = holder().into();
        let registry = RunnerRegistry::new(store.clone(), rules.clone(), main_queues, metrics.clone(), &process);
        let waiters = Waiters::default();
        let cron_runner = CronRunner::new(store.clone(), enqueue_service.clone(), config.limits.of_jobs());
        let allowed = if config.server.private_webhooks { Destinations::Any } else { Destinations::Public };
        let sender = Sender::new(allowed).context("cannot create the HTTP client for webhooks")?;
        let services = Services {
            enqueue_service,
            cron_runner: cron_runner.clone(),
            waiters: waiters.clone(),
            sender: sender.clone(),
        };
        let api = Api::new(store.clone(), keys.clone(), registry.clone(), services, metrics.clone(), config);
        let server = Server {
            listener,
            api: api.clone(),
            max_connections: config.limits.max_connections,
            max_connections_per_peer: config.server.max_connections_per_peer,
            max_header: config.limits.max_header.bytes(),
            timeouts: Timeouts {
                header: config.server.header_timeout,
                idle: config.server.idle_timeout,
                send: config.server.send_timeout,
            },
            grace: config.server.shutdown_grace,
            metrics: metrics.http.clone(),
        };
        let address = server.address()?;
        // Every process answers fetches and must hear of available jobs, even without the dispatch
        // role.
        tasks.spawn(waiters.follow(store.signals(), stop.clone()));
        tasks.spawn(server.run(stop.clone()));
        tasks.spawn(rules.clone().follow(stop.clone()));
        tasks.spawn(keys.clone().follow(stop.clone()));
        if config.server.has(Role::Dispatch) {
            tasks.spawn(Ticker::new(store.clone()).run(stop.clone()));
            let neighbors =
                NoisyNeighborWatcher::new(store.clone(), config.noisy_neighbors.clone(), metrics.noise.clone());
            tasks.spawn(neighbors.watch(holder(), stop.clone()));
            tasks.spawn(cron_runner.run(stop.clone()));
            tasks.spawn(WebhookDelivery::new(store.clone(), sender).run(stop.clone()));
            tasks.spawn(HistoryRecorder::new(registry.clone()).run(stop.clone()));
            tasks.spawn(Auditor::new(store.clone(), metrics.store.dispatch.clone()).run(stop.clone()));
        }
        if config.server.has(Role::Planner) {
            let planned = CancellationToken::new();
            for sources in sources(config, &store, &rules, registry.main_queues(), &process, &metrics.sidekiq) {
                tasks.spawn(sources.run(stop.clone(), planned.clone()));
            }
            let groups = config.server.planner_groups.clone();
            tasks.spawn(ShadowScheduler::new(registry.clone(), groups.clone()).run(stop.clone()));
            let planner = Planner::new(registry, groups).run(stop.clone());
            let planned = planned.drop_guard();
            tasks.spawn(async move {
                planner.await;
                drop(planned);
            });
        }
        Ok(App { address, store, metrics, keys, generated_key, api, stop, stop_store, tasks, store_tasks, private })
    }

    /// Returns the private Redis, if there is one.
    pub fn private_redis(&self) -> Option<&PrivateRedis> {
        self.private.as_ref()
    }

    /// Shuts down in this order: report not ready, finish requests in flight, end all loops, close
    /// the store, save and stop the private Redis.
    pub async fn shut_down(self) {
        self.api.drain();
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
        drop((self.api, self.keys, self.store));
        self.stop_store.cancel();
        self.store_tasks.close();
        // By now, leases of clients that have disconnected are returned, or they will expire.
        _ = tokio::time::timeout(Duration::from_secs(2), self.store_tasks.wait()).await;
        if let Some(private) = self.private {
            // This waits for the child process, so it must not block a runtime thread.
            _ = tokio::task::spawn_blocking(move || drop(private)).await;
        }
    }
}

/// Creates an admin key if there are no keys.
async fn first_key(keys: &KeyCache) -> anyhow::Result<Option<String>> {
    let mode = keys.known_mode().await.context("cannot read the API keys, which server.generate_key requires")?;
    if mode == AuthMode::Required {
        return Ok(None);
    }
    let (secret, key) = ApiKey::generate("admin", auth::Role::Admin, None)?;
    let kept = keys.create(&key, "server.generate_key").await.context("cannot store the first API key")?;
    // Another process that started at the same time may have created one.
    Ok((kept == AddKeyOutcome::Added).then_some(secret))
}

/// Returns the name of this process in locks. The last part distinguishes containers with equal
/// host names and process ids.
fn holder() -> String {
    let host = nix::unistd::gethostname().map_or_else(|_| "?".to_owned(), |name| name.to_string_lossy().into_owned());
    let unique = crate::domain::job::id::generate();
    format!("{host}:{}:{}", std::process::id(), unique.rsplit('-').next().unwrap_or_default())
}

/// Returns the configured Redis, or starts a private one.
async fn store_address(config: &config::Store) -> anyhow::Result<(Address, Option<PrivateRedis>)> {
    if let Some(address) = address(config)? {
        return Ok((address, None));
    }
    let options = embedded::Options { data_dir: config.data_dir.clone(), durable: true };
    let private = tokio::task::spawn_blocking(|| PrivateRedis::start(options)).await??;
    Ok((private.address(), Some(private)))
}

/// Returns the configured Redis, if there is one.
pub fn address(config: &config::Store) -> anyhow::Result<Option<Address>> {
    let access = config::Access {
        url: config.url.clone(),
        username: config.username.clone(),
        password: config.password.clone(),
        ca_file: config.ca_file.clone(),
    };
    address_of(&access, "store")
}

fn address_of(access: &config::Access, section: &str) -> anyhow::Result<Option<Address>> {
    let Some(url) = &access.url else { return Ok(None) };
    let certificates = certificates(access.ca_file.as_deref(), section)?;
    Ok(Some(Address {
        topology: url.topology.clone(),
        tls: url.tls,
        username: access.username.clone(),
        password: access.password.as_ref().map(|password| password.expose().to_owned()),
        root_certificates: certificates,
    }))
}

fn certificates(file: Option<&Path>, section: &str) -> anyhow::Result<Option<Vec<u8>>> {
    let read =
        |path: &Path| std::fs::read(path).with_context(|| format!("cannot read {section}.ca_file {}", path.display()));
    file.map(read).transpose()
}

/// Returns the Redis of a Sidekiq main queue.
pub fn sidekiq_address(name: &str, sidekiq: &config::Sidekiq, ours: &Address) -> anyhow::Result<Address> {
    let own = || sidekiq.database.map_or_else(|| ours.clone(), |database| ours.in_database(database));
    Ok(address_of(&sidekiq.access, &format!("main_queue {name:?}"))?.unwrap_or_else(own))
}

/// Creates a client for an OJS main queue.
pub fn remote(name: &str, ojs: &config::Ojs) -> anyhow::Result<Remote> {
    let section = format!("main_queue {name:?}");
    let options = remote::Options {
        url: ojs.url.clone(),
        token: ojs.token.clone(),
        certificates: certificates(ojs.ca_file.as_deref(), &section)?,
        timeout: ojs.timeout,
    };
    Remote::new(&options).map_err(|reason| anyhow::anyhow!("cannot use {section}: {reason}"))
}

/// Creates the configured main queues; they are connected in the background.
fn main_queues(
    config: &Config,
    ours: &Address,
    store: &Store,
    metrics: &Metrics,
    tasks: &TaskTracker,
    stop: &CancellationToken,
) -> anyhow::Result<MainQueues> {
    let mut others = Vec::new();
    for MainQueueConfig { name, kind } in &config.main_queues {
        let main_queue = match kind {
            MainQueueKind::Sidekiq(sidekiq) => {
                let deadline = config.store.call_timeout;
                let options = ConnectionOptions { ours, store, deadline, metrics: &metrics.store, tasks, stop };
                MainQueue::Sidekiq(Arc::new(open_sidekiq(name, sidekiq, &options)?))
            }
            MainQueueKind::Ojs(ojs) => MainQueue::Ojs(Arc::new(Ojs::new(name, store.clone(), remote(name, ojs)?))),
        };
        others.push((name.clone(), main_queue));
    }
    Ok(MainQueues::new(store.clone(), others))
}

/// Options of a connection to a Sidekiq.
pub struct ConnectionOptions<'a> {
    /// The address of the store.
    pub ours: &'a Address,
    pub store: &'a Store,
    /// Maximum duration of a call.
    pub deadline: Duration,
    pub metrics: &'a StoreMetrics,
    pub tasks: &'a TaskTracker,
    pub stop: &'a CancellationToken,
}

/// Opens a configured Sidekiq; it is connected in the background.
pub fn open_sidekiq(name: &str, sidekiq: &config::Sidekiq, with: &ConnectionOptions<'_>) -> anyhow::Result<Sidekiq> {
    let theirs = sidekiq_address(name, sidekiq, with.ours)?;
    let place = match (with.ours.is_same_server(&theirs), with.ours.database(), theirs.database()) {
        (true, ours, theirs) if ours == theirs => RedisLocation::Here,
        (true, ours, theirs) => RedisLocation::Database { theirs, ours },
        (false, ..) => RedisLocation::Elsewhere,
    };
    let (metrics, stop) = (with.metrics.clone(), with.stop.clone());
    let redis = store::Sidekiq::open(&theirs, &sidekiq.prefix(), with.deadline, metrics, with.tasks, stop)?;
    Ok(Sidekiq::new(name, with.store.clone(), redis, place, sidekiq.staging_queue.clone()))
}

/// Creates an importer for each source of a Sidekiq; `process` is the name of this process.
pub fn importers(
    config: &config::Sidekiq,
    sidekiq: &Arc<Sidekiq>,
    store: &Store,
    rules: &Rulebook,
    default_tenant: &str,
    process: &Arc<str>,
    metrics: &SidekiqMetrics,
) -> Vec<Importer> {
    let queues = config.staging_queue.iter().cloned().map(ImportSource::Queue);
    let classes = config.fairplay_classes.iter().cloned().map(ImportSource::Fairplay);
    let importer = |source| {
        let (sidekiq, process, metrics) = (Arc::clone(sidekiq), Arc::clone(process), metrics.clone());
        Importer::new(store.clone(), rules.clone(), sidekiq, source, default_tenant.to_owned(), process, metrics)
    };
    queues.chain(classes).map(importer).collect()
}

/// Returns the sources from which this process imports the jobs that clients of a Sidekiq push.
fn sources(
    config: &Config,
    store: &Store,
    rules: &Rulebook,
    main_queues: &MainQueues,
    process: &Arc<str>,
    metrics: &SidekiqMetrics,
) -> Vec<ImportSources> {
    let mut all = Vec::new();
    for MainQueueConfig { name, kind } in &config.main_queues {
        let MainQueueKind::Sidekiq(of_sidekiq) = kind else { continue };
        let Some(MainQueue::Sidekiq(sidekiq)) = main_queues.get(name) else { continue };
        let importers = importers(of_sidekiq, &sidekiq, store, rules, &config.tenancy.default_tenant, process, metrics);
        let release_within = of_sidekiq.release_on_exit.then_some(config.server.shutdown_grace);
        let (store, rules) = (store.clone(), rules.clone());
        all.push(ImportSources { store, rules, sidekiq, importers, release_within });
    }
    all
}

/// Returns the settings that scripts use.
pub fn settings(config: &Config) -> Settings {
    let ms = |duration: Duration| duration.as_millis() as u64;
    let retention = &config.retention;
    Settings {
        visibility: ms(config.jobs.visibility_timeout),
        timeout: ms(config.jobs.timeout),
        completed: ms(retention.completed),
        cancelled: ms(retention.cancelled),
        discarded: ms(retention.discarded),
        dead_letter: ms(retention.dead_letter),
        dead_after: ms(config.workers.dead_after),
        max_finished: retention.max_completed,
        max_dead_letters: retention.max_dead_letters,
        max_events: retention.max_events,
        idle_queues: ms(retention.idle_queues),
        test_directives: config.server.test_directives,
    }
}
