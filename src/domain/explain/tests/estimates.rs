//! The arithmetic of estimates.

use super::*;

#[test]
fn jobs_in_a_queue_start_at_the_rate_at_which_workers_take_jobs() {
    let taken = |jobs, first: i64, last: i64| {
        let second = NOW / 1000;
        Dispatched { jobs, first: Some(second + first), last: Some(second + last) }
    };
    let with = |dispatched, in_lane| {
        available(|facts| {
            facts.dispatched = dispatched;
            facts.place.as_mut().expect("a place").in_lane = in_lane;
        })
    };
    // 100 jobs in 50 s are two a second; the job follows half a step later.
    assert_eq!(eta(&with(taken(100, -50, 0), 9), None), Some(4750));
    assert_eq!(eta(&with(taken(1, -5, -5), 9), None), None, "one job is no rate");
    assert_eq!(eta(&with(taken(100, -50, -11), 9), None), None, "the workers have stopped");
    assert_eq!(eta(&with(Dispatched::default(), 9), None), None);
    let paused = available(|facts| (facts.dispatched, facts.paused_since) = (taken(100, -50, 0), Some(NOW)));
    assert_eq!(eta(&paused, None), None, "nobody knows when it ends");
}

#[test]
fn jobs_under_a_rate_start_when_earlier_starts_have_left_the_window() {
    let window = |starts: &[(i64, u64)]| RateWindow {
        limit: 3,
        period: 10_000,
        starts: starts.iter().map(|(ago, jobs)| Starts { at: NOW - ago, jobs: *jobs }).collect(),
    };
    let with = |starts: &[(i64, u64)], in_lane| {
        available(|facts| {
            facts.place.as_mut().expect("a place").in_lane = in_lane;
            let room = 3.0 - starts.iter().map(|(_, jobs)| *jobs as f64).sum::<f64>();
            facts.limits = vec![limit(|limit| {
                (limit.strategy, limit.rate) = (LimitStrategy::Rate, Some(window(starts)));
                (limit.is_blocking, limit.room) = (room <= 0.0, Some(room));
            })];
        })
    };
    let full = [(9000, 1), (4000, 2)];
    for (in_lane, expected) in [(0, 1000), (1, 6000), (2, 6000), (3, 11_000), (5, 16_000), (6, 21_000)] {
        assert_eq!(eta(&with(&full, in_lane), None), Some(expected), "{in_lane} before it");
    }
    // Two may start now, and the next when the oldest start has left.
    assert_eq!(eta(&with(&[(9000, 1)], 2), None), Some(1000));
    assert_eq!(eta(&with(&[(9000, 1)], 3), None), Some(10_000));
    let spaced = available(|facts| {
        facts.place.as_mut().expect("a place").in_lane = 2;
        let window = ThrottleWindow { limit: 2, period: 1000, next: NOW + 100 };
        facts.limits = vec![limit(|limit| (limit.strategy, limit.throttle) = (LimitStrategy::Throttle, Some(window)))];
    });
    assert_eq!(eta(&spaced, None), Some(1100));
    let held = available(|facts| {
        facts.limits = vec![limit(|limit| (limit.strategy, limit.hold_until) = (LimitStrategy::Hold, Some(NOW + 700)))];
    });
    assert_eq!(eta(&held, None), Some(700));
    let full = available(|facts| {
        let rate = Some(window(&[]));
        facts.limits = vec![limit(|limit| (limit.concurrency, limit.running, limit.rate) = (Some(1), 1, rate))];
    });
    assert_eq!(eta(&full, None), None, "it depends on the end of another job");
}

#[test]
fn staged_jobs_start_after_the_promotions_and_the_queue_before_them() {
    let second = NOW / 1000;
    let dispatched = Dispatched { jobs: 60, first: Some(second - 60), last: Some(second) };
    let auto = rule(|_| {});
    let mut job = staged(|place| place.of_tenant = 2);
    job.dispatch = Some(DispatchFacts { dispatched, ..DispatchFacts::default() });
    // Two of its tenant, two or three of the other, one in the main queue, one job a second.
    let facts = planner(&auto, |_| {});
    assert_eq!(
        explain(&job, Some(&facts)).expect("it waits").position,
        Some(Position::Staging { of_tenant: 2, promotions_before: Some(5) })
    );
    assert_eq!(eta(&job, Some(&facts)), Some(6500));
    // A process that is dead promotes when another one takes over.
    let stalled = planner(&auto, |facts| facts.is_stalled = true);
    assert_eq!(eta(&job, Some(&stalled)), None);

    let strict = rule(|rule| {
        (rule.batch, rule.strict_interval, rule.pace) = (Batch::Jobs(2), true, Pace::Every(60_000));
    });
    let facts = planner(&strict, |facts| facts.due = NOW + 10_000);
    // Five before it: the third batch of two.
    assert_eq!(eta(&job, Some(&facts)), Some(130_000));
    let mut external = staged(|place| {
        place.turn.rivals.clear();
        (place.turn.waiting, place.turn.total) = (1, 1000);
    });
    (external.leaves, external.dispatch) = (true, None);
    let remote = rule(|rule| rule.main_queue = "legacy".to_owned());
    let facts = planner(&remote, |facts| facts.promoted = Some(PromotionRate { jobs: 20, period_ms: 10_000 }));
    let estimate = explain(&external, Some(&facts)).expect("it waits").eta.expect("a basis");
    assert_eq!((estimate.at - NOW, estimate.of), (250, EtaTarget::Promotion));
}
