//! The promotion rate for one shape, compared with raw promotion of the same data (the ceiling).

use crate::process;
use crate::raw_promotion::{Picks, RawPromotion};
use crate::shape::{QUEUE, RULE, Shape};
use crate::staging::Staging;
use anyhow::{bail, ensure};
use fairgate::planner::{PORTION, RoundAttempt};
use fairgate::store::{Begun, Ended, Promoted, Why};
use std::time::{Duration, Instant};

/// Jobs in one round.
pub const ROUND: u64 = 1000;
/// The least and the most jobs to promote for a rate; a smaller shape is promoted several times.
const LEAST: u64 = 20_000;
const MOST: u64 = 100_000;
/// The least number of turns of promotion and raw promotion. With a single turn each, other load on the machine could
/// affect only one of them.
const TURNS: u64 = 5;
/// Whole rounds that are timed.
const ROUNDS: u64 = 9;

/// The result of promoting a shape.
#[derive(Clone, Debug)]
pub struct Promotion {
    pub shape: Shape,
    pub promoted: u64,
    /// Jobs per second: within calls of promote, with begin and end of rounds, and in raw promotion.
    pub rate: f64,
    pub rate_in_rounds: f64,
    pub raw_rate: f64,
    /// The median of the planner's rounds of 1,000 jobs, or of all jobs if there are fewer, in ms.
    pub round_ms: f64,
    /// Peak resident memory of this process during promotion, in bytes.
    pub memory: u64,
    /// Script calls of 1 ms or longer during promotion: 99th percentile and maximum, in ms; 0 if there were none.
    pub slow_p99_ms: f64,
    pub slowest_ms: f64,
}

#[derive(Default)]
struct Tally {
    jobs: u64,
    took: Duration,
    with_rounds: Duration,
    raw_jobs: u64,
    raw_took: Duration,
    memory: u64,
}

impl Promotion {
    /// Fills an empty Redis with jobs of a shape and promotes them. Promotion and raw promotion alternate, so that
    /// other load on the machine affects both alike.
    pub async fn measure(shape: Shape) -> anyhow::Result<Promotion> {
        let mut staging = Staging::start(ROUND).await?;
        let mut raw = RawPromotion::load(staging.fixture.socket()).await?;
        let mut tally = Tally::default();
        if shape.jobs() <= LEAST {
            promote_fillings(&mut staging, &mut raw, shape, &mut tally).await?;
        } else {
            promote_parts(&mut staging, &mut raw, shape, &mut tally).await?;
        }
        let round_ms = rounds(&mut staging, shape, &mut tally).await?;
        let (slow_p99_ms, slowest_ms) = staging.fixture.slow_calls(raw.name())?;
        let rate = |jobs: u64, took: Duration| jobs as f64 / took.as_secs_f64().max(1e-9);
        Ok(Promotion {
            shape,
            promoted: tally.jobs,
            rate: rate(tally.jobs, tally.took),
            rate_in_rounds: rate(tally.jobs, tally.with_rounds),
            raw_rate: rate(tally.raw_jobs, tally.raw_took),
            round_ms,
            memory: tally.memory,
            slow_p99_ms,
            slowest_ms,
        })
    }
}

/// Fills and promotes a small shape repeatedly as a whole.
async fn promote_fillings(
    staging: &mut Staging,
    raw: &mut RawPromotion,
    shape: Shape,
    tally: &mut Tally,
) -> anyhow::Result<()> {
    // The first round loads scripts.
    staging.fill(shape).await?;
    promote(staging, shape.jobs(), &mut Tally::default()).await?;
    staging.fixture.watch_slow_calls()?;
    let least = LEAST.max(TURNS * shape.jobs());
    while tally.jobs < least {
        staging.fill(shape).await?;
        promote(staging, shape.jobs(), tally).await?;
        staging.fill(shape).await?;
        let picks: Picks =
            (0..shape.jobs_each).flat_map(|job| (0..shape.tenants).map(move |tenant| (tenant, job))).collect();
        promote_raw(staging, raw, shape, &picks, tally).await?;
    }
    Ok(())
}

/// Promotes a large shape once: the planner from the first tenant on, raw promotion from the last tenant backwards.
async fn promote_parts(
    staging: &mut Staging,
    raw: &mut RawPromotion,
    shape: Shape,
    tally: &mut Tally,
) -> anyhow::Result<()> {
    staging.fill(shape).await?;
    staging.fixture.let_keys_settle()?;
    let half = shape.tenants / 2;
    let picks = |first: u64| -> Picks {
        (first..first + ROUND).map(|pick| (shape.tenants - 1 - pick % half, pick / half)).collect()
    };
    // The first round loads scripts. Both advance at the same pace and meet in the middle.
    promote(staging, ROUND, &mut Tally::default()).await?;
    promote_raw(staging, raw, shape, &picks(0), &mut Tally::default()).await?;
    staging.fixture.watch_slow_calls()?;
    let kept = ROUND * (ROUNDS + 2);
    let most = (shape.jobs() / 2 - kept).min(MOST);
    while tally.jobs + ROUND <= most {
        promote(staging, ROUND, tally).await?;
        promote_raw(staging, raw, shape, &picks(tally.raw_jobs + ROUND), tally).await?;
    }
    Ok(())
}

/// Promotes jobs like the planner: in rounds of portions, under the lock.
async fn promote(staging: &Staging, jobs: u64, tally: &mut Tally) -> anyhow::Result<()> {
    let mut left = jobs;
    while left > 0 {
        let started = Instant::now();
        let Begun::Round(round) = staging.fixture.store.begin_round(&staging.rule, "bench", Why::Run, None).await?
        else {
            bail!("no round began although {left} jobs are staged");
        };
        let want = left.min(ROUND);
        let mut promoted_in_round = 0;
        while promoted_in_round < want {
            let portion = (want - promoted_in_round).min(PORTION);
            let called = Instant::now();
            let answer = staging.fixture.store.promote(RULE, &round.token, QUEUE, portion).await?;
            tally.took += called.elapsed();
            let Promoted::Jobs { promoted, .. } = answer else { bail!("unexpected reply to promote: {answer:?}") };
            ensure!(promoted == portion, "promote promoted {promoted} jobs of {portion}");
            promoted_in_round += promoted;
        }
        let ended = Ended { promoted: want, ..Ended::default() };
        staging.fixture.store.end_round(RULE, &round.token, round.number, &ended).await?;
        tally.with_rounds += started.elapsed();
        tally.jobs += want;
        left -= want;
    }
    tally.memory = tally.memory.max(process::resident(std::process::id()));
    Ok(())
}

async fn promote_raw(
    staging: &Staging,
    raw: &mut RawPromotion,
    shape: Shape,
    picks: &[(u64, u64)],
    tally: &mut Tally,
) -> anyhow::Result<()> {
    for portion in picks.chunks(PORTION as usize) {
        let command = raw.command(shape, staging.filling(), portion);
        let called = Instant::now();
        raw.call(&command, portion.len()).await?;
        tally.raw_took += called.elapsed();
        tally.raw_jobs += portion.len() as u64;
    }
    Ok(())
}

/// Measures complete rounds of the planner: gate, weights, promotion, record.
async fn rounds(staging: &mut Staging, shape: Shape, tally: &mut Tally) -> anyhow::Result<f64> {
    let mut times = Vec::new();
    // The first round creates the runner and is not counted.
    for round in 0..=ROUNDS {
        if staging.fixture.store.rule_status(RULE, None).await?.staged == 0 {
            staging.fill(shape).await?;
        }
        let started = Instant::now();
        let attempt = staging.registry.run(RULE).await?;
        let took = started.elapsed();
        let Some(RoundAttempt::Ran { report, .. }) = attempt else { bail!("no round ran: {attempt:?}") };
        ensure!(report.promoted == shape.jobs().min(ROUND), "a round promoted {} jobs", report.promoted);
        if round > 0 {
            times.push(took.as_secs_f64() * 1e3);
        }
        tally.memory = tally.memory.max(process::resident(std::process::id()));
    }
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}
