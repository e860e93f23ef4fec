//! The tenant of a job.

use super::{StagingEnv, planned};
use crate::support::{Answer, json};
use fairgate::domain::plan::{OnMissingTenant, Rule, TenantKey};

fn keyed(key: &str) -> impl FnOnce(&mut Rule) {
    let key = TenantKey::parse(key).expect(key);
    move |rule| rule.tenant_key = key
}

#[tokio::test]
async fn tenants_with_any_name_are_separate_and_leave_nothing() {
    // Args may contain any text; `meta.tenant_id` has a pattern.
    let env = StagingEnv::busy(keyed("args.0")).await;
    let longest = "ü".repeat(128);
    let mut names = vec![
        "a:b",
        "a",
        "b",
        ":",
        "{}",
        "{default}",
        "%",
        "%41",
        "A",
        "a b",
        " ",
        "*",
        "?",
        "[a]",
        "\\",
        "\"",
        "'",
        "é",
        "日本語",
        "😀",
        "-1",
        "1e400",
        "_default",
        "w",
        "h",
        "+inf",
        "(1",
        "rule",
        "tenant",
        "weight",
        longest.as_str(),
    ];
    for name in &names {
        for _ in 0..2 {
            env.client.enqueue(json!({"type": "test.job", "args": [name]})).await;
        }
    }
    names.sort_unstable();
    assert_eq!(env.tenants("default").await, names);
    assert_eq!(env.round(names.len() as u64).await, names.len() as u64);
    assert_eq!(env.tenants("default").await, names, "one job of each");
    assert_eq!(env.round(100).await, names.len() as u64);
    assert_eq!((env.staged().await, env.tenant_keys().await), (0, Vec::new()));
}

#[tokio::test]
async fn without_an_id_in_meta_a_job_is_the_default_tenants() {
    let env = StagingEnv::busy(|_| {}).await;
    for meta in [json!({}), json!({"tenant_id": null})] {
        let mut job = planned("");
        job["meta"] = meta;
        env.client.enqueue(job).await;
    }
    env.client.enqueue(json!({"type": "test.job", "args": []})).await;
    for id in ["", "_default", "é", &"x".repeat(257)] {
        let answer = env.client.post("/v1/jobs", planned(id)).await.expect(422);
        assert_eq!(answer.at("/error/details/field"), "meta.tenant_id");
    }
    assert_eq!(env.tenants("default").await, ["_default"]);
    assert_eq!(env.staged().await, 3);
}

#[tokio::test]
async fn numbers_are_ids_too() {
    let env = StagingEnv::busy(keyed("meta.owner.id")).await;
    for body in [r#"{"id":42}"#, r#"{"id":"42"}"#, r#"{"id":4.20}"#] {
        let body = format!(r#"{{"type":"test.job","args":[],"meta":{{"owner":{body}}}}}"#);
        env.client.send("POST", "/v1/jobs", Some(body)).await.expect(201);
    }
    assert_eq!(env.tenants("default").await, ["4.20", "42"]);
}

#[tokio::test]
async fn a_header_names_the_tenant_of_all_jobs_of_a_request() {
    let env = StagingEnv::busy(keyed("header:X-OJS-Tenant")).await;
    let send = async |tenant: Option<&str>| -> Answer {
        let headers: Vec<_> = tenant.map(|tenant| ("x-ojs-tenant", tenant)).into_iter().collect();
        let bare = json!({"type": "test.job", "args": []});
        let body = json!({"jobs": [bare, bare]}).to_string();
        env.client.try_send("POST", "/v1/jobs/batch", &headers, Some(body)).await.unwrap().expect(201)
    };
    assert_eq!(send(Some("acme:1")).await.at("/jobs/1/meta/tenant_id"), "acme:1");
    send(None).await;
    assert_eq!(env.tenants("default").await, ["_default", "acme:1"]);
    assert_eq!(env.staged().await, 4);
}

#[tokio::test]
async fn contradicting_headers_of_the_rule_are_refused() {
    let env = StagingEnv::busy(keyed("header:X-Account")).await;
    let body = json!({"type": "test.job", "args": []}).to_string();
    for (second, status) in [("beta", 400), ("acme", 201)] {
        let headers = [("x-account", "acme"), ("x-account", second)];
        let answer = env.client.try_send("POST", "/v1/jobs", &headers, Some(body.clone())).await.unwrap();
        assert_eq!(answer.status, status, "{}", answer.text);
    }
    assert_eq!(env.tenants("default").await, ["acme"]);
}

#[tokio::test]
async fn an_id_in_args_is_required() {
    let env = StagingEnv::busy(keyed("args.0.account_id")).await;
    let client = &env.client;
    for args in [json!([]), json!([{}]), json!([{"account_id": null}]), json!([{"account_id": true}]), json!([7])] {
        let answer = client.post("/v1/jobs", json!({"type": "test.job", "args": args})).await.expect(422);
        assert!(answer.text.contains("args.0.account_id"), "{}", answer.text);
    }
    let good = json!({"type": "test.job", "args": [{"account_id": "acme"}]});
    let bad = json!({"type": "test.job", "args": []});
    let other = json!({"type": "other.job", "args": []});
    let answer = client.post("/v1/jobs/batch", json!({"jobs": [good, other, bad]})).await.expect(422);
    assert!(answer.text.contains("jobs[2].args.0.account_id"), "{}", answer.text);
    assert_eq!(env.staged().await, 0, "all or nothing");
    client.enqueue(good).await;
    client.enqueue(json!({"type": "test.job", "args": [{"account_id": 12}]})).await;
    client.enqueue(other).await;
    assert_eq!(env.tenants("default").await, ["12", "acme"]);
}

#[tokio::test]
async fn an_id_in_args_can_be_optional() {
    let env = StagingEnv::busy(|rule| {
        keyed("args.1")(rule);
        rule.on_missing_tenant = OnMissingTenant::Default;
    })
    .await;
    for args in [json!([]), json!([1, "two"]), json!([1, {}])] {
        env.client.enqueue(json!({"type": "test.job", "args": args})).await;
    }
    assert_eq!(env.tenants("default").await, ["_default", "two"]);
}
