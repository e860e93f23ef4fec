//! `fairgate bench http`.

use super::case::Case;
use super::load::{Load, Measured};
use super::process;
use super::raw::{self, Way};
use super::report::{Cpu, Report, Row};
use super::rig::Rig;
use super::scenario::Scenario;
use anyhow::ensure;
use clap::Args;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

const WARM_UP: Duration = Duration::from_millis(500);
/// How long each raw measurement takes in all, about.
const RAW_SECONDS: f64 = 3.0;
/// Single enqueues and what they are compared with take turns, so that what else goes on in the machine happens to all of them.
const TURNS: u32 = 4;
/// Jobs in one scenario at most, some 500 MB in Redis.
const MOST_JOBS: u64 = 500_000;
/// Jobs prepared for each second of fetches: more than two cores hand out.
const PREPARED_PER_SECOND: u64 = 40_000;

/// Measure enqueue, fetch + ack and whole lives of jobs over HTTP, and raw Redis in the same run.
///
/// Starts a private Redis and a server with default settings in a temporary directory, on the loopback, and removes
/// them at the end. One request at a time is in flight on each connection. Exits 1 if any request failed.
#[derive(Args)]
pub(super) struct Http {
    /// Connections that send at the same time
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=1024))]
    connections: u16,
    /// How long each scenario runs
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=60))]
    seconds: u16,
    /// Jobs in one request of the batch scenario
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=1000))]
    jobs_per_batch: u16,
    /// Let Redis write its append-only file, as it does in production
    #[arg(long)]
    durable: bool,
    /// Another OJS server, on the loopback, that gets the same load in the same run; empty its Redis before
    #[arg(long, value_name = "ADDR")]
    against: Option<SocketAddr>,
    /// Print one JSON object instead of the table
    #[arg(long)]
    json: bool,
}

impl Http {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let report = super::measure(self.measure())?;
        super::print(&report, self.json.then(|| report.json()));
        Ok(if report.errors() == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    fn duration(&self) -> Duration {
        Duration::from_secs(self.seconds.into())
    }

    async fn measure(&self) -> anyhow::Result<Report> {
        let rig = Rig::start(self.durable, "").await?;
        let mut report = Report {
            connections: self.connections.into(),
            seconds: self.seconds.into(),
            jobs_per_batch: self.jobs_per_batch.into(),
            durable: self.durable,
            redis: rig.redis()?.version()?,
            idle_memory: process::resident(rig.server_pid()),
            ..Report::default()
        };
        // One job over HTTP makes Redis load the script that is called raw then.
        self.prefill(&rig, 1).await?;
        let (set, enqueue, tcp) = (raw::Command::set(), raw::Command::enqueue(&rig)?, Way::Tcp(rig.redis_port()?));
        for _ in 0..TURNS {
            report.raw_set.add(self.raw(&rig, "raw SET", &set, tcp).await?);
            report.raw_set_unix.add(self.raw(&rig, "raw SET, unix socket", &set, Way::UnixSocket).await?);
            report.raw_enqueue.add(self.raw(&rig, "raw FCALL enqueue", &enqueue, Way::UnixSocket).await?);
            report.enqueue.add(self.http(&rig, "enqueue", Scenario::Enqueue, self.duration() / TURNS, 0).await?);
        }
        if let Some(address) = self.against {
            report.other = Some(self.other(address).await?);
        }
        let batches = Scenario::Batch(self.jobs_per_batch.into());
        report.batches = self.http(&rig, "enqueue in batches", batches, self.duration(), 0).await?;
        let prepared = (PREPARED_PER_SECOND * (u64::from(self.seconds) + 1)).min(MOST_JOBS);
        report.fetch_ack = self.http(&rig, "fetch + ack", Scenario::FetchAck, self.duration(), prepared).await?;
        report.life = self.http(&rig, "enqueue + fetch + ack", Scenario::Life, self.duration(), 0).await?;
        report.loaded_memory = process::resident(rig.server_pid());
        Ok(report)
    }

    /// The same load on another server: enqueues, and then fetch + ack of what they left.
    async fn other(&self, address: SocketAddr) -> anyhow::Result<[Row; 2]> {
        ensure!(address.ip().is_loopback(), "--against takes a server on the loopback, {address} is none");
        let mut rows = Vec::new();
        for (name, scenario) in [("other: enqueue", Scenario::Enqueue), ("other: fetch + ack", Scenario::FetchAck)] {
            eprintln!("{name} …");
            let mut load = Load::connect(address, &Case::PLAIN, scenario, self.connections.into(), MOST_JOBS).await?;
            load.run(WARM_UP).await?;
            let measured = load.run(self.duration()).await?;
            rows.push(Row { name, measured, cpu: None });
        }
        rows.try_into().map_err(|_| anyhow::anyhow!("two rows"))
    }

    async fn raw(&self, rig: &Rig, name: &'static str, command: &raw::Command, way: Way) -> anyhow::Result<Row> {
        eprintln!("{name} …");
        let measured = command.measure(rig, way, self.connections.into(), RAW_SECONDS / f64::from(TURNS)).await?;
        Ok(Row { name, measured, cpu: None })
    }

    /// Measures a scenario on an emptied Redis, with so many jobs prepared.
    async fn http(
        &self,
        rig: &Rig,
        name: &'static str,
        scenario: Scenario,
        duration: Duration,
        prepared: u64,
    ) -> anyhow::Result<Row> {
        rig.empty()?;
        if prepared > 0 {
            eprintln!("preparing {prepared} jobs …");
            self.prefill(rig, prepared).await?;
        }
        eprintln!("{name} …");
        let most = if prepared > 0 { prepared } else { MOST_JOBS };
        let mut load = Load::connect(rig.address, &Case::PLAIN, scenario, self.connections.into(), most).await?;
        let warm_up = load.run(WARM_UP).await?;
        let before = rig.cpu_times();
        let mut measured = load.run(duration).await?;
        let spent = rig.cpu_times();
        // A failure is one whenever it happens.
        measured.errors += warm_up.errors;
        measured.first_error = warm_up.first_error.or(measured.first_error);
        let share = |index: usize| (spent[index] - before[index]).as_secs_f64() * 1e6 / measured.jobs.max(1) as f64;
        let cpu = Cpu { server_us: share(0), redis_us: share(1), load_us: share(2) };
        Ok(Row { name, measured, cpu: Some(cpu) })
    }

    async fn prefill(&self, rig: &Rig, jobs: u64) -> anyhow::Result<()> {
        let (scenario, connections) = if jobs < 100 { (Scenario::Enqueue, 1) } else { (Scenario::Batch(100), 8) };
        let mut load = Load::connect(rig.address, &Case::PLAIN, scenario, connections, jobs).await?;
        let Measured { first_error, .. } = load.run(Duration::from_secs(60)).await?;
        first_error.map_or(Ok(()), |error| Err(anyhow::anyhow!("cannot prepare jobs: {error}")))
    }
}
