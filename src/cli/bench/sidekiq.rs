//! `fairgate bench sidekiq`.

use super::bar::Bar;
use super::directory::Directory;
use super::report::cpus;
use super::resp::Resp;
use super::shape::{KIND, QUEUE, RULE, Shape};
use super::staging::Staging;
use crate::main_queue::{MainQueue, MainQueues, Place, Sidekiq as Beside};
use crate::planner::PORTION;
use crate::store::embedded::{self, PrivateRedis};
use crate::store::{Address, Begun, Ended, Promoted, Sidekiq as Redis, Why};
use anyhow::{bail, ensure};
use clap::Args;
use serde_json::json;
use std::fmt::{self, Display, Formatter};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

const NAME: &str = "sidekiq";
/// Jobs in one round.
const ROUND: u64 = 1000;
/// Jobs that are promoted of each shape.
const JOBS: u64 = 50_000;
const DEADLINE: Duration = Duration::from_secs(30);

/// What the gem sidekiq-fairplay promotes in a second at its best, on a machine like the one that this was written on, and how
/// many times that is asked of us.
const BARS: [(Shape, f64, f64); 2] =
    [(Shape { tenants: 10, jobs_each: 2000 }, 4570.0, 12.0), (Shape { tenants: 100_000, jobs_each: 1 }, 184.0, 200.0)];

/// Measure promotion into the Redis of a Sidekiq, beside what the gem sidekiq-fairplay reaches.
///
/// Rounds of 1,000 jobs, with their beginning, observation and end: into the store's own database in one script, and into another
/// Redis through the outbox. Starts private Redis servers in temporary directories. Exits 1 if a bar is missed.
#[derive(Args)]
pub(super) struct Sidekiq {
    /// Print one JSON object instead of the table
    #[arg(long)]
    json: bool,
}

struct Row {
    shape: Shape,
    is_elsewhere: bool,
    jobs: u64,
    rate: f64,
}

struct Report {
    rows: Vec<Row>,
}

impl Sidekiq {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let report = super::measure(measure())?;
        super::print(&report, self.json.then(|| report.json()));
        Ok(if report.bars().iter().all(|bar| bar.is_met) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

async fn measure() -> anyhow::Result<Report> {
    let mut rows = Vec::new();
    for (shape, ..) in BARS {
        for is_elsewhere in [false, true] {
            eprintln!("{shape}{} …", if is_elsewhere { ", another Redis" } else { "" });
            rows.push(promote(shape, is_elsewhere).await?);
        }
    }
    Ok(Report { rows })
}

async fn promote(shape: Shape, is_elsewhere: bool) -> anyhow::Result<Row> {
    let of_rule = format!("main_queue = \"{NAME}\"\nclass = \"HeavyJob\"\ntypes = [\"{KIND}\"]");
    let before = format!("[[main_queue]]\nname = \"{NAME}\"\nkind = \"sidekiq\"\n");
    let mut staging = Staging::start_with(ROUND, &before, &of_rule).await?;
    let directory = Directory::create()?;
    let data_dir = directory.path().join("redis");
    let theirs = PrivateRedis::start(embedded::Options { data_dir, durable: false })?;
    let (socket, place) = match is_elsewhere {
        true => (theirs.socket().to_owned(), Place::Elsewhere),
        false => (staging.ground.socket().to_owned(), Place::Here),
    };
    let (tasks, stop, store) = (TaskTracker::new(), CancellationToken::new(), staging.ground.store.clone());
    let metrics = staging.ground.metrics.store.clone();
    let redis = Redis::open(&Address::unix(&socket), "", DEADLINE, metrics, &tasks, stop.clone())?;
    redis.connected_within(DEADLINE).await?;
    let queue = MainQueue::Sidekiq(Arc::new(Beside::new(NAME, store.clone(), redis, place)));
    let queues = MainQueues::new(store, vec![(NAME.to_owned(), queue)]);
    let Some(queue) = queues.get(NAME) else { bail!("the main queue is not there") };
    let mut target = Resp::connect(&socket)?;
    let (mut jobs, mut took) = (0, Duration::ZERO);
    // The first round loads scripts.
    let mut is_warm = false;
    while jobs < JOBS {
        staging.fill(shape).await?;
        for _ in 0..shape.jobs() / ROUND {
            let started = Instant::now();
            round(&staging, &queue).await?;
            if is_warm {
                (jobs, took) = (jobs + ROUND, took + started.elapsed());
            }
            is_warm = true;
        }
        target.call(&["DEL", &format!("queue:{QUEUE}")])?;
    }
    stop.cancel();
    drop((theirs, directory));
    Ok(Row { shape, is_elsewhere, jobs, rate: jobs as f64 / took.as_secs_f64().max(1e-9) })
}

/// A round as the planner flies it.
async fn round(staging: &Staging, queue: &MainQueue) -> anyhow::Result<()> {
    let store = &staging.ground.store;
    queue.settle(RULE).await?;
    let Begun::Round(mut round) = store.begin_round(&staging.rule, "bench", Why::Run, None).await? else {
        bail!("a round did not begin although jobs are staged");
    };
    queue.observe(&mut round.queues).await?;
    for _ in 0..ROUND / PORTION {
        let answer = queue.promote(RULE, &round.token, QUEUE, PORTION).await?;
        ensure!(matches!(answer, Promoted::Jobs { promoted: PORTION, .. }), "promote answered {answer:?}");
    }
    let ended = Ended { promoted: ROUND, ..Ended::default() };
    store.end_round(RULE, &round.token, round.number, &ended).await?;
    Ok(())
}

impl Report {
    fn bars(&self) -> Vec<Bar> {
        let rate = |shape: Shape| {
            self.rows.iter().find(|row| row.shape == shape && !row.is_elsewhere).map_or(0.0, |row| row.rate)
        };
        let bar = |(shape, gem, times): &(Shape, f64, f64)| {
            Bar::at_least(format!("{} tenants: times what the gem reaches", shape.tenants), rate(*shape) / gem, *times)
        };
        BARS.iter().map(bar).collect()
    }

    fn json(&self) -> serde_json::Value {
        let row = |row: &Row| {
            json!({"tenants": row.shape.tenants, "jobs_each": row.shape.jobs_each, "another_redis": row.is_elsewhere,
                "promoted": row.jobs, "rate": row.rate})
        };
        let bars: Vec<_> = self.bars().iter().map(Bar::json).collect();
        json!({"cpus": cpus(), "rows": self.rows.iter().map(row).collect::<Vec<_>>(), "bars": bars})
    }
}

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "private Redis servers without persistence, {} CPUs, portions of {PORTION}, rounds of {ROUND}\n",
            cpus()
        )?;
        writeln!(f, "{:>14}  {:>13}  {:>8}  {:>9}", "tenants x jobs", "Sidekiq in", "promoted", "jobs/s")?;
        for row in &self.rows {
            let place = if row.is_elsewhere { "another Redis" } else { "our Redis" };
            writeln!(f, "{:>14}  {place:>13}  {:>8}  {:>9.0}", row.shape, row.jobs, row.rate)?;
        }
        writeln!(f)?;
        self.bars().iter().try_for_each(|bar| writeln!(f, "{bar}"))
    }
}
