//! `rate_limit.scope`: jobs with the same key share its counters, or only those of the same tenant, queue or type.

use super::{LimitsEnv, NOON, concurrency};
use crate::support::json;
use fairgate::clock::Clock;
use fairgate::store::LimitLayer;
use serde_json::Value;

/// A job under the key `k`, of which one may run at a time.
fn job(queue: &str, kind: &str, tenant: Option<&str>, scope: Option<&str>) -> Value {
    let mut job = json!({"type": kind, "args": [], "queue": queue, "rate_limit": {"key": "k", "concurrency": 1}});
    tenant.into_iter().for_each(|tenant| job["meta"] = json!({"tenant_id": tenant}));
    scope.into_iter().for_each(|scope| job["rate_limit"]["scope"] = json!(scope));
    job
}

/// The number of these jobs that can start at once.
async fn started(jobs: Vec<Value>) -> usize {
    let env = LimitsEnv::open().await;
    env.enqueue_all(jobs).await;
    let started = env.fetch_from(&["a", "b"], 10).await.len();
    env.audit().await;
    started
}

#[tokio::test]
async fn jobs_share_a_key_unless_its_scope_divides_them() {
    let tenants = |scope| vec![job("a", "x.y", Some("acme"), scope), job("a", "x.y", Some("beta"), scope)];
    let queues = |scope| vec![job("a", "x.y", None, scope), job("b", "x.y", None, scope)];
    let types = |scope| vec![job("a", "x.y", None, scope), job("a", "x.z", None, scope)];
    for (jobs, expected, what) in [
        (tenants(None), 1, "tenants share a key that says nothing"),
        (tenants(Some("global")), 1, "tenants share a global key"),
        (tenants(Some("tenant")), 2, "each tenant has a slot"),
        (tenants(Some("queue")), 1, "two tenants in one queue"),
        (queues(Some("global")), 1, "queues share a global key"),
        (queues(Some("queue")), 2, "each queue has a slot"),
        (queues(Some("tenant")), 1, "no tenant is one tenant"),
        (types(Some("global")), 1, "types share a global key"),
        (types(Some("type")), 2, "each type has a slot"),
        (types(Some("queue")), 1, "two types in one queue"),
    ] {
        assert_eq!(started(jobs).await, expected, "{what}");
    }
}

#[tokio::test]
async fn a_slot_that_is_free_again_goes_to_the_same_part() {
    let env = LimitsEnv::open().await;
    let both = |tenant| job("a", "x.y", Some(tenant), Some("tenant"));
    let ids = env.enqueue_all(vec![both("acme"), both("acme"), both("beta"), both("beta")]).await;
    let first = env.fetch("a", 10).await;
    assert_eq!(first, [ids[0].clone(), ids[2].clone()]);
    assert_eq!(env.fetch("a", 10).await.len(), 0);
    env.ack(&ids[2]).await;
    assert_eq!(env.fetch("a", 10).await, [ids[3].clone()]);
    env.audit().await;
}

#[tokio::test]
async fn inspection_shows_each_part_and_all_parts_of_a_key() {
    let env = LimitsEnv::open().await;
    let client = &env.client;
    let of = |tenant| job("a", "x.y", Some(tenant), Some("tenant"));
    env.enqueue_all(vec![of("acme"), of("acme"), of("b:1")]).await;
    env.fetch("a", 10).await;
    let whole = client.get("/v1/rate-limits/k").await.expect(200);
    assert_eq!((whole.text_at("/key"), whole.at("/waiting_count")), ("k", &json!(1)));
    assert_eq!((whole.at("/partitions_total"), whole.at("/concurrency")), (&json!(2), &Value::Null));
    let parts = whole.at("/partitions").as_array().unwrap();
    let acme = parts.iter().find(|part| part["partition"]["name"] == "acme").unwrap();
    assert_eq!(acme["partition"], json!({"key": "k", "scope": "tenant", "name": "acme"}));
    assert_eq!((&acme["concurrency"]["active"], &acme["waiting_count"]), (&json!(1), &json!(1)));
    assert!(parts.iter().any(|part| part["partition"]["name"] == "b:1"), "{}", whole.text);

    let path = format!("/v1/rate-limits/{}", acme["key"].as_str().unwrap().replace('|', "%7C"));
    let part = client.get(&path).await.expect(200);
    assert_eq!((&part.body, part.header("x-ratelimit-remaining")), (acme, "0"));
    let listed = client.get("/v1/rate-limits").await.expect(200);
    let keys: Vec<&str> =
        listed.at("/items").as_array().unwrap().iter().filter_map(|item| item["key"].as_str()).collect();
    let sorted: std::collections::BTreeSet<&str> = keys.into_iter().collect();
    assert_eq!(sorted.into_iter().collect::<Vec<_>>(), ["k", "k|tenant=acme", "k|tenant=b%3A1"]);

    // Jobs without a scope count under the key itself.
    env.enqueue_all(vec![job("a", "x.y", None, None)]).await;
    let whole = client.get("/v1/rate-limits/k").await.expect(200);
    assert_eq!((whole.at("/concurrency/limit"), whole.at("/partitions_total")), (&json!(1), &json!(2)));
    client.get("/v1/rate-limits/other").await.expect(404);
}

#[tokio::test]
async fn an_override_of_the_key_holds_for_all_parts_together() {
    let env = LimitsEnv::open().await;
    let of = |tenant: usize| job("a", "x.y", Some(&format!("t{tenant}")), Some("tenant"));
    env.set("k", LimitLayer::Override, concurrency(2), None).await;
    let ids = env.enqueue_all((0..5).map(of).collect()).await;
    assert_eq!(env.fetch("a", 10).await, ids[..2], "each tenant may have one, and all of them two");
    env.ack(&ids[0]).await;
    assert_eq!(env.fetch("a", 10).await, ids[2..3]);
    assert!(env.unset("k", LimitLayer::Override).await);
    assert_eq!(env.fetch("a", 10).await, ids[3..], "only the override delayed them");
    env.audit().await;
}

#[tokio::test]
async fn an_override_of_a_part_is_for_that_part_alone() {
    let env = LimitsEnv::open().await;
    let client = &env.client;
    let of = |tenant| job("a", "x.y", Some(tenant), Some("tenant"));
    let two = Some(json!({"concurrency": 2}).to_string());
    let set = client.send("PUT", "/v1/rate-limits/k%7Ctenant%3Dacme", two).await.expect(200);
    assert_eq!(set.text_at("/partition/name"), "acme");
    let jobs = ["acme", "beta"].iter().flat_map(|tenant| vec![of(tenant); 3]).collect();
    env.enqueue_all(jobs).await;
    assert_eq!(env.fetch("a", 10).await.len(), 3, "two of acme, one of beta");
    let shown = client.get("/v1/rate-limits/k").await.expect(200);
    client.send("PUT", "/v1/rate-limits/k", Some(shown.text)).await.expect(200);
    let part = client.get("/v1/rate-limits/k%7Ctenant%3Dacme").await.expect(200);
    client.send("PUT", "/v1/rate-limits/k%7Ctenant%3Dacme", Some(part.text)).await.expect(200);
    client.delete("/v1/rate-limits/k%7Ctenant%3Dacme").await.expect(200);
    env.audit().await;
}

#[tokio::test]
async fn no_client_can_name_a_part_or_a_limit_of_the_server() {
    let env = LimitsEnv::open().await;
    for key in ["k|tenant=acme", "#a", "@acme/k"] {
        let mut named = job("a", "x.y", None, None);
        named["rate_limit"]["key"] = json!(key);
        let refused = env.client.post("/v1/jobs", named).await.expect(422);
        assert_eq!(refused.text_at("/error/details/field"), "rate_limit.key", "{key}");
    }
    for (scope, more) in [(json!("worker"), json!({"key": "k"})), (json!("tenant"), json!({"max_per_second": 1}))] {
        let mut refused = job("a", "x.y", None, None);
        refused["rate_limit"] = more;
        refused["rate_limit"]["scope"] = scope;
        let refused = env.client.post("/v1/jobs", refused).await.expect(422);
        assert_eq!(refused.text_at("/error/details/field"), "rate_limit.scope");
    }
}

#[tokio::test]
async fn planned_jobs_and_those_of_workflows_count_under_their_own_tenant() {
    let app = crate::support::TestApp::start_with(Clock::manual(NOON), |_| {}).await;
    let rule = json!({"types": ["plan.*"], "tenant_key": "args.0", "on_missing_tenant": "reject"});
    app.client.send("PUT", "/v1/admin/planner/fair", Some(rule.to_string())).await.expect(201);
    let limit = json!({"key": "k", "concurrency": 1, "scope": "tenant"});
    for tenant in ["acme", "beta"] {
        let job = json!({"type": "plan.it", "args": [tenant], "queue": "a", "rate_limit": limit});
        app.client.enqueue(job).await;
    }
    let step = json!({"type": "x.y", "args": [], "queue": "a", "rate_limit": limit});
    let chain = json!({"type": "chain", "steps": [step]}).to_string();
    app.client.try_send("POST", "/v1/workflows", &[("x-ojs-tenant", "gamma")], Some(chain)).await.unwrap().expect(201);
    let shown = app.client.get("/v1/rate-limits").await.expect(200);
    let mut names: Vec<&str> =
        shown.at("/items").as_array().unwrap().iter().filter_map(|item| item["partition"]["name"].as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["acme", "beta", "gamma"], "{}", shown.text);
}
