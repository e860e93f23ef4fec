//! The benchmark `sidekiq`.

use crate::bar::Bar;
use crate::directory::Directory;
use crate::report::cpus;
use crate::resp::Resp;
use crate::shape::{KIND, QUEUE, RULE, Shape, tenant};
use crate::staging::Staging;
use anyhow::{bail, ensure};
use clap::Args;
use fairgate::domain::tenant_id::DEFAULT;
use fairgate::main_queue::{ImportSource, MainQueue, MainQueues, RedisLocation, Sidekiq as Beside};
use fairgate::planner::PORTION;
use fairgate::sidekiq::Importer;
use fairgate::store::embedded::{self, PrivateRedis};
use fairgate::store::{Address, Begun, Ended, Promoted, Sidekiq as Redis, Why};
use serde_json::json;
use std::fmt::{self, Display, Formatter};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

const NAME: &str = "sidekiq";
/// A queue without workers.
const STAGING: &str = "staging";
/// Jobs in one round.
const ROUND: u64 = 1000;
/// Jobs to promote for each shape.
const JOBS: u64 = 50_000;
const DEADLINE: Duration = Duration::from_secs(30);
const FILLED_WITHIN: Duration = Duration::from_secs(180);

/// Shapes with the best rate of the gem sidekiq-fairplay, in jobs per second on a comparable machine, and the multiple
/// of it that is required.
const BARS: [(Shape, f64, f64); 2] =
    [(Shape { tenants: 10, jobs_each: 2000 }, 4570.0, 12.0), (Shape { tenants: 100_000, jobs_each: 1 }, 184.0, 200.0)];

/// Measure promotion into the Redis of a Sidekiq installation, compared with the gem sidekiq-fairplay.
///
/// Complete rounds of 1,000 jobs: into the store's own database with one script, and into another Redis through the
/// outbox. Jobs are pushed by a Sidekiq client, as with the gem; jobs that arrive over HTTP, whose records are kept,
/// are measured as well. Starts private Redis servers in temporary directories. Exits with 1 if a bar is missed.
#[derive(Args)]
pub struct Sidekiq {
    /// Print a JSON object instead of a table
    #[arg(long)]
    json: bool,
}

/// The location of the Sidekiq queue and the source of its jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Variant {
    /// In the store's Redis; Sidekiq clients push the jobs.
    Here,
    /// In another Redis; Sidekiq clients push the jobs.
    Elsewhere,
    /// In the store's Redis; jobs arrive over HTTP.
    Http,
}

impl Variant {
    const ALL: [Variant; 3] = [Variant::Here, Variant::Elsewhere, Variant::Http];

    fn name(self) -> &'static str {
        match self {
            Variant::Here => "our Redis",
            Variant::Elsewhere => "another Redis",
            Variant::Http => "over HTTP",
        }
    }
}

struct Row {
    shape: Shape,
    variant: Variant,
    jobs: u64,
    rate: f64,
}

struct SidekiqReport {
    rows: Vec<Row>,
}

impl Sidekiq {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let report = crate::measure(measure())?;
        crate::print(&report, self.json.then(|| report.json()));
        Ok(if report.bars().iter().all(|bar| bar.is_met) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

async fn measure() -> anyhow::Result<SidekiqReport> {
    let mut rows = Vec::new();
    for (shape, ..) in BARS {
        for variant in Variant::ALL {
            eprintln!("{shape}, {} …", variant.name());
            rows.push(promote(shape, variant).await?);
        }
    }
    Ok(SidekiqReport { rows })
}

async fn promote(shape: Shape, variant: Variant) -> anyhow::Result<Row> {
    let tenant_key = if variant == Variant::Http { "meta.tenant_id" } else { "args.0" };
    let of_rule = format!(
        "main_queue = \"{NAME}\"\nclass = \"HeavyJob\"\nqueue = \"{QUEUE}\"\ntenant_key = \"{tenant_key}\"\ntypes = [\"{KIND}\", \"HeavyJob\"]"
    );
    let before = format!("[[main_queue]]\nname = \"{NAME}\"\nkind = \"sidekiq\"\n");
    let mut staging = Staging::start_with(ROUND, &before, &of_rule).await?;
    let directory = Directory::create()?;
    let data_dir = directory.path().join("redis");
    let theirs = PrivateRedis::start(embedded::Options { data_dir, durable: false })?;
    let (socket, place) = match variant {
        Variant::Elsewhere => (theirs.socket().to_owned(), RedisLocation::Elsewhere),
        Variant::Here | Variant::Http => (staging.fixture.socket().to_owned(), RedisLocation::Here),
    };
    let (tasks, stop, store) = (TaskTracker::new(), CancellationToken::new(), staging.fixture.store.clone());
    let metrics = staging.fixture.metrics.store.clone();
    let redis = Redis::open(&Address::unix(&socket), "", DEADLINE, metrics, &tasks, stop.clone())?;
    redis.connected_within(DEADLINE).await?;
    let beside = Arc::new(Beside::new(NAME, store.clone(), redis, place, Some(STAGING.to_owned())));
    let queues = MainQueues::new(store.clone(), vec![(NAME.to_owned(), MainQueue::Sidekiq(Arc::clone(&beside)))]);
    let Some(queue) = queues.get(NAME) else { bail!("the main queue is missing") };
    if variant != Variant::Http {
        let source = ImportSource::Queue(STAGING.to_owned());
        let rules = staging.fixture.rules.clone();
        let metrics = staging.fixture.metrics.sidekiq.clone();
        let importer = Importer::new(store, rules, beside, source, DEFAULT.to_owned(), "bench".into(), metrics);
        tasks.spawn(importer.run(stop.clone()));
    }
    let mut target = Resp::connect(&socket)?;
    let (mut jobs, mut took) = (0, Duration::ZERO);
    // The first round loads scripts.
    let mut is_warm = false;
    while jobs < JOBS {
        match variant {
            Variant::Http => staging.fill(shape).await?,
            Variant::Here | Variant::Elsewhere => push(&mut target, &staging, shape).await?,
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
    Ok(Row { shape, variant, jobs, rate: jobs as f64 / took.as_secs_f64().max(1e-9) })
}

/// Pushes all jobs of a shape like a Sidekiq client and waits until they are staged.
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
    while staging.fixture.store.rule_status(RULE, None).await?.staged < shape.jobs() {
        ensure!(started.elapsed() < FILLED_WITHIN, "jobs are not staged within {FILLED_WITHIN:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

/// Runs a round like the planner.
async fn round(staging: &Staging, queue: &MainQueue) -> anyhow::Result<()> {
    let store = &staging.fixture.store;
    queue.settle(RULE).await?;
    let Begun::Round(mut round) = store.begin_round(&staging.rule, "bench", Why::Run, None).await? else {
        bail!("no round began although jobs are staged");
    };
    queue.observe(&mut round.queues, round.now).await?;
    for _ in 0..ROUND / PORTION {
        let answer = queue.promote(RULE, &round.token, QUEUE, PORTION).await?;
        ensure!(matches!(answer, Promoted::Jobs { promoted: PORTION, .. }), "unexpected reply to promote: {answer:?}");
    }
    let ended = Ended { promoted: ROUND, ..Ended::default() };
    store.end_round(RULE, &round.token, round.number, &ended).await?;
    Ok(())
}

impl SidekiqReport {
    fn bars(&self) -> Vec<Bar> {
        let rate = |shape: Shape| {
            self.rows.iter().find(|row| row.shape == shape && row.variant == Variant::Here).map_or(0.0, |row| row.rate)
        };
        let bar = |(shape, gem, times): &(Shape, f64, f64)| {
            Bar::at_least(format!("{} tenants: times what the gem reaches", shape.tenants), rate(*shape) / gem, *times)
        };
        BARS.iter().map(bar).collect()
    }

    fn json(&self) -> serde_json::Value {
        let row = |row: &Row| {
            json!({"tenants": row.shape.tenants, "jobs_each": row.shape.jobs_each, "way": row.variant.name(),
                "promoted": row.jobs, "rate": row.rate})
        };
        let bars: Vec<_> = self.bars().iter().map(Bar::json).collect();
        json!({"cpus": cpus(), "rows": self.rows.iter().map(row).collect::<Vec<_>>(), "bars": bars})
    }
}

impl Display for SidekiqReport {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "private Redis servers without persistence, {} CPUs, portions of {PORTION}, rounds of {ROUND}\n",
            cpus()
        )?;
        writeln!(f, "{:>14}  {:>13}  {:>8}  {:>9}", "tenants x jobs", "Sidekiq in", "promoted", "jobs/s")?;
        for row in &self.rows {
            writeln!(f, "{:>14}  {:>13}  {:>8}  {:>9.0}", row.shape, row.variant.name(), row.jobs, row.rate)?;
        }
        writeln!(f)?;
        self.bars().iter().try_for_each(|bar| writeln!(f, "{bar}"))
    }
}
