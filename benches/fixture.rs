//! The store and the enqueue service in this process, for measurements without a server.

use crate::directory::Directory;
use crate::resp::{Reply, Resp};
use anyhow::{bail, ensure};
use fairgate::app;
use fairgate::clock::Clock;
use fairgate::domain::job::request::{self, Context as Surroundings};
use fairgate::domain::job::{EnqueueKind, NewJob, RequestLimits};
use fairgate::enqueue::EnqueueService;
use fairgate::main_queue::MainQueues;
use fairgate::rules::Rulebook;
use fairgate::store::embedded::{self, PrivateRedis};
use fairgate::store::{Address, Enqueued, OlderData, Options, Store};
use fairgate::telemetry::Metrics;
use futures_util::{StreamExt, TryStreamExt, stream};
use std::iter;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Jobs per request, the most that one store call accepts, and concurrent requests.
const PORTION: u64 = 64;
const IN_FLIGHT: usize = 4;
/// The interval of progress messages while many jobs are stored.
const PROGRESS: Duration = Duration::from_secs(10);

/// A store with the rules of a configuration. Dropping it closes the store and stops the Redis it started.
pub struct Fixture {
    pub store: Store,
    pub rules: Rulebook,
    pub metrics: Metrics,
    enqueue_service: EnqueueService,
    stop: CancellationToken,
    socket: PathBuf,
    /// The directory is dropped last, because Redis uses it until it stops.
    own: Option<(PrivateRedis, Directory)>,
}

impl Fixture {
    /// Starts a Redis and applies a configuration to it.
    pub async fn start(config: &str) -> anyhow::Result<Fixture> {
        let directory = Directory::create()?;
        let data_dir = directory.path().join("redis");
        let redis = PrivateRedis::start(embedded::Options { data_dir, durable: false })?;
        let mut fixture = Fixture::on(redis.socket(), config).await?;
        fixture.own = Some((redis, directory));
        Ok(fixture)
    }

    /// Applies a configuration to a running Redis.
    pub async fn on(socket: &Path, config: &str) -> anyhow::Result<Fixture> {
        let config = Directory::with_config(config)?.config()?;
        let options = Options {
            address: Address::unix(socket),
            namespace: "default".to_owned(),
            call_timeout: Duration::from_secs(30),
            wait_replicas: 0,
            wait_replicas_timeout: Duration::from_secs(1),
            clock: Clock::System,
            settings: app::settings(&config),
            older_data: OlderData::Refuse,
        };
        let (metrics, stop) = (Metrics::default(), CancellationToken::new());
        let store = Store::open(options, metrics.store.clone(), &TaskTracker::new(), stop.clone())?;
        store.connected_within(Duration::from_secs(5)).await?;
        let rules =
            Rulebook::with_tenants(store.clone(), config.plan, config.policy, config.plan_defaults, config.tenant);
        rules.start().await?;
        let enqueue_service = EnqueueService::new(
            store.clone(),
            rules.clone(),
            MainQueues::builtin(store.clone()),
            config.tenancy.into(),
        );
        Ok(Fixture { store, rules, metrics, enqueue_service, stop, socket: socket.to_owned(), own: None })
    }

    pub fn socket(&self) -> &Path {
        &self.socket
    }

    pub fn redis(&self) -> anyhow::Result<Resp> {
        Resp::connect(&self.socket)
    }

    /// Enqueues jobs, all of them or none.
    pub async fn enqueue(&self, jobs: Vec<NewJob>) -> anyhow::Result<()> {
        let answer = self.enqueue_service.enqueue(jobs, EnqueueKind::Batch, &|_| None).await?;
        ensure!(matches!(answer, Enqueued::Stored(_)), "jobs were not stored: {answer:?}");
        Ok(())
    }

    /// Enqueues `jobs` jobs in order; `job` makes the one at a position.
    pub async fn fill(&self, jobs: u64, job: impl Fn(u64) -> anyhow::Result<NewJob> + Sync) -> anyhow::Result<()> {
        let job = &job;
        let request = |first: u64| async move {
            let places = first..(first + PORTION).min(jobs);
            self.enqueue(places.map(job).collect::<anyhow::Result<_>>()?).await?;
            Ok::<u64, anyhow::Error>(first)
        };
        let mut reported = Instant::now();
        let firsts = (0..jobs).step_by(PORTION as usize);
        let mut done = stream::iter(firsts).map(request).buffered(IN_FLIGHT);
        while let Some(first) = done.try_next().await? {
            if reported.elapsed() > PROGRESS {
                eprintln!("  stored {first} of {jobs} …");
                reported = Instant::now();
            }
        }
        Ok(())
    }

    /// Clears the slow log and records calls over one millisecond from now on.
    pub fn watch_slow_calls(&self) -> anyhow::Result<()> {
        let mut redis = self.redis()?;
        redis.call(&["CONFIG", "SET", "slowlog-log-slower-than", "1000", "slowlog-max-len", "100000"])?;
        redis.call(&["SLOWLOG", "RESET"]).map(drop)
    }

    /// Completes the incremental rehash of Redis' key table with enough key lookups. Whether a rehash is in progress
    /// depends on the number of keys, and it can double the time of a call.
    pub fn let_keys_settle(&self) -> anyhow::Result<()> {
        let mut redis = self.redis()?;
        let looks = 1000;
        let words: Vec<&str> = iter::once("EXISTS").chain(iter::repeat_n("nothing", looks)).collect();
        for _ in 0..=redis.keys()? as usize / looks {
            redis.call(&words)?;
        }
        Ok(())
    }

    /// The 99th percentile and the maximum, in ms, of script calls in the slow log, without the script of the given
    /// name or digest. Calls that were delayed because the process was not scheduled are included.
    pub fn slow_calls(&self, except: &str) -> anyhow::Result<(f64, f64)> {
        let Reply::List(entries) = self.redis()?.call(&["SLOWLOG", "GET", "-1"])? else {
            bail!("unexpected reply to SLOWLOG GET")
        };
        let mut times: Vec<i64> = entries.iter().filter_map(|entry| script_time(entry, except)).collect();
        times.sort_unstable();
        let place = |share: usize| times.get((times.len() * share / 100).min(times.len().saturating_sub(1)));
        let ms = |time: Option<&i64>| time.map_or(0.0, |time| *time as f64 / 1e3);
        Ok((ms(place(99)), ms(times.last())))
    }
}

/// The duration of a script call from its entry in the slow log, in µs.
fn script_time(entry: &Reply, except: &str) -> Option<i64> {
    let Reply::List(fields) = entry else { return None };
    let (Reply::Number(took), Reply::List(words)) = (fields.get(2)?, fields.get(3)?) else { return None };
    let is = |place: usize, text: &str| matches!(words.get(place), Some(Reply::Text(word)) if word == text);
    ((is(0, "FCALL") || is(0, "EVALSHA")) && !is(1, except)).then_some(*took)
}

/// Parses a job as the server would parse a client's request.
pub fn new_job(text: &str) -> anyhow::Result<NewJob> {
    let job = request::parse(text, &RequestLimits::default(), &Surroundings::default());
    job.map_err(|problem| anyhow::anyhow!("the job is refused: {problem:?}"))
}

impl Drop for Fixture {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
