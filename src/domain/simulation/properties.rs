//! Invariants of every scenario.

use super::tests::{SECOND, burst, group, scenario};
use super::*;
use crate::domain::plan::{Batch, Pace};
use proptest::option::of;
use proptest::prelude::*;

fn run_time() -> impl Strategy<Value = RunTime> {
    let us = || 1000..200_000_u64;
    prop_oneof![
        us().prop_map(|us| RunTime::Fixed { us }),
        (us(), us()).prop_map(|(from_us, more)| RunTime::Uniform { from_us, to_us: from_us + more }),
        us().prop_map(|mean_us| RunTime::Exponential { mean_us }),
        (us(), 1..20_u64).prop_map(|(median_us, times)| RunTime::Lognormal { median_us, p99_us: median_us * times }),
    ]
}

fn arrivals() -> impl Strategy<Value = Arrivals> {
    let bursts = (1..300_u64, 0..4 * SECOND, of(SECOND / 2..2 * SECOND));
    let bursts = bursts.prop_map(|(jobs, at_us, every_us)| Burst { jobs, at_us, every_us });
    let phases = (1..2 * SECOND, 0..2 * SECOND).prop_map(|(on_us, off_us)| Phases { on_us, off_us });
    (of(0.1..80.0), of(10_000..SECOND), of(bursts), of(phases), 0..SECOND)
        .prop_map(|(rate, every_us, burst, phases, start_us)| Arrivals { rate, every_us, burst, phases, start_us })
}

prop_compose! {
    fn tenants()(
        count in 1..5_u32,
        weight in prop_oneof![Just(1.0), Just(0.0), 0.05..20.0],
        arrivals in arrivals(),
        run_time in run_time(),
        failures in prop_oneof![Just(0.0), 0.0..0.6],
        attempts in 1..5_u8,
    ) -> TenantGroup {
        let retry = Retry { failures, attempts, delay_us: SECOND / 2 };
        TenantGroup { count, run_time, retry, ..group("t", weight, arrivals) }
    }
}

prop_compose! {
    fn any_scenario()(
        seed in any::<u64>(),
        is_fair in any::<bool>(),
        workers in 1..20_u32,
        jobs in prop_oneof![Just(MOST_JOBS), 1..500_u64],
        batch in prop_oneof![Just(Batch::Auto), (1..300_u32).prop_map(Batch::Jobs)],
        (interval, target_latency, latency_threshold, max_depth) in (10..3000_u64, 1..2000_u64, 1..5000_u64, 1..500_u64),
        strict_interval in any::<bool>(),
        groups in prop::collection::vec(tenants(), 1..6),
    ) -> Scenario {
        let mut any = scenario(groups);
        for (group, number) in any.groups.iter_mut().zip(0..) {
            group.name = format!("t{number}");
        }
        (any.seed, any.workers, any.jobs, any.duration_us) = (seed, workers, jobs, 5 * SECOND);
        any.mode = if is_fair { Mode::Fair } else { Mode::Fifo };
        (any.rule.batch, any.rule.pace, any.rule.strict_interval) = (batch, Pace::Every(interval), strict_interval);
        // With an automatic batch, a strict interval lets no job pass, but rounds promote.
        (any.rule.target_latency, any.rule.latency_threshold, any.rule.max_depth) = (target_latency, latency_threshold, max_depth);
        any
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn no_job_is_lost(scenario in any_scenario()) {
        let report = simulate(&scenario, |_| {});
        let sum = |count: fn(&TenantReport) -> u64| report.tenants.iter().map(count).sum::<u64>();
        prop_assert_eq!(report.totals.jobs, sum(|tenant| tenant.jobs));
        prop_assert_eq!(report.totals.jobs, sum(|tenant| tenant.completed + tenant.discarded + tenant.left));
        prop_assert!(report.totals.jobs <= scenario.jobs);
        for (tenant, group) in report.tenants.iter().zip(&scenario.groups) {
            let is_held = group.weight.is_held() && scenario.mode == Mode::Fair;
            prop_assert_eq!(tenant.left, if is_held { tenant.jobs } else { 0 });
            let attempts = u64::from(group.retry.attempts);
            prop_assert!(tenant.dispatches >= tenant.completed && tenant.dispatches <= tenant.jobs * attempts);
            prop_assert!(tenant.wait.p50_ms <= tenant.wait.p95_ms && tenant.wait.p99_ms <= tenant.wait.max_ms);
        }
        prop_assert!((0.0..=1.0).contains(&report.totals.utilisation));
        prop_assert!(report.totals.jain_index.is_none_or(|index| (0.0..=1.0).contains(&index)));
    }

    #[test]
    fn promotions_keep_the_bounds_of_fairness(scenario in any_scenario()) {
        let report = simulate(&Scenario { mode: Mode::Fair, ..scenario }, |_| {});
        let Deviation { ahead_jobs, behind_jobs } = report.totals.promotions;
        prop_assert!(ahead_jobs <= 1.0 && behind_jobs <= 1.2, "{} ahead, {} behind", ahead_jobs, behind_jobs);
    }

    #[test]
    fn saturated_tenants_get_their_shares(weights in prop::collection::vec(0.2..5.0, 2..8), seed in any::<u64>()) {
        let groups = weights.iter().enumerate().map(|(number, weight)| group(&format!("t{number}"), *weight, burst(4000)));
        let report = simulate(&Scenario { seed, ..scenario(groups.collect()) }, |_| {});
        let contended: f64 = report.tenants.iter().map(|tenant| tenant.share.unwrap_or(0.0)).sum();
        prop_assert!((contended - 1.0).abs() < 0.001);
        for tenant in &report.tenants {
            let (share, expected) = tenant.share.zip(tenant.expected_share).expect("they compete");
            // A few of at least 4,000 jobs.
            prop_assert!((share - expected).abs() <= 0.001, "{} {}", share, expected);
            prop_assert!(tenant.deviation.ahead_jobs <= 1.5 && tenant.deviation.behind_jobs <= 2.5, "{:?}", tenant);
        }
        prop_assert!(report.totals.jain_index.is_none_or(|index| index > 0.97), "{:?}", report.totals);
    }
}
