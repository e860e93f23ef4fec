//! FETCH with jobs ahead that a limit blocks, beside FETCH with none.

use super::case::Case;
use super::commands::Commands;
use super::direct::Direct;
use super::ground::{Ground, new_job};
use anyhow::{Context, ensure};
use std::time::{Duration, Instant};

/// Jobs that are fetched, in portions: with and without a backlog take turns.
const FETCHES: u64 = 2000;
const PORTION: u64 = 25;
/// Fetches that are not counted.
const WARM_UP: u64 = 200;

/// Jobs that may not run, ahead of all that may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Backlog {
    pub(super) jobs: u64,
    pub(super) keys: u64,
    /// Whether there ever was a limit: without, a shorter script serves.
    pub(super) knows_limits: bool,
}

/// What FETCH takes behind a backlog.
#[derive(Clone, Debug)]
pub(super) struct Behind {
    pub(super) backlog: Backlog,
    /// What it took until nothing of it was in front any more: ms, and calls of the script.
    pub(super) settling_ms: f64,
    pub(super) settling_calls: u64,
    pub(super) here: Times,
    /// Without a backlog, at the same time.
    pub(super) without: Times,
}

/// What a number of fetches took.
#[derive(Clone, Debug, Default)]
pub(super) struct Times {
    pub(super) times: Vec<Duration>,
    pub(super) commands: u64,
}

impl Times {
    /// The middle one, in µs.
    pub(super) fn median_us(&self) -> f64 {
        let mut times = self.times.clone();
        times.sort_unstable();
        times.get(times.len() / 2).map_or(0.0, |time| time.as_secs_f64() * 1e6)
    }

    /// Redis commands of one fetch.
    pub(super) fn commands(&self) -> f64 {
        self.commands as f64 / self.times.len().max(1) as f64
    }
}

impl Behind {
    /// How much longer a fetch takes than without a backlog.
    pub(super) fn ratio(&self) -> f64 {
        self.here.median_us() / self.without.median_us().max(1e-9)
    }

    /// How many more commands it takes.
    pub(super) fn ratio_of_commands(&self) -> f64 {
        self.here.commands() / self.without.commands().max(1e-9)
    }
}

impl Backlog {
    /// None, where limits are known all the same: what the others are compared with.
    pub(super) const NONE: Backlog = Backlog { jobs: 0, keys: 1, knows_limits: true };

    /// Its jobs in words.
    pub(super) fn describe(self) -> String {
        let keys = match self.keys.min(self.jobs) {
            0 if !self.knows_limits => return "no job blocked, no limits known".to_owned(),
            0 => return "no job blocked".to_owned(),
            1 => "1 key".to_owned(),
            keys => format!("{keys} keys"),
        };
        format!("{} blocked of {keys}", self.jobs)
    }

    /// A store with nothing but this backlog, out of the way of those who fetch.
    async fn lay(self) -> anyhow::Result<(Ground, f64, u64)> {
        let ground = Ground::start(&Case::PLAIN.config()).await?;
        let worker = worker(&ground);
        if self.knows_limits {
            ground.fill(1, |_| limited("known", 1)).await?;
            worker.ack(worker.fetch().await?.context("a limit of one job lets none go")?).await?;
        }
        ground.fill(self.jobs, |place| limited(&format!("k{}", place % self.keys), 0)).await?;
        let mut redis = ground.redis()?;
        let (started, before) = (Instant::now(), Commands::read(&mut redis)?.scripts());
        let queues = Case::PLAIN.fetch(0).queues;
        while ground.store.have_runnable(&queues).await? {
            ensure!(worker.fetch().await?.is_none(), "a blocked job was handed out");
        }
        let (took, after) = (started.elapsed(), Commands::read(&mut redis)?.scripts());
        Ok((ground, took.as_secs_f64() * 1e3, after - before))
    }

    /// Fetches what is behind it, in turns with a store that has none.
    pub(super) async fn measure(self) -> anyhow::Result<Behind> {
        let (ground, settling_ms, settling_calls) = self.lay().await?;
        let (none, ..) = Backlog::NONE.lay().await?;
        let mut behind =
            Behind { backlog: self, settling_ms, settling_calls, here: Times::default(), without: Times::default() };
        let mut both = [(&ground, &mut behind.here), (&none, &mut behind.without)];
        for (ground, _) in &both {
            ground.fill(WARM_UP + FETCHES, |place| new_job(&Case::PLAIN.job(place))).await?;
            fetch(ground, WARM_UP, &mut Times::default()).await?;
        }
        for turn in 0..FETCHES / PORTION {
            // Each goes first as often as the other.
            for place in 0..2 {
                let (ground, times) = &mut both[((place + turn) % 2) as usize];
                fetch(ground, PORTION, times).await?;
            }
        }
        Ok(behind)
    }
}

/// A job under a limit of its key.
fn limited(key: &str, concurrency: u64) -> anyhow::Result<crate::job::NewJob> {
    new_job(&format!(
        r#"{{"type":"email.send","queue":"default","args":[],"rate_limit":{{"key":"{key}","concurrency":{concurrency}}}}}"#
    ))
}

fn worker(ground: &Ground) -> Direct {
    Direct::new(&ground.store, Case::PLAIN.fetch(0))
}

/// Fetches jobs one after the other. They are acked afterwards, so that all commands in between are those of fetches.
async fn fetch(ground: &Ground, fetches: u64, times: &mut Times) -> anyhow::Result<()> {
    let (worker, mut redis, mut ids) = (worker(ground), ground.redis()?, Vec::new());
    let before = Commands::read(&mut redis)?.total();
    for _ in 0..fetches {
        let started = Instant::now();
        let id = worker.fetch().await?;
        times.times.push(started.elapsed());
        ids.push(id.context("a fetch was empty although there are jobs")?);
    }
    times.commands += Commands::read(&mut redis)?.total() - before;
    for id in ids {
        worker.ack(id).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_and_the_ratio() {
        let times = |numbers: &[u64], commands| Times {
            times: numbers.iter().map(|us| Duration::from_micros(*us)).collect(),
            commands,
        };
        let (here, without) = (times(&[900, 300, 100], 33), times(&[200, 100, 7000], 30));
        let behind = Behind { backlog: Backlog::NONE, settling_ms: 0.0, settling_calls: 0, here, without };
        assert!((behind.ratio() - 1.5).abs() < 1e-9);
        assert!((behind.ratio_of_commands() - 1.1).abs() < 1e-9);
        assert_eq!(Times::default().median_us(), 0.0);
    }

    #[test]
    fn blocked_jobs_say_so() {
        let job = limited("k17", 0).expect("a job");
        let limit = job.rate_limit.expect("a limit");
        assert_eq!((limit.key.as_deref(), limit.quota.concurrency), (Some("k17"), Some(0)));
        let backlog = Backlog { jobs: 1000, keys: 10_000, knows_limits: true };
        assert_eq!(backlog.describe(), "1000 blocked of 1000 keys");
        assert_eq!(Backlog { keys: 1, ..backlog }.describe(), "1000 blocked of 1 key");
        assert_eq!(Backlog::NONE.describe(), "no job blocked");
    }
}
