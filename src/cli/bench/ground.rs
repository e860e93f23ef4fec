//! A private Redis with the store and the planner on it, all in this process: promotion is measured without a server.

use super::directory::Directory;
use super::resp::{Reply, Resp};
use super::shape::{KIND, RULE, Shape};
use crate::clock::Clock;
use crate::config::PlanDefaults;
use crate::fair::{Batch, Policy, Rule};
use crate::planner::{Desk, Intake, Rulebook};
use crate::store::embedded::{self, PrivateRedis};
use crate::store::{Options, Settings, Store};
use crate::telemetry::Metrics;
use anyhow::{Context, bail};
use futures_util::{StreamExt, TryStreamExt, stream};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Jobs in one request, the most that one call of the store takes, and requests under way.
const PORTION: u64 = 64;
const IN_FLIGHT: usize = 4;
/// How often a long filling tells how far it is.
const PROGRESS: Duration = Duration::from_secs(10);

/// Where promotion is measured. Dropping it ends Redis and removes its data.
pub(super) struct Ground {
    pub(super) rule: Rule,
    pub(super) store: Store,
    pub(super) desk: Desk,
    intake: Intake,
    fillings: u64,
    stop: CancellationToken,
    redis: PrivateRedis,
    _directory: Directory,
}

impl Ground {
    /// Starts Redis and makes one plan rule hold, with rounds of so many jobs.
    pub(super) async fn start(round: u32) -> anyhow::Result<Ground> {
        let directory = Directory::create()?;
        let data_dir = directory.path().join("redis");
        let redis = PrivateRedis::start(embedded::Options { data_dir, durable: false })?;
        let options = Options {
            address: redis.address(),
            namespace: "default".to_owned(),
            call_timeout: Duration::from_secs(30),
            clock: Clock::System,
            settings: Settings::default(),
        };
        let (metrics, stop) = (Metrics::default(), CancellationToken::new());
        let store = Store::open(options, metrics.store.clone(), &TaskTracker::new(), stop.clone())?;
        store.connected_within(Duration::from_secs(5)).await?;
        // The gate stays open, however much was promoted before.
        let (max_depth, latency_threshold) = (1_000_000_000, 1_000_000_000);
        let batch = Batch::Jobs(round);
        let rule = Rule { batch, max_depth, latency_threshold, ..Rule::new(RULE, &[KIND]) };
        let rules = Rulebook::new(store.clone(), vec![rule], Policy::default(), PlanDefaults::default());
        let known = rules.start().await?;
        let rule = known.rules.get(RULE).context("the plan rule does not hold")?;
        let (rule, intake) = (Rule::clone(rule), Intake::new(store.clone(), rules.clone()));
        let desk = Desk::new(store.clone(), rules, metrics, "bench");
        Ok(Ground { rule, store, desk, intake, fillings: 0, stop, redis, _directory: directory })
    }

    pub(super) fn redis(&self) -> anyhow::Result<Resp> {
        Resp::connect(self.redis.socket())
    }

    /// The number of the last filling.
    pub(super) fn filling(&self) -> u64 {
        self.fillings
    }

    /// Stages all jobs of a shape through the planner's intake.
    pub(super) async fn fill(&mut self, shape: Shape) -> anyhow::Result<()> {
        self.fillings += 1;
        // While a rule is paused nothing passes straight through to the main queue.
        self.store.pause_rule(RULE, true).await?;
        let (filling, intake, jobs) = (self.fillings, &self.intake, shape.jobs());
        let request = |first: u64| async move {
            let places = first..(first + PORTION).min(jobs);
            let jobs = places.map(|place| shape.job(filling, place)).collect::<anyhow::Result<Vec<_>>>()?;
            intake.enqueue(jobs, true, &|_| None).await?;
            anyhow::Ok(first)
        };
        let mut told = Instant::now();
        let firsts = (0..jobs).step_by(PORTION as usize);
        let mut done = stream::iter(firsts).map(request).buffered(IN_FLIGHT);
        while let Some(first) = done.try_next().await? {
            if told.elapsed() > PROGRESS {
                eprintln!("  staged {first} of {jobs} …");
                told = Instant::now();
            }
        }
        self.store.pause_rule(RULE, false).await?;
        let staged = self.store.rule_status(RULE, None).await?.staged;
        anyhow::ensure!(staged == jobs, "{staged} of {jobs} jobs are staged");
        Ok(())
    }

    /// Forgets what was slow so far, and remembers what takes longer than a millisecond from now on.
    pub(super) fn watch_slow_calls(&self) -> anyhow::Result<()> {
        let mut redis = self.redis()?;
        redis.call(&["CONFIG", "SET", "slowlog-log-slower-than", "1000", "slowlog-max-len", "100000"])?;
        redis.call(&["SLOWLOG", "RESET"]).map(drop)
    }

    /// Scripts that took a millisecond or longer since, except that of this digest: what 99 of 100 did not exceed, and the
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
    (is(0, "EVALSHA") && !is(1, except)).then_some(*took)
}

impl Drop for Ground {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
