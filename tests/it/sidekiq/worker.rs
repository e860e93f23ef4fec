//! An unmodified Sidekiq runs jobs that arrived over HTTP.

use super::ruby::{Worker, WorkerOptions};
use super::*;
use std::collections::HashSet;

/// Pauses the rule, pushes jobs of tenants, and resumes it.
async fn stage(app: &TestApp, tenants: &[(&str, usize)]) -> Vec<String> {
    app.client.post("/v1/admin/planner/r/pause", json!({})).await.expect(200);
    let mut ids = Vec::new();
    for (tenant, jobs) in tenants {
        ids.extend(push(&app.client, tenant, *jobs).await);
    }
    app.client.post("/v1/admin/planner/r/resume", json!({})).await.expect(200);
    ids
}

/// The last 24 hexadecimal digits of an OJS id.
fn jid(id: &str) -> String {
    let digits = id.replace('-', "");
    digits[digits.len() - 24..].to_owned()
}

#[tokio::test]
async fn a_worker_runs_each_job_once_in_balanced_order_under_its_id() {
    let app = beside(&[rule(|_| {})], legacy(|_| {})).await;
    let ids = stage(&app, &[("noisy", 60), ("b", 10), ("c", 10)]).await;
    let worker = Worker::start(&app.redis, &WorkerOptions::default());
    let ran = worker.ran_all(80).await;
    let jids: HashSet<String> = ran.iter().map(|ran| ran.jid.clone()).collect();
    assert_eq!((ran.len(), jids), (80, ids.iter().map(|id| jid(id)).collect()));
    // While all three have jobs, each gets every third turn.
    let first: Vec<String> = ran[..30].iter().map(|ran| ran.tenant()).collect();
    for turn in first.chunks(3) {
        assert_eq!(turn.iter().collect::<HashSet<_>>().len(), 3, "{first:?}");
    }
    let stats = app.client.get("/v1/admin/planner/r").await.expect(200);
    assert_eq!(stats.at("/rounds/promoted_total"), &json!(80));
    assert!(stats.at("/main_queue/latency_ms").is_u64());
}

#[tokio::test]
async fn workers_of_another_redis_run_each_job_once() {
    let theirs = TestRedis::start();
    let app = beside(&[rule(|_| {})], legacy(|sidekiq| sidekiq.access = at(&theirs))).await;
    let ids = stage(&app, &[("a", 40), ("b", 40)]).await;
    let worker = Worker::start(&theirs, &WorkerOptions { threads: 5, takes: 0.005, ..WorkerOptions::default() });
    let ran = worker.ran_all(80).await;
    let jids: HashSet<String> = ran.iter().map(|ran| ran.jid.clone()).collect();
    assert_eq!((ran.len(), jids), (80, ids.iter().map(|id| jid(id)).collect()));
}

#[tokio::test]
async fn process_records_are_read_and_a_quiet_process_gets_no_more_jobs() {
    let app = beside(&[rule(|_| {})], legacy(|_| {})).await;
    let worker = Worker::start(&app.redis, &WorkerOptions { threads: 3, ..WorkerOptions::default() });
    eventually("its process record exists", async || app.redis.command::<i64>(&["SCARD", "processes"]).await == 1)
        .await;
    worker.quiet();
    // A process sends a heartbeat every five seconds.
    let identity: Vec<String> = app.redis.command(&["SMEMBERS", "processes"]).await;
    eventually("its process record says that it is quiet", async || {
        app.redis.command::<String>(&["HGET", &identity[0], "quiet"]).await == "true"
    })
    .await;
    stage(&app, &[("a", 5)]).await;
    eventually("a round has seen it", async || {
        let stats = app.client.get("/v1/admin/planner/r").await.expect(200);
        stats.at("/last_rounds/0/reason") == &json!("quiet") && stats.at("/gate/reason") == &json!("quiet")
    })
    .await;
    assert_eq!(waiting(&app.redis, "queue:heavy").await.len(), 0);
    // Another process starts, as in a deployment.
    let next = Worker::start(&app.redis, &WorkerOptions { threads: 3, ..WorkerOptions::default() });
    next.ran_all(5).await;
}

#[tokio::test]
async fn a_gate_closes_by_latency_by_depth_and_for_a_paused_queue() {
    let rule = by_hand(10);
    let rule = Rule { max_depth: 4, latency_threshold: 60_000, ..rule };
    let app = beside(&[rule], legacy(|_| {})).await;
    push(&app.client, "a", 20).await;
    assert_eq!(run(&app.client).await["promoted"], 4, "up to the maximum");
    assert_eq!(run(&app.client).await["reason"], "depth");
    for (oldest, reason) in [
        ("{\"enqueued_at\":1.5}", Some("latency")),
        ("{\"enqueued_at\":1700000000000}", Some("latency")),
        ("{\"enqueued_at\":99999999999999}", None),
        ("junk", None),
    ] {
        app.redis.command::<i64>(&["DEL", "queue:heavy"]).await;
        app.redis.command::<i64>(&["RPUSH", "queue:heavy", oldest]).await;
        assert_eq!(run(&app.client).await["reason"].as_str(), reason, "{oldest}");
    }
    app.redis.command::<i64>(&["DEL", "queue:heavy"]).await;
    app.redis.command::<i64>(&["SADD", "paused", "heavy"]).await;
    assert_eq!(run(&app.client).await["reason"], "queue_paused");
    app.redis.command::<i64>(&["SREM", "paused", "heavy"]).await;
    assert_eq!(run(&app.client).await["promoted"], 4);
}

#[tokio::test]
async fn inspect_reports_the_contents_and_changes_nothing() {
    let redis = TestRedis::start();
    let worker = Worker::start(&redis, &WorkerOptions { queues: &["light"], ..WorkerOptions::default() });
    eventually("its process record exists", async || redis.command::<i64>(&["SCARD", "processes"]).await == 1).await;
    for (tenant, jobs) in [("noisy", 9), ("quiet", 1)] {
        for _ in 0..jobs {
            let payload = json!({"class": "HeavyJob", "args": [tenant], "enqueued_at": 1_700_000_000.5}).to_string();
            redis.command::<i64>(&["LPUSH", "queue:heavy", &payload]).await;
        }
    }
    redis.command::<i64>(&["SADD", "queues", "heavy", "light"]).await;
    redis.command::<i64>(&["HSET", "fairplay:heavy_job:tenant_counts", "a", "3", "b", "4"]).await;
    let keys = async || {
        let mut keys: Vec<String> = redis.command(&["KEYS", "*"]).await;
        keys.retain(|key| {
            !key.starts_with("stat:") && !key.contains(':') || key.starts_with("queue") || key.starts_with("fair")
        });
        keys.sort();
        keys
    };
    let before = keys().await;
    let inspect = async |more: &[&str]| {
        let url = redis.url();
        let words = [&["sidekiq", "inspect", url.as_str(), "--queue", "heavy"], more].concat();
        let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_fairgate"));
        let output = command.args(words).output().await.expect("it runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let report: Value = serde_json::from_str(&inspect(&["--json"]).await).expect("JSON");
    let queue =
        |name: &str| report["queues"].as_array().unwrap().iter().find(|queue| queue["name"] == name).cloned().unwrap();
    assert_eq!((&queue("heavy")["depth"], &queue("heavy")["processes"]), (&json!(10), &json!(0)));
    assert_eq!((&queue("light")["depth"], &queue("light")["processes"]), (&json!(0), &json!(1)));
    assert_eq!(
        (&report["processes"][0]["concurrency"], &report["processes"][0]["queues"]),
        (&json!(1), &json!(["light"]))
    );
    assert_eq!(report["fairplay"], json!([{"key": "heavy_job", "tenants": 2, "jobs": 7}]));
    let tenants = report["looked_at"]["tenants"].as_array().unwrap();
    assert_eq!(
        (&tenants[1]["tenant_id"], &tenants[1]["first_place"], &tenants[1]["first_place_in_turns"]),
        (&json!("quiet"), &json!(10), &json!(2))
    );
    let text = inspect(&[]).await;
    for part in ["heavy: 10 jobs", "not served by any process", "heavy_job: 7 jobs of 2 tenants", "10→2"] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
    assert_eq!(keys().await, before);
    drop(worker);
}
