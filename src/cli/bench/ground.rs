//! The store and its way in, in this process: what is measured without a server.

use super::directory::Directory;
use super::resp::{Reply, Resp};
use crate::app;
use crate::clock::Clock;
use crate::job::request::{self, Context as Surroundings};
use crate::job::{Limits, NewJob};
use crate::main_queue::MainQueues;
use crate::planner::{EnqueueService, Rulebook};
use crate::store::embedded::{self, PrivateRedis};
use crate::store::{Address, Enqueued, Options, Store};
use crate::telemetry::Metrics;
use anyhow::{bail, ensure};
use futures_util::{StreamExt, TryStreamExt, stream};
use std::iter;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Jobs in one request, the most that one call of the store takes, and requests under way.
const PORTION: u64 = 64;
const IN_FLIGHT: usize = 4;
/// How often a long filling tells how far it is.
const PROGRESS: Duration = Duration::from_secs(10);

/// A store under the rules of a configuration. Dropping it closes the store, and ends the Redis that it has started.
pub(super) struct Ground {
    pub(super) store: Store,
    pub(super) rules: Rulebook,
    pub(super) metrics: Metrics,
    enqueue_service: EnqueueService,
    stop: CancellationToken,
    socket: PathBuf,
    /// The directory last, because Redis still uses it when it ends.
    own: Option<(PrivateRedis, Directory)>,
}

impl Ground {
    /// Starts a Redis and makes a configuration hold there.
    pub(super) async fn start(config: &str) -> anyhow::Result<Ground> {
        let directory = Directory::create()?;
        let data_dir = directory.path().join("redis");
        let redis = PrivateRedis::start(embedded::Options { data_dir, durable: false })?;
        let mut ground = Ground::on(redis.socket(), config).await?;
        ground.own = Some((redis, directory));
        Ok(ground)
    }

    /// Makes a configuration hold on a Redis that is there.
    pub(super) async fn on(socket: &Path, config: &str) -> anyhow::Result<Ground> {
        let config = Directory::with_config(config)?.config()?;
        let options = Options {
            address: Address::unix(socket),
            namespace: "default".to_owned(),
            call_timeout: Duration::from_secs(30),
            wait_replicas: 0,
            wait_replicas_timeout: Duration::from_secs(1),
            clock: Clock::System,
            settings: app::settings(&config),
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
        Ok(Ground { store, rules, metrics, enqueue_service, stop, socket: socket.to_owned(), own: None })
    }

    pub(super) fn socket(&self) -> &Path {
        &self.socket
    }

    pub(super) fn redis(&self) -> anyhow::Result<Resp> {
        Resp::connect(&self.socket)
    }

    /// Stores jobs, all of them or none.
    pub(super) async fn enqueue(&self, jobs: Vec<NewJob>) -> anyhow::Result<()> {
        let answer = self.enqueue_service.enqueue(jobs, true, &|_| None).await?;
        ensure!(matches!(answer, Enqueued::Stored(_)), "jobs are not stored: {answer:?}");
        Ok(())
    }

    /// Stores so many jobs, each by its place; those before come first.
    pub(super) async fn fill(
        &self,
        jobs: u64,
        job: impl Fn(u64) -> anyhow::Result<NewJob> + Sync,
    ) -> anyhow::Result<()> {
        let job = &job;
        let request = |first: u64| async move {
            let places = first..(first + PORTION).min(jobs);
            self.enqueue(places.map(job).collect::<anyhow::Result<_>>()?).await?;
            Ok::<u64, anyhow::Error>(first)
        };
        let mut told = Instant::now();
        let firsts = (0..jobs).step_by(PORTION as usize);
        let mut done = stream::iter(firsts).map(request).buffered(IN_FLIGHT);
        while let Some(first) = done.try_next().await? {
            if told.elapsed() > PROGRESS {
                eprintln!("  stored {first} of {jobs} …");
                told = Instant::now();
            }
        }
        Ok(())
    }

    /// Forgets what was slow so far, and remembers what takes longer than a millisecond from now on.
    pub(super) fn watch_slow_calls(&self) -> anyhow::Result<()> {
        let mut redis = self.redis()?;
        redis.call(&["CONFIG", "SET", "slowlog-log-slower-than", "1000", "slowlog-max-len", "100000"])?;
        redis.call(&["SLOWLOG", "RESET"]).map(drop)
    }

    /// Redis makes room for more keys bit by bit, with every look at one: which of the sizes that are compared has that going on
    /// depends on where it lies between two powers of two, and it can double the time of a call. So many looks end it.
    pub(super) fn let_keys_settle(&self) -> anyhow::Result<()> {
        let mut redis = self.redis()?;
        let looks = 1000;
        let words: Vec<&str> = iter::once("EXISTS").chain(iter::repeat_n("nothing", looks)).collect();
        for _ in 0..=redis.keys()? as usize / looks {
            redis.call(&words)?;
        }
        Ok(())
    }

    /// Scripts that took a millisecond or longer since, except the one of this name or digest: what 99 of 100 did not exceed, and the
    /// slowest, in ms. A process that the machine does not let run is slow as well.
    pub(super) fn slow_calls(&self, except: &str) -> anyhow::Result<(f64, f64)> {
        let Reply::List(entries) = self.redis()?.call(&["SLOWLOG", "GET", "-1"])? else { bail!("no slow log") };
        let mut times: Vec<i64> = entries.iter().filter_map(|entry| script_time(entry, except)).collect();
        times.sort_unstable();
        let place = |share: usize| times.get((times.len() * share / 100).min(times.len().saturating_sub(1)));
        let ms = |time: Option<&i64>| time.map_or(0.0, |time| *time as f64 / 1e3);
        Ok((ms(place(99)), ms(times.last())))
    }
}

/// How long a script took by its entry in the slow log, in µs.
fn script_time(entry: &Reply, except: &str) -> Option<i64> {
    let Reply::List(fields) = entry else { return None };
    let (Reply::Number(took), Reply::List(words)) = (fields.get(2)?, fields.get(3)?) else { return None };
    let is = |place: usize, text: &str| matches!(words.get(place), Some(Reply::Text(word)) if word == text);
    ((is(0, "FCALL") || is(0, "EVALSHA")) && !is(1, except)).then_some(*took)
}

/// A job as a client would post it.
pub(super) fn new_job(text: &str) -> anyhow::Result<NewJob> {
    let job = request::parse(text, &Limits::default(), &Surroundings::default());
    job.map_err(|problem| anyhow::anyhow!("the job is refused: {problem:?}"))
}

impl Drop for Ground {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
