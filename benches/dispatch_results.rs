//! Results of the dispatch benchmark, as tables and as JSON.

use crate::backlog::Behind;
use crate::bar::Bar;
use crate::case::Case;
use crate::case_runner::{CycleStats, Cycles};
use crate::idle::{Idle, POLLS};
use crate::report::{GO_CYCLES, cpus};
use serde_json::{Value, json};
use std::fmt::{self, Display, Formatter};

/// All measurements of one run.
#[derive(Default)]
pub struct DispatchResults {
    pub connections: u16,
    pub cycles: Vec<Cycles>,
    pub behind: Vec<Behind>,
    pub idle: Option<Idle>,
}

type SelectStats = fn(&Cycles) -> &CycleStats;

/// The two paths of cycles.
const PATHS: [(&str, SelectStats); 2] =
    [("over HTTP", |cycles| &cycles.over_http), ("in process", |cycles| &cycles.in_process)];

impl DispatchResults {
    /// The number of failed cycles.
    pub fn errors(&self) -> u64 {
        self.cycles.iter().flat_map(|cycles| PATHS.map(|(_, stats)| stats(cycles).measured.errors)).sum()
    }

    /// The rate of a case relative to another.
    fn share(&self, stats: SelectStats, case: Case, of: Case) -> Option<f64> {
        let rate = |case: Case| self.cycles.iter().find(|row| row.case == case).map(|row| stats(row).measured.rate());
        Some(rate(case)? / rate(of)?.max(1e-9))
    }

    pub fn bars(&self) -> Vec<Bar> {
        let mut bars = Vec::new();
        if let Some(plain) = self.cycles.iter().find(|row| row.case == Case::PLAIN) {
            let ratio = plain.over_http.measured.rate() / GO_CYCLES;
            bars.push(Bar::at_least("plain over HTTP, of the Go server's, elsewhere", ratio, 4.0));
        }
        for (name, stats) in PATHS {
            let share = |case: Case, of: Case| self.share(stats, case, of);
            let lanes = share(Case::TENANTS, Case::ONE_LANE);
            bars.extend(
                lanes.map(|share| Bar::at_least(format!("10,000 lanes, of one lane's, {name}"), share, 1.0 / 1.5)),
            );
            let all = share(Case::ALL, Case::PLAIN);
            bars.extend(all.map(|share| Bar::at_least(format!("all features, of plain, {name}"), share, 0.5)));
        }
        // Rows without blocked jobs have no bar: they show how much the others vary by chance.
        let blocked = self.behind.iter().filter(|row| row.backlog.jobs > 0);
        for row in blocked {
            let what = format!("FETCH with {}", row.backlog.describe());
            bars.push(Bar::at_most(format!("{what}, time"), row.ratio(), 1.2));
            // The first call of each minute makes one more command, which does not matter among thousands.
            bars.push(Bar::at_most(format!("{what}, commands"), row.ratio_of_commands(), 1.01));
        }
        bars.extend(self.idle.map(|idle| {
            Bar::below(format!("{POLLS} idle long polls, percent more commands"), idle.share() * 100.0, 1.0)
        }));
        bars
    }

    pub fn json(&self) -> Value {
        let stats = |stats: &CycleStats| {
            let (measured, [server, redis, load]) = (&stats.measured, stats.cpu_us());
            json!({
                "cycles": measured.jobs, "seconds": measured.seconds, "rate": measured.rate(),
                "cpu_us_per_cycle": {"server": server, "redis": redis, "load": load},
                "errors": measured.errors, "first_error": measured.first_error,
            })
        };
        let cycles = |row: &Cycles| {
            json!({
                "case": row.case.name, "over_http": stats(&row.over_http), "in_process": stats(&row.in_process),
                "commands_per_cycle": row.commands_each(),
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
            "cycles of fetch and ack per second, {} workers, CPU time and commands of a cycle:\n",
            self.connections
        )?;
        writeln!(
            f,
            "{:<10}  {:>9}  {:>8}  {:>10}  {:>8}  {:>10}  {:>8}  {:>8}  {:>8}",
            "", "over HTTP", "of plain", "server us", "Redis us", "in process", "of plain", "Redis us", "commands"
        )?;
        for row in &self.cycles {
            let share = |stats| self.share(stats, row.case, Case::PLAIN).unwrap_or(0.0);
            let [server, redis, _] = row.over_http.cpu_us();
            write!(f, "{:<10}  {:>9.0}  {:>8.2}", row.case.name, row.over_http.measured.rate(), share(PATHS[0].1))?;
            write!(f, "  {server:>10.1}  {redis:>8.1}")?;
            write!(f, "  {:>10.0}  {:>8.2}", row.in_process.measured.rate(), share(PATHS[1].1))?;
            writeln!(f, "  {:>8.1}  {:>8.2}", row.in_process.cpu_us()[1], row.commands_each())?;
        }
        for (row, (name, stats)) in self.cycles.iter().flat_map(|row| PATHS.map(|stats| (row, stats))) {
            if let Some(error) = &stats(row).measured.first_error {
                let (case, errors) = (row.case.name, stats(row).measured.errors);
                writeln!(f, "\n{errors} cycles of {case:?} {name} failed; the first: {error}")?;
            }
        }
        writeln!(f)
    }

    fn write_behind(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "FETCH of one job behind blocked ones, in process, and in turns with it without any:\n")?;
        writeln!(
            f,
            "{:<32}  {:>11}  {:>6}  {:>9}  {:>10}  {:>5}  {:>8}  {:>7}",
            "", "settling ms", "calls", "median us", "without us", "ratio", "commands", "without"
        )?;
        for row in &self.behind {
            write!(f, "{:<32}  {:>11.1}  {:>6}", row.backlog.describe(), row.settling_ms, row.settling_calls)?;
            write!(f, "  {:>9.1}  {:>10.1}  {:>5.2}", row.here.median_us(), row.without.median_us(), row.ratio())?;
            writeln!(f, "  {:>8.2}  {:>7.2}", row.here.commands(), row.without.commands())?;
        }
        writeln!(f)
    }
}

impl Display for DispatchResults {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "private Redis servers without persistence, {} CPUs\n", cpus())?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backlog::{Backlog, Times};
    use crate::load::Measured;
    use std::time::Duration;

    fn cycles(case: Case, over_http: u64, in_process: u64) -> Cycles {
        let stats = |jobs| CycleStats {
            measured: Measured { jobs, seconds: 1.0, ..Measured::default() },
            ..CycleStats::default()
        };
        Cycles { case, over_http: stats(over_http), in_process: stats(in_process), commands: 0 }
    }

    fn behind(jobs: u64, us: u64, commands: u64) -> Behind {
        let times = |us, commands| Times { times: vec![Duration::from_micros(us)], commands };
        let backlog = Backlog { jobs, ..Backlog::NONE };
        Behind { backlog, settling_ms: 0.0, settling_calls: 0, here: times(us, commands), without: times(100, 20) }
    }

    #[test]
    fn bars_compare_cases_of_one_run() {
        let mut results = DispatchResults {
            cycles: vec![
                cycles(Case::PLAIN, 11_200, 20_000),
                cycles(Case::ONE_LANE, 9000, 9000),
                cycles(Case::TENANTS, 6000, 5999),
                cycles(Case::ALL, 5600, 9999),
            ],
            ..DispatchResults::default()
        };
        let met = |results: &DispatchResults| results.bars().iter().map(|bar| bar.is_met).collect::<Vec<_>>();
        assert_eq!(met(&results), [true, true, true, false, false]);
        assert_eq!(results.errors(), 0);
        results.cycles[3].in_process.measured.errors = 2;
        results.cycles[3].in_process.measured.first_error = Some("a fetch was empty".to_owned());
        assert_eq!(results.errors(), 2);
        assert!(results.to_string().contains("2 cycles of \"all\" in process failed; the first: a fetch was empty"));
        assert_eq!(results.json()["cycles"][3]["in_process"]["errors"], 2);
    }

    #[test]
    fn rows_without_blocked_jobs_have_no_bar() {
        let idle = Some(Idle { without: 100.0, with: 101.0 });
        let behind = vec![behind(0, 300, 60), behind(1000, 119, 20), behind(100_000, 121, 21)];
        let results = DispatchResults { behind, idle, ..DispatchResults::default() };
        let met: Vec<bool> = results.bars().iter().map(|bar| bar.is_met).collect();
        assert_eq!(met, [true, true, false, false, false]);
        assert!(results.to_string().contains("1000 idle long polls: 101.0 Redis commands/s with them, 100.0 without"));
    }
}
