//! Runs one case of the dispatch benchmark on its own servers: cycles of fetch and ack over HTTP, and in process on the
//! same Redis.

use crate::case::Case;
use crate::client::Connection;
use crate::commands::Commands;
use crate::direct::Direct;
use crate::fixture::{Fixture, new_job};
use crate::load::{Load, Measured};
use crate::scenario::{Requests, Scenario};
use crate::servers::Servers;
use std::time::Duration;

/// Jobs prepared per second of measurement: more than two cores can dispatch, over HTTP and in process.
const OVER_HTTP: u64 = 15_000;
const IN_PROCESS: u64 = 25_000;

/// A case that is ready to be measured. All cases run in short alternating turns, so that other load on the machine
/// affects all of them alike.
pub struct CaseRunner {
    over_http: Load<(Connection, Requests)>,
    in_process: Load<Direct>,
    pub cycles: Cycles,
    /// Declared before `servers`, so that it is dropped while its Redis still runs.
    fixture: Fixture,
    servers: Servers,
}

/// The result of a case.
#[derive(Clone, Debug)]
pub struct Cycles {
    pub case: Case,
    pub over_http: CycleStats,
    pub in_process: CycleStats,
    /// Redis commands during the in-process cycles, including those of the tick.
    pub commands: u64,
}

/// The cycles of one path, over HTTP or in process.
#[derive(Clone, Debug, Default)]
pub struct CycleStats {
    pub measured: Measured,
    /// CPU time of the server, of Redis and of this process.
    pub cpu: [Duration; 3],
}

impl CycleStats {
    fn add(&mut self, measured: Measured, before: [Duration; 3], after: [Duration; 3]) {
        self.measured.add(measured);
        for (place, sum) in self.cpu.iter_mut().enumerate() {
            *sum += after[place].saturating_sub(before[place]);
        }
    }

    /// CPU time of the server, of Redis and of this process per cycle, in µs.
    pub fn cpu_us(&self) -> [f64; 3] {
        self.cpu.map(|time| time.as_secs_f64() * 1e6 / self.measured.jobs.max(1) as f64)
    }
}

impl Cycles {
    /// Redis commands per cycle.
    pub fn commands_each(&self) -> f64 {
        self.commands as f64 / self.in_process.measured.jobs.max(1) as f64
    }
}

impl CaseRunner {
    /// Starts the servers and prepares jobs for `seconds` on each path.
    pub async fn open(case: Case, connections: usize, seconds: u64) -> anyhow::Result<CaseRunner> {
        let (config, seconds) = (case.config(), seconds + 1);
        let (over_http, in_process) = (OVER_HTTP * seconds, IN_PROCESS * seconds);
        eprintln!("{}: preparing {} jobs …", case.name, over_http + in_process);
        let servers = Servers::start(false, &config).await?;
        let fixture = Fixture::on(servers.socket(), &config).await?;
        fixture.fill(over_http + in_process, |number| new_job(&case.job(number))).await?;
        let workers = (0..connections).map(|worker| Direct::new(&fixture.store, case.fetch(worker))).collect();
        let (stats, commands) = (CycleStats::default(), 0);
        Ok(CaseRunner {
            over_http: Load::connect(servers.address, &case, Scenario::FetchAck, connections, over_http).await?,
            in_process: Load::new(workers, in_process),
            cycles: Cycles { case, over_http: stats.clone(), in_process: stats, commands },
            fixture,
            servers,
        })
    }

    /// Runs both paths briefly before the measurement; only failures are recorded.
    pub async fn warm_up(&mut self, time: Duration) -> anyhow::Result<()> {
        let failures =
            |run: Measured| Measured { errors: run.errors, first_error: run.first_error, ..Measured::default() };
        self.cycles.over_http.measured.add(failures(self.over_http.run(time).await?));
        self.cycles.in_process.measured.add(failures(self.in_process.run(time).await?));
        Ok(())
    }

    /// Measures a turn of cycles over HTTP.
    pub async fn turn_over_http(&mut self, time: Duration) -> anyhow::Result<()> {
        let before = self.servers.cpu_times();
        let measured = self.over_http.run(time).await?;
        self.cycles.over_http.add(measured, before, self.servers.cpu_times());
        Ok(())
    }

    /// Measures a turn of cycles in this process.
    pub async fn turn_in_process(&mut self, time: Duration) -> anyhow::Result<()> {
        let mut redis = self.fixture.redis()?;
        let (before, asked) = (self.servers.cpu_times(), Commands::read(&mut redis)?);
        let measured = self.in_process.run(time).await?;
        self.cycles.in_process.add(measured, before, self.servers.cpu_times());
        self.cycles.commands += Commands::read(&mut redis)?.total() - asked.total();
        Ok(())
    }
}
