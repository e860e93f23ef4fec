//! `fairgate bench sidekiq`.

use super::bar::Bar;
use super::directory::Directory;
use super::report::cpus;
use super::resp::Resp;
use super::shape::{KIND, QUEUE, RULE, Shape, tenant};
use super::staging::Staging;
use crate::job::tenant::DEFAULT;
use crate::main_queue::{MainQueue, MainQueues, Place, Sidekiq as Beside, Source};
use crate::planner::{Importer, PORTION};
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
/// The queue that no worker reads.
const STAGING: &str = "staging";
/// Jobs in one round.
const ROUND: u64 = 1000;
/// Jobs that are promoted of each shape.
const JOBS: u64 = 50_000;
const DEADLINE: Duration = Duration::from_secs(30);
const FILLED_WITHIN: Duration = Duration::from_secs(180);

/// What the gem sidekiq-fairplay promotes in a second at its best, on a machine like the one that this was written on, and how
/// many times that is asked of us.
const BARS: [(Shape, f64, f64); 2] =
    [(Shape { tenants: 10, jobs_each: 2000 }, 4570.0, 12.0), (Shape { tenants: 100_000, jobs_each: 1 }, 184.0, 200.0)];

/// Measure promotion into the Redis of a Sidekiq, beside what the gem sidekiq-fairplay reaches.
///
/// Rounds of 1,000 jobs, with their beginning, observation and end: into the store's own database in one script, and into another
/// Redis through the outbox. Jobs are those that clients of the Sidekiq push, as with the gem; those that come over HTTP, whose
/// records are kept for whoever asks, are measured beside them. Starts private Redis servers in temporary directories. Exits 1 if a bar is missed.
#[derive(Args)]
pub(super) struct Sidekiq {
    /// Print one JSON object instead of the table
    #[arg(long)]
    json: bool,
}

/// Where the Sidekiq is, and how its jobs come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// In our Redis, its clients push them.
    Here,
    /// In another Redis, its clients push them.
    Elsewhere,
    /// In our Redis, over HTTP.
    Http,
}

impl Way {
    const ALL: [Way; 3] = [Way::Here, Way::Elsewhere, Way::Http];

    fn name(self) -> &'static str {
        match self {
            Way::Here => "our Redis",
            Way::Elsewhere => "another Redis",
            Way::Http => "over HTTP",
        }
    }
}

struct Row {
    shape: Shape,
    way: Way,
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
        for way in Way::ALL {
            eprintln!("{shape}, {} …", way.name());
            rows.push(promote(shape, way).await?);
        }
    }
    Ok(Report { rows })
}

async fn promote(shape: Shape, way: Way) -> anyhow::Result<Row> {
    let tenant_key = if way == Way::Http { "meta.tenant_id" } else { "args.0" };
    let of_rule = format!(
        "main_queue = \"{NAME}\"\nclass = \"HeavyJob\"\nqueue = \"{QUEUE}\"\ntenant_key = \"{tenant_key}\"\ntypes = [\"{KIND}\", \"HeavyJob\"]"
    );
    let before = format!("[[main_queue]]\nname = \"{NAME}\"\nkind = \"sidekiq\"\n");
    let mut staging = Staging::start_with(ROUND, &before, &of_rule).await?;
    let directory = Directory::create()?;
    let data_dir = directory.path().join("redis");
    let theirs = PrivateRedis::start(embedded::Options { data_dir, durable: false })?;
    let (socket, place) = match way {
        Way::Elsewhere => (theirs.socket().to_owned(), Place::Elsewhere),
        Way::Here | Way::Http => (staging.ground.socket().to_owned(), Place::Here),
    };
    let (tasks, stop, store) = (TaskTracker::new(), CancellationToken::new(), staging.ground.store.clone());
    let metrics = staging.ground.metrics.store.clone();
    let redis = Redis::open(&Address::unix(&socket), "", DEADLINE, metrics, &tasks, stop.clone())?;
    redis.connected_within(DEADLINE).await?;
    let beside = Arc::new(Beside::new(NAME, store.clone(), redis, place, Some(STAGING.to_owned())));
    let queues = MainQueues::new(store.clone(), vec![(NAME.to_owned(), MainQueue::Sidekiq(Arc::clone(&beside)))]);
    let Some(queue) = queues.get(NAME) else { bail!("the main queue is not there") };
    if way != Way::Http {
        let source = Source::Queue(STAGING.to_owned());
        let rules = staging.ground.rules.clone();
        let metrics = staging.ground.metrics.sidekiq.clone();
        let importer = Importer::new(store, rules, beside, source, DEFAULT.to_owned(), "bench".into(), metrics);
        tasks.spawn(importer.run(stop.clone()));
    }
    let mut target = Resp::connect(&socket)?;
    let (mut jobs, mut took) = (0, Duration::ZERO);
    // The first round loads scripts.
    let mut is_warm = false;
    while jobs < JOBS {
        match way {
            Way::Http => staging.fill(shape).await?,
            Way::Here | Way::Elsewhere => push(&mut target, &staging, shape).await?,
        }
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
    tasks.close();
    tasks.wait().await;
    drop((theirs, directory));
    Ok(Row { shape, way, jobs, rate: jobs as f64 / took.as_secs_f64().max(1e-9) })
}

/// Pushes all jobs of a shape as a client of the Sidekiq does, and waits until they are staged.
async fn push(target: &mut Resp, staging: &Staging, shape: Shape) -> anyhow::Result<()> {
    for first in (0..shape.jobs()).step_by(PORTION as usize) {
        let payload = |place: u64| {
            let tenant = tenant(place % shape.tenants);
            format!(
                r#"{{"class":"HeavyJob","args":["{tenant}",{place}],"retry":true,"queue":"{STAGING}","jid":"{place:024x}","created_at":1700000000.5}}"#
            )
        };
        let mut words = vec!["LPUSH".to_owned(), format!("queue:{STAGING}")];
        words.extend((first..(first + PORTION).min(shape.jobs())).map(payload));
        target.call(&words)?;
    }
    let started = Instant::now();
    while staging.ground.store.rule_status(RULE, None).await?.staged < shape.jobs() {
        ensure!(started.elapsed() < FILLED_WITHIN, "jobs are not staged within {FILLED_WITHIN:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

/// A round as the planner runs it.
async fn round(staging: &Staging, queue: &MainQueue) -> anyhow::Result<()> {
    let store = &staging.ground.store;
    queue.settle(RULE).await?;
    let Begun::Round(mut round) = store.begin_round(&staging.rule, "bench", Why::Run, None).await? else {
        bail!("a round did not begin although jobs are staged");
    };
    queue.observe(&mut round.queues, round.now).await?;
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
            self.rows.iter().find(|row| row.shape == shape && row.way == Way::Here).map_or(0.0, |row| row.rate)
        };
        let bar = |(shape, gem, times): &(Shape, f64, f64)| {
            Bar::at_least(format!("{} tenants: times what the gem reaches", shape.tenants), rate(*shape) / gem, *times)
        };
        BARS.iter().map(bar).collect()
    }

    fn json(&self) -> serde_json::Value {
        let row = |row: &Row| {
            json!({"tenants": row.shape.tenants, "jobs_each": row.shape.jobs_each, "way": row.way.name(),
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
            writeln!(f, "{:>14}  {:>13}  {:>8}  {:>9.0}", row.shape, row.way.name(), row.jobs, row.rate)?;
        }
        writeln!(f)?;
        self.bars().iter().try_for_each(|bar| writeln!(f, "{bar}"))
    }
}
