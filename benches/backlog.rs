//! FETCH behind jobs that a limit blocks, compared with FETCH without them.

use crate::case::Case;
use crate::commands::Commands;
use crate::direct::Direct;
use crate::fixture::{Fixture, new_job};
use anyhow::{Context, ensure};
use std::time::{Duration, Instant};

/// Measured fetches and the size of a portion. Portions with and without a backlog alternate.
const FETCHES: u64 = 2000;
const PORTION: u64 = 25;
/// Fetches before the measurement.
const WARM_UP: u64 = 200;

/// Blocked jobs that lie in the queue before all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backlog {
    pub jobs: u64,
    pub keys: u64,
    /// True if the store has seen a limit. Without one, FETCH needs fewer commands.
    pub knows_limits: bool,
}

/// The cost of FETCH behind a backlog.
#[derive(Clone, Debug)]
pub struct Behind {
    pub backlog: Backlog,
    /// The time, in ms, and the script calls until the backlog was parked and no longer in front.
    pub settling_ms: f64,
    pub settling_calls: u64,
    pub here: Times,
    /// The same without a backlog, measured in alternation.
    pub without: Times,
}

/// The times and Redis commands of a number of fetches.
#[derive(Clone, Debug, Default)]
pub struct Times {
    pub times: Vec<Duration>,
    pub commands: u64,
}

impl Times {
    /// The median, in µs.
    pub fn median_us(&self) -> f64 {
        let mut times = self.times.clone();
        times.sort_unstable();
        times.get(times.len() / 2).map_or(0.0, |time| time.as_secs_f64() * 1e6)
    }

    /// Redis commands of one fetch.
    pub fn commands(&self) -> f64 {
        self.commands as f64 / self.times.len().max(1) as f64
    }
}

impl Behind {
    /// The time of a fetch relative to one without a backlog.
    pub fn ratio(&self) -> f64 {
        self.here.median_us() / self.without.median_us().max(1e-9)
    }

    /// The commands of a fetch relative to one without a backlog.
    pub fn ratio_of_commands(&self) -> f64 {
        self.here.commands() / self.without.commands().max(1e-9)
    }
}

impl Backlog {
    /// No blocked jobs, but a store that has seen a limit: the reference for the others.
    pub const NONE: Backlog = Backlog { jobs: 0, keys: 1, knows_limits: true };

    /// A description of its jobs.
    pub fn describe(self) -> String {
        let keys = match self.keys.min(self.jobs) {
            0 if !self.knows_limits => return "no job blocked, no limits known".to_owned(),
            0 => return "no job blocked".to_owned(),
            1 => "1 key".to_owned(),
            keys => format!("{keys} keys"),
        };
        format!("{} blocked of {keys}", self.jobs)
    }

    /// Starts a store with only this backlog and parks it; returns also the time this took, in ms, and the script
    /// calls.
    async fn prepare(self) -> anyhow::Result<(Fixture, f64, u64)> {
        let fixture = Fixture::start(&Case::PLAIN.config()).await?;
        let worker = worker(&fixture);
        if self.knows_limits {
            fixture.fill(1, |_| limited("known", 1)).await?;
            worker.ack(worker.fetch().await?.context("no job is available under a limit of one")?).await?;
        }
        fixture.fill(self.jobs, |place| limited(&format!("k{}", place % self.keys), 0)).await?;
        let mut redis = fixture.redis()?;
        let (started, before) = (Instant::now(), Commands::read(&mut redis)?.scripts());
        let queues = Case::PLAIN.fetch(0).queues;
        while fixture.store.have_runnable(&queues).await? {
            ensure!(worker.fetch().await?.is_none(), "a blocked job was handed out");
        }
        let (took, after) = (started.elapsed(), Commands::read(&mut redis)?.scripts());
        Ok((fixture, took.as_secs_f64() * 1e3, after - before))
    }

    /// Fetches jobs behind the backlog, alternating with a store that has none.
    pub async fn measure(self) -> anyhow::Result<Behind> {
        let (fixture, settling_ms, settling_calls) = self.prepare().await?;
        let (none, ..) = Backlog::NONE.prepare().await?;
        let mut behind =
            Behind { backlog: self, settling_ms, settling_calls, here: Times::default(), without: Times::default() };
        let mut both = [(&fixture, &mut behind.here), (&none, &mut behind.without)];
        for (fixture, _) in &both {
            fixture.fill(WARM_UP + FETCHES, |place| new_job(&Case::PLAIN.job(place))).await?;
            fetch(fixture, WARM_UP, &mut Times::default()).await?;
        }
        for turn in 0..FETCHES / PORTION {
            // Each goes first equally often.
            for place in 0..2 {
                let (fixture, times) = &mut both[((place + turn) % 2) as usize];
                fetch(fixture, PORTION, times).await?;
            }
        }
        Ok(behind)
    }
}

/// A job under the concurrency limit of the given key.
fn limited(key: &str, concurrency: u64) -> anyhow::Result<fairgate::domain::job::NewJob> {
    new_job(&format!(
        r#"{{"type":"email.send","queue":"default","args":[],"rate_limit":{{"key":"{key}","concurrency":{concurrency}}}}}"#
    ))
}

fn worker(fixture: &Fixture) -> Direct {
    Direct::new(&fixture.store, Case::PLAIN.fetch(0))
}

/// Fetches jobs one by one. They are acked afterwards, so that all counted commands belong to fetches.
async fn fetch(fixture: &Fixture, fetches: u64, times: &mut Times) -> anyhow::Result<()> {
    let (worker, mut redis, mut ids) = (worker(fixture), fixture.redis()?, Vec::new());
    let before = Commands::read(&mut redis)?.total();
    for _ in 0..fetches {
        let started = Instant::now();
        let id = worker.fetch().await?;
        times.times.push(started.elapsed());
        ids.push(id.context("a fetch returned no job although jobs are available")?);
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
    fn median_and_ratio() {
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
    fn a_backlog_describes_itself() {
        let job = limited("k17", 0).expect("a job");
        let limit = job.rate_limit.expect("a limit");
        let key = limit.key.map(|key| key.to_string());
        assert_eq!((key.as_deref(), limit.quota.concurrency), (Some("k17"), Some(0)));
        let backlog = Backlog { jobs: 1000, keys: 10_000, knows_limits: true };
        assert_eq!(backlog.describe(), "1000 blocked of 1000 keys");
        assert_eq!(Backlog { keys: 1, ..backlog }.describe(), "1000 blocked of 1 key");
        assert_eq!(Backlog::NONE.describe(), "no job blocked");
    }
}
