use super::super::testing::{load, mistakes};
use super::super::{Config, describe};
use crate::domain::fairness::{TenantFairness, TenantStrategy};
use crate::domain::limit::{Quota, Window};
use crate::domain::pool::{Aging, LimitRule, LimitTarget, Policy, Pool, PoolQueue, Starvation, Strategy};
use crate::domain::tenant::Weight;

const POOL: &str = "[[pool]]\nname = \"p\"\nqueues = [\"a\", \"b\"]\n";
const LIMIT: &str = "[[limit]]\nqueue = \"q\"\n";

/// Every key with a value other than its default.
const FULL: &str = r#"
[starvation_prevention]
enabled = true
rotation_interval = "PT10S"
min_dispatch_ratio = 0.1
max_consecutive = 5
priority_aging = { every = "2m", step = 3, max = 60 }

[tenant_fairness]
enabled = true
strategy = "round_robin"
weights = { "tenant:acme" = 5, beta = 0.5 }
default_weight = 2

[[pool]]
name = "general"
queues = ["critical", "default", "low"]
strategy = "weighted"
weights = { critical = 5, low = 0.5 }
concurrency = 50

[[pool]]
name = "payments"
queues = ["payments"]
strategy = "strict"
isolated = true
starvation_prevention = { enabled = true, min_dispatch_ratio = 0.2 }
tenant_fairness = { enabled = true }

[[limit]]
type = "report.*"
concurrency = 5

[[limit]]
queue = "email"
rate = { limit = 100, period = "PT1M" }
throttle = { limit = 10, period = "second" }

[[limit]]
key = "stripe-api"
concurrency = 0
"#;

#[test]
fn a_tenants_own_pool_needs_namespaces() {
    let pool = format!("{POOL}tenant = \"acme\"\n");
    let told = mistakes(&pool, &[]);
    assert!(told.contains("tenants have no queues of their own"), "{told}");
    let config = load(&format!("{pool}[tenancy]\nisolation = \"namespace\"\n"), &[]).config;
    assert_eq!(config.policy.pools[0].name, "acme/p");
    assert!(config.policy.pools[0].has("acme/a"));
    assert!(mistakes(&format!("{POOL}tenant = \"\"\n"), &[]).contains("the id of a tenant"));
}

fn weight(number: f64) -> Weight {
    Weight::of(number).expect("a weight")
}

#[test]
fn the_reference_and_the_policy_agree_on_every_default() {
    assert_eq!(Config::default().policy, Policy::default());
    assert_eq!(load(POOL, &[]).config.policy.pools[0].strategy, Strategy::RoundRobin);
}

#[test]
fn every_option_can_be_set() {
    let place = |queue: &str, number| PoolQueue { queue: queue.to_owned(), weight: weight(number) };
    let starvation = Starvation {
        enabled: true,
        rotation_interval: 10_000,
        min_dispatch_ratio: 0.1,
        max_consecutive: 5,
        priority_aging: Aging { every: 120_000, step: 3, max: 60 },
    };
    let limit = |target, quota| LimitRule { target, quota };
    let of = |concurrency| Quota { concurrency: Some(concurrency), ..Quota::default() };
    let email = Quota {
        concurrency: None,
        rate: Some(Window { limit: 100, period: 60_000 }),
        throttle: Some(Window { limit: 10, period: 1000 }),
    };
    let expected = Policy {
        pools: vec![
            Pool {
                name: "general".to_owned(),
                queues: vec![place("critical", 5.0), place("default", 1.0), place("low", 0.5)],
                strategy: Strategy::Weighted,
                concurrency: Some(50),
                ..Pool::default()
            },
            Pool {
                tenant: None,
                name: "payments".to_owned(),
                queues: vec![place("payments", 1.0)],
                strategy: Strategy::Strict,
                isolated: true,
                starvation: Some(Starvation { enabled: true, min_dispatch_ratio: 0.2, ..Starvation::default() }),
                tenant_fairness: Some(TenantFairness { enabled: Some(true), ..TenantFairness::default() }),
                concurrency: None,
            },
        ],
        starvation,
        tenant_fairness: TenantFairness {
            enabled: Some(true),
            strategy: TenantStrategy::RoundRobin,
            weights: [("acme".to_owned(), weight(5.0)), ("beta".to_owned(), weight(0.5))].into(),
            default_weight: weight(2.0),
        },
        queues: [].into(),
        limits: vec![
            limit(LimitTarget::Type("report.*".to_owned()), of(5)),
            limit(LimitTarget::Queue("email".to_owned()), email),
            limit(LimitTarget::Key("stripe-api".to_owned()), of(0)),
        ],
    };
    assert_eq!(load(FULL, &[]).config.policy, expected);
    let env =
        [("FAIRGATE_POOL__0__NAME", "p"), ("FAIRGATE_POOL__0__QUEUES", "a,b"), ("FAIRGATE_POOL__0__WEIGHTS__A", "2")];
    assert_eq!(load("", &env).config.policy.pools[0].queues, [place("a", 2.0), place("b", 1.0)]);
}

#[test]
fn check_says_what_it_means() {
    let text = describe(&load(FULL, &[]));
    for line in [
        "pool \"general\" serves critical (5), default (1), low (0.5), weighted, at most 50 active jobs",
        "pool \"payments\" serves payments, strict, isolated; each queue gets at least 0.2 of the jobs, and one \
            every 30s; tenants share by fair-share",
        "starvation prevention: each queue gets at least 0.1 of the jobs, and one every 10s, at most 5 in a row, priority rises by 3 \
            every 2m up to 60",
        "tenants share queues by round-robin, 2 tenants with their own weights",
        "limit: jobs of type report.*: 5 active",
        "limit: queue \"email\": 100 starts every 1m, 10 evenly spaced starts every 1s",
        "limit: key \"stripe-api\": 0 active",
    ] {
        assert!(text.lines().any(|shown| shown == line), "no line {line:?} in\n{text}");
    }
    assert!(!describe(&load("", &[])).contains("starvation prevention"));
}

/// Asserts that a file has exactly one error, which contains `part` and the line.
fn assert_mistake(text: &str, part: &str) {
    let said = mistakes(text, &[]);
    assert!(said.contains(part) && said.ends_with("1 error in fairgate.toml"), "{text}\n{said}");
    assert!(said.contains("--> fairgate.toml:"), "{said}");
}

#[test]
fn each_option_of_a_section_is_checked() {
    for (setting, part) in [
        ("enabled = \"yes\"", "enabled: expected true or false"),
        ("rotation_interval = \"99ms\"", "rotation_interval: expected a duration of at least 100ms and at most 24h"),
        ("rotation_interval = 30", "a duration needs a unit: \"30s\" are seconds"),
        ("min_dispatch_ratio = 1.1", "min_dispatch_ratio: expected a number of at least 0 and at most 1, found 1.1"),
        ("min_dispatch_ratio = -0.1", "min_dispatch_ratio: expected a number of at least 0"),
        ("max_consecutive = -1", "max_consecutive: expected a whole number from 0"),
        ("priority_aging = { step = 201 }", "priority_aging.step: expected a whole number at most 200, found 201"),
        ("priority_aging = { evry = \"1m\" }", "did you mean \"every\"?"),
        ("priority_aging = 5", "priority_aging: expected a table, found 5"),
        ("rotation = \"1m\"", "did you mean \"rotation_interval\"?"),
    ] {
        assert_mistake(&format!("[starvation_prevention]\n{setting}"), part);
        assert_mistake(&format!("{POOL}[pool.starvation_prevention]\n{setting}"), part);
    }
    for (setting, part) in [
        ("enabled = 1", "enabled: expected true or false"),
        ("strategy = \"fair\"", "expected one of fair-share, round-robin, strict, found \"fair\""),
        ("strategy = \"fare-share\"", "did you mean \"fair-share\"?"),
        ("weights = { a = 0 }", "weights.a: expected a number from 0.05 to 1000, found 0"),
        ("weights = { a = -1 }", "weights.a: expected a number from 0.05 to 1000, found -1"),
        ("weights = { a = \"1\" }", "remove the quotes: 1"),
        ("weights = { \"\" = 1 }", "expected the id of a tenant"),
        ("weights = { \"tenant:\" = 1 }", "expected the id of a tenant"),
        ("weights = { a = 1, \"tenant:a\" = 2 }", "\"a\" and \"tenant:a\" are the same tenant"),
        ("weights = [1]", "weights: expected a table, found a list"),
        ("default_weight = 0", "default_weight: expected a number from 0.05 to 1000"),
        ("wieghts = {}", "did you mean \"weights\"?"),
    ] {
        assert_mistake(&format!("[tenant_fairness]\n{setting}"), part);
        assert_mistake(&format!("{POOL}[pool.tenant_fairness]\n{setting}"), part);
    }
}

#[test]
fn each_option_of_a_pool_is_checked() {
    for (setting, part) in [
        ("weights = { c = 1 }", "pool[0].weights.c: expected a queue of the pool, found \"c\""),
        ("weights = { a = 0 }", "pool[0].weights.a: expected a number from 0.05 to 1000, found 0"),
        ("weights = { a = -1 }", "pool[0].weights.a: expected a number from 0.05 to 1000, found -1"),
        ("weights = { a = 1001 }", "pool[0].weights.a: expected a number from 0.05 to 1000, found 1001"),
        ("strategy = \"wieghted\"", "did you mean \"weighted\"?"),
        ("concurrency = 0", "leave it out for no limit"),
        ("concurrency = 1000001", "concurrency: expected a whole number of at least 1 and at most 1000000"),
        ("isolated = \"no\"", "isolated: expected true or false"),
        ("queue = \"a\"", "did you mean \"queues\"?"),
        ("tenant_fairness = true", "pool[0].tenant_fairness: expected a table, found true"),
        (
            "starvation_prevention = { enabled = true, min_dispatch_ratio = 0.6 }",
            "pool[0].starvation_prevention.min_dispatch_ratio: the pool has 2 queues, which cannot each have a \
                min_dispatch_ratio of 0.6",
        ),
    ] {
        assert_mistake(&format!("{POOL}{setting}"), part);
    }
    let said = mistakes("[[pool]]\nname = \"p\"\nqueues = [\"email\", \"x\"]\nweights = { emial = 1 }", &[]);
    assert!(said.contains("did you mean \"email\"?"), "{said}");
    let queues = |count: usize| (0..count).map(|index| format!("\"q{index}\"")).collect::<Vec<_>>().join(",");
    let named = |queues: &str| format!("[[pool]]\nname = \"p\"\nqueues = [{queues}]\n");
    for (text, part) in [
        ("[[pool]]\nqueues = [\"a\"]".to_owned(), "pool[0].name: expected a value, found none"),
        ("[[pool]]\nname = \"a b\"\nqueues = [\"a\"]".to_owned(), "pool[0].name: expected 1 to 63 characters"),
        ("[[pool]]\nname = \"p\"".to_owned(), "pool[0].queues: expected a value, found none"),
        (named(""), "pool[0].queues: expected at least one queue, found none"),
        (named("\"a\", \"A\""), "pool[0].queues[1]: expected 1 to 128 characters"),
        (named("\"a\", \"b\", \"a\""), "pool[0].queues[2]: expected a queue that is not listed yet, found \"a\""),
        (named(&queues(257)), "pool[0].queues: expected at most 256 queues, found 257"),
        (
            named(&queues(21)) + "starvation_prevention = { enabled = true }",
            "pool[0].starvation_prevention.enabled: the pool has 21 queues, which cannot each have a \
                min_dispatch_ratio of 0.05",
        ),
        (
            format!("[starvation_prevention]\nenabled = true\n{}", named(&queues(21))),
            "pool[0].queues: min_dispatch_ratio of [starvation_prevention] is 0.05, which 21 queues cannot each have",
        ),
        (format!("{POOL}{POOL}"), "pool[1].name: expected a name that no other pool has, found \"p\""),
        (
            format!("{POOL}isolated = true\n[[pool]]\nname = \"r\"\nqueues = [\"b\"]"),
            "pool[1].queues: queue \"b\" belongs to the isolated pool \"p\" alone",
        ),
        (
            format!("{POOL}[[pool]]\nname = \"r\"\nqueues = [\"b\"]\nisolated = true"),
            "pool[1].isolated: queue \"b\" is also in pool \"p\"",
        ),
        ("[pool]\nname = \"p\"".to_owned(), "pool: expected a list of tables, found a table"),
    ] {
        assert_mistake(&text, part);
    }
    assert!(
        mistakes(&(named(&queues(21)) + "starvation_prevention = { enabled = true }"), &[]).contains("0.0476 at most")
    );
    // The ratio is not checked if starvation prevention is off.
    load(&named(&queues(256)), &[]);
}

#[test]
fn each_option_of_a_limit_is_checked() {
    for (setting, part) in [
        ("concurrency = -1", "limit[0].concurrency: expected a whole number from 0"),
        ("concurrency = 1000001", "limit[0].concurrency: expected a whole number at most 1000000"),
        ("concurency = 1\nconcurrency = 1", "did you mean \"concurrency\"?"),
        ("rate = 5", "limit[0].rate: expected a table, found 5"),
        ("rate = { limit = 5 }", "limit[0].rate.period: expected a value, found none"),
        ("rate = { period = \"PT1S\" }", "limit[0].rate.limit: expected a value, found none"),
        ("rate = { limit = 0, period = \"PT1S\" }", "rate.limit: expected a whole number of at least 1"),
        ("rate = { limit = 1, period = \"0s\" }", "rate.period: expected second, minute, hour, day or a duration"),
        ("throttle = { limit = 1, period = \"32d\" }", "throttle.period: expected second, minute"),
        ("throttle = { limit = 1, perod = \"1s\", period = \"1s\" }", "did you mean \"period\"?"),
        ("", "limit[0]: expected concurrency, rate or throttle, found none"),
        ("type = \"x\"\nconcurrency = 1", "limit[0].type: queue and type are both set"),
        ("key = \"x\"\nconcurrency = 1", "limit[0].key: queue and key are both set"),
        (
            "concurrency = 1\n[[limit]]\nqueue = \"q\"\nconcurrency = 2",
            "limit[1].queue: another limit has the key \"queue:q\"",
        ),
        (
            // A key that looks like that of a queue is a different key.
            "concurrency = 1\n[[limit]]\nkey = \"queue:q\"\nconcurrency = 2\n[[limit]]\nkey = \"queue:q\"\nconcurrency = 3",
            "limit[2].key: another limit has the key \"queue:q\"",
        ),
    ] {
        assert_mistake(&format!("{LIMIT}{setting}"), part);
    }
    for (text, part) in [
        ("[[limit]]\nconcurrency = 1", "limit[0]: expected one of queue, type and key, found none"),
        ("[[limit]]\nconcurrency = 1\nqueue = \"Q\"", "limit[0].queue: expected 1 to 128 characters"),
        ("[[limit]]\nconcurrency = 1\ntype = \"Report.Daily\"", "did you mean \"report.daily\"?"),
        ("[[limit]]\nconcurrency = 1\nkey = \"a b\"", "limit[0].key: expected 1 to 256 characters"),
    ] {
        assert_mistake(text, part);
    }
    let many: String = (0..1001).map(|index| format!("[[limit]]\nkey = \"k{index}\"\nconcurrency = 1\n")).collect();
    assert_mistake(&many, "limit: expected at most 1000 limits, found 1001");
}
