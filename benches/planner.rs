//! The benchmark `planner`.

use crate::bar::Bar;
use crate::process;
use crate::promotion::{Promotion, ROUND};
use crate::report::{cpus, mebibytes};
use crate::shape::Shape;
use anyhow::Context;
use clap::Args;
use fairgate::planner::PORTION;
use serde_json::json;
use std::fmt::{self, Display, Formatter};
use std::process::ExitCode;

const SHAPES: [(u64, u64); 9] =
    [(10, 1), (1000, 1), (10_000, 1), (100_000, 1), (1_000_000, 1), (10, 20), (1000, 20), (10_000, 20), (100_000, 20)];
/// The number of tenants from which `--quick` skips a shape.
const MANY: u64 = 100_000;

/// Measure promotion from staging by number of tenants, compared with a script that gets the order as an argument.
///
/// Starts a private Redis in a temporary directory for each size and removes it afterwards. A full run takes some
/// minutes and 3 GB of memory. Exits with 1 if a bar is missed.
///
/// Planner and Redis never work at the same time, so both are pinned to one core. Otherwise each call wakes up another
/// core, which on a virtual machine can take up to a quarter of a small call.
#[derive(Args)]
pub struct Planner {
    /// Skip sizes of 100,000 tenants and more
    #[arg(long)]
    quick: bool,
    /// Measure only this size, such as 1000x20; can be repeated
    #[arg(long, value_name = "TENANTSxJOBS")]
    shape: Vec<Shape>,
    /// Do not pin the benchmark to one core
    #[arg(long)]
    any_core: bool,
    /// Print a JSON object instead of a table
    #[arg(long)]
    json: bool,
}

impl Planner {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        if !self.any_core {
            process::pin_to_one_core().context("cannot pin the process to one core; try --any-core")?;
        }
        let report = crate::measure(self.measure())?;
        crate::print(&report, self.json.then(|| report.json()));
        Ok(if report.bars().iter().all(|bar| bar.is_met) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    async fn measure(&self) -> anyhow::Result<PlannerReport> {
        let all = SHAPES.iter().map(|(tenants, jobs_each)| Shape { tenants: *tenants, jobs_each: *jobs_each });
        let mut shapes: Vec<Shape> = all.filter(|shape| !self.quick || shape.tenants < MANY).collect();
        if !self.shape.is_empty() {
            shapes.clone_from(&self.shape);
        }
        let mut rows = Vec::new();
        for shape in shapes {
            eprintln!("{shape} …");
            rows.push(Promotion::measure(shape).await?);
        }
        Ok(PlannerReport { rows })
    }
}

struct PlannerReport {
    rows: Vec<Promotion>,
}

impl PlannerReport {
    fn bars(&self) -> Vec<Bar> {
        let over = |value: fn(&Promotion) -> f64| self.rows.iter().map(value);
        let (least, most) = (|values: &mut dyn Iterator<Item = f64>| values.fold(f64::INFINITY, f64::min), highest);
        let of_ceiling = least(&mut over(|row| row.rate / row.raw_rate));
        let rate = least(&mut over(|row| row.rate));
        let mut bars = vec![
            Bar::at_least("promotion, of the ceiling, the least", of_ceiling, 0.6),
            Bar::at_least("promoted jobs/s, the least", rate, 30_000.0),
        ];
        for jobs_each in [1, 20] {
            let rates = || self.rows.iter().filter(move |row| row.shape.jobs_each == jobs_each).map(|row| row.rate);
            if rates().count() > 1 {
                let spread = most(&mut rates()) / least(&mut rates());
                bars.push(Bar::at_most(format!("fastest to slowest size with {jobs_each} each"), spread, 2.0));
            }
        }
        let round = |tenants: u64| {
            self.rows.iter().find(|row| row.shape == Shape { tenants, jobs_each: 1 }).map(|row| row.round_ms)
        };
        if let (Some(few), Some(many)) = (round(1000), round(1_000_000)) {
            bars.push(Bar::at_most("round over 1,000,000 tenants to one over 1,000", many / few, 2.0));
        }
        if let (Some(first), Some(last)) = (self.rows.first(), self.rows.iter().max_by_key(|row| row.shape.tenants)) {
            let growth = mebibytes(last.memory) - mebibytes(first.memory);
            bars.push(Bar::at_most("memory with most tenants over that with 10, MiB", growth, 16.0));
        }
        bars.push(Bar::at_most("slowest script call, ms", most(&mut over(|row| row.slowest_ms)), 5.0));
        bars
    }

    fn json(&self) -> serde_json::Value {
        let row = |row: &Promotion| {
            json!({
                "tenants": row.shape.tenants, "jobs_each": row.shape.jobs_each, "promoted": row.promoted,
                "rate": row.rate, "rate_in_rounds": row.rate_in_rounds, "ceiling": row.raw_rate,
                "of_ceiling": row.rate / row.raw_rate, "round_ms": row.round_ms, "memory_bytes": row.memory,
                "slow_p99_ms": row.slow_p99_ms, "slowest_ms": row.slowest_ms,
            })
        };
        let bars: Vec<_> = self.bars().iter().map(Bar::json).collect();
        json!({"cpus": cpus(), "rows": self.rows.iter().map(row).collect::<Vec<_>>(), "bars": bars})
    }
}

fn highest(values: &mut dyn Iterator<Item = f64>) -> f64 {
    values.fold(0.0, f64::max)
}

impl Display for PlannerReport {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "private Redis without persistence, planner and Redis on {} core{}, portions of {PORTION}, rounds of {ROUND}\n",
            cpus(),
            if cpus() == 1 { "" } else { "s" },
        )?;
        writeln!(
            f,
            "{:>14}  {:>8}  {:>9}  {:>10}  {:>8}  {:>10}  {:>9}  {:>7}  {:>11}  {:>10}",
            "tenants x jobs",
            "promoted",
            "jobs/s",
            "with round",
            "ceiling",
            "of ceiling",
            "round ms",
            "RSS MiB",
            "call p99 ms",
            "slowest ms"
        )?;
        for row in &self.rows {
            write!(f, "{:>14}  {:>8}  {:>9.0}  {:>10.0}", row.shape, row.promoted, row.rate, row.rate_in_rounds)?;
            write!(f, "  {:>8.0}  {:>10.2}  {:>9.2}", row.raw_rate, row.rate / row.raw_rate, row.round_ms)?;
            writeln!(f, "  {:>7.1}  {:>11.2}  {:>10.2}", mebibytes(row.memory), row.slow_p99_ms, row.slowest_ms)?;
        }
        writeln!(f)?;
        self.bars().iter().try_for_each(|bar| writeln!(f, "{bar}"))
    }
}
