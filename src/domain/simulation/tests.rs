//! Whole simulations, and what they show.

use super::*;
use crate::domain::plan::{Batch, Pace, Rule};
use crate::domain::tenant::Weight;

pub(super) const SECOND: u64 = 1_000_000;

/// A group with a weight whose jobs take 10 ms, without jobs.
pub(super) fn group(name: &str, weight: f64, arrivals: Arrivals) -> TenantGroup {
    TenantGroup {
        name: name.to_owned(),
        count: 1,
        weight: Weight::of(weight).expect("a weight"),
        arrivals,
        run_time: RunTime::Fixed { us: 10_000 },
        retry: Retry { failures: 0.0, attempts: 3, delay_us: SECOND },
    }
}

pub(super) fn burst(jobs: u64) -> Arrivals {
    Arrivals { burst: Some(Burst { jobs, at_us: 0, every_us: None }), ..Arrivals::default() }
}

/// A minute of arrivals and ten workers.
pub(super) fn scenario(groups: Vec<TenantGroup>) -> Scenario {
    Scenario {
        name: "test".to_owned(),
        seed: 1,
        mode: Mode::Fair,
        duration_us: 60 * SECOND,
        jobs: MOST_JOBS,
        workers: 10,
        rule: Rule::new("simulation", &["*"]),
        groups,
    }
}

fn run(scenario: &Scenario) -> Report {
    simulate(scenario, |_| {})
}

fn fifo(scenario: &Scenario) -> Report {
    run(&Scenario { mode: Mode::Fifo, ..scenario.clone() })
}

/// The example of the README: a tenant enqueues 1,000 jobs, and after it two others five each.
fn flood() -> Scenario {
    let late = |at_us| Arrivals { burst: Some(Burst { jobs: 5, at_us, every_us: None }), ..Arrivals::default() };
    scenario(vec![group("noisy", 1.0, burst(1000)), group("acme", 3.0, late(1000)), group("beta", 1.0, late(2000))])
}

fn some_of_everything() -> Scenario {
    let phases = Some(Phases { on_us: 5 * SECOND, off_us: 10 * SECOND });
    let mut retried = group("retried", 1.0, Arrivals { rate: Some(100.0), phases, ..Arrivals::default() });
    retried.retry.failures = 0.2;
    let mut alike = group("alike", 0.5, Arrivals { every_us: Some(SECOND), start_us: SECOND, ..Arrivals::default() });
    (alike.count, alike.run_time) = (12, RunTime::Exponential { mean_us: 20_000 });
    let mut heavy = group("heavy", 2.0, Arrivals { rate: Some(50.0), ..burst(3000) });
    heavy.run_time = RunTime::Lognormal { median_us: 10_000, p99_us: 500_000 };
    scenario(vec![retried, alike, heavy])
}

#[test]
fn a_flood_delays_others_first_in_first_out_and_not_with_fair_turns() {
    let (fair, fifo) = (run(&flood()), fifo(&flood()));
    // A thousand jobs of 10 ms take ten workers a second.
    for tenant in &fifo.tenants[1..] {
        assert!(tenant.wait.p50_ms >= 980.0, "{tenant:?}");
        assert!(tenant.deviation.behind_jobs >= 4.9, "{tenant:?}");
    }
    for tenant in &fair.tenants[1..] {
        assert!(tenant.wait.max_ms <= 350.0, "{tenant:?}");
    }
    assert!(fair.tenants[1].wait.max_ms < fair.tenants[2].wait.max_ms, "acme has three times the weight");
    for report in [&fair, &fifo] {
        assert_eq!((report.totals.jobs, report.totals.completed, report.totals.left), (1010, 1010, 0));
        assert!((1010.0..1100.0).contains(&report.totals.makespan_ms), "{report:?}");
        assert!(report.totals.utilisation > 0.9, "{report:?}");
    }
}

#[test]
fn shares_of_tenants_that_always_wait_follow_the_weights() {
    let contended = scenario(vec![group("a", 3.0, burst(3000)), group("b", 1.0, burst(3000))]);
    let (fair, fifo) = (run(&contended), fifo(&contended));
    let shares = |report: &Report| -> Vec<(f64, f64)> {
        let share = |tenant: &TenantReport| tenant.share.zip(tenant.expected_share).expect("they compete");
        report.tenants.iter().map(share).collect()
    };
    for ((share, expected), weight) in shares(&fair).into_iter().zip([0.75, 0.25]) {
        assert!((share - weight).abs() < 0.002 && (expected - weight).abs() < 0.002, "{share} {expected}");
    }
    assert_eq!(shares(&fifo).into_iter().map(|(share, _)| share).collect::<Vec<_>>(), [1.0, 0.0]);
    assert!(fair.totals.jain_index.is_some_and(|index| index > 0.99), "{:?}", fair.totals);
    assert_eq!(fifo.totals.jain_index, Some(0.5), "one tenant of two gets everything");
}

#[test]
fn a_lone_tenant_has_no_share_to_compare() {
    let report = run(&scenario(vec![group("a", 1.0, burst(10))]));
    assert_eq!((report.tenants[0].share, report.totals.jain_index), (None, None));
    assert_eq!(report.tenants[0].deviation, Deviation::default());
    assert!((2.0..15.0).contains(&report.totals.wait.p50_ms), "a few rounds: {:?}", report.totals.wait);
}

#[test]
fn the_same_seed_has_the_same_result_and_another_seed_another() {
    let (first, again) = (run(&some_of_everything()), run(&some_of_everything()));
    assert_eq!(first, again);
    let other = run(&Scenario { seed: 2, ..some_of_everything() });
    assert_ne!(first.totals.jobs, other.totals.jobs);
}

#[test]
fn a_change_of_the_order_leaves_the_jobs_as_they_are() {
    let (fair, fifo) = (run(&some_of_everything()), fifo(&some_of_everything()));
    let jobs = |report: &Report| report.tenants.iter().map(|tenant| tenant.jobs).collect::<Vec<_>>();
    assert_eq!(jobs(&fair), jobs(&fifo));
    assert_eq!(fifo.totals.rounds, 0);
    assert!(fair.totals.rounds > 50, "{}", fair.totals.rounds);
}

#[test]
fn failed_attempts_run_again_until_there_are_no_more_attempts() {
    let mut failing = group("a", 1.0, burst(10_000));
    failing.retry = Retry { failures: 0.5, attempts: 3, delay_us: SECOND };
    let report = run(&scenario(vec![failing]));
    let tenant = &report.tenants[0];
    assert_eq!(tenant.completed + tenant.discarded, 10_000);
    assert!((1_150..1_350).contains(&tenant.discarded), "an eighth: {}", tenant.discarded);
    assert!((17_200..17_800).contains(&tenant.dispatches), "1 + 1/2 + 1/4 for each: {}", tenant.dispatches);
}

#[test]
fn a_held_tenant_keeps_its_jobs_and_delays_no_one() {
    let report = run(&scenario(vec![group("held", 0.0, burst(100)), group("a", 1.0, burst(100))]));
    let left: Vec<u64> = report.tenants.iter().map(|tenant| tenant.left).collect();
    assert_eq!((left, report.totals.completed), (vec![100, 0], 100));
    assert_eq!(report.tenants[1].share, None, "no other tenant takes turns");
}

#[test]
fn a_strict_interval_promotes_one_batch_each_and_lets_workers_idle() {
    let mut strict = scenario(vec![group("a", 1.0, burst(100))]);
    strict.rule = Rule { batch: Batch::Jobs(10), pace: Pace::Every(1000), strict_interval: true, ..strict.rule };
    let report = run(&strict);
    assert!((9_000.0..10_100.0).contains(&report.totals.makespan_ms), "{:?}", report.totals);
    assert!(report.totals.wasted_ms > 8_000.0 && report.totals.utilisation < 0.02, "{:?}", report.totals);
    strict.rule.strict_interval = false;
    let report = run(&strict);
    assert!(report.totals.makespan_ms < 150.0, "an empty queue gets a batch at once: {:?}", report.totals);
}

#[test]
fn a_large_batch_lets_a_quiet_tenant_wait_longer_than_an_automatic_one() {
    let wait = |batch| {
        let quiet = Arrivals { every_us: Some(SECOND / 2), start_us: 2 * SECOND, ..Arrivals::default() };
        let mut flood = scenario(vec![group("noisy", 1.0, burst(50_000)), group("quiet", 1.0, quiet)]);
        flood.rule.batch = batch;
        run(&flood).tenants[1].wait.p95_ms
    };
    let (auto, large) = (wait(Batch::Auto), wait(Batch::Jobs(5000)));
    assert!(auto <= 520.0 && large >= 2.0 * auto, "auto {auto} ms, 5,000 jobs {large} ms");
}

#[test]
fn a_closed_gate_stops_promotion() {
    let depth = |max_depth| {
        let mut gated = scenario(vec![group("a", 1.0, burst(1000)), group("b", 1.0, burst(10))]);
        gated.rule = Rule { batch: Batch::Jobs(1000), max_depth, ..gated.rule };
        run(&gated).tenants[1].wait.max_ms
    };
    let (short, long) = (depth(5), depth(2000));
    assert!(short < long * 20.0, "{short} {long}");
    let mut late = scenario(vec![group("a", 1.0, burst(400))]);
    late.workers = 1;
    late.rule = Rule { batch: Batch::Jobs(200), latency_threshold: 1, ..late.rule };
    // The second batch follows when the queue is empty, which is after two seconds.
    let report = run(&late);
    assert_eq!(report.totals.completed, 400);
    assert_eq!(report.totals.rounds, 2 + 1, "two of them promote: {:?}", report.totals);
}

#[test]
fn jobs_end_at_the_number_or_the_time_that_the_scenario_sets() {
    let endless = Arrivals { rate: Some(100.0), ..Arrivals::default() };
    let mut limited = scenario(vec![group("a", 1.0, endless), group("b", 1.0, burst(500))]);
    limited.jobs = 600;
    let report = run(&limited);
    assert_eq!((report.totals.jobs, report.totals.completed, report.totals.jobs_left_out), (600, 600, false));
    limited.jobs = MOST_JOBS;
    limited.duration_us = 10 * SECOND;
    assert!((1_400..1_600).contains(&run(&limited).totals.jobs));
}

#[test]
fn the_timeline_counts_all_dispatches() {
    let report = run(&flood());
    let last = |series: &Vec<u64>| *series.last().expect("some");
    assert_eq!(report.timeline.tenants.iter().map(last).collect::<Vec<_>>(), [1000, 5, 5]);
    assert!(
        report.timeline.tenants.iter().all(|series| series.len() == report.timeline.at_ms.len() && series.is_sorted())
    );
}
