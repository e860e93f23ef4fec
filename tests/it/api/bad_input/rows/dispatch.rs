//! Malformed requests about pools, scheduling and limits.
//!
//! The pools of [`policy`] are there before the first row, and the worker [`WORKER`] is of pool `a`.

use super::{FETCH, HEARTBEAT, JOBS, MAX_NESTING, REGISTER, Row, job, nested};
use crate::support::{Client, json};
use fairgate::domain::limit::Quota;
use fairgate::domain::pool::{LimitRule, LimitTarget, Policy, Pool, PoolQueue};
use fairgate::domain::tenant::Weight;

const POOLS: &str = "/v1/admin/pools";
const CONFIG: &str = "/v1/admin/scheduling/config";
const WORKER: &str = "pooled";

/// Pools `a` and `b` of three queues each, and a limit on queue `filed`.
pub fn policy() -> Policy {
    let pool = |name: &str| Pool {
        name: name.to_owned(),
        queues: ["1", "2", "3"]
            .map(|number| PoolQueue { queue: format!("{name}{number}"), weight: Weight::ONE })
            .into(),
        isolated: name == "a",
        ..Pool::default()
    };
    let quota = Quota { concurrency: Some(1), ..Quota::default() };
    let limits = vec![LimitRule { target: LimitTarget::Queue("filed".to_owned()), quota }];
    Policy { pools: vec![pool("a"), pool("b")], limits, ..Policy::default() }
}

/// Prepares what further rows need.
pub async fn set_up(client: &Client) {
    let worker = json!({"worker_id": WORKER, "pool": "a"});
    client.post(REGISTER, worker).await.expect(200);
    // The first fetch reads the limit that the file has just set.
    client.fetch("q", 1).await;
}

pub fn all() -> Vec<Row> {
    let groups = [bodies(), pools(), members(), scheduling(), overrides(), queue_limits(), choices()];
    groups.into_iter().flatten().collect()
}

fn put(path: &str, body: &str) -> Row {
    Row { body: Some(body.into()), ..Row::new(format!("PUT {path} {body}"), "PUT", path) }
}

/// A valid value that cannot be applied: 422 with a hint.
fn refused(row: Row, field: &str) -> Row {
    Row { hints: true, ..row.is(422, "validation_error").field(field) }
}

/// Bodies that are not JSON objects.
fn bodies() -> Vec<Row> {
    let mut rows = Vec::new();
    for path in ["/v1/admin/pools/new", CONFIG, "/v1/rate-limits/new", "/v1/admin/queues/new/rate-limit"] {
        for body in ["", "{\"queues\":", "{}{}"] {
            rows.push(put(path, body).unreadable());
        }
        for body in ["[]", "5", "null", "\"all\""] {
            rows.push(put(path, body).field(""));
        }
        rows.push(put(path, &format!(r#"{{"rate":{}}}"#, nested(MAX_NESTING))).field("rate"));
        let form = put(path, r#"{"concurrency":1}"#).header("Content-Type", "text/plain").field("Content-Type");
        rows.push(Row { name: format!("PUT {path} as text"), ..form });
    }
    rows.push(Row::post("POST a pool that is no JSON", POOLS, "{").unreadable());
    rows.push(Row::post("POST a pool that is a list", POOLS, "[]").field(""));
    rows
}

fn pools() -> Vec<Row> {
    let mut rows = Vec::new();
    for (body, field) in [
        ("{}", "queues"),
        (r#"{"queues":null}"#, "queues"),
        (r#"{"queues":[]}"#, "queues"),
        (r#"{"queues":"q"}"#, "queues"),
        (r#"{"queues":{}}"#, "queues"),
        (r#"{"queues":["Q"]}"#, "queues[0]"),
        (r#"{"queues":["q",null]}"#, "queues[1]"),
        (r#"{"queues":["q","q"]}"#, "queues[1]"),
        (r#"{"queues":{"Q":{"weight":1}}}"#, "queues.Q"),
        (r#"{"queues":{"q":{"weight":0}}}"#, "queues.q.weight"),
        (r#"{"queues":{"q":{"weight":-1}}}"#, "queues.q.weight"),
        (r#"{"queues":{"q":{"wieght":1}}}"#, "queues.q.wieght"),
        (r#"{"queues":{"q":null}}"#, "queues.q"),
        (r#"{"queues":["q"],"weights":{"z":1}}"#, "weights.z"),
        (r#"{"queues":["q"],"weights":{"q":0}}"#, "weights.q"),
        (r#"{"queues":["q"],"weights":{"q":-3}}"#, "weights.q"),
        (r#"{"queues":["q"],"weights":{"q":"1"}}"#, "weights.q"),
        (r#"{"queues":["q"],"weights":{"q":null}}"#, "weights.q"),
        (r#"{"queues":["q"],"weights":[1]}"#, "weights"),
        (r#"{"queues":["q"],"concurrency":0}"#, "concurrency"),
        (r#"{"queues":["q"],"concurrency":-1}"#, "concurrency"),
        (r#"{"queues":["q"],"concurrency":1.5}"#, "concurrency"),
        (r#"{"queues":["q"],"concurrency":1000001}"#, "concurrency"),
        (r#"{"queues":["q"],"strategy":"random"}"#, "strategy"),
        (r#"{"queues":["q"],"strategy":5}"#, "strategy"),
        (r#"{"queues":["q"],"isolated":"yes"}"#, "isolated"),
        (r#"{"queues":["q"],"name":"other"}"#, "name"),
        (r#"{"queues":["q"],"stratgy":"strict"}"#, "stratgy"),
        (r#"{"queues":["q"],"starvation_prevention":true}"#, "starvation_prevention"),
        (
            r#"{"queues":["q"],"starvation_prevention":{"rotation_interval":"0s"}}"#,
            "starvation_prevention.rotation_interval",
        ),
        (
            r#"{"queues":["q"],"starvation_prevention":{"rotation_interval":"soon"}}"#,
            "starvation_prevention.rotation_interval",
        ),
        (
            r#"{"queues":["q"],"starvation_prevention":{"min_dispatch_ratio":-0.1}}"#,
            "starvation_prevention.min_dispatch_ratio",
        ),
        (
            r#"{"queues":["q","r","s"],"starvation_prevention":{"enabled":true,"min_dispatch_ratio":0.4}}"#,
            "starvation_prevention.min_dispatch_ratio",
        ),
        (r#"{"queues":["q"],"starvation_prevention":{"max_consecutive":-1}}"#, "starvation_prevention.max_consecutive"),
        (
            r#"{"queues":["q"],"starvation_prevention":{"priority_aging":{"every":"0s"}}}"#,
            "starvation_prevention.priority_aging.every",
        ),
        (r#"{"queues":["q"],"tenant_fairness":{"strategy":"fair"}}"#, "tenant_fairness.strategy"),
        (r#"{"queues":["q"],"tenant_fairness":{"weights":{"t":0}}}"#, "tenant_fairness.weights.t"),
        (r#"{"queues":["q"],"tenant_fairness":{"default_weight":-1}}"#, "tenant_fairness.default_weight"),
        (r#"{"queues":["a1"]}"#, "queues"),
        (r#"{"queues":["b2"],"isolated":true}"#, "isolated"),
        (r#"{"pool":{"queues":["Q"]}}"#, "pool.queues[0]"),
        (r#"{"pool":{"queues":["q"]},"queues":["r"]}"#, "queues"),
        (r#"{"pool":5,"queues":["q"]}"#, "pool"),
    ] {
        rows.push(refused(put("/v1/admin/pools/new", body), field));
    }
    for name in ["a%20b", "-a", "a:b", "%C3%A4"] {
        rows.push(refused(put(&format!("{POOLS}/{name}"), r#"{"queues":["q"]}"#), "name"));
    }
    let post = |body: &str| Row::post(format!("POST a pool {body}"), POOLS, body);
    rows.push(refused(post(r#"{"queues":["q"]}"#), "name"));
    rows.push(refused(post(r#"{"name":null,"queues":["q"]}"#), "name"));
    rows.push(refused(post(r#"{"name":"a b","queues":["q"]}"#), "name"));
    rows.push(refused(post(r#"{"pool":{"name":5,"queues":["q"]}}"#), "pool.name"));
    let taken = post(r#"{"name":"a","queues":["q"]}"#).is(409, "duplicate").field("name");
    rows.push(Row { hints: true, ..taken.with("/error/details/pool", "a") });
    let filed = Row::new("DELETE a pool of the file", "DELETE", "/v1/admin/pools/a").is(409, "conflict");
    rows.push(Row { hints: true, ..filed.with("/error/details/pool", "a") });
    rows
}

/// Workers that name an unknown pool or another pool than their own.
fn members() -> Vec<Row> {
    let mut rows = Vec::new();
    for (path, body) in [
        (FETCH, r#"{"queues":["a1"],"worker_id":"w9","pool":"c"}"#),
        (FETCH, r#"{"pool":"c"}"#),
        (FETCH, r#"{"queues":["a1"],"pool":""}"#),
        (HEARTBEAT, r#"{"worker_id":"w9","pool":"c"}"#),
        (REGISTER, r#"{"worker_id":"w9","pool":"c"}"#),
        (REGISTER, r#"{"worker":{"id":"w9","pool":"c"}}"#),
    ] {
        let row = Row::post(format!("an unknown pool: {path} {body}"), path, body).missing("pool").field("pool");
        rows.push(Row { hints: true, ..row });
    }
    for (path, body) in [
        (FETCH, format!(r#"{{"queues":["b1"],"worker_id":"{WORKER}","pool":"b"}}"#)),
        (FETCH, format!(r#"{{"worker_id":"{WORKER}","pool":"b"}}"#)),
        (HEARTBEAT, format!(r#"{{"worker_id":"{WORKER}","pool":"b"}}"#)),
    ] {
        let row = Row::post(format!("another pool: {path} {body}"), path, body).is(409, "conflict").field("pool");
        rows.push(Row { hints: true, ..row.with("/error/details/pool", "a") });
    }
    for path in [FETCH, HEARTBEAT, REGISTER] {
        for pool in ["5", "[]", "{}"] {
            let body = format!(r#"{{"queues":["b1"],"worker_id":"w9","pool":{pool}}}"#);
            rows.push(Row::post(format!("the pool {pool} for {path}"), path, body).field("pool"));
        }
    }
    rows
}

fn scheduling() -> Vec<Row> {
    let mut rows = Vec::new();
    for (body, field) in [
        (r#"{"starvation":{}}"#, "starvation"),
        (r#"{"starvation_prevention":5}"#, "starvation_prevention"),
        (r#"{"starvation_prevention":{"enabled":1}}"#, "starvation_prevention.enabled"),
        (r#"{"starvation_prevention":{"rotation_interval":"50ms"}}"#, "starvation_prevention.rotation_interval"),
        (r#"{"starvation_prevention":{"rotation_interval":30}}"#, "starvation_prevention.rotation_interval"),
        (r#"{"starvation_prevention":{"min_dispatch_ratio":1.5}}"#, "starvation_prevention.min_dispatch_ratio"),
        // Three queues of pool `a` cannot have a ratio of 0.4 each.
        (
            r#"{"starvation_prevention":{"enabled":true,"min_dispatch_ratio":0.4}}"#,
            "starvation_prevention.min_dispatch_ratio",
        ),
        (r#"{"tenant_fairness":[]}"#, "tenant_fairness"),
        (r#"{"tenant_fairness":{"strategy":"lottery"}}"#, "tenant_fairness.strategy"),
        (r#"{"tenant_fairness":{"weights":{"acme":-1}}}"#, "tenant_fairness.weights.acme"),
        (r#"{"tenant_fairness":{"weights":{"":1}}}"#, "tenant_fairness.weights."),
        (r#"{"tenant_fairness":{"default_weight":0}}"#, "tenant_fairness.default_weight"),
        (r#"{"queues":[]}"#, "queues"),
        (r#"{"queues":{"Q":{"tenant_fairness":{}}}}"#, "queues.Q"),
        (r#"{"queues":{"q":{"tenant_fairness":{"strategy":1}}}}"#, "queues.q.tenant_fairness.strategy"),
        (r#"{"queues":{"q":{"weight":1}}}"#, "queues.q.weight"),
    ] {
        rows.push(refused(put(CONFIG, body), field));
    }
    rows
}

fn overrides() -> Vec<Row> {
    let mut rows = Vec::new();
    for (body, field) in [
        ("{}", ""),
        (r#"{"concurrency":null,"rate":null}"#, ""),
        (r#"{"expires_at":"+PT1M"}"#, ""),
        (r#"{"concurrency":-1}"#, "concurrency"),
        (r#"{"concurrency":"0"}"#, "concurrency"),
        (r#"{"concurrency":1.5}"#, "concurrency"),
        (r#"{"rate":{"limit":0,"period":"PT1S"}}"#, "rate.limit"),
        (r#"{"rate":{"limit":-5,"period":"PT1S"}}"#, "rate.limit"),
        (r#"{"rate":{"limit":5}}"#, "rate.period"),
        (r#"{"rate":{"limit":5,"period":null}}"#, "rate.period"),
        (r#"{"rate":{"limit":5,"period":"PT0S"}}"#, "rate.period"),
        (r#"{"rate":{"limit":5,"period":"-PT1S"}}"#, "rate.period"),
        (r#"{"rate":{"limit":5,"period":"fortnight"}}"#, "rate.period"),
        (r#"{"rate":{"limit":5,"period":"P32D"}}"#, "rate.period"),
        (r#"{"throttle":{"limit":0,"period":"PT1S"}}"#, "throttle.limit"),
        (r#"{"throttle":5}"#, "throttle"),
        (r#"{"limit":5}"#, "period"),
        (r#"{"concurrency":1,"on_limit":"drop"}"#, "on_limit"),
        (r#"{"concurrency":1,"concurency":2}"#, "concurency"),
        (r#"{"concurrency":1,"expires_at":"2020-01-01T00:00:00Z"}"#, "expires_at"),
        (r#"{"concurrency":1,"expires_at":"2099-01-01T00:00:00"}"#, "expires_at"),
        (r#"{"concurrency":1,"expires_at":"+PT0S"}"#, "expires_at"),
        (r#"{"concurrency":1,"expires_at":"PT1M"}"#, "expires_at"),
        (r#"{"concurrency":1,"expires_at":3600}"#, "expires_at"),
    ] {
        rows.push(refused(put("/v1/rate-limits/new", body), field));
    }
    for key in ["a%20b", "-a", ".a", "a%2Fb", "%C3%A4", "x*", "type:A*", "%00"] {
        rows.push(refused(put(&format!("/v1/rate-limits/{key}"), r#"{"concurrency":1}"#), "key"));
    }
    let long = format!("/v1/rate-limits/{}", "k".repeat(257));
    rows.push(refused(
        Row { name: "PUT a key that is too long".to_owned(), ..put(&long, r#"{"concurrency":1}"#) },
        "key",
    ));
    for (members, field) in [
        (r#""rate_limit":{"key":"a b","concurrency":1}"#, "rate_limit.key"),
        (r#""rate_limit":{"key":"k","concurrency":-1}"#, "rate_limit.concurrency"),
    ] {
        let row = Row::post(format!("a job with {members}"), JOBS, job(members)).is(422, "validation_error");
        rows.push(row.field(field));
    }
    rows
}

fn queue_limits() -> Vec<Row> {
    let mut rows = Vec::new();
    for (body, field) in [
        ("{}", ""),
        (r#"{"rate":null}"#, ""),
        (r#"{"concurrency":-1}"#, "concurrency"),
        (r#"{"limit":0,"period":"minute"}"#, "limit"),
        (r#"{"limit":5,"period":"moment"}"#, "period"),
        (r#"{"concurrency":1,"expires_at":"+PT1M"}"#, "expires_at"),
        (r#"{"concurrency":1,"key":"k"}"#, "key"),
    ] {
        rows.push(refused(put("/v1/admin/queues/new/rate-limit", body), field));
    }
    for name in ["A", "a%20b", "a:b"] {
        rows.push(refused(put(&format!("/v1/admin/queues/{name}/rate-limit"), r#"{"concurrency":1}"#), "name"));
    }
    let filed = Row::new("DELETE a limit of the file", "DELETE", "/v1/admin/queues/filed/rate-limit");
    rows.push(Row { hints: true, ..filed.is(409, "conflict").with("/error/details/queue", "filed") });
    rows
}

/// Strategies and weights of a fetch.
fn choices() -> Vec<Row> {
    let mut rows = Vec::new();
    for (members, field) in [
        (r#""strategy":"random""#, "strategy"),
        (r#""strategy":"""#, "strategy"),
        (r#""weights":{"z":1}"#, "weights.z"),
        (r#""weights":{"q":0}"#, "weights.q"),
        (r#""weights":{"q":-1}"#, "weights.q"),
        (r#""weights":{"q":null}"#, "weights.q"),
        (r#""weights":{"q":"5"}"#, "weights.q"),
        (r#""weights":[5]"#, "weights"),
    ] {
        let body = format!(r#"{{"queues":["q"],{members}}}"#);
        rows.push(refused(Row::post(format!("fetch with {members}"), FETCH, body), field));
    }
    rows.push(Row::post("fetch with a strategy of 5", FETCH, r#"{"queues":["q"],"strategy":5}"#).field("strategy"));
    rows
}
