//! The benchmark `tenants`.

use crate::bar::Bar;
use crate::fixture::{Fixture, new_job};
use crate::report::cpus;
use crate::resp::Reply;
use anyhow::bail;
use clap::Args;
use futures_util::{StreamExt, TryStreamExt, stream};
use serde_json::{Value, json};
use std::fmt::{self, Display, Formatter};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// All four limits for every tenant; none is ever reached.
const LIMITED: &str = "[[tenant]]\nid = \"t*\"\nlimits = { max_concurrency = 1000000, max_queue_depth = 1000000000, \
    max_scheduled = 1000000000, max_enqueue_rate = { limit = 1000000000, period = \"1m\" } }\n";
const TENANTS: [u64; 2] = [10, 100_000];
/// Concurrent requests of one job each.
const IN_FLIGHT: usize = 64;
/// The distance between the tenants of consecutive jobs; it shares no factor with the numbers of tenants.
const STRIDE: u64 = 7919;
/// The accepted slowdown of an enqueue by limits, and the part of it that may depend on the number of tenants.
const MOST: f64 = 1.3;
const FLAT: f64 = 1.15;

/// Measure the cost of an enqueue with all four tenant limits, compared with none, for 10 and 100,000 tenants.
///
/// Jobs are enqueued in process, one per request, 64 requests at a time: HTTP would add the same cost to all cases. The
/// four cases alternate, each on its own private Redis. Exits with 1 if a bar is missed.
#[derive(Args)]
pub struct Tenants {
    /// Number of turns for each case
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1000))]
    turns: u32,
    /// Jobs per turn
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(1000..=1_000_000))]
    jobs: u64,
    /// Print a JSON object instead of a table
    #[arg(long)]
    json: bool,
}

/// One case: a number of tenants, with limits or without.
struct Case {
    fixture: Fixture,
    tenants: u64,
    limited: bool,
    pushed: u64,
    /// The time per job and turn, in µs, and the CPU time of Redis.
    times: Vec<Duration>,
    redis: Vec<f64>,
}

impl Case {
    async fn open(tenants: u64, limited: bool) -> anyhow::Result<Case> {
        let fixture = Fixture::start(if limited { LIMITED } else { "" }).await?;
        Ok(Case { fixture, tenants, limited, pushed: 0, times: Vec::new(), redis: Vec::new() })
    }

    async fn turn(&mut self, jobs: u64) -> anyhow::Result<()> {
        let (fixture, tenants) = (&self.fixture, self.tenants);
        let parsed = (self.pushed..self.pushed + jobs)
            .map(|place| {
                let tenant = place.wrapping_mul(STRIDE) % tenants;
                new_job(&format!(r#"{{"type":"bench.job","args":[{place}],"meta":{{"tenant_id":"t{tenant}"}}}}"#))
            })
            .collect::<anyhow::Result<Vec<_>>>()?;
        let (started, redis) = (Instant::now(), self.redis_us()?);
        let pushes = stream::iter(parsed).map(|job| fixture.enqueue(vec![job])).buffer_unordered(IN_FLIGHT);
        pushes.try_for_each(|()| std::future::ready(Ok(()))).await?;
        self.times.push(started.elapsed() / jobs as u32);
        self.redis.push((self.redis_us()? - redis) / jobs as f64);
        self.pushed += jobs;
        Ok(())
    }

    /// The CPU time of Redis so far, in µs. Unlike elapsed time it does not depend on other load on the machine.
    fn redis_us(&self) -> anyhow::Result<f64> {
        let Reply::Text(stats) = self.fixture.redis()?.call(&["INFO", "cpu"])? else {
            bail!("unexpected reply to INFO cpu")
        };
        let seconds = |line: &str| {
            let (name, value) = line.split_once(':')?;
            ["used_cpu_user", "used_cpu_sys"].contains(&name).then(|| value.trim().parse::<f64>().ok()).flatten()
        };
        Ok(stats.lines().filter_map(seconds).sum::<f64>() * 1e6)
    }

    /// The median over turns: µs per job, and µs of Redis' CPU per job.
    fn medians_us(&self) -> (f64, f64) {
        let median = |mut times: Vec<f64>| {
            times.sort_by(f64::total_cmp);
            times.get(times.len() / 2).copied().unwrap_or(0.0)
        };
        (median(self.times.iter().map(|time| time.as_secs_f64() * 1e6).collect()), median(self.redis.clone()))
    }
}

impl Tenants {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let report = crate::measure(self.measure())?;
        crate::print(&report, self.json.then(|| report.json()));
        Ok(if report.bars().iter().all(|bar| bar.is_met) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    async fn measure(&self) -> anyhow::Result<TenantsReport> {
        let mut cases = Vec::new();
        for tenants in TENANTS {
            for limited in [false, true] {
                cases.push(Case::open(tenants, limited).await?);
            }
        }
        for case in &mut cases {
            case.turn(self.jobs).await?;
            // The first turn is a warm-up.
            case.times.clear();
            case.redis.clear();
        }
        for turn in 1..=self.turns {
            eprintln!("turn {turn} of {} …", self.turns);
            for case in &mut cases {
                case.turn(self.jobs).await?;
            }
        }
        let rows = cases.iter().map(|case| {
            let (us, redis_us) = case.medians_us();
            Row { tenants: case.tenants, limited: case.limited, us, redis_us }
        });
        Ok(TenantsReport { turns: self.turns, jobs: self.jobs, rows: rows.collect() })
    }
}

struct Row {
    tenants: u64,
    limited: bool,
    us: f64,
    redis_us: f64,
}

struct TenantsReport {
    turns: u32,
    jobs: u64,
    rows: Vec<Row>,
}

impl TenantsReport {
    /// The time of an enqueue with limits relative to one without.
    fn ratio(&self, tenants: u64) -> f64 {
        let us = |limited: bool| {
            let row = self.rows.iter().find(|row| row.tenants == tenants && row.limited == limited);
            row.map_or(f64::NAN, |row| row.us)
        };
        us(true) / us(false)
    }

    fn bars(&self) -> Vec<Bar> {
        let [few, many] = TENANTS;
        vec![
            Bar::at_most(format!("all four limits against none, {few} tenants"), self.ratio(few), MOST),
            Bar::at_most(format!("all four limits against none, {many} tenants"), self.ratio(many), MOST),
            Bar::at_most(
                format!("what limits cost at {many} tenants against {few}"),
                self.ratio(many) / self.ratio(few),
                FLAT,
            ),
        ]
    }

    fn json(&self) -> Value {
        let row = |row: &Row| json!({"tenants": row.tenants, "limited": row.limited, "us_per_job": row.us, "redis_us_per_job": row.redis_us});
        let (rows, bars): (Vec<Value>, Vec<Value>) =
            (self.rows.iter().map(row).collect(), self.bars().iter().map(Bar::json).collect());
        json!({"turns": self.turns, "jobs": self.jobs, "cases": rows, "bars": bars})
    }
}

impl Display for TenantsReport {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} turns of {} jobs each, {IN_FLIGHT} requests of one job at a time, {} CPUs. Median turn:\n",
            self.turns,
            self.jobs,
            cpus()
        )?;
        for row in &self.rows {
            let limits = if row.limited { "all four limits" } else { "no limits" };
            writeln!(
                f,
                "{:>7} tenants, {limits:<15}  {:>8.1} µs a job, {:>6.1} of Redis' CPU",
                row.tenants, row.us, row.redis_us
            )?;
        }
        writeln!(f)?;
        self.bars().iter().try_for_each(|bar| writeln!(f, "{bar}"))
    }
}
