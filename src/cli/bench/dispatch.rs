//! `fairgate bench dispatch`.

use super::backlog::{Backlog, Behind};
use super::bar::Bar;
use super::booth::{Booth, Cycles, Way};
use super::case::Case;
use super::idle::{Idle, POLLS};
use super::report::{GO_CYCLES, cpus};
use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use std::fmt::{self, Display, Formatter};
use std::process::ExitCode;
use std::time::Duration;

/// One turn of a case, and how long it runs before the first.
const TURN: Duration = Duration::from_secs(1);
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
        let report = super::measure(self.measure())?;
        super::print(&report, self.json.then(|| report.json()));
        let is_good = report.errors() == 0 && report.bars().iter().all(|bar| bar.is_met);
        Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    async fn measure(&self) -> anyhow::Result<Report> {
        let wants = |part: Part| self.only.is_none_or(|only| only == part);
        let mut report = Report { connections: self.connections, ..Report::default() };
        if wants(Part::Cycles) {
            report.cycles = self.cycles().await?;
        }
        if wants(Part::Blocked) {
            report.behind = self.behind().await?;
        }
        if wants(Part::Idle) {
            eprintln!("{POLLS} idle long polls …");
            report.idle = Some(Idle::measure().await?);
        }
        Ok(report)
    }

    async fn cycles(&self) -> anyhow::Result<Vec<Cycles>> {
        let mut booths = Vec::new();
        for case in Case::EACH {
            booths.push(Booth::open(case, self.connections.into(), self.seconds.into()).await?);
        }
        for booth in &mut booths {
            booth.warm_up(WARM_UP).await?;
        }
        for turn in 1..=self.seconds {
            eprintln!("cycles of fetch and ack, turn {turn} of {} …", self.seconds);
            for booth in &mut booths {
                booth.turn_over_http(TURN).await?;
            }
            for booth in &mut booths {
                booth.turn_in_process(TURN).await?;
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
            eprintln!("FETCH behind {} blocked jobs of {} …", backlog.jobs, of_keys(backlog.keys));
            rows.push(backlog.measure().await?);
        }
        Ok(rows)
    }
}

fn of_keys(keys: u64) -> String {
    if keys == 1 { "1 key".to_owned() } else { format!("{keys} keys") }
}

#[derive(Default)]
struct Report {
    connections: u16,
    cycles: Vec<Cycles>,
    behind: Vec<Behind>,
    idle: Option<Idle>,
}

/// The two ways of doing cycles.
const WAYS: [(&str, fn(&Cycles) -> &Way); 2] =
    [("over HTTP", |cycles| &cycles.over_http), ("in process", |cycles| &cycles.in_process)];

impl Report {
    /// Cycles that failed.
    fn errors(&self) -> u64 {
        self.cycles.iter().flat_map(|cycles| WAYS.map(|(_, way)| way(cycles).measured.errors)).sum()
    }

    /// A case's rate, as a share of another's.
    fn share(&self, way: fn(&Cycles) -> &Way, case: Case, of: Case) -> Option<f64> {
        let rate = |case: Case| self.cycles.iter().find(|row| row.case == case).map(|row| way(row).measured.rate());
        Some(rate(case)? / rate(of)?.max(1e-9))
    }

    fn bars(&self) -> Vec<Bar> {
        let mut bars = Vec::new();
        if let Some(plain) = self.cycles.iter().find(|row| row.case == Case::PLAIN) {
            let ratio = plain.over_http.measured.rate() / GO_CYCLES;
            bars.push(Bar::at_least("plain over HTTP, of the Go server's, elsewhere", ratio, 4.0));
        }
        for (name, way) in WAYS {
            let share = |case: Case, of: Case| self.share(way, case, of);
            let lanes = share(Case::TENANTS, Case::ONE_LANE);
            bars.extend(
                lanes.map(|share| Bar::at_least(format!("10,000 lanes, of one lane's, {name}"), share, 1.0 / 1.5)),
            );
            let all = share(Case::ALL, Case::PLAIN);
            bars.extend(all.map(|share| Bar::at_least(format!("all features, of plain, {name}"), share, 0.5)));
        }
        // Without any blocked job there is nothing to compare: those rows tell how much chance is in the others.
        let blocked = self.behind.iter().filter(|row| row.backlog.jobs > 0);
        for row in blocked {
            let what = format!("behind {} blocked of {}", row.backlog.jobs, of_keys(row.backlog.keys));
            bars.push(Bar::at_most(format!("{what}, time"), row.ratio(), 1.2));
            // The first call of a minute has one more, and a command among thousands is none.
            bars.push(Bar::at_most(format!("{what}, commands"), row.ratio_of_commands(), 1.01));
        }
        bars.extend(self.idle.map(|idle| {
            Bar::below(format!("{POLLS} idle long polls, percent more commands"), idle.share() * 100.0, 1.0)
        }));
        bars
    }

    fn json(&self) -> Value {
        let way = |way: &Way| {
            let (measured, [server, redis, load]) = (&way.measured, way.cpu_us());
            json!({
                "cycles": measured.jobs, "seconds": measured.seconds, "rate": measured.rate(),
                "cpu_us_per_cycle": {"server": server, "redis": redis, "load": load},
                "errors": measured.errors, "first_error": measured.first_error,
            })
        };
        let cycles = |row: &Cycles| {
            json!({
                "case": row.case.name, "over_http": way(&row.over_http), "in_process": way(&row.in_process),
                "commands_per_cycle": row.commands(),
            })
        };
        let behind = |row: &Behind| {
            json!({
                "blocked": row.backlog.jobs, "keys": row.backlog.keys, "knows_limits": row.backlog.knows_limits,
                "settling_ms": row.settling_ms, "settling_calls": row.settling_calls,
                "fetch_us": row.here.median_us(), "fetch_us_without": row.without.median_us(), "ratio": row.ratio(),
                "commands": row.here.commands(), "commands_without": row.without.commands(),
            })
        };
        json!({
            "settings": {"connections": self.connections, "cpus": cpus()},
            "cycles": self.cycles.iter().map(cycles).collect::<Vec<_>>(),
            "blocked": self.behind.iter().map(behind).collect::<Vec<_>>(),
            "idle": self.idle.map(|idle| json!({"polls": POLLS, "without": idle.without, "with": idle.with})),
            "bars": self.bars().iter().map(Bar::json).collect::<Vec<_>>(),
        })
    }

    fn write_cycles(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "cycles of fetch and ack a second, {} workers, CPU time and commands of a cycle:\n",
            self.connections
        )?;
        writeln!(
            f,
            "{:<10}  {:>9}  {:>8}  {:>10}  {:>8}  {:>10}  {:>8}  {:>8}  {:>8}",
            "", "over HTTP", "of plain", "server us", "Redis us", "in process", "of plain", "Redis us", "commands"
        )?;
        for row in &self.cycles {
            let share = |way| self.share(way, row.case, Case::PLAIN).unwrap_or(0.0);
            let [server, redis, _] = row.over_http.cpu_us();
            write!(f, "{:<10}  {:>9.0}  {:>8.2}", row.case.name, row.over_http.measured.rate(), share(WAYS[0].1))?;
            write!(f, "  {server:>10.1}  {redis:>8.1}")?;
            write!(f, "  {:>10.0}  {:>8.2}", row.in_process.measured.rate(), share(WAYS[1].1))?;
            writeln!(f, "  {:>8.1}  {:>8.2}", row.in_process.cpu_us()[1], row.commands())?;
        }
        for (row, (name, way)) in self.cycles.iter().flat_map(|row| WAYS.map(|way| (row, way))) {
            if let Some(error) = &way(row).measured.first_error {
                let (case, errors) = (row.case.name, way(row).measured.errors);
                writeln!(f, "\n{errors} cycles of {case:?} {name} failed; the first: {error}")?;
            }
        }
        writeln!(f)
    }

    fn write_behind(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "FETCH of one job behind blocked ones, in process, and in turns with it without any:\n")?;
        writeln!(
            f,
            "{:>9}  {:>10}  {:>11}  {:>6}  {:>9}  {:>10}  {:>5}  {:>8}  {:>7}",
            "blocked", "of", "settling ms", "calls", "median us", "without us", "ratio", "commands", "without"
        )?;
        for row in &self.behind {
            let keys = if row.backlog.knows_limits { of_keys(row.backlog.keys) } else { "no limits".to_owned() };
            write!(f, "{:>9}  {keys:>10}", row.backlog.jobs)?;
            write!(f, "  {:>11.1}  {:>6}", row.settling_ms, row.settling_calls)?;
            write!(f, "  {:>9.1}  {:>10.1}  {:>5.2}", row.here.median_us(), row.without.median_us(), row.ratio())?;
            writeln!(f, "  {:>8.2}  {:>7.2}", row.here.commands(), row.without.commands())?;
        }
        writeln!(f)
    }
}

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "private Redises without persistence, {} CPUs\n", cpus())?;
        if !self.cycles.is_empty() {
            self.write_cycles(f)?;
        }
        if !self.behind.is_empty() {
            self.write_behind(f)?;
        }
        if let Some(Idle { without, with }) = self.idle {
            writeln!(f, "{POLLS} idle long polls: {with:.1} Redis commands/s with them, {without:.1} without\n")?;
        }
        self.bars().iter().try_for_each(|bar| writeln!(f, "{bar}"))
    }
}
