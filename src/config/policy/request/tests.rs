use super::*;
use crate::config::testing::load;
use crate::domain::fairness::TenantStrategy;
use crate::domain::limit::quota::{LONGEST_PERIOD, MOST_CONCURRENCY, MOST_STARTS};
use crate::domain::limit::{Quota, Window};
use crate::domain::pool::{Aging, LimitRule, LimitTarget, PoolQueue, Starvation, Strategy};
use crate::domain::tenant::Weight;
use proptest::collection::{btree_map, vec};
use proptest::option::of;
use proptest::prelude::*;
use proptest::strategy::Strategy as _;
use serde_json::json;

fn shown(problems: Vec<Problem>) -> Vec<String> {
    let show = |problem: Problem| {
        let help = problem.help.map(|help| format!(" ({help})")).unwrap_or_default();
        format!("{}: {}{help}", problem.path, problem.message)
    };
    problems.into_iter().map(show).collect()
}

fn pool(name: Option<&str>, json: serde_json::Value) -> Result<Pool, Vec<String>> {
    pool_from_json(name, json).map_err(shown)
}

fn change(json: serde_json::Value, current: &Policy) -> Result<Policy, Vec<String>> {
    scheduling_from_json(json, current).map_err(shown)
}

#[test]
fn a_pool_comes_in_several_forms() {
    let place = |queue: &str, weight| PoolQueue { queue: queue.to_owned(), weight: Weight::of(weight).unwrap() };
    let expected = Pool {
        name: "p".to_owned(),
        queues: vec![place("a", 70.0), place("b", 1.0)],
        strategy: Strategy::Weighted,
        ..Pool::default()
    };
    for (name, json) in [
        (Some("p"), json!({"queues": ["a", "b"], "weights": {"a": 70}, "strategy": "weighted"})),
        (Some("p"), json!({"queues": {"a": {"weight": 70}, "b": {}}, "strategy": "weighted-fair"})),
        (Some("p"), json!({"pool": {"queues": {"a": {"weight": 70.0}, "b": {}}, "strategy": "weighted"}})),
        (None, json!({"name": "p", "queues": ["a", "b"], "weights": {"a": 70}, "strategy": "weighted"})),
        (
            Some("p"),
            json!({"name": "p", "queues": ["a", "b"], "weights": {"a": 70, "b": 1}, "strategy": "weighted",
                "concurrency": null, "isolated": null, "starvation_prevention": null, "tenant_fairness": null}),
        ),
    ] {
        assert_eq!(pool(name, json.clone()).as_ref(), Ok(&expected), "{json}");
    }
}

#[test]
fn an_answer_about_a_pool_is_a_body_as_well() {
    let told = json!({"name": "p", "queues": ["a"], "concurrency": null, "active_workers": 3, "active_jobs": 9,
        "source": "file", "starvation_prevention": {"enabled": true, "rotation_interval": null}});
    let mut both = told.clone();
    both["pool"] = told.clone();
    let read = |json| pool(Some("p"), json);
    assert_eq!(read(both.clone()), read(told));
    both["concurrency"] = json!(5);
    both["sources"] = json!("file");
    let problems = read(both).expect_err("it says two things");
    assert_eq!(problems.len(), 2, "{problems:?}");
    assert!(problems[0].starts_with("concurrency: contradicts `pool`: the values of `concurrency` differ (send only"));
    assert!(pool(Some("p"), json!({"queues": {"a": null}})).is_err(), "a queue is not left out in silence");
}

#[test]
fn an_answer_about_scheduling_is_a_body_as_well_and_null_changes_nothing() {
    let current = load("[starvation_prevention]\nmax_consecutive = 3", &[]).config.policy;
    let mut told = current.scheduling_to_json();
    told["source"] = json!("api");
    assert_eq!(change(told, &current).as_ref(), Ok(&current));
    let nulls = json!({"starvation_prevention": {"max_consecutive": null}, "tenant_fairness": null, "queues": null});
    assert_eq!(change(nulls, &current).as_ref(), Ok(&current));
}

#[test]
fn every_mistake_in_a_pool_is_told_with_its_path() {
    let json = json!({
        "name": "b",
        "queues": ["ok", "Not Ok"],
        "weights": {"ok": 0},
        "strategy": "randm",
        "concurrency": 0,
        "isolatd": true,
        "starvation_prevention": {"min_dispatch_ratio": 2},
        "tenant_fairness": {"strategy": "fair_shar"},
    });
    let expected = [
        "queues[1]: expected 1 to 128 characters of a-z",
        "weights.ok: expected a number from 0.05 to 1000, found 0",
        "concurrency: expected a whole number of at least 1 and at most 1000000, found 0 (leave it out",
        "strategy: expected one of strict, round-robin, weighted, least-loaded, found \"randm\"",
        "starvation_prevention.min_dispatch_ratio: expected a number of at least 0 and at most 1, found 2",
        "tenant_fairness.strategy: expected one of fair-share, round-robin, strict, found \"fair_shar\" (did you mean",
        "name: expected \"a\" as in the path, found \"b\" (leave it out: the name of a pool cannot change)",
        "isolatd: unknown key \"isolatd\" in the request (did you mean \"isolated\"?)",
    ];
    let problems = pool(Some("a"), json).expect_err("it has errors");
    assert_eq!(problems.len(), expected.len(), "{problems:#?}");
    for (problem, expected) in problems.iter().zip(expected) {
        assert!(problem.starts_with(expected), "{problem}\n{expected}");
    }
}

#[test]
fn bad_bodies_of_pools() {
    for (name, json, expected) in [
        (None, json!([]), ": expected an object with the options of a pool, found a list"),
        (None, json!({}), "name: expected a value, found none"),
        (None, json!({"queues": ["a"]}), "name: expected a value, found none"),
        (Some("a b"), json!({"queues": ["a"]}), "name: expected 1 to 63 characters"),
        (Some("p"), json!({}), "queues: expected a value, found none"),
        (Some("p"), json!({"queues": null}), "queues: expected a value, found none"),
        (Some("p"), json!({"queues": []}), "queues: expected at least one queue, found none"),
        (Some("p"), json!({"queues": {}}), "queues: expected at least one queue, found none"),
        (Some("p"), json!({"queues": "a"}), "queues: expected a list, found \"a\""),
        (Some("p"), json!({"queues": [1]}), "queues[0]: expected 1 to 128 characters"),
        (Some("p"), json!({"queues": {"A": {}}}), "queues.A: expected 1 to 128 characters"),
        (Some("p"), json!({"queues": {"a": 5}}), "queues.a: expected a table, found 5"),
        (Some("p"), json!({"queues": {"a": {"weight": 0}}}), "queues.a.weight: expected a number from 0.05"),
        (
            Some("p"),
            json!({"queues": {"a": {"wieght": 1}}}),
            "queues.a.wieght: unknown key \"wieght\" in [queues.a] (did",
        ),
        (Some("p"), json!({"queues": {"a": {}}, "weights": {"a": 1}}), "weights: queues already contains weights"),
        (
            Some("p"),
            json!({"queues": ["a"], "weights": {"b": 1}}),
            "weights.b: expected a queue of the pool, found \"b\"",
        ),
        (Some("p"), json!({"pool": {"queues": ["a", "a"]}}), "pool.queues[1]: expected a queue that is not listed yet"),
        (Some("p"), json!({"pool": {"name": "q", "queues": ["a"]}}), "pool.name: expected \"p\" as in the path"),
        (Some("p"), json!({"pool": 5}), "pool: expected a table, found 5"),
        (Some("p"), json!({"pool": {}, "queues": ["a"]}), "queues: contradicts `pool`: the values of `queues` differ"),
        (Some("p"), json!({"pool": 5, "queues": ["a"]}), "pool: unknown key \"pool\" in the request"),
        (
            Some("p"),
            json!({"queues": ["a", "b"], "starvation_prevention": {"enabled": true, "min_dispatch_ratio": 0.51}}),
            "starvation_prevention.min_dispatch_ratio: the pool has 2 queues, which cannot each have a \
                min_dispatch_ratio of 0.51 (set min_dispatch_ratio to 0.5 at most)",
        ),
    ] {
        let problems = pool(name, json.clone()).expect_err("it is wrong");
        assert!(problems[0].starts_with(expected), "{json}\n{problems:#?}");
    }
}

#[test]
fn a_clash_reads_like_a_mistake_in_the_request() {
    let mut policy = load("[[pool]]\nname = \"a\"\nqueues = [\"x\"]\nisolated = true\n", &[]).config.policy;
    let pool = pool(Some("b"), json!({"queues": ["x"]})).unwrap();
    let conflicts = policy.set_pool(pool).unwrap_err();
    let problems = shown(conflicts.into_iter().map(Problem::from).collect());
    assert_eq!(problems.len(), 1);
    assert!(
        problems[0].starts_with("queues: queue \"x\" belongs to the isolated pool \"a\" alone (take"),
        "{problems:?}"
    );
}

#[test]
fn what_a_change_does_not_name_stays() {
    let current = Policy::default();
    assert_eq!(change(json!({}), &current).as_ref(), Ok(&current));
    let json = json!({
        "tenant_fairness": {"enabled": true, "weights": {"tenant:a": 5}},
        "starvation_prevention": {"enabled": true, "priority_aging": {"step": 5}},
        "queues": {"x": {"tenant_fairness": {"enabled": true, "strategy": "round_robin"}}, "y": {}},
    });
    let first = change(json, &current).unwrap();
    assert_eq!(first.starvation.priority_aging, Aging { step: 5, ..current.starvation.priority_aging });
    assert_eq!(first.queues.keys().collect::<Vec<_>>(), ["x"]);
    let json = json!({
        "tenant_fairness": {"strategy": "strict"},
        "queues": {"x": {"tenant_fairness": {"enabled": false}}},
    });
    let second = change(json, &first).unwrap();
    assert_eq!(second.starvation, first.starvation);
    let fairness = &second.tenant_fairness;
    assert_eq!((fairness.enabled, fairness.strategy, fairness.weights.len()), (Some(true), TenantStrategy::Strict, 1));
    let own = &second.queues["x"];
    assert_eq!((own.enabled, own.strategy), (Some(false), TenantStrategy::RoundRobin));
    let third = change(json!({"queues": {"x": {"tenant_fairness": null}}}), &second).unwrap();
    assert_eq!(third, Policy { queues: [].into(), ..second });
    let fourth = change(json!({"tenant_fairness": {"enabled": null, "strategy": null}}), &third).unwrap();
    assert_eq!((fourth.tenant_fairness.enabled, fourth.tenant_fairness.strategy), (None, TenantStrategy::Strict));
}

#[test]
fn bad_changes() {
    let current = load("[[pool]]\nname = \"a\"\nqueues = [\"x\", \"y\", \"z\"]\n", &[]).config.policy;
    for (json, expected) in [
        (json!(5), ": expected an object with the options of scheduling, found 5"),
        (json!({"tenant_fairnes": {}}), "tenant_fairnes: unknown key \"tenant_fairnes\" in the request (did you mean"),
        (json!({"tenant_fairness": 5}), "tenant_fairness: expected a table, found 5"),
        (json!({"tenant_fairness": {"weights": {"a": 0}}}), "tenant_fairness.weights.a: expected a number from 0.05"),
        (json!({"queues": []}), "queues: expected a table, found a list"),
        (json!({"queues": {"X": {"tenant_fairness": {}}}}), "queues.X: expected 1 to 128 characters"),
        (json!({"queues": {"x": {"fairness": {}}}}), "queues.x.fairness: unknown key"),
        (
            json!({"queues": {"x": {"tenant_fairness": {"enabled": 1}}}}),
            "queues.x.tenant_fairness.enabled: expected true",
        ),
        (json!({"starvation_prevention": {"rotation_interval": "1ms"}}), "starvation_prevention.rotation_interval:"),
        (
            json!({"starvation_prevention": {"enabled": true, "min_dispatch_ratio": 0.5}}),
            "starvation_prevention.min_dispatch_ratio: pool \"a\" has 3 queues, which cannot each have a \
                min_dispatch_ratio of 0.5 (set min_dispatch_ratio to 0.3333 at most)",
        ),
    ] {
        let problems = change(json.clone(), &current).expect_err("it is wrong");
        assert!(problems.len() == 1 && problems[0].starts_with(expected), "{json}\n{problems:#?}");
    }
    let queues: serde_json::Map<_, _> =
        (0..1001).map(|index| (format!("q{index}"), json!({"tenant_fairness": {}}))).collect();
    let problems = change(json!({"queues": queues}), &current).expect_err("too many");
    assert!(problems[0].starts_with("queues: expected at most 1000 queues with their own settings, found 1001"));
    let weights: serde_json::Map<_, _> = (0..10_001).map(|index| (format!("t{index}"), json!(1))).collect();
    let problems = change(json!({"tenant_fairness": {"weights": weights}}), &current).expect_err("too many");
    assert!(problems[0].starts_with("tenant_fairness.weights: expected at most 10000 weights, found 10001"));
}

fn weight() -> impl proptest::strategy::Strategy<Value = Weight> {
    (50..=1_000_000_u32).prop_map(Weight::from_thousandths)
}

prop_compose! {
    fn starvation()(
        enabled in any::<bool>(),
        rotation_interval in 100..=86_400_000_u64,
        // At most a fifth, so that it fits every pool below.
        min_dispatch_ratio in (0.0..=0.2_f64).prop_map(Starvation::round),
        max_consecutive in 0..=1_000_000_u32,
        (every, step, max) in (100..=31 * 86_400_000_u64, 0..=200_u32, 0..=200_u32),
    ) -> Starvation {
        let priority_aging = Aging { every, step, max };
        Starvation { enabled, rotation_interval, min_dispatch_ratio, max_consecutive, priority_aging }
    }
}

prop_compose! {
    fn fairness()(
        enabled in any::<bool>(),
        strategy in prop::sample::select(TenantStrategy::NAMES.to_vec()),
        weights in btree_map("(tenant:)?[a-zA-Z0-9._: ü-]{1,8}", weight(), 0..4),
        default_weight in weight(),
    ) -> TenantFairness {
        TenantFairness { enabled: Some(enabled), strategy: TenantStrategy::parse(strategy).unwrap(), weights, default_weight }
    }
}

prop_compose! {
    fn some_pool()(
        queues in btree_map("[a-z0-9][a-z.-]{0,5}", weight(), 1..6),
        strategy in prop::sample::select(Strategy::NAMES.to_vec()),
        concurrency in of(1..=MOST_CONCURRENCY),
        isolated in any::<bool>(),
        starvation in of(starvation()),
        tenant_fairness in of(fairness()),
    ) -> Pool {
        let queues = queues.into_iter().rev().map(|(queue, weight)| PoolQueue { queue, weight }).collect();
        let (strategy, name) = (Strategy::parse(strategy).unwrap(), "p".to_owned());
        Pool { tenant: None, name, queues, strategy, concurrency, isolated, starvation, tenant_fairness }
    }
}

prop_compose! {
    fn limit()(
        target in prop_oneof![
            "[a-z0-9][a-z.-]{0,5}".prop_map(LimitTarget::Queue),
            "[a-z]{1,5}(\\.[a-z*]{1,5})?".prop_map(LimitTarget::Type),
            "[a-zA-Z0-9][a-zA-Z0-9._:-]{0,5}".prop_map(LimitTarget::Key),
        ],
        // A limit needs at least one quota.
        concurrency in 0..=MOST_CONCURRENCY,
        windows in prop::array::uniform2(of((1..=MOST_STARTS, 1..=LONGEST_PERIOD))),
    ) -> LimitRule {
        let [rate, throttle] = windows.map(|window| window.map(|(limit, period)| Window { limit, period }));
        LimitRule { target, quota: Quota { concurrency: Some(concurrency), rate, throttle } }
    }
}

prop_compose! {
    fn policy()(
        pools in vec((some_pool(), of("[a-zA-Z0-9./ ]{1,5}")), 0..4),
        starvation in starvation(),
        tenant_fairness in fairness(),
        queues in btree_map("[a-z0-9][a-z.-]{0,5}", fairness(), 0..3),
        limits in vec(limit(), 0..4),
    ) -> Policy {
        let mut policy = Policy { pools: Vec::new(), starvation, tenant_fairness, queues, limits: Vec::new() };
        for (index, (pool, tenant)) in pools.into_iter().enumerate() {
            let pool = Pool { name: format!("p{index}"), ..pool };
            // Pools that conflict with earlier ones are left out.
            let _ = policy.set_pool(tenant.iter().fold(pool, |pool, tenant| pool.of_tenant(tenant)));
        }
        for limit in limits {
            if policy.limits.iter().all(|other| other.key() != limit.key()) {
                policy.limits.push(limit);
            }
        }
        policy
    }
}

proptest! {
    #[test]
    fn what_a_policy_prints_reads_as_that_policy(policy in policy()) {
        let text = policy.to_json().to_string();
        prop_assert_eq!(policy_from_json(serde_json::from_str(&text).unwrap()).map_err(shown), Ok(policy));
    }

    #[test]
    fn what_a_pool_prints_reads_as_that_pool(some in some_pool()) {
        prop_assert_eq!(pool(Some("p"), some.to_json()), Ok(some));
    }
}
