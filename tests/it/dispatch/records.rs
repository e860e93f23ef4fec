//! The codec of records: what is stored does not depend on the strategy that dispatches a job, and a field that scripts
//! do not know survives every step.

use super::{DispatchEnv, job};
use crate::support::json;
use fairgate::store::{Ack, Fetch, JobOutcome};
use serde_json::Value;
use std::collections::BTreeMap;

/// Plain jobs, and one job for each deviation from a plain one.
fn jobs() -> Vec<Value> {
    let with = |name: &str, value: Value| {
        let mut job = job("q", None, 0);
        job["options"][name] = value;
        job
    };
    let mut traced = job("q", Some("t"), 0);
    traced["meta"]["traceparent"] = json!("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
    let mut long = job("q", None, 0);
    long["args"] = json!(["x".repeat(9000)]);
    vec![
        job("q", None, 0),
        job("q", Some("t"), 0),
        job("q", Some("a:b.c"), 0),
        job("q", None, 7),
        job("q", None, -100),
        job("an.other-queue", None, 0),
        job("an.other-queue", Some("t"), 3),
        with("expires_at", json!("2030-01-01T00:00:00Z")),
        with("timeout_ms", json!(5000)),
        with("visibility_timeout_ms", json!(60_000)),
        with("retry", json!({"max_attempts": 2})),
        with("tags", json!(["x"])),
        traced,
        long,
        job("q", None, 0),
    ]
}

/// The same jobs, each with something else that counts it.
fn limited_jobs() -> Vec<Value> {
    let limits = [
        json!({"key": "a", "concurrency": 50}),
        json!({"key": "b", "concurrency": 50, "rate": {"limit": 100, "period": "PT1M"}}),
        json!({"key": "b", "concurrency": 50, "rate": {"limit": 100, "period": "PT1M"}}),
        json!({"key": "c", "throttle": {"limit": 100, "period": "PT1S"}}),
    ];
    let limited = |(mut job, limit): (Value, &Value)| {
        job["rate_limit"] = limit.clone();
        job
    };
    jobs().into_iter().zip(limits.iter().cycle()).map(limited).collect()
}

/// A further field that no script knows.
const UNKNOWN: &str = "strange\u{1f}1\u{1f}";

async fn add_unknown_field(env: &DispatchEnv, ids: &[String]) {
    let redis = &env.redis;
    for key in ids.iter().map(|id| format!("fg:{{default}}:job:{id}")) {
        let record: String = redis.command(&["GET", &key]).await;
        let parts: Vec<&str> = record.splitn(3, '\u{1e}').collect();
        let changed = format!("{}\u{1e}{}{UNKNOWN}\u{1e}{}", parts[0], parts[1], parts[2]);
        redis.command::<()>(&["SET", &key, &changed]).await;
    }
}

async fn assert_unknown_field(env: &DispatchEnv, ids: &[String]) {
    for id in ids {
        let record: String = env.redis.command(&["GET", &format!("fg:{{default}}:job:{id}")]).await;
        assert!(record.contains(UNKNOWN), "{record:?}");
    }
}

/// All job data in Redis, with numbers in place of ids.
async fn holdings(env: &DispatchEnv, ids: &[String]) -> BTreeMap<String, Vec<String>> {
    let redis = &env.redis;
    let numbered = |text: String, (at, id): (usize, &String)| text.replace(id, &format!("#{at}"));
    let named = |text: String| ids.iter().enumerate().fold(text, numbered).replace(UNKNOWN, "");
    let mut all = BTreeMap::new();
    for key in redis.keys_with("").await {
        let part = key.trim_start_matches("fg:{default}:");
        let kept = [
            "job:",
            "env:",
            "res:",
            "lane:",
            "ready:",
            "counts:",
            "finished:",
            "tenants",
            "leases",
            "worker_jobs",
            "live",
            "due",
            "limit:",
            "pool:",
            "level:",
        ];
        if !kept.iter().any(|beginning| part.starts_with(beginning)) {
            continue;
        }
        let mut words: Vec<String> = match redis.command::<String>(&["TYPE", &key]).await.as_str() {
            "string" => vec![redis.command(&["GET", &key]).await],
            "hash" => {
                let mut pairs: BTreeMap<String, String> = redis.command(&["HGETALL", &key]).await;
                if part.starts_with("level:") {
                    pairs.remove("s"); // the version of the rules, which is another on each side
                }
                pairs.into_iter().flat_map(|(name, value)| [name, value]).collect()
            }
            "set" => redis.command(&["SMEMBERS", &key]).await,
            _ => redis.command(&["ZRANGE", &key, "0", "-1", "WITHSCORES"]).await,
        };
        // Members with the same score are sorted by id, and ids differ between the two sides.
        words = words.into_iter().map(named).collect();
        words.sort();
        let minutes: i64 = redis.command::<i64>(&["PTTL", &key]).await.max(-60_000) / 60_000;
        words.push(format!("{minutes} min"));
        all.insert(named(part.to_owned()), words);
    }
    let entries: Vec<(String, Vec<String>)> = redis.command(&["XRANGE", "fg:{default}:events", "-", "+"]).await;
    let records = entries.iter().filter_map(|(_, fields)| fields.last()).flat_map(|records| records.split('\u{1e}'));
    let reported = records.filter(|record| record.starts_with("job."));
    all.insert("events".to_owned(), reported.map(|record| named(record.to_owned())).collect());
    all
}

/// The settings under which jobs are enqueued, leased and completed.
#[derive(Default)]
struct Life {
    policy: Value,
    /// Limits of a tenant without jobs.
    limits: Option<Value>,
    jobs: Vec<Value>,
    /// The pool whose workers fetch them.
    pool: Option<&'static str>,
    has_unknown_field: bool,
}

/// Returns what Redis holds after each step.
async fn steps(life: Life) -> Vec<BTreeMap<String, Vec<String>>> {
    let env = DispatchEnv::open(life.policy).await;
    if let Some(limits) = life.limits {
        let terms = json!({"limits": limits}).to_string();
        env.client.send("PUT", "/v1/admin/tenants/elsewhere", Some(terms)).await.expect(201);
    }
    let ids = env.enqueue_all(life.jobs).await;
    let mut steps = vec![holdings(&env, &ids).await];
    if life.has_unknown_field {
        add_unknown_field(&env, &ids).await;
    }
    let ask = |worker: Option<&str>, count, visibility_ms| Fetch {
        worker: worker.map(str::to_owned),
        queues: vec!["q".to_owned(), "an.other-queue".to_owned()],
        count,
        visibility_ms,
        pool: life.pool.map(str::to_owned),
        ..Fetch::default()
    };
    let mut leased = Vec::new();
    for request in [
        ask(Some("w 1"), 4, None),
        ask(None, 3, Some(20_000)),
        ask(Some("w2"), 1, Some(4_000_000)),
        ask(None, 50, None),
    ] {
        env.clock.advance(1234);
        leased.extend(env.fetch(request).await);
        steps.push(holdings(&env, &ids).await);
    }
    assert_eq!(leased.len(), ids.len());
    for (at, record) in leased.iter().enumerate() {
        env.clock.advance(77);
        let ack = Ack {
            job_id: record.id.clone(),
            worker: record.worker.clone().filter(|_| at % 2 == 0),
            result: (at % 3 == 0).then(|| r#"{"n":1.0}"#.to_owned()),
            idempotency_key: Some(format!("key {at}")),
        };
        let answer = env.store().ack(ack.clone()).await.expect("an answer");
        assert!(matches!(&answer, JobOutcome::Done(..)), "{answer:?}");
        assert_eq!(env.store().ack(ack).await.expect("an answer"), answer, "sent again");
    }
    steps.push(holdings(&env, &ids).await);
    if life.has_unknown_field {
        assert_unknown_field(&env, &ids).await;
    }
    steps
}

async fn assert_same(one: Life, other: Life) {
    let (one, other) = tokio::join!(steps(one), steps(other));
    for (step, (one, other)) in one.iter().zip(&other).enumerate() {
        for key in one.keys().chain(other.keys()).filter(|key| !key.contains("elsewhere")) {
            assert_eq!(one.get(key), other.get(key), "{key} after step {step}");
        }
    }
}

#[tokio::test]
async fn both_strategies_write_the_same() {
    // A limit on another queue, which makes fetches use the strategy `policy`.
    let policy = json!({"limit": [{"queue": "elsewhere", "concurrency": 1}]});
    let limits = Some(json!({"max_queue_depth": 10}));
    let simple = Life { policy: json!({}), jobs: jobs(), ..Life::default() };
    assert_same(simple, Life { policy, limits, jobs: jobs(), ..Life::default() }).await;
}

#[tokio::test]
async fn a_field_that_scripts_do_not_know_survives_every_step() {
    let pool = json!({"name": "p", "queues": ["q", "an.other-queue"], "strategy": "weighted"});
    for (policy, pool) in [
        (json!({}), None),
        (json!({"tenant_fairness": {"enabled": true}}), None),
        (json!({"tenant_fairness": {"enabled": true}, "pool": [pool]}), Some("p")),
    ] {
        let life = |has_unknown_field| Life {
            policy: policy.clone(),
            jobs: limited_jobs(),
            pool,
            has_unknown_field,
            ..Life::default()
        };
        assert_same(life(false), life(true)).await;
    }
}
