//! The benchmark `http`.

use crate::case::Case;
use crate::load::{Load, Measured};
use crate::process;
use crate::raw::{self, Transport};
use crate::report::{BenchReport, Cpu, Row};
use crate::scenario::Scenario;
use crate::servers::Servers;
use anyhow::ensure;
use clap::Args;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

const WARM_UP: Duration = Duration::from_millis(500);
/// The approximate total time of each raw measurement.
const RAW_SECONDS: f64 = 3.0;
/// Turns. Single enqueues alternate with the raw commands they are compared with, so that other load on the machine
/// affects all of them alike.
const TURNS: u32 = 4;
/// The most jobs in one scenario, about 500 MB in Redis.
const MOST_JOBS: u64 = 500_000;
/// Jobs prepared per second of fetches: more than two cores can dispatch.
const PREPARED_PER_SECOND: u64 = 40_000;

/// Measure enqueue, fetch + ack and complete job cycles over HTTP, compared with raw Redis in the same run.
///
/// Starts a private Redis and a server with default settings on the loopback interface, in a temporary directory that
/// is removed at the end. Each connection sends one request at a time. Exits with 1 if a request failed.
#[derive(Args)]
pub struct Http {
    /// Number of concurrent connections
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=1024))]
    connections: u16,
    /// Seconds for each scenario
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=60))]
    seconds: u16,
    /// Jobs per request in the batch scenario
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=1000))]
    jobs_per_batch: u16,
    /// Let Redis write an append-only file, as in production
    #[arg(long)]
    durable: bool,
    /// Another OJS server on the loopback interface to measure in the same run; empty its Redis first
    #[arg(long, value_name = "ADDR")]
    against: Option<SocketAddr>,
    /// Print a JSON object instead of a table
    #[arg(long)]
    json: bool,
}

impl Http {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let report = crate::measure(self.measure())?;
        crate::print(&report, self.json.then(|| report.json()));
        Ok(if report.errors() == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    fn duration(&self) -> Duration {
        Duration::from_secs(self.seconds.into())
    }

    async fn measure(&self) -> anyhow::Result<BenchReport> {
        let servers = Servers::start(self.durable, "").await?;
        let mut report = BenchReport {
            connections: self.connections.into(),
            seconds: self.seconds.into(),
            jobs_per_batch: self.jobs_per_batch.into(),
            durable: self.durable,
            redis: servers.redis()?.version()?,
            idle_memory: process::resident(servers.server_pid()),
            ..BenchReport::default()
        };
        // One job over HTTP makes Redis load the script that the raw call then uses.
        self.prefill(&servers, 1).await?;
        let (set, enqueue, tcp) =
            (raw::Command::set(), raw::Command::enqueue(&servers).await?, Transport::Tcp(servers.redis_port()?));
        for _ in 0..TURNS {
            report.raw_set.add(self.raw(&servers, "raw SET", &set, tcp).await?);
            report.raw_set_unix.add(self.raw(&servers, "raw SET, unix socket", &set, Transport::UnixSocket).await?);
            report.raw_enqueue.add(self.raw(&servers, "raw FCALL enqueue", &enqueue, Transport::UnixSocket).await?);
            report.enqueue.add(self.http(&servers, "enqueue", Scenario::Enqueue, self.duration() / TURNS, 0).await?);
        }
        if let Some(address) = self.against {
            report.other = Some(self.other(address).await?);
        }
        let batches = Scenario::Batch(self.jobs_per_batch.into());
        report.batches = self.http(&servers, "enqueue in batches", batches, self.duration(), 0).await?;
        let prepared = (PREPARED_PER_SECOND * (u64::from(self.seconds) + 1)).min(MOST_JOBS);
        report.fetch_ack = self.http(&servers, "fetch + ack", Scenario::FetchAck, self.duration(), prepared).await?;
        report.life = self.http(&servers, "enqueue + fetch + ack", Scenario::Life, self.duration(), 0).await?;
        report.loaded_memory = process::resident(servers.server_pid());
        Ok(report)
    }

    /// Applies the same load to another server: enqueue, then fetch + ack of the enqueued jobs.
    async fn other(&self, address: SocketAddr) -> anyhow::Result<[Row; 2]> {
        ensure!(address.ip().is_loopback(), "--against needs a server on the loopback interface, got {address}");
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

    async fn raw(
        &self,
        servers: &Servers,
        name: &'static str,
        command: &raw::Command,
        transport: Transport,
    ) -> anyhow::Result<Row> {
        eprintln!("{name} …");
        let measured =
            command.measure(servers, transport, self.connections.into(), RAW_SECONDS / f64::from(TURNS)).await?;
        Ok(Row { name, measured, cpu: None })
    }

    /// Measures a scenario on an empty Redis with `prepared` jobs.
    async fn http(
        &self,
        servers: &Servers,
        name: &'static str,
        scenario: Scenario,
        duration: Duration,
        prepared: u64,
    ) -> anyhow::Result<Row> {
        servers.empty()?;
        if prepared > 0 {
            eprintln!("preparing {prepared} jobs …");
            self.prefill(servers, prepared).await?;
        }
        eprintln!("{name} …");
        let most = if prepared > 0 { prepared } else { MOST_JOBS };
        let mut load = Load::connect(servers.address, &Case::PLAIN, scenario, self.connections.into(), most).await?;
        let warm_up = load.run(WARM_UP).await?;
        let before = servers.cpu_times();
        let mut measured = load.run(duration).await?;
        let spent = servers.cpu_times();
        // A failure during preparation counts as well.
        measured.errors += warm_up.errors;
        measured.first_error = warm_up.first_error.or(measured.first_error);
        let share = |index: usize| (spent[index] - before[index]).as_secs_f64() * 1e6 / measured.jobs.max(1) as f64;
        let cpu = Cpu { server_us: share(0), redis_us: share(1), load_us: share(2) };
        Ok(Row { name, measured, cpu: Some(cpu) })
    }

    async fn prefill(&self, servers: &Servers, jobs: u64) -> anyhow::Result<()> {
        let (scenario, connections) = if jobs < 100 { (Scenario::Enqueue, 1) } else { (Scenario::Batch(100), 8) };
        let mut load = Load::connect(servers.address, &Case::PLAIN, scenario, connections, jobs).await?;
        let Measured { first_error, .. } = load.run(Duration::from_secs(60)).await?;
        first_error.map_or(Ok(()), |error| Err(anyhow::anyhow!("cannot prepare jobs: {error}")))
    }
}
