//! The benchmark `noisy`.

use crate::bar::Bar;
use crate::report::cpus;
use crate::servers::Servers;
use crate::traffic::{Traffic, WaitSummary, WaitTimes};
use clap::Args;
use std::fmt::{self, Display, Formatter};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

const CONFIG: &str = "[[plan]]\nname = \"bench\"\ntypes = [\"planned.*\"]\n";
const PLANNED: &str = "planned.report";
const PLAIN: &str = "plain.report";
/// The planner's default target latency.
const TARGET_LATENCY_MS: f64 = 500.0;
const MEAN: Duration = Duration::from_millis(50);
const FLOOD_CONNECTIONS: usize = 2;

/// Measure the latency of quiet tenants while another tenant floods the queue, with planning and in plain FIFO order.
///
/// Quiet tenants push one job per second each; a fixed number of workers take 50 ms per job on average. Starts a
/// private Redis and a server in a temporary directory and removes them. Exits with 1 if the bar is missed.
#[derive(Args)]
pub struct Noisy {
    /// Seconds for each of the four runs
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u16).range(5..=600))]
    seconds: u16,
    /// Jobs of the noisy tenant
    #[arg(long, default_value_t = 100_000)]
    flood: usize,
    /// Number of quiet tenants
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=200))]
    quiet: u32,
    /// Workers
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=200))]
    workers: u32,
}

impl Noisy {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let report = crate::measure(self.measure())?;
        print!("{report}");
        Ok(if report.bar().is_met { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    async fn measure(&self) -> anyhow::Result<NoisyReport> {
        let servers = Servers::start(false, CONFIG).await?;
        let mut rows = Vec::new();
        for (name, kind, flood) in [
            ("planned, no flood", PLANNED, 0),
            ("planned, flood", PLANNED, self.flood),
            ("FIFO, no flood", PLAIN, 0),
            ("FIFO, flood", PLAIN, self.flood),
        ] {
            eprintln!("{name} …");
            servers.empty()?;
            rows.push(self.row(&servers, name, kind, flood).await?);
        }
        let capacity = f64::from(self.workers) / MEAN.as_secs_f64();
        Ok(NoisyReport { seconds: self.seconds, quiet: self.quiet, flood: self.flood, capacity, rows })
    }

    async fn row(
        &self,
        servers: &Servers,
        name: &'static str,
        kind: &'static str,
        flood: usize,
    ) -> anyhow::Result<Row> {
        let until = Instant::now() + Duration::from_secs(self.seconds.into());
        let traffic = Traffic { address: servers.address, kind, until, wait_times: WaitTimes::default() };
        let (mut workers, mut tenants) = (JoinSet::new(), JoinSet::new());
        for number in 0..self.workers {
            workers.spawn(traffic.clone().work(number, MEAN));
        }
        let second = Duration::from_secs(1);
        for number in 0..self.quiet {
            tenants.spawn(traffic.clone().push_steadily(
                format!("quiet-{number}"),
                second * number / self.quiet,
                second,
            ));
        }
        for _ in 0..FLOOD_CONNECTIONS {
            tenants.spawn(traffic.clone().flood(flood / FLOOD_CONNECTIONS));
        }
        tokio::time::sleep_until(until.into()).await;
        let WaitSummary { histogram, fetched, waiting } = traffic.wait_times.waits();
        let mut done = 0;
        for outcome in workers.join_all().await {
            done += outcome?;
        }
        for outcome in tenants.join_all().await {
            outcome?;
        }
        let [p50_ms, p95_ms, p99_ms] = [0.5, 0.95, 0.99].map(|share| histogram.percentile_ms(share));
        Ok(Row {
            name,
            p50_ms,
            p95_ms,
            p99_ms,
            fetched,
            waiting,
            done_per_second: done as f64 / f64::from(self.seconds),
        })
    }
}

struct Row {
    name: &'static str,
    p50_ms: f64,
    p95_ms: f64,
    p99_ms: f64,
    fetched: u64,
    /// Jobs of quiet tenants that were not fetched in time; their waits are counted up to the end of the run, so they
    /// are lower bounds.
    waiting: u64,
    done_per_second: f64,
}

struct NoisyReport {
    seconds: u16,
    quiet: u32,
    flood: usize,
    capacity: f64,
    rows: Vec<Row>,
}

impl NoisyReport {
    fn bar(&self) -> Bar {
        let bound = self.rows[0].p95_ms + TARGET_LATENCY_MS + MEAN.as_secs_f64() * 1e3;
        Bar::at_most("quiet p95 with flood, planned, ms", self.rows[1].p95_ms, bound)
    }
}

impl Display for NoisyReport {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (seconds, quiet, flood, capacity) = (self.seconds, self.quiet, self.flood, self.capacity);
        writeln!(f, "{quiet} quiet tenants with 1 job/s each, one that pushes {flood} jobs at the start; workers for")?;
        writeln!(
            f,
            "{capacity:.0} jobs/s; {seconds} s each; {} CPUs. Waits of quiet tenants, push to fetch:\n",
            cpus()
        )?;
        writeln!(
            f,
            "{:<18}  {:>9}  {:>9}  {:>9}  {:>7}  {:>13}  {:>11}",
            "", "p50 ms", "p95 ms", "p99 ms", "fetched", "still waiting", "jobs done/s"
        )?;
        for row in &self.rows {
            write!(f, "{:<18}  {:>9.1}  {:>9.1}  {:>9.1}", row.name, row.p50_ms, row.p95_ms, row.p99_ms)?;
            writeln!(f, "  {:>7}  {:>13}  {:>11.0}", row.fetched, row.waiting, row.done_per_second)?;
        }
        writeln!(
            f,
            "\nA job that still waits at the end counts with its age: with such jobs, waits are lower bounds."
        )?;
        writeln!(f, "To the end of the flood a FIFO queue takes {:.0} s.\n", self.flood as f64 / self.capacity)?;
        writeln!(f, "{}", self.bar())
    }
}
