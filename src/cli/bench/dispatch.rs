//! `fairgate bench dispatch`.

use super::backlog::{Backlog, Behind};
use super::booth::{Booth, Cycles};
use super::case::Case;
use super::findings::Findings;
use super::idle::{Idle, POLLS};
use clap::{Args, ValueEnum};
use std::process::ExitCode;
use std::time::Duration;

/// Turns of a case in each second that it gets, and how long it runs before the first.
const TURNS_A_SECOND: u32 = 2;
const WARM_UP: Duration = Duration::from_millis(300);
const SIZES: [u64; 3] = [1000, 100_000, 1_000_000];
/// Blocked jobs from which on `--quick` leaves a size out.
const MANY: u64 = 1_000_000;
/// Keys that share the blocked jobs.
const KEYS: [u64; 2] = [1, 10_000];

/// Measure what FETCH costs with pools, tenants, limits, blocked jobs and long polls, against FETCH without.
///
/// Starts private Redises and servers in temporary directories and removes them afterwards. All of it takes some minutes
/// and 3 GB of memory. Exits 1 if a bar is missed or a request failed.
#[derive(Args)]
pub(super) struct Dispatch {
    /// Connections that fetch at the same time, and workers inside this process
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=1024))]
    connections: u16,
    /// How long each case runs over HTTP, and as long without
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=60))]
    seconds: u16,
    /// Leave out 1,000,000 blocked jobs
    #[arg(long)]
    quick: bool,
    /// Measure only this
    #[arg(long)]
    only: Option<Part>,
    /// Print one JSON object instead of the tables
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Cycles of fetch and ack, by what the server minds
    Cycles,
    /// FETCH behind jobs that may not run
    Blocked,
    /// Fetches that wait for nothing
    Idle,
}

impl Dispatch {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let findings = super::measure(self.measure())?;
        super::print(&findings, self.json.then(|| findings.json()));
        let is_good = findings.errors() == 0 && findings.bars().iter().all(|bar| bar.is_met);
        Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    async fn measure(&self) -> anyhow::Result<Findings> {
        let wants = |part: Part| self.only.is_none_or(|only| only == part);
        let mut findings = Findings { connections: self.connections, ..Findings::default() };
        if wants(Part::Cycles) {
            findings.cycles = self.cycles().await?;
        }
        if wants(Part::Blocked) {
            findings.behind = self.behind().await?;
        }
        if wants(Part::Idle) {
            eprintln!("{POLLS} idle long polls …");
            findings.idle = Some(Idle::measure().await?);
        }
        Ok(findings)
    }

    async fn cycles(&self) -> anyhow::Result<Vec<Cycles>> {
        let mut booths = Vec::new();
        for case in Case::EACH {
            booths.push(Booth::open(case, self.connections.into(), self.seconds.into()).await?);
        }
        for booth in &mut booths {
            booth.warm_up(WARM_UP).await?;
        }
        let (turns, time) = (u32::from(self.seconds) * TURNS_A_SECOND, Duration::from_secs(1) / TURNS_A_SECOND);
        for turn in 1..=turns {
            eprintln!("cycles of fetch and ack, turn {turn} of {turns} …");
            for booth in &mut booths {
                booth.turn_over_http(time).await?;
            }
            for booth in &mut booths {
                booth.turn_in_process(time).await?;
            }
        }
        Ok(booths.into_iter().map(|booth| booth.cycles).collect())
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
