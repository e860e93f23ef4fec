//! How fast the jobs of one shape are promoted, beside the ceiling on the same data.

use super::ceiling::{Ceiling, Picks};
use super::process;
use super::shape::{QUEUE, RULE, Shape};
use super::staging::Staging;
use crate::planner::{PORTION, RoundAttempt};
use crate::store::{Begun, Ended, Promoted, Why};
use anyhow::{bail, ensure};
use std::time::{Duration, Instant};

/// Jobs in one round.
pub(super) const ROUND: u64 = 1000;
/// Jobs promoted at least before a rate is told, where there are so many, and at most.
const LEAST: u64 = 20_000;
const MOST: u64 = 100_000;
/// Turns of promotion and ceiling at least: in one of each, whatever else the machine does would happen to one of them alone.
const TURNS: u64 = 5;
/// Whole rounds that are timed.
const ROUNDS: u64 = 9;

/// What promoting a shape gave.
#[derive(Clone, Debug)]
pub(super) struct Promotion {
    pub(super) shape: Shape,
    pub(super) promoted: u64,
    /// Jobs a second: inside calls of promote, with begin and end of rounds, and what the ceiling reaches.
    pub(super) rate: f64,
    pub(super) rate_in_rounds: f64,
    pub(super) ceiling: f64,
    /// The middle one of the planner's own rounds, of 1,000 jobs or of all there are, in ms.
    pub(super) round_ms: f64,
    /// Resident memory of this process at its highest while it promoted.
    pub(super) memory: u64,
    /// Script calls while it promoted, in ms; 0 if none took one.
    pub(super) slow_p99_ms: f64,
    pub(super) slowest_ms: f64,
}

#[derive(Default)]
struct Tally {
    jobs: u64,
    took: Duration,
    with_rounds: Duration,
    ceiling_jobs: u64,
    ceiling_took: Duration,
    memory: u64,
}

impl Promotion {
    /// Fills an empty Redis with jobs of a shape and promotes them. Promotion and ceiling take turns, so that whatever else
    /// goes on in the machine happens to both.
    pub(super) async fn measure(shape: Shape) -> anyhow::Result<Promotion> {
        let mut staging = Staging::start(ROUND).await?;
        let mut ceiling = Ceiling::load(staging.ground.socket()).await?;
        let mut tally = Tally::default();
        if shape.jobs() <= LEAST {
            promote_fillings(&mut staging, &mut ceiling, shape, &mut tally).await?;
        } else {
            promote_parts(&mut staging, &mut ceiling, shape, &mut tally).await?;
        }
        let round_ms = rounds(&mut staging, shape, &mut tally).await?;
        let (slow_p99_ms, slowest_ms) = staging.ground.slow_calls(ceiling.name())?;
        let rate = |jobs: u64, took: Duration| jobs as f64 / took.as_secs_f64().max(1e-9);
        Ok(Promotion {
            shape,
            promoted: tally.jobs,
            rate: rate(tally.jobs, tally.took),
            rate_in_rounds: rate(tally.jobs, tally.with_rounds),
            ceiling: rate(tally.ceiling_jobs, tally.ceiling_took),
            round_ms,
            memory: tally.memory,
            slow_p99_ms,
            slowest_ms,
        })
    }
}

/// A small shape is filled and promoted as a whole, over and over.
async fn promote_fillings(
    staging: &mut Staging,
    ceiling: &mut Ceiling,
    shape: Shape,
    tally: &mut Tally,
) -> anyhow::Result<()> {
    // The first round loads scripts.
    staging.fill(shape).await?;
    promote(staging, shape.jobs(), &mut Tally::default()).await?;
    staging.ground.watch_slow_calls()?;
    let least = LEAST.max(TURNS * shape.jobs());
    while tally.jobs < least {
        staging.fill(shape).await?;
        promote(staging, shape.jobs(), tally).await?;
        staging.fill(shape).await?;
        let picks: Picks =
            (0..shape.jobs_each).flat_map(|job| (0..shape.tenants).map(move |tenant| (tenant, job))).collect();
        promote_at_ceiling(staging, ceiling, shape, &picks, tally).await?;
    }
    Ok(())
}

/// Of a large shape the planner promotes from its first tenants on, the ceiling from the last ones back.
async fn promote_parts(
    staging: &mut Staging,
    ceiling: &mut Ceiling,
    shape: Shape,
    tally: &mut Tally,
) -> anyhow::Result<()> {
    staging.fill(shape).await?;
    staging.ground.let_keys_settle()?;
    let half = shape.tenants / 2;
    let picks = |first: u64| -> Picks {
        (first..first + ROUND).map(|pick| (shape.tenants - 1 - pick % half, pick / half)).collect()
    };
    // The first round loads scripts. Both go on at the same pace, so that they meet in the middle each time.
    promote(staging, ROUND, &mut Tally::default()).await?;
    promote_at_ceiling(staging, ceiling, shape, &picks(0), &mut Tally::default()).await?;
    staging.ground.watch_slow_calls()?;
    let kept = ROUND * (ROUNDS + 2);
    let most = (shape.jobs() / 2 - kept).min(MOST);
    while tally.jobs + ROUND <= most {
        promote(staging, ROUND, tally).await?;
        promote_at_ceiling(staging, ceiling, shape, &picks(tally.ceiling_jobs + ROUND), tally).await?;
    }
    Ok(())
}

/// Promotes jobs as the planner does: rounds of portions under the lock.
async fn promote(staging: &Staging, jobs: u64, tally: &mut Tally) -> anyhow::Result<()> {
    let mut left = jobs;
    while left > 0 {
        let started = Instant::now();
        let Begun::Round(round) = staging.ground.store.begin_round(&staging.rule, "bench", Why::Run, None).await?
        else {
            bail!("a round did not begin although {left} jobs are staged");
        };
        let want = left.min(ROUND);
        let mut promoted_in_round = 0;
        while promoted_in_round < want {
            let portion = (want - promoted_in_round).min(PORTION);
            let called = Instant::now();
            let answer = staging.ground.store.promote(RULE, &round.token, QUEUE, portion).await?;
            tally.took += called.elapsed();
            let Promoted::Jobs { promoted, .. } = answer else { bail!("promote answered {answer:?}") };
            ensure!(promoted == portion, "promote promoted {promoted} jobs of {portion}");
            promoted_in_round += promoted;
        }
        let ended = Ended { promoted: want, ..Ended::default() };
        staging.ground.store.end_round(RULE, &round.token, round.number, &ended).await?;
        tally.with_rounds += started.elapsed();
        tally.jobs += want;
        left -= want;
    }
    tally.memory = tally.memory.max(process::resident(std::process::id()));
    Ok(())
}

async fn promote_at_ceiling(
    staging: &Staging,
    ceiling: &mut Ceiling,
    shape: Shape,
    picks: &[(u64, u64)],
    tally: &mut Tally,
) -> anyhow::Result<()> {
    for portion in picks.chunks(PORTION as usize) {
        let command = ceiling.command(shape, staging.filling(), portion);
        let called = Instant::now();
        ceiling.call(&command, portion.len()).await?;
        tally.ceiling_took += called.elapsed();
        tally.ceiling_jobs += portion.len() as u64;
    }
    Ok(())
}

/// Times the planner's own rounds: gate, weights, promotion, record.
async fn rounds(staging: &mut Staging, shape: Shape, tally: &mut Tally) -> anyhow::Result<f64> {
    let mut times = Vec::new();
    // The first makes the runner, and is not counted.
    for round in 0..=ROUNDS {
        if staging.ground.store.rule_status(RULE, None).await?.staged == 0 {
            staging.fill(shape).await?;
        }
        let started = Instant::now();
        let flight = staging.registry.run(RULE).await?;
        let took = started.elapsed();
        let Some(RoundAttempt::Ran { report, .. }) = flight else { bail!("a round did not run: {flight:?}") };
        ensure!(report.promoted == shape.jobs().min(ROUND), "a round promoted {} jobs", report.promoted);
        if round > 0 {
            times.push(took.as_secs_f64() * 1e3);
        }
        tally.memory = tally.memory.max(process::resident(std::process::id()));
    }
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}
