//! The checks and their order.

use super::*;
use crate::domain::plan::Webhook;

#[test]
fn jobs_that_do_not_wait_are_not_explained() {
    for state in [State::Active, State::Completed, State::Cancelled, State::Discarded] {
        assert_eq!(explain(&job(state, |_| {}), None), None);
    }
    assert_eq!(explain(&job(State::Available, |job| job.has_left = true), None), None);
}

#[test]
fn each_check_of_the_rule_binds_before_those_that_follow() {
    let rule = rule(|rule| {
        (rule.latency_threshold, rule.max_depth, rule.batch, rule.strict_interval) = (5000, 10, Batch::Jobs(3), true);
        (rule.main_queue, rule.planner_lock_ttl) = ("legacy".to_owned(), 10_000);
        rule.weights.webhook = Some(Webhook { url: "http://localhost/".to_owned(), timeout: 1, secret_env: None });
    });
    // Each step removes the obstacle that binds; all later ones remain.
    let order = [
        "rule_paused",
        "planner",
        "main_queue",
        "weights_webhook",
        "queue_paused",
        "processes",
        "gate",
        "batch",
        "tenant_weight",
        "fair_turn",
        "",
    ];
    for (step, expected) in order.into_iter().enumerate() {
        let left = |name: &str| order.iter().position(|other| *other == name).is_some_and(|place| place >= step);
        let job = staged(|place| {
            place.room = if left("batch") { 0 } else { 3 };
            if left("tenant_weight") {
                (place.turn.state, place.turn.weight, place.turn.start) = (Some('h'), Some(0), None);
            } else if !left("fair_turn") {
                place.turn.rivals.clear();
                place.turn.waiting = 1;
            }
        });
        let hindrance = match () {
            () if left("main_queue") => Some(Closed::Unreachable),
            () if left("queue_paused") => Some(Closed::QueuePaused),
            () if left("processes") => Some(Closed::Quiet),
            () => None,
        };
        let facts = planner(&rule, |facts| {
            facts.is_paused = left("rule_paused");
            facts.is_stalled = left("planner");
            facts.due = NOW + 1000;
            let queue = facts.queue.as_mut().expect("a queue");
            (queue.hindrance, queue.processes) = (hindrance, Some(2));
            queue.depth = if left("gate") { 10 } else { 1 };
            facts.webhook = Some(WebhookFacts {
                failing_since: left("weights_webhook").then_some(NOW - 5),
                last_error: None,
                holds_all: true,
                next_attempt_at: None,
            });
        });
        assert_eq!(binding(&job, Some(&facts)), expected);
    }
}

#[test]
fn each_check_of_a_fetch_binds_before_those_that_follow() {
    let order = ["queue_paused", "pool", "limit", "rate_limit", "tenant_concurrency", "workers", "queue_order", ""];
    for (step, expected) in order.into_iter().enumerate() {
        let left = |name: &str| order.iter().position(|other| *other == name).is_some_and(|place| place >= step);
        let job = available(|facts| {
            facts.paused_since = left("queue_paused").then_some(NOW - 5);
            facts.pools = vec![PoolFacts {
                name: "p".to_owned(),
                concurrency: Some(2),
                running: if left("pool") { 2 } else { 1 },
                workers: 1,
                holders: Vec::new(),
            }];
            facts.limits = vec![
                limit(|limit| (limit.is_blocking, limit.concurrency, limit.running) = (left("limit"), Some(1), 1)),
                limit(|limit| (limit.is_blocking, limit.strategy) = (left("rate_limit"), LimitStrategy::Rate)),
                limit(|limit| {
                    (limit.key, limit.concurrency, limit.running) = ("!acme".to_owned(), Some(1), 1);
                    limit.is_blocking = left("tenant_concurrency");
                }),
            ];
            facts.live_since = left("workers").then_some(NOW - 10_000);
            facts.place.as_mut().expect("a place").in_lane = if left("queue_order") { 3 } else { 0 };
        });
        assert_eq!(binding(&job, None), expected);
    }
}

#[test]
fn checks_that_do_not_apply_are_left_out() {
    assert_eq!(names(&available(|_| {}), None), ["queue_paused", "workers", "queue_order"]);
    assert_eq!(
        names(&job(State::Scheduled, |job| job.due = Some(NOW + 5)), None),
        ["schedule", "queue_paused", "workers"]
    );
    let rule = rule(|_| {});
    let expected = ["rule_paused", "planner", "gate", "tenant_weight", "fair_turn", "queue_paused", "workers"];
    assert_eq!(names(&staged(|_| {}), Some(&planner(&rule, |_| {}))), expected);
}

#[test]
fn times_bind_until_they_have_come() {
    let at = |state, due: i64, postponed: Option<Postponed>| {
        job(state, |job| (job.due, job.postponed) = (Some(NOW + due), postponed))
    };
    let postponed = Postponed { strategy: LimitStrategy::Rate, since: NOW - 9, key: Some("k".to_owned()) };
    for (state, postponed, name) in [
        (State::Scheduled, None, "schedule"),
        (State::Scheduled, Some(postponed), "postponement"),
        (State::Retryable, None, "retry"),
    ] {
        assert_eq!(binding(&at(state, 5000, postponed.clone()), None), name);
        assert_eq!(eta(&at(state, 5000, postponed.clone()), None), Some(5000));
        assert_eq!(binding(&at(state, 0, postponed), None), "", "the next tick makes it available");
    }
    assert_eq!(
        (binding(&job(State::Pending, |_| {}), None), eta(&job(State::Pending, |_| {}), None)),
        ("activation", None)
    );
}

#[test]
fn a_lock_without_signs_of_life_belongs_to_a_dead_process() {
    let rule = rule(|rule| rule.planner_lock_ttl = 30_000);
    let with = |left_ms: u64, is_busy: bool, due: i64, idle_ms: Option<u64>| {
        let facts = planner(&rule, |facts| {
            facts.lock = Some(LockFacts { holder: Some("host:1".to_owned()), left_ms, is_busy });
            facts.due = due;
            facts.queue.as_mut().expect("a queue").idle_ms = idle_ms;
        });
        let explanation = explain(&staged(|_| {}), Some(&facts)).expect("it waits");
        explanation.checks[1].clone()
    };
    for (left_ms, is_busy, due, idle_ms, is_dead) in [
        (29_000, true, NOW, None, false),
        (15_000, true, NOW, None, false),
        (14_999, true, NOW, None, true),
        // Between rounds the lock is not renewed.
        (5_000, false, NOW + 9000, None, false),
        (5_000, false, NOW - 7000, None, false),
        (5_000, false, NOW - 7001, None, true),
        (29_000, false, NOW - 9000, None, false), // it has just begun a round
        (5_000, false, NOW + 9000, Some(7_001), true),
    ] {
        let check = with(left_ms, is_busy, due, idle_ms);
        assert_eq!(check.is_blocking(), is_dead, "{left_ms} {is_busy}: {}", check.summary);
        assert_eq!(check.until, is_dead.then_some(NOW + left_ms as i64));
        assert!(check.summary.contains("host:1"));
    }
}

#[test]
fn a_failing_webhook_binds_only_if_it_holds_the_tenant() {
    let rule = rule(|_| {});
    for (state, holds_all, is_bound) in
        [('w', false, false), ('w', true, false), ('u', false, true), ('h', true, true), ('h', false, false)]
    {
        let job = staged(|place| place.turn.state = Some(state));
        let facts = planner(&rule, |facts| {
            let webhook = WebhookFacts { failing_since: Some(NOW), last_error: None, holds_all, next_attempt_at: None };
            facts.webhook = Some(webhook);
        });
        assert_eq!(binding(&job, Some(&facts)) == "weights_webhook", is_bound, "{state} {holds_all}");
    }
    let unknown = staged(|place| place.turn.state = Some('u'));
    assert_eq!(binding(&unknown, Some(&planner(&rule, |_| {}))), "tenant_weight");
    let blocked = staged(|place| place.turn.state = Some('b'));
    assert_eq!(binding(&blocked, Some(&planner(&rule, |_| {}))), "tenant_blocked");
}

#[test]
fn a_throttle_binds_by_its_cap_or_by_the_turns_that_it_costs() {
    let capped = |most: u64| {
        let mut job = available(|facts| {
            let own = limit(|limit| (limit.key, limit.concurrency, limit.running) = ("!acme".to_owned(), Some(2), 2));
            facts.limits = vec![own];
        });
        job.throttle = Some(TenantThrottle { part: None, until: NOW + 9, concurrency: Some(most) });
        job
    };
    assert_eq!((binding(&capped(2), None), binding(&capped(5), None)), ("throttle", "tenant_concurrency"));
    let rule = rule(|_| {});
    let slowed = |full: u32| {
        let mut job = staged(|place| {
            (place.turn.weight, place.turn.full, place.turn.total, place.of_tenant) = (Some(100), Some(full), 1100, 1);
        });
        job.throttle = Some(TenantThrottle { part: Some(100), until: NOW + 9, concurrency: None });
        job
    };
    assert_eq!(binding(&slowed(1000), Some(&planner(&rule, |_| {}))), "throttle");
    assert_eq!(binding(&slowed(100), Some(&planner(&rule, |_| {}))), "fair_turn");
}

#[test]
fn a_paused_queue_comes_before_a_gate_that_it_keeps_closed() {
    let rule = rule(|rule| rule.max_depth = 1);
    let paused = |depth: u64| {
        let mut job = staged(|place| place.turn.rivals.clear());
        job.dispatch = Some(DispatchFacts { paused_since: Some(NOW - 5), ..DispatchFacts::default() });
        let facts = planner(&rule, |facts| facts.queue.as_mut().expect("a queue").depth = depth);
        names(&job, Some(&facts))
    };
    let place = |names: Vec<&str>, name: &str| names.iter().position(|other| *other == name);
    assert!(place(paused(1), "queue_paused") < place(paused(1), "gate"));
    assert!(place(paused(0), "queue_paused") > place(paused(0), "fair_turn"));
}

#[test]
fn a_job_of_a_rule_that_is_not_known_waits_for_it() {
    assert_eq!(binding(&staged(|_| {}), None), "planner");
}

#[test]
fn every_name_of_a_check_is_its_own() {
    let mut names = CheckName::NAMES.to_vec();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), CheckName::NAMES.len());
}
