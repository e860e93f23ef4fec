//! `X-RateLimit-*`: on responses about jobs under a limit, and on no others.

use super::{LimitsEnv, NOON, SECOND, concurrency, job};
use crate::support::{Answer, json};
use fairgate::store::LimitLayer;
use serde_json::{Value, json as value};

/// Limit, remaining and reset, which are empty if the response has none.
fn headers(answer: &Answer) -> [&str; 3] {
    ["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"].map(|name| answer.header(name))
}

fn at(ms: i64) -> String {
    (ms / 1000).to_string()
}

const NONE: [&str; 3] = ["", "", ""];

#[tokio::test]
async fn a_fetch_reports_the_limit_of_its_job() {
    let env = LimitsEnv::open().await;
    let client = &env.client;
    client.enqueue_into("plain").await;
    assert_eq!(headers(&client.fetch("plain", 1).await), NONE, "nothing is limited");
    let rate = json!({"key": "r", "rate": {"limit": 5, "period": "PT1M"}});
    env.push_many(3, "q", rate).await;
    let reset = at(NOON + 60 * SECOND);
    assert_eq!(headers(&client.fetch("q", 1).await), ["5", "4", &reset]);
    assert_eq!(headers(&client.fetch("q", 2).await), ["5", "2", &reset]);
    client.enqueue_into("plain").await;
    assert_eq!(headers(&client.fetch("plain", 1).await), NONE, "the job is under no limit");
    assert_eq!(headers(&client.fetch("empty", 1).await), NONE, "no limit delays jobs there");
}

#[tokio::test]
async fn a_fetch_left_empty_by_a_limit_reports_that_limit() {
    let env = LimitsEnv::open().await;
    let client = &env.client;
    env.push_many(2, "q", json!({"key": "c", "concurrency": 1})).await;
    let first = client.fetch("q", 1).await;
    assert_eq!(headers(&first), ["1", "0", &at(NOON)]);
    // Once when the lane is blocked, and again when it waits.
    for _ in 0..2 {
        let empty = client.fetch("q", 1).await;
        assert_eq!((empty.job_ids().len(), headers(&empty)), (0, ["1", "0", &at(NOON)]));
    }
    client.ack(&first.job_ids()[0]).await.expect(200);
    assert_eq!(client.fetch("q", 1).await.job_ids().len(), 1);
    assert_eq!(headers(&client.fetch("q", 1).await), NONE, "the queue is simply empty");
    env.audit().await;
}

#[tokio::test]
async fn a_queues_own_limit_and_the_tightest_of_several_are_reported() {
    let env = LimitsEnv::open().await;
    let client = &env.client;
    env.set("queue:q", LimitLayer::Admin, concurrency(2), None).await;
    env.push_many(3, "q", json!({"key": "wide", "concurrency": 9})).await;
    assert_eq!(headers(&client.fetch("q", 1).await)[..2], ["2", "1"], "of 2 and 9, the first is tighter");
    client.fetch("q", 1).await;
    let empty = client.fetch("q", 1).await;
    assert_eq!((empty.job_ids().len(), headers(&empty)[..2].to_vec()), (0, vec!["2", "0"]));
}

#[tokio::test]
async fn a_tenant_gets_no_limits_of_other_tenants() {
    let env = LimitsEnv::open().await;
    let of = |tenant: &str, key: &str| {
        let mut job = job("q", 0, json!({"key": key, "concurrency": 1}));
        job["meta"] = json!({"tenant_id": tenant});
        job
    };
    env.enqueue_all(vec![of("acme", "a"), of("acme", "a"), of("beta", "b"), of("beta", "b")]).await;
    assert_eq!(env.fetch("q", 10).await.len(), 2);
    let fetch = json!({"queues": ["q"], "count": 1}).to_string();
    let own = async |tenant: &str| {
        let headers = [("x-ojs-tenant", tenant)];
        let answer = env.client.try_send("POST", "/v1/workers/fetch", &headers, Some(fetch.clone())).await;
        answer.unwrap().expect(200)
    };
    assert_eq!(headers(&own("acme").await)[..2], ["1", "0"]);
    assert_eq!(headers(&own("gamma").await), NONE);
}

#[tokio::test]
async fn enqueues_report_the_limit_of_their_jobs() {
    let env = LimitsEnv::open().await;
    let client = &env.client;
    let limited = |key: &str| job("q", 0, json!({"key": key, "concurrency": 3}));
    let batch = async |jobs: Vec<Value>| client.post("/v1/jobs/batch", value!({"jobs": jobs})).await.expect(201);
    assert_eq!(headers(&client.post("/v1/jobs", limited("k")).await.expect(201))[..2], ["3", "3"]);
    let plain = json!({"type": "a.b", "args": []});
    assert_eq!(headers(&batch(vec![limited("k"), plain.clone(), limited("k")]).await)[..2], ["3", "3"]);
    assert_eq!(headers(&batch(vec![limited("k"), limited("l")]).await), NONE, "there is room for one");
    assert_eq!(headers(&batch(vec![plain.clone(), plain]).await), NONE);
}

#[tokio::test]
async fn a_refusal_by_a_tenants_limit_reports_it() {
    let env = LimitsEnv::open().await;
    let client = &env.client;
    let terms = json!({"limits": {"max_enqueue_rate": {"limit": 2, "period": "PT1M"}}}).to_string();
    client.send("PUT", "/v1/admin/tenants/acme", Some(terms)).await.expect(201);
    let job = json!({"type": "a.b", "args": [], "meta": {"tenant_id": "acme"}});
    for _ in 0..2 {
        client.post("/v1/jobs", job.clone()).await.expect(201);
    }
    let refused = client.post("/v1/jobs", job).await.expect(429);
    let wait: i64 = refused.header("retry-after").parse().unwrap();
    assert_eq!(headers(&refused), ["2", "0", &at(NOON + wait * SECOND)]);
}
