//! The simulator beside a real server: the same tenants, rounds and workers, on a clock that the test moves.

use super::{push, registry, rule, run};
use crate::support::{NOON, TestApp};
use fairgate::domain::plan::{Batch, Pace, Rule};
use fairgate::domain::simulation::{Arrivals, Burst, MOST_JOBS, Mode, Retry, RunTime, Scenario, TenantGroup, simulate};
use fairgate::domain::tenant::Weight;
use fairgate::domain::time::At;
use std::collections::BTreeMap;

const TENANTS: [(&str, f64, usize); 4] = [("noisy", 1.0, 60), ("acme", 3.0, 24), ("beta", 1.0, 5), ("late", 0.5, 11)];
/// The run time of a job, in milliseconds; a round follows every ten of them.
const RUN_MS: i64 = 100;
const BATCH: u32 = 10;

fn weight(weight: f64) -> Weight {
    Weight::of(weight).expect("a weight")
}

/// Ten jobs per second for one worker.
fn strict() -> Rule {
    rule(|rule| {
        (rule.batch, rule.strict_interval, rule.pace) = (Batch::Jobs(BATCH), true, Pace::Every(1000));
        rule.weights.fixed = TENANTS.map(|(name, number, _)| (name.to_owned(), weight(number))).into();
    })
}

/// Tenants in the order of their dispatches, and the longest wait of each in milliseconds.
type Outcome = (Vec<String>, BTreeMap<String, f64>);

fn simulated() -> Outcome {
    let group = |(name, number, jobs): (&str, f64, usize)| TenantGroup {
        name: name.to_owned(),
        count: 1,
        weight: weight(number),
        arrivals: Arrivals {
            burst: Some(Burst { jobs: jobs as u64, at_us: 0, every_us: None }),
            ..Arrivals::default()
        },
        run_time: RunTime::Fixed { us: RUN_MS as u64 * 1000 },
        retry: Retry { failures: 0.0, attempts: 1, delay_us: 0 },
    };
    let scenario = Scenario {
        name: "real".to_owned(),
        seed: 1,
        mode: Mode::Fair,
        duration_us: 1,
        jobs: MOST_JOBS,
        workers: 1,
        rule: strict(),
        groups: TENANTS.map(group).into(),
    };
    let report = simulate(&scenario, |_| {});
    // The points of the timeline are closer to each other than dispatches.
    let series = &report.timeline.tenants;
    let started =
        |place: usize, point: usize| series[place][point] - if point == 0 { 0 } else { series[place][point - 1] };
    let mut order = Vec::new();
    for point in 0..report.timeline.at_ms.len() {
        let of_point = (0..TENANTS.len()).filter(|place| started(*place, point) > 0);
        order.extend(of_point.map(|place| TENANTS[place].0.to_owned()));
    }
    (order, report.tenants.iter().map(|tenant| (tenant.name.clone(), tenant.wait.max_ms)).collect())
}

async fn real() -> Outcome {
    let app = TestApp::start_passive(|config| config.plan = vec![strict()]).await;
    let registry = registry(app.store(), &[strict()]);
    app.store().pause_rule("r", true, "test").await.unwrap();
    for (tenant, _, jobs) in TENANTS {
        push(&app.client, tenant, jobs).await;
    }
    app.store().pause_rule("r", false, "test").await.unwrap();
    let (mut order, mut longest) = (Vec::new(), BTreeMap::new());
    for number in 0..TENANTS.iter().map(|(.., jobs)| jobs).sum::<usize>() {
        if number.is_multiple_of(BATCH as usize) {
            assert_eq!(run(&registry).await.promoted, u64::from(BATCH));
        }
        let fetched = app.client.fetch("q", 1).await;
        let id = fetched.job_ids().remove(0);
        let job = app.client.job(&id).await;
        let Some(At::Absolute(started)) = job["started_at"].as_str().and_then(At::parse) else { panic!("{job}") };
        let tenant = job["meta"]["tenant_id"].as_str().expect("a tenant").to_owned();
        longest.insert(tenant.clone(), (started - NOON) as f64);
        order.push(tenant);
        app.client.ack(&id).await.expect(200);
        app.advance(RUN_MS).await;
    }
    (order, longest)
}

#[tokio::test]
async fn the_simulator_starts_the_same_jobs_at_the_same_times_as_a_server() {
    let ((simulated, expected), (real, longest)) = (simulated(), real().await);
    assert_eq!(real.len(), 100);
    assert_eq!(simulated, real);
    for (tenant, wait) in longest {
        // The simulated planner takes 2 ms to react.
        assert!(
            (expected[&tenant] - wait).abs() <= 2.5,
            "{tenant}: {} ms simulated, {wait} ms real",
            expected[&tenant]
        );
    }
}
