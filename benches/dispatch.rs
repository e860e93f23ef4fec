//! The benchmark `dispatch`.

use crate::backlog::{Backlog, Behind};
use crate::case::Case;
use crate::case_runner::{CaseRunner, Cycles};
use crate::dispatch_results::DispatchResults;
use crate::idle::{Idle, POLLS};
use clap::{Args, ValueEnum};
use std::process::ExitCode;
use std::time::Duration;

/// Turns per second of a case's time, and the time it runs before the first turn.
const TURNS_A_SECOND: u32 = 2;
const WARM_UP: Duration = Duration::from_millis(300);
const SIZES: [u64; 3] = [1000, 100_000, 1_000_000];
/// The number of blocked jobs from which `--quick` skips a size.
const MANY: u64 = 1_000_000;
/// The number of limit keys of the blocked jobs.
const KEYS: [u64; 2] = [1, 10_000];

/// Measure the cost of pools, tenants, limits, blocked jobs and long polls for FETCH.
///
/// Starts private Redis servers and fairgate servers in temporary directories and removes them afterwards. A full run
/// takes some minutes and 3 GB of memory. Exits with 1 if a bar is missed or a request failed.
#[derive(Args)]
pub struct Dispatch {
    /// Number of connections that fetch concurrently, and of in-process workers
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=1024))]
    connections: u16,
    /// Seconds for each case over HTTP, and as many in process
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=60))]
    seconds: u16,
    /// Skip the run with 1,000,000 blocked jobs
    #[arg(long)]
    quick: bool,
    /// Run only this part
    #[arg(long)]
    only: Option<Part>,
    /// Print a JSON object instead of tables
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Cycles of fetch and ack, by configured features
    Cycles,
    /// FETCH behind blocked jobs
    Blocked,
    /// Idle long polls
    Idle,
}

impl Dispatch {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let results = crate::measure(self.measure())?;
        crate::print(&results, self.json.then(|| results.json()));
        let is_good = results.errors() == 0 && results.bars().iter().all(|bar| bar.is_met);
        Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    async fn measure(&self) -> anyhow::Result<DispatchResults> {
        let wants = |part: Part| self.only.is_none_or(|only| only == part);
        let mut results = DispatchResults { connections: self.connections, ..DispatchResults::default() };
        if wants(Part::Cycles) {
            results.cycles = self.cycles().await?;
        }
        if wants(Part::Blocked) {
            results.behind = self.behind().await?;
        }
        if wants(Part::Idle) {
            eprintln!("{POLLS} idle long polls …");
            results.idle = Some(Idle::measure().await?);
        }
        Ok(results)
    }

    async fn cycles(&self) -> anyhow::Result<Vec<Cycles>> {
        let mut runners = Vec::new();
        for case in Case::EACH {
            runners.push(CaseRunner::open(case, self.connections.into(), self.seconds.into()).await?);
        }
        for runner in &mut runners {
            runner.warm_up(WARM_UP).await?;
        }
        let (turns, time) = (u32::from(self.seconds) * TURNS_A_SECOND, Duration::from_secs(1) / TURNS_A_SECOND);
        for turn in 1..=turns {
            eprintln!("cycles of fetch and ack, turn {turn} of {turns} …");
            for runner in &mut runners {
                runner.turn_over_http(time).await?;
            }
            for runner in &mut runners {
                runner.turn_in_process(time).await?;
            }
        }
        Ok(runners.into_iter().map(|runner| runner.cycles).collect())
    }

    async fn behind(&self) -> anyhow::Result<Vec<Behind>> {
        let mut backlogs = vec![Backlog { knows_limits: false, ..Backlog::NONE }, Backlog::NONE];
        let sizes = SIZES.into_iter().filter(|jobs| !self.quick || *jobs < MANY);
        backlogs.extend(sizes.flat_map(|jobs| KEYS.map(|keys| Backlog { jobs, keys, ..Backlog::NONE })));
        let mut rows = Vec::new();
        for backlog in backlogs {
            eprintln!("FETCH with {} …", backlog.describe());
            rows.push(backlog.measure().await?);
        }
        Ok(rows)
    }
}
