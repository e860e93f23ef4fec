//! Replies of Redis that break off or never arrive: calls are repeated, and no job stays leased to a worker that does
//! not have it.

mod load;

use crate::support::{Answer, ChaosProxy, Fault, TestApp, TestRedis, eventually, json};
use fairgate::clock::Clock;
use fairgate::config::{Config, Role, StoreUrl};
use std::sync::Arc;
use std::time::Duration;

/// A fairgate behind a proxy and another directly on the same Redis. Neither has a tick, so only the handling of a lost
/// reply brings a job back.
struct LostReplyEnv {
    app: TestApp,
    direct: TestApp,
    proxy: ChaosProxy,
}

impl LostReplyEnv {
    async fn open(call_timeout: Duration) -> LostReplyEnv {
        let redis = Arc::new(TestRedis::start());
        let proxy = ChaosProxy::start(&redis).await;
        let url = proxy.url();
        let only_api = |config: &mut Config| config.server.roles = vec![Role::Api];
        let app = TestApp::start_on(redis.clone(), Clock::System, |config| {
            only_api(config);
            config.store.url = Some(StoreUrl::parse(&url).unwrap());
            config.store.call_timeout = call_timeout;
        })
        .await;
        let direct = TestApp::start_on(redis, Clock::System, only_api).await;
        // Scripts are loaded before faults are armed, so that each call is one request.
        for outcome in ["ack", "nack"] {
            // No job becomes due later, because a fetch would handle it before leasing.
            let job = json!({"type": "test.job", "args": [], "queue": "warm", "retry": {"max_attempts": 1}});
            let id = direct.client.enqueue(job).await;
            direct.client.fetch("warm", 1).await;
            let body = json!({"job_id": id, "error": {"code": "x", "message": "y"}});
            direct.client.post(&format!("/v1/workers/{outcome}"), body).await.expect(200);
        }
        LostReplyEnv { app, direct, proxy }
    }

    /// Sends a request with a fault for its reply from Redis; the call is recognised by a text in it.
    async fn post_under(&self, fault: Fault, pattern: &str, path: &str, body: serde_json::Value) -> Answer {
        self.proxy.arm_with(fault, pattern);
        let answer = self.app.client.post(path, body).await;
        self.proxy.struck().await;
        answer
    }

    async fn leases(&self) -> i64 {
        self.app.redis.command(&["ZCARD", "fg:{default}:leases"]).await
    }
}

const PATIENT: Duration = Duration::from_secs(10);
const IMPATIENT: Duration = Duration::from_millis(400);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_with_a_truncated_reply_is_repeated() {
    let env = LostReplyEnv::open(PATIENT).await;
    let client = &env.direct.client;
    let job = json!({"type": "test.cut", "args": [], "queue": "q"});
    let answer = env.post_under(Fault::Cut, "test.cut", "/v1/jobs", job).await.expect(201);
    let id = answer.text_at("/job/id").to_owned();
    let wanted = json!({"queues": ["q"], "worker_id": "worker-of-cut"});
    let fetched = env.post_under(Fault::Cut, "worker-of-cut", "/v1/workers/fetch", wanted).await.expect(200);
    assert_eq!(
        (fetched.job_ids(), env.leases().await),
        (vec![id.clone()], 1),
        "leased once, to the worker that fetched it"
    );
    env.post_under(Fault::Cut, &id, "/v1/workers/ack", json!({"job_id": id})).await.expect(200);
    assert_eq!((client.state(&id).await.as_str(), env.leases().await), ("completed", 0));

    let failing = client.enqueue_into("q").await;
    client.fetch("q", 1).await;
    let nack = json!({"job_id": failing, "error": {"code": "x", "message": "y"}});
    env.post_under(Fault::Cut, &failing, "/v1/workers/nack", nack).await.expect(200);
    assert_eq!(client.state(&failing).await, "retryable");
    env.proxy.arm_with(Fault::Cut, &failing);
    env.app.client.get(&format!("/v1/jobs/{failing}")).await.expect(200);
    env.proxy.arm_with(Fault::Cut, &failing);
    env.app.client.delete(&format!("/v1/jobs/{failing}")).await.expect(200);
    env.direct.assert_consistent().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fetch_whose_reply_never_arrives_returns_its_jobs() {
    let env = LostReplyEnv::open(IMPATIENT).await;
    let ids = [env.direct.client.enqueue_into("q").await, env.direct.client.enqueue_into("q").await];
    let wanted = json!({"queues": ["q"], "count": 2, "worker_id": "nobody"});
    let answer = env.post_under(Fault::Mute, "nobody", "/v1/workers/fetch", wanted).await;
    assert!(answer.status >= 500, "{}", answer.text);
    eventually("the leases are returned", async || env.leases().await == 0).await;
    let again = env.direct.client.fetch("q", 2).await;
    assert_eq!((again.job_ids(), again.at("/jobs/0/attempt")), (ids.to_vec(), &json!(1)), "as if nothing had happened");
    env.direct.assert_consistent().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fetch_that_reaches_redis_late_leases_nothing() {
    let env = LostReplyEnv::open(IMPATIENT).await;
    let id = env.direct.client.enqueue_into("q").await;
    let wanted = json!({"queues": ["q"], "worker_id": "nobody"});
    let answer = env.post_under(Fault::Delay, "nobody", "/v1/workers/fetch", wanted).await;
    assert!(answer.status >= 500, "{}", answer.text);
    eventually("the fetch was revoked", async || {
        let noted: Option<String> = env.app.redis.command(&["HGET", "fg:{default}:state", "recalled"]).await;
        noted.is_some()
    })
    .await;
    let calls = async || {
        let stats: String = env.app.redis.command(&["INFO", "commandstats"]).await;
        let line = stats.lines().find_map(|line| line.strip_prefix("cmdstat_fcall:calls="));
        line.and_then(|line| line.split(',').next()?.parse::<u64>().ok()).unwrap_or(0)
    };
    let before = calls().await;
    env.proxy.deliver();
    eventually("the late fetch has arrived", async || calls().await > before).await;
    assert_eq!((env.leases().await, env.direct.client.state(&id).await.as_str()), (0, "available"));
    assert_eq!(env.app.client.fetch("q", 1).await.job_ids(), [&*id], "the next fetch of the same process works");
    env.direct.assert_consistent().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_of_a_fetch_with_an_id_are_left_to_its_client() {
    let env = LostReplyEnv::open(IMPATIENT).await;
    let (kept, handed_back) =
        (env.direct.client.enqueue_into("q").await, env.direct.client.enqueue_into("other").await);
    let wanted = json!({"queues": ["q"], "worker_id": "asks-again", "fetch_id": "f1"});
    env.post_under(Fault::Mute, "asks-again", "/v1/workers/fetch", wanted.clone()).await;
    let unnamed = json!({"queues": ["other"], "worker_id": "nobody"});
    env.post_under(Fault::Mute, "nobody", "/v1/workers/fetch", unnamed).await;
    eventually("one lease is left", async || env.leases().await == 1).await;
    assert_eq!(env.direct.client.state(&handed_back).await, "available");
    let again = env.app.client.post("/v1/workers/fetch", wanted).await.expect(200);
    assert_eq!(again.job_ids(), [&*kept]);
}
