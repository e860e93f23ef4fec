//! One case of dispatch with servers of its own: cycles of fetch and ack over HTTP, and in this process on the same Redis.

use super::case::Case;
use super::client::Connection;
use super::commands::Commands;
use super::direct::Direct;
use super::ground::{Ground, new_job};
use super::load::{Load, Measured};
use super::rig::Rig;
use super::scenario::{Requests, Scenario};
use std::time::Duration;

/// Jobs prepared for each second: more than two cores hand out, over HTTP and without.
const OVER_HTTP: u64 = 15_000;
const IN_PROCESS: u64 = 25_000;

/// A case that waits for its turn to be measured. All are there at the same time and take short turns, so that whatever
/// else goes on in the machine happens to all of them.
pub(super) struct Booth {
    over_http: Load<(Connection, Requests)>,
    in_process: Load<Direct>,
    pub(super) cycles: Cycles,
    /// The ground before the Redis that it stands on.
    ground: Ground,
    rig: Rig,
}

/// What a case gave.
#[derive(Clone, Debug)]
pub(super) struct Cycles {
    pub(super) case: Case,
    pub(super) over_http: Way,
    pub(super) in_process: Way,
    /// Redis commands that the cycles in this process took, those of the tick beside them included.
    pub(super) commands: u64,
}

/// Cycles that were done one way.
#[derive(Clone, Debug, Default)]
pub(super) struct Way {
    pub(super) measured: Measured,
    /// CPU time of server, Redis and this process.
    pub(super) cpu: [Duration; 3],
}

impl Way {
    fn add(&mut self, measured: Measured, before: [Duration; 3], after: [Duration; 3]) {
        self.measured.add(measured);
        for (place, sum) in self.cpu.iter_mut().enumerate() {
            *sum += after[place].saturating_sub(before[place]);
        }
    }

    /// CPU time of server, Redis and this process for each cycle, in µs.
    pub(super) fn cpu_us(&self) -> [f64; 3] {
        self.cpu.map(|time| time.as_secs_f64() * 1e6 / self.measured.jobs.max(1) as f64)
    }
}

impl Cycles {
    /// Redis commands of one cycle.
    pub(super) fn commands_each(&self) -> f64 {
        self.commands as f64 / self.in_process.measured.jobs.max(1) as f64
    }
}

impl Booth {
    /// Starts the servers and prepares jobs for so many seconds of each way.
    pub(super) async fn open(case: Case, connections: usize, seconds: u64) -> anyhow::Result<Booth> {
        let (config, seconds) = (case.config(), seconds + 1);
        let (over_http, in_process) = (OVER_HTTP * seconds, IN_PROCESS * seconds);
        eprintln!("{}: preparing {} jobs …", case.name, over_http + in_process);
        let rig = Rig::start(false, &config).await?;
        let ground = Ground::on(rig.socket(), &config).await?;
        ground.fill(over_http + in_process, |number| new_job(&case.job(number))).await?;
        let workers = (0..connections).map(|worker| Direct::new(&ground.store, case.fetch(worker))).collect();
        let (way, commands) = (Way::default(), 0);
        Ok(Booth {
            over_http: Load::connect(rig.address, &case, Scenario::FetchAck, connections, over_http).await?,
            in_process: Load::new(workers, in_process),
            cycles: Cycles { case, over_http: way.clone(), in_process: way, commands },
            ground,
            rig,
        })
    }

    /// Lets both ways run a little. Only failures count.
    pub(super) async fn warm_up(&mut self, time: Duration) -> anyhow::Result<()> {
        let failures =
            |run: Measured| Measured { errors: run.errors, first_error: run.first_error, ..Measured::default() };
        self.cycles.over_http.measured.add(failures(self.over_http.run(time).await?));
        self.cycles.in_process.measured.add(failures(self.in_process.run(time).await?));
        Ok(())
    }

    /// Measures a turn of cycles over HTTP.
    pub(super) async fn turn_over_http(&mut self, time: Duration) -> anyhow::Result<()> {
        let before = self.rig.cpu_times();
        let measured = self.over_http.run(time).await?;
        self.cycles.over_http.add(measured, before, self.rig.cpu_times());
        Ok(())
    }

    /// Measures a turn of cycles in this process.
    pub(super) async fn turn_in_process(&mut self, time: Duration) -> anyhow::Result<()> {
        let mut redis = self.ground.redis()?;
        let (before, asked) = (self.rig.cpu_times(), Commands::read(&mut redis)?);
        let measured = self.in_process.run(time).await?;
        self.cycles.in_process.add(measured, before, self.rig.cpu_times());
        self.cycles.commands += Commands::read(&mut redis)?.total() - asked.total();
        Ok(())
    }
}
