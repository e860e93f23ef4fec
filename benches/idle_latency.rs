//! The benchmark `lone`.

use crate::bar::Bar;
use crate::client::{Connection, request};
use crate::histogram::Histogram;
use crate::report::cpus;
use crate::scenario::expect_success;
use crate::servers::Servers;
use crate::traffic::fetched_id;
use anyhow::ensure;
use clap::Args;
use std::process::ExitCode;
use std::time::{Duration, Instant};

const CONFIG: &str = "[[plan]]\nname = \"bench\"\ntypes = [\"planned.*\"]\n";
/// Samples before the measurement.
const WARM_UP: u32 = 50;
const PAUSE: Duration = Duration::from_millis(2);
/// Fetches after which a job counts as lost.
const MOST_FETCHES: u32 = 100_000;

/// Measure the latency that planning adds on an idle system: from the push of a single job to the fetch that returns
/// it.
///
/// Planned and unplanned jobs alternate. Starts a private Redis and a server in a temporary directory and removes them.
/// Exits with 1 if a bar is missed.
#[derive(Args)]
pub struct IdleLatency {
    /// Jobs of each kind
    #[arg(long, default_value_t = 2000, value_parser = clap::value_parser!(u32).range(500..=1_000_000))]
    samples: u32,
}

/// A kind of job and its times from push to fetch.
struct Kind {
    name: &'static str,
    push: Vec<u8>,
    fetch: Vec<u8>,
    times: Histogram,
    fetches: u64,
}

impl Kind {
    fn new(name: &'static str) -> Kind {
        let job =
            format!(r#"{{"type":"{name}.report","queue":"{name}","args":[1],"meta":{{"tenant_id":"somebody"}}}}"#);
        let fetch = format!(r#"{{"queues":["{name}"],"count":1,"worker_id":"bench"}}"#);
        let (push, fetch) = (request("/ojs/v1/jobs", &job), request("/ojs/v1/workers/fetch", &fetch));
        Kind { name, push, fetch, times: Histogram::new(), fetches: 0 }
    }

    async fn sample(&mut self, connection: &mut Connection, counts: bool) -> anyhow::Result<()> {
        let started = Instant::now();
        expect_success(connection, &self.push, "a push").await?;
        let mut fetches = 0;
        let id = loop {
            expect_success(connection, &self.fetch, "a fetch").await?;
            fetches += 1;
            if let Some(id) = fetched_id(connection.body())? {
                break id;
            }
            ensure!(fetches < MOST_FETCHES, "a {} job was not fetched", self.name);
        };
        if counts {
            self.times.record(started.elapsed());
            self.fetches += u64::from(fetches);
        }
        let ack = request("/ojs/v1/workers/ack", &format!(r#"{{"job_id":"{id}","worker_id":"bench"}}"#));
        expect_success(connection, &ack, "an ack").await
    }
}

impl IdleLatency {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let [planned, plain] = crate::measure(self.measure())?;
        println!("{} jobs of each kind, alternating, {} CPUs. Time from push to fetch:\n", self.samples, cpus());
        println!("{:<10}  {:>7}  {:>7}  {:>15}", "", "p50 ms", "p99 ms", "fetches per job");
        for kind in [&planned, &plain] {
            let (p50, p99) = (kind.times.percentile_ms(0.5), kind.times.percentile_ms(0.99));
            println!(
                "{:<10}  {p50:>7.3}  {p99:>7.3}  {:>15.2}",
                kind.name,
                kind.fetches as f64 / f64::from(self.samples)
            );
        }
        println!();
        let bars = [("p50", 0.5), ("p99", 0.99)].map(|(name, share)| {
            let ratio = planned.times.percentile_ms(share) / plain.times.percentile_ms(share).max(1e-9);
            Bar::at_most(format!("planned to plain, {name}"), ratio, 1.5)
        });
        bars.iter().for_each(|bar| println!("{bar}"));
        Ok(if bars.iter().all(|bar| bar.is_met) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    async fn measure(&self) -> anyhow::Result<[Kind; 2]> {
        let servers = Servers::start(false, CONFIG).await?;
        let mut connection = Connection::open(servers.address).await?;
        let mut kinds = [Kind::new("planned"), Kind::new("plain")];
        for round in 0..WARM_UP + self.samples {
            // Each kind goes first equally often.
            for place in 0..2 {
                let kind = &mut kinds[(place + round as usize) % 2];
                kind.sample(&mut connection, round >= WARM_UP).await?;
                tokio::time::sleep(PAUSE).await;
            }
        }
        Ok(kinds)
    }
}
