//! The checks between an available job and a worker, in the order in which a fetch makes them.

use super::check::{Check, CheckName, CheckState};
use super::facts::{DispatchFacts, JobFacts, LimitFacts, PoolFacts, QueuePlace};
use super::staging::slowed_check;
use super::turn::{AssumedWeight, others_before};
use super::words::are;
use crate::domain::limit::LimitStrategy;
use crate::domain::words::{counted, duration, per_second};

/// A queue with ready jobs of which none was taken for this long counts as not served, in
/// milliseconds.
pub(super) const UNSERVED_MS: i64 = 10_000;

/// Returns the number of jobs before an available job.
pub(super) fn jobs_before(place: &QueuePlace) -> u64 {
    let own = match &place.turn {
        Some(turn) => turn.of_tenant + others_before(&turn.turn, turn.of_tenant, AssumedWeight::Present).unwrap_or(0),
        None => place.in_lane,
    };
    place.ahead + own
}

/// Returns the checks of a job in one of fairgate's own queues, also of one that is not there yet.
pub(super) fn checks(job: &JobFacts, facts: &DispatchFacts) -> Vec<Check> {
    let mut checks = vec![pause(job, facts)];
    checks.extend((!facts.pools.is_empty()).then(|| pools(job, facts)));
    checks.extend(facts.limits.iter().map(|limit| match limit.is_of_tenant() {
        true => tenant(job, limit),
        false => self::limit(limit, job.now),
    }));
    let turn = facts.place.as_ref().and_then(|place| place.turn.as_ref());
    if let Some((throttle, turn)) = job.throttle.filter(|throttle| throttle.part.is_some()).zip(turn) {
        let before = |weight| others_before(&turn.turn, turn.of_tenant, weight);
        let costs = before(AssumedWeight::Present) > before(AssumedWeight::WithoutThrottle);
        checks.push(slowed_check(job, throttle, costs));
    }
    checks.push(workers(job, facts));
    checks.extend(facts.place.as_ref().map(|place| order(job, facts, place)));
    checks
}

fn pause(job: &JobFacts, facts: &DispatchFacts) -> Check {
    let sentence = match facts.paused_since {
        Some(since) => format!("has been paused for {}", duration(job.now - since)),
        None => "is not paused".to_owned(),
    };
    let state = CheckState::blocking_if(facts.paused_since.is_some());
    let check = Check::new(CheckName::QueuePaused, state, format!("Queue {} {sentence}.", job.queue));
    check.since(facts.paused_since)
}

fn pools(job: &JobFacts, facts: &DispatchFacts) -> Check {
    let is_full = facts.pools.iter().all(PoolFacts::is_full);
    let Some(pool) = facts.pools.iter().find(|pool| !pool.is_full()).or(facts.pools.first()) else {
        return Check::new(CheckName::Pool, CheckState::Unknown, "The pools of the queue are not known.");
    };
    let (name, running) = (&pool.name, counted(pool.running, "job"));
    let most = pool.concurrency.map_or_else(|| "no bound".to_owned(), |most| format!("room for {most}"));
    let summary = match (is_full, facts.has_pools) {
        (false, _) => format!("Pool {name} runs {running} and has {most}."),
        (true, true) => {
            format!("Pool {name} is full: it runs {running}, and no other worker may serve queue {}.", job.queue)
        }
        (true, false) => {
            format!(
                "Pool {name} is full: it runs {running}; only a worker outside of the pools of queue {} could take the job.",
                job.queue
            )
        }
    };
    let mut check = Check::new(CheckName::Pool, CheckState::blocking_if(is_full), summary);
    check.holders = if is_full { pool.holders.clone() } else { Vec::new() };
    check
        .figure("pool", name.as_str())
        .figure("running", pool.running)
        .figure_if("concurrency", pool.concurrency)
        .figure("pools", facts.pools.len())
        .figure("pool_workers", pool.workers)
}

/// Checks a limit of the job's key, type or queue.
fn limit(limit: &LimitFacts, now: i64) -> Check {
    let state = CheckState::blocking_if(limit.is_blocking);
    let label = limit.label.as_deref().unwrap_or("of another owner");
    let name = match limit.strategy {
        // A limit that does not block is named by the parts that it has.
        _ if !limit.is_blocking && limit.concurrency.is_none() => CheckName::RateLimit,
        _ if !limit.is_blocking => CheckName::Limit,
        LimitStrategy::Concurrency => CheckName::Limit,
        LimitStrategy::Rate | LimitStrategy::Throttle | LimitStrategy::Hold => CheckName::RateLimit,
    };
    let opens_at = limit.opens_at(now);
    let opens = opens_at.map(|at| format!("; it has room in {}", duration(at - now))).unwrap_or_default();
    let has_room = limit.room.is_none_or(|room| room > 0.0);
    let summary = match (limit.is_blocking, limit.strategy) {
        (false, _) => format!("Limit {label} has room."),
        (true, _) if has_room => format!("Limit {label} has room, but other jobs that wait for it go first."),
        (true, LimitStrategy::Concurrency) => {
            let most = limit.concurrency.unwrap_or(0);
            format!("Limit {label} is full: {} of {most} {} active.", limit.running, are(limit.running))
        }
        (true, LimitStrategy::Rate) => format!("Limit {label} has no room in this period{opens}."),
        (true, LimitStrategy::Throttle) => format!("Limit {label} spaces starts evenly{opens}."),
        (true, LimitStrategy::Hold) => format!("Limit {label} is on hold{opens}."),
    };
    let mut check = Check::new(name, state, summary).since(limit.since).until(opens_at);
    (check.key, check.holders) = (limit.label.clone(), limit.holders.clone());
    check
        .figure("strategy", limit.strategy.name())
        .figure("running", limit.running)
        .figure_if("concurrency", limit.concurrency)
        .figure_if("rate", limit.rate.as_ref().map(|rate| rate.limit))
        .figure_if("rate_period_ms", limit.rate.as_ref().map(|rate| rate.period))
        .figure_if("started", limit.rate.as_ref().map(|rate| rate.starts.iter().map(|start| start.jobs).sum::<u64>()))
}

/// Checks the limit on active jobs of the tenant, which a throttle may reduce.
fn tenant(job: &JobFacts, limit: &LimitFacts) -> Check {
    let most = limit.concurrency.unwrap_or(0);
    let concurrency = job.throttle.and_then(|throttle| throttle.concurrency).filter(|concurrency| *concurrency == most);
    let (tenant, running) = (&job.tenant, counted(limit.running, "active job"));
    let state = CheckState::blocking_if(limit.is_blocking);
    let full = |name, summary: String| {
        let mut check = Check::new(name, state, summary).since(limit.since).figure("running", limit.running);
        check.holders.clone_from(&limit.holders);
        check.figure("max_concurrency", most)
    };
    match (concurrency.and(job.throttle), limit.is_blocking) {
        (Some(throttle), true) => {
            let left = duration(throttle.until - job.now);
            let summary = format!(
                "Tenant {tenant} is throttled as a noisy neighbour to {} for {left}, and has {running}.",
                counted(most, "active job")
            );
            full(CheckName::Throttle, summary).until(Some(throttle.until))
        }
        (None, true) => {
            full(CheckName::TenantConcurrency, format!("Tenant {tenant} has {running}, and max_concurrency is {most}."))
        }
        (_, false) => full(CheckName::TenantConcurrency, format!("Tenant {tenant} has {running} of at most {most}.")),
    }
}

fn workers(job: &JobFacts, facts: &DispatchFacts) -> Check {
    let (queue, dispatched) = (&job.queue, &facts.dispatched);
    let last = dispatched.last.map(|second| second * 1000);
    // A queue is idle since it last gave a job, or since it has something ready.
    let idle_since = facts.live_since.map(|live| live.max(last.unwrap_or(live)));
    let idle_ms = idle_since.map(|since| job.now - since);
    // If nothing may be taken, it is not known if workers fetch.
    let is_stopped = facts.paused_since.is_some()
        || facts.limits.iter().any(|limit| limit.is_of_queue() && limit.is_blocking)
        || (!facts.pools.is_empty() && facts.pools.iter().all(PoolFacts::is_full));
    let (state, summary) = match (last, idle_ms) {
        _ if is_stopped => {
            (CheckState::Unknown, format!("It is not known if workers fetch from queue {queue}: it gives no job now."))
        }
        (_, Some(idle)) if idle >= UNSERVED_MS => {
            let active = counted(facts.active, "active job");
            let summary = format!(
                "No worker has taken a job from queue {queue} for {}; it has {} ready and {active}.",
                duration(idle),
                facts.depth
            );
            (CheckState::Blocking, summary)
        }
        (Some(last), _) if job.now - last < UNSERVED_MS => {
            let taken = counted(dispatched.jobs, "job");
            (CheckState::Ok, format!("Workers have taken {taken} from queue {queue} within the last minute."))
        }
        _ => (
            CheckState::Unknown,
            format!("No worker has taken a job from queue {queue} lately, and none was ready for long."),
        ),
    };
    let check = Check::new(CheckName::Workers, state, summary);
    let check = check.since(idle_since.filter(|_| state == CheckState::Blocking));
    check
        .figure("active", facts.active)
        .figure("ready", facts.depth)
        .figure("taken_in_last_minute", dispatched.jobs)
        .figure("workers_seen", facts.workers)
        .figure_if("idle_ms", idle_ms)
}

fn order(job: &JobFacts, facts: &DispatchFacts, place: &QueuePlace) -> Check {
    let before = jobs_before(place);
    let rate = facts.dispatched.per_second(job.now);
    let summary = match (before, rate) {
        (0, _) => format!("The job is next in queue {}.", job.queue),
        (before, Some(rate)) => format!(
            "{} {} before it in queue {}; workers take {}.",
            counted(before, "job"),
            are(before),
            job.queue,
            per_second(rate)
        ),
        (before, None) => format!("{} {} before it in queue {}.", counted(before, "job"), are(before), job.queue),
    };
    let check = Check::new(CheckName::QueueOrder, CheckState::blocking_if(before > 0), summary);
    check.figure("jobs_before", before).figure_if("taken_per_s", rate.map(|rate| (rate * 100.0).round() / 100.0))
}
