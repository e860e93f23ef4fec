//! The checks between a staged job and its promotion, in the order in which a round makes them.

use super::check::{Check, CheckName, CheckState};
use super::facts::{JobFacts, StagedPlace, TenantThrottle};
use super::planner::{MainQueueFacts, PlannerFacts, planned, reachable};
use super::turn::{AssumedWeight, others_before};
use crate::domain::fairness::wait_bound;
use crate::domain::plan::{Batch, Closed};
use crate::domain::tenant::Weight;
use crate::domain::words::{counted, duration, grouped};

/// The number of promotions before a staged job, as far as it can be estimated.
pub(super) fn promotions_before(place: &StagedPlace) -> Option<u64> {
    Some(place.before + place.of_tenant + others_before(&place.turn, place.of_tenant, AssumedWeight::Present)?)
}

/// Returns the checks of a staged job.
pub(super) fn checks(job: &JobFacts, planner: &PlannerFacts<'_>) -> Vec<Check> {
    let mut checks = planned(planner, job.now).to_vec();
    checks.extend(reachable(planner));
    let is_known = |queue: &MainQueueFacts| queue.hindrance != Some(Closed::Unreachable);
    let queue = planner.queue.filter(is_known);
    let state = job.staged.as_ref().and_then(|place| place.turn.state);
    checks.extend(webhook(planner, state));
    if let Some(queue) = queue.filter(|_| !planner.rule.is_builtin()) {
        checks.push(remote_pause(planner, &queue));
        checks.extend(processes(planner, &queue));
    }
    checks.push(gate(job, planner, queue.as_ref()));
    let Some(place) = &job.staged else { return checks };
    checks.extend(queue.as_ref().and_then(|queue| batch(job, planner, place, queue)));
    checks.push(weight(job, place));
    checks.extend((state == Some('b')).then(|| blocked(job, planner)));
    checks.extend(job.throttle.filter(|throttle| throttle.part.is_some()).map(|throttle| slowed(job, place, throttle)));
    checks.push(turn(job, planner, place, queue.as_ref()));
    checks
}

fn webhook(planner: &PlannerFacts<'_>, state: Option<char>) -> Option<Check> {
    let webhook = planner.webhook.as_ref()?;
    let name = &planner.rule.name;
    let Some(since) = webhook.failing_since else {
        let summary = format!("The weights webhook of rule {name} works.");
        return Some(Check::new(CheckName::WeightsWebhook, CheckState::Ok, summary));
    };
    let is_blocking = state == Some('u') || state == Some('h') && webhook.holds_all;
    let reason = webhook.last_error.as_ref().map(|error| format!(" ({error})")).unwrap_or_default();
    let effect = if is_blocking { "the tenant is held until it answers" } else { "other weights are used meanwhile" };
    let summary = format!("The weights webhook of rule {name} fails{reason}; {effect}.");
    let check = Check::new(CheckName::WeightsWebhook, CheckState::blocking_if(is_blocking), summary).since(Some(since));
    Some(check.figure_if("last_error", webhook.last_error.clone()))
}

fn remote_pause(planner: &PlannerFacts<'_>, queue: &MainQueueFacts) -> Check {
    let is_paused = queue.hindrance == Some(Closed::QueuePaused);
    let sentence = if is_paused { "is paused" } else { "is not paused" };
    let summary = format!("The queue in main queue {} {sentence}.", planner.rule.main_queue);
    Check::new(CheckName::QueuePaused, CheckState::blocking_if(is_paused), summary)
}

fn processes(planner: &PlannerFacts<'_>, queue: &MainQueueFacts) -> Option<Check> {
    let processes = queue.processes?;
    let main_queue = &planner.rule.main_queue;
    let is_quiet = queue.hindrance == Some(Closed::Quiet);
    let (state, summary) = match processes {
        _ if is_quiet => {
            (CheckState::Blocking, format!("All processes of main queue {main_queue} that serve the queue are quiet."))
        }
        0 => (CheckState::Unknown, format!("No process of main queue {main_queue} serves the queue.")),
        some => {
            let verb = if some == 1 { "serves" } else { "serve" };
            (CheckState::Ok, format!("{} of main queue {main_queue} {verb} the queue.", processes_of(some)))
        }
    };
    Some(Check::new(CheckName::Processes, state, summary).figure("processes", processes).figure("active", queue.active))
}

fn processes_of(number: u64) -> String {
    if number == 1 { "1 process".to_owned() } else { format!("{number} processes") }
}

fn gate(job: &JobFacts, planner: &PlannerFacts<'_>, queue: Option<&MainQueueFacts>) -> Check {
    let rule = planner.rule;
    let Some(queue) = queue else {
        let summary = "The main queue cannot be read, so the state of its gate is not known.";
        return Check::new(CheckName::Gate, CheckState::Unknown, summary);
    };
    let gate = queue.gate(rule, job.now);
    let (threshold, latency) = (rule.latency_threshold as i64, gate.latency_ms as i64);
    let summary = match gate.closed {
        Some(Closed::Latency) => format!(
            "The gate is closed: the oldest job of queue {} has waited for {}, and the threshold is {}.",
            job.queue,
            duration(latency),
            duration(threshold)
        ),
        Some(_) => format!(
            "The gate is closed: queue {} holds {}, and the bound is {}.",
            job.queue,
            counted(queue.depth, "job"),
            rule.max_depth
        ),
        None => format!(
            "The gate is open: the oldest job of queue {} has waited for {} of at most {}.",
            job.queue,
            duration(latency),
            duration(threshold)
        ),
    };
    let closed_at = queue.oldest.filter(|_| gate.closed == Some(Closed::Latency)).map(|oldest| oldest + threshold);
    Check::new(CheckName::Gate, CheckState::blocking_if(gate.closed.is_some()), summary)
        .since(closed_at)
        .figure("latency_ms", gate.latency_ms)
        .figure("latency_threshold_ms", rule.latency_threshold)
        .figure("depth", queue.depth)
        .figure("max_depth", rule.max_depth)
}

/// Checks that the batch of the interval is not spent, if its size is fixed.
fn batch(job: &JobFacts, planner: &PlannerFacts<'_>, place: &StagedPlace, queue: &MainQueueFacts) -> Option<Check> {
    let Batch::Jobs(jobs) = planner.rule.batch else { return None };
    let is_renewed = queue.depth == 0 && !planner.rule.strict_interval;
    let is_spent = place.room == 0 && !is_renewed && planner.due > job.now;
    let summary = if is_spent {
        let next = duration(planner.due - job.now);
        format!(
            "The batch of this interval, {}, is promoted; the next round is due in {next}.",
            counted(jobs.into(), "job")
        )
    } else {
        let jobs = counted(if is_renewed { jobs.into() } else { place.room }, "more job");
        format!("The next round may promote {jobs}.")
    };
    let check = Check::new(CheckName::Batch, CheckState::blocking_if(is_spent), summary);
    Some(check.until(is_spent.then_some(planner.due)).figure("batch", jobs).figure("left", place.room))
}

fn weight(job: &JobFacts, place: &StagedPlace) -> Check {
    let (turn, tenant) = (&place.turn, &job.tenant);
    let weight = turn.weight.map(|weight| Weight::from_thousandths(weight).to_json());
    let (state, summary) = match turn.state {
        Some('h') => (CheckState::Blocking, format!("Tenant {tenant} has weight 0, which holds its jobs.")),
        Some('u') => (
            CheckState::Blocking,
            format!("The weight of tenant {tenant} is not known; the weights webhook has not answered yet."),
        ),
        Some(_) => {
            let weight = weight.as_ref().map(ToString::to_string).unwrap_or_default();
            (CheckState::Ok, format!("Tenant {tenant} takes turns with weight {weight}."))
        }
        None => (CheckState::Unknown, format!("The weight of tenant {tenant} is not known.")),
    };
    Check::new(CheckName::TenantWeight, state, summary).figure_if("weight", weight)
}

fn blocked(job: &JobFacts, planner: &PlannerFacts<'_>) -> Check {
    let most = planner.rule.max_blocked;
    let summary = format!(
        "At least {} of tenant {} wait for limits in the main queue.",
        counted(most, "promoted job"),
        job.tenant
    );
    Check::new(CheckName::TenantBlocked, CheckState::Blocking, summary).figure("max_blocked", most)
}

/// Checks if a reduced weight costs the job turns.
fn slowed(job: &JobFacts, place: &StagedPlace, throttle: TenantThrottle) -> Check {
    let before = |weight| others_before(&place.turn, place.of_tenant, weight);
    let (with, without) = (before(AssumedWeight::Present), before(AssumedWeight::WithoutThrottle));
    let costs = with.zip(without).is_some_and(|(with, without)| with > without);
    slowed_check(job, throttle, costs)
        .figure_if("others_before", with)
        .figure_if("others_before_at_full_weight", without)
}

/// Describes a throttle that reduces the weight of the tenant.
pub(super) fn slowed_check(job: &JobFacts, throttle: TenantThrottle, costs_turns: bool) -> Check {
    let part = f64::from(throttle.part.unwrap_or(1000)) / 1000.0;
    let left = duration(throttle.until - job.now);
    let effect = if costs_turns { "so other tenants go first" } else { "which costs this job no turn" };
    let summary = format!(
        "Tenant {} is throttled as a noisy neighbour: its weight is multiplied by {part} for {left}, {effect}.",
        job.tenant
    );
    Check::new(CheckName::Throttle, CheckState::blocking_if(costs_turns), summary)
        .until(Some(throttle.until))
        .figure("weight_factor", part)
}

fn turn(job: &JobFacts, planner: &PlannerFacts<'_>, place: &StagedPlace, queue: Option<&MainQueueFacts>) -> Check {
    let bound = place.turn.weight.and_then(|weight| wait_bound(place.turn.total, Weight::from_thousandths(weight)));
    let before = promotions_before(place);
    let depth = queue.map_or(0, |queue| queue.depth);
    let is_topped_up = planner.rule.batch == Batch::Auto && queue.is_some_and(|queue| queue.depth >= queue.aim.max(1));
    let (state, summary) = match before {
        None => (CheckState::Unknown, format!("Tenant {} takes no turns now.", job.tenant)),
        Some(0) if is_topped_up => (
            CheckState::Blocking,
            format!(
                "The job is next; it is promoted when workers take jobs from queue {}, which holds {depth}.",
                job.queue
            ),
        ),
        Some(0) => (CheckState::Ok, "The job is next; the next round promotes it.".to_owned()),
        Some(before) => (
            CheckState::Blocking,
            format!(
                "About {} {} before it in fair order, {} of its own tenant.",
                counted(before, "promotion"),
                if before == 1 { "comes" } else { "come" },
                grouped(place.of_tenant)
            ),
        ),
    };
    Check::new(CheckName::FairTurn, state, summary)
        .figure_if("promotions_before", before)
        .figure("of_tenant", place.of_tenant)
        .figure("of_higher_priorities", place.before)
        .figure("waiting_tenants", place.turn.waiting)
        .figure_if("wait_bound_jobs", bound)
}
