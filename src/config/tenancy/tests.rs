use super::super::testing::{load, mistakes};
use super::*;
use crate::domain::tenant::Weight;
use serde_json::json;

#[test]
fn tenants_are_told_apart_as_the_file_says() {
    let config = load("", &[]).config;
    assert_eq!((config.tenancy, config.tenant), (Tenancy::default(), Vec::new()));
    let file = "[tenancy]\nsources = [\"header\"]\ndefault_tenant = \"house\"\nrequire_tenant = true\n\
        isolation = \"namespace\"\n[[tenant]]\nid = \"free-*\"\nfairness_weight = 0.5\npriority_boost = -5\n\
        limits = { max_concurrency = 2, max_queue_depth = 1000, max_enqueue_rate = { limit = 100, period = \"PT1M\" } }\n\
        [[tenant]]\nid = \"acme\"\n[tenant.limits]\nmax_scheduled = 7\nenforcement = \"soft\"\n";
    let config = load(file, &[]).config;
    let sources = vec![TenantSource::Header];
    let default_tenant = "house".to_owned();
    let isolation = Isolation::Namespace;
    assert_eq!(config.tenancy, Tenancy { sources, default_tenant, require_tenant: true, isolation });
    let free = &config.tenant[0];
    assert_eq!((free.id.as_str(), free.terms.weight, free.terms.boost), ("free-*", Weight::of(0.5), -5));
    let limits = TenantLimits {
        max_concurrency: Some(2),
        max_enqueue_rate: Some(Window { limit: 100, period: 60_000 }),
        max_queue_depth: Some(1000),
        ..TenantLimits::default()
    };
    assert_eq!(free.terms.limits, limits);
    let limits = TenantLimits { max_scheduled: Some(7), soft: true, ..TenantLimits::default() };
    assert_eq!(config.tenant[1].terms, TenantSettings { limits, ..TenantSettings::default() });
    assert!(super::super::describe(&load(file, &[])).contains("tenant \"acme\""));
}

#[test]
fn tenants_may_stand_in_the_environment() {
    let env = [
        ("FAIRGATE_TENANCY__REQUIRE_TENANT", "true"),
        ("FAIRGATE_TENANT__0__ID", "acme"),
        ("FAIRGATE_TENANT__0__LIMITS", r#"{"max_concurrency": 2}"#),
    ];
    let config = load("", &env).config;
    assert!(config.tenancy.require_tenant);
    assert_eq!((config.tenant[0].id.as_str(), config.tenant[0].terms.limits.max_concurrency), ("acme", Some(2)));
}

#[test]
fn mistakes_are_told() {
    for (text, path) in [
        ("[tenancy]\nisolation = \"none\"", "tenancy.isolation"),
        ("[tenancy]\ndefault_tenant = \"_house\"", "tenancy.default_tenant"),
        ("[tenancy]\nsources = [\"cookie\"]", "tenancy.sources"),
        ("[tenancy]\nsources = []\nrequire_tenant = true", "require_tenant"),
        ("[[tenant]]\nid = \"a b\"", "tenant[0].id"),
        ("[[tenant]]\nfairness_weight = 1", "tenant[0].id"),
        ("[[tenant]]\nid = \"a\"\nfairness_weight = 0", "tenant[0].fairness_weight"),
        ("[[tenant]]\nid = \"a\"\npriority_boost = 101", "tenant[0].priority_boost"),
        ("[[tenant]]\nid = \"a\"\nlimits = { max_queue_depth = -1 }", "tenant[0].limits.max_queue_depth"),
        ("[[tenant]]\nid = \"a\"\nlimits = { enforcement = \"firm\" }", "tenant[0].limits.enforcement"),
        (
            "[[tenant]]\nid = \"a\"\nlimits = { max_enqueue_rate = { limit = 0, period = \"1m\" } }",
            "max_enqueue_rate.limit",
        ),
        ("[[tenant]]\nid = \"a\"\n[[tenant]]\nid = \"a\"", "tenant[1].id"),
    ] {
        let told = mistakes(text, &[]);
        assert!(told.contains(path), "{text}: {told}");
    }
}

#[test]
fn a_request_changes_what_it_names() {
    let body = json!({"tenant_id": "a", "fairness_weight": 2, "limits": {"max_queue_depth": 5}, "source": "api", "reason": "x"});
    let (terms, reason) = tenant_from_json("a", body).unwrap();
    let limits = TenantLimits { max_queue_depth: Some(5), ..TenantLimits::default() };
    assert_eq!(terms, TenantSettings { weight: Weight::of(2.0), limits, ..TenantSettings::default() });
    assert_eq!(reason.as_deref(), Some("x"));
    let change = json!({"max_concurrency": 3, "max_queue_depth": null, "enforcement": "soft"});
    let (limits, reason) = limits_from_json(change, &terms.limits).unwrap();
    assert_eq!((limits.max_concurrency, limits.max_queue_depth, limits.soft, reason), (Some(3), None, true, None));
    for body in [json!([]), json!({"tenant_id": "b"}), json!({"limits": 3}), json!({"weight": 1})] {
        assert!(tenant_from_json("a", body.clone()).is_err(), "{body}");
    }
    for body in [json!({"max_concurrency": -1}), json!({"max_jobs": 1}), json!({"reason": 5})] {
        assert!(limits_from_json(body.clone(), &terms.limits).is_err(), "{body}");
    }
}
