//! Facts for tests: every check, the order of checks, and the arithmetic of estimates.

mod checks;
mod estimates;

use super::*;
use crate::domain::job::State;
use crate::domain::limit::LimitStrategy;
use crate::domain::plan::{Batch, Closed, Pace, Rule};

const NOW: i64 = 1_800_000_000_000;

fn rule(change: impl FnOnce(&mut Rule)) -> Rule {
    let mut rule = Rule::new("r", &["t.*"]);
    change(&mut rule);
    rule
}

fn job(state: State, change: impl FnOnce(&mut JobFacts)) -> JobFacts {
    let mut job = JobFacts {
        now: NOW,
        state,
        queue: "q".to_owned(),
        tenant: "acme".to_owned(),
        rule: None,
        is_staged: false,
        leaves: false,
        has_left: false,
        created: NOW - 1000,
        enqueued: None,
        due: None,
        postponed: None,
        throttle: None,
        staged: None,
        dispatch: Some(DispatchFacts::default()),
    };
    change(&mut job);
    job
}

fn available(change: impl FnOnce(&mut DispatchFacts)) -> JobFacts {
    job(State::Available, |job| {
        let place = Some(QueuePlace { is_counted: true, ..QueuePlace::default() });
        let mut facts = DispatchFacts { place, ..DispatchFacts::default() };
        change(&mut facts);
        job.dispatch = Some(facts);
    })
}

/// A staged job whose tenant takes turns with another one.
fn staged(change: impl FnOnce(&mut StagedPlace)) -> JobFacts {
    job(State::Pending, |job| {
        let rivals = vec![TurnRival { start: 0.0, weight: 1000, jobs: 9 }];
        let turn = Turn {
            total: 2000,
            waiting: 2,
            state: Some('w'),
            weight: Some(1000),
            start: Some(0.0),
            rivals,
            ..Turn::default()
        };
        let mut place = StagedPlace { of_tenant: 0, before: 0, room: 0, turn };
        change(&mut place);
        (job.is_staged, job.rule, job.staged) = (true, Some("r".to_owned()), Some(place));
    })
}

fn planner(rule: &Rule, change: impl FnOnce(&mut PlannerFacts<'_>)) -> PlannerFacts<'_> {
    let queue = MainQueueFacts {
        depth: 1,
        oldest: Some(NOW - 10),
        active: 0,
        aim: 4,
        idle_ms: None,
        processes: None,
        hindrance: None,
    };
    let mut facts = PlannerFacts {
        rule,
        is_paused: false,
        is_stalled: false,
        lock: None,
        due: 0,
        staged_at: NOW - 1000,
        queue: Some(queue),
        trouble: None,
        undelivered: 0,
        webhook: None,
        promoted: None,
    };
    // The lifetime of the facts is that of the rule.
    change(&mut facts);
    facts
}

fn limit(change: impl FnOnce(&mut LimitFacts)) -> LimitFacts {
    let mut limit = LimitFacts {
        key: "k".to_owned(),
        label: Some("k".to_owned()),
        is_blocking: true,
        strategy: LimitStrategy::Concurrency,
        since: None,
        room: Some(0.0),
        running: 0,
        concurrency: None,
        rate: None,
        throttle: None,
        hold_until: None,
        holders: Vec::new(),
    };
    change(&mut limit);
    limit
}

fn binding(job: &JobFacts, planner: Option<&PlannerFacts<'_>>) -> &'static str {
    let explanation = explain(job, planner).expect("it waits");
    explanation.binding().map_or("", |check| check.name.name())
}

fn names(job: &JobFacts, planner: Option<&PlannerFacts<'_>>) -> Vec<&'static str> {
    explain(job, planner).expect("it waits").checks.iter().map(|check| check.name.name()).collect()
}

fn eta(job: &JobFacts, planner: Option<&PlannerFacts<'_>>) -> Option<i64> {
    explain(job, planner).expect("it waits").eta.map(|eta| eta.at - NOW)
}
