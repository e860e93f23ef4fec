//! Malformed requests of workers.

use super::*;

pub(super) fn all() -> Vec<Row> {
    [fetches(), acks(), nacks(), heartbeats()].into_iter().flatten().collect()
}

fn fetches() -> Vec<Row> {
    let many = format!(r#"{{"queues":[{}]}}"#, ["\"a\""; 257].join(","));
    let long = format!(r#"{{"queues":["a"],"worker_id":"{}"}}"#, "w".repeat(257));
    let mut rows = wrong(
        FETCH,
        &[
            ("{}", "queues"),
            (r#"{"queues":null}"#, "queues"),
            (r#"{"queues":[]}"#, "queues"),
            (r#"{"queues":"default"}"#, "queues"),
            (r#"{"queues":{}}"#, "queues"),
            (r#"{"queues":[1]}"#, "queues"),
            (r#"{"queues":[null]}"#, "queues"),
            (r#"{"queues":["a","B"]}"#, "queues[1]"),
            (r#"{"queues":["a:b"]}"#, "queues[0]"),
            (r#"{"queues":["*"]}"#, "queues[0]"),
            (r#"{"queues":[""]}"#, "queues[0]"),
            (r#"{"queues":["a"],"count":0}"#, "count"),
            (r#"{"queues":["a"],"count":-1}"#, "count"),
            (r#"{"queues":["a"],"count":1.5}"#, "count"),
            (r#"{"queues":["a"],"count":"1"}"#, "count"),
            (r#"{"queues":["a"],"count":1e400}"#, "count"),
            (r#"{"queues":["a"],"worker_id":5}"#, "worker_id"),
            (r#"{"queues":["a"],"worker_id":""}"#, "worker_id"),
            (r#"{"queues":["a"],"worker_id":"w\u0000"}"#, "worker_id"),
            (r#"{"queues":["a"],"worker_id":"w\n1"}"#, "worker_id"),
            (r#"{"queues":["a"],"worker_id":"w\u0085"}"#, "worker_id"),
            (r#"{"queues":["a"],"worker_id":"\udfff"}"#, "worker_id"),
            (r#"{"queues":["a"],"visibility_timeout_ms":0}"#, "visibility_timeout_ms"),
            (r#"{"queues":["a"],"visibility_timeout_ms":-1}"#, "visibility_timeout_ms"),
            (r#"{"queues":["a"],"visibility_timeout_ms":"PT5S"}"#, "visibility_timeout_ms"),
            (r#"{"queues":["a"],"visibility_timeout_ms":31622400001}"#, "visibility_timeout_ms"),
            (r#"{"queues":["a"],"visibility_timeout_ms":1e300}"#, "visibility_timeout_ms"),
            (r#"{"queues":["a"],"wait_ms":-1}"#, "wait_ms"),
            (r#"{"queues":["a"],"wait_ms":1.5}"#, "wait_ms"),
            (r#"{"queues":["a"],"wait_ms":"5"}"#, "wait_ms"),
            (r#"{"queues":["a"],"wait_ms":true}"#, "wait_ms"),
            (r#"{"queues":["a"],"wait_ms":[5]}"#, "wait_ms"),
            (r#"{"queues":["a"],"wait_ms":1e400}"#, "wait_ms"),
            (r#"{"queues":["a"],"fetch_id":""}"#, "fetch_id"),
            (r#"{"queues":["a"],"fetch_id":7}"#, "fetch_id"),
            (r#"{"queues":["a"],"fetch_id":"a\u001fb"}"#, "fetch_id"),
        ],
    );
    rows.push(Row::post("fetch from too many queues", FETCH, many).field("queues"));
    rows.push(Row::post("fetch by a worker whose name is too long", FETCH, long).field("worker_id"));
    rows
}

fn acks() -> Vec<Row> {
    let deep = format!(r#"{{"job_id":"{FREE}","result":{}}}"#, nested(MAX_NESTING));
    let mut rows = job_ids(ACK);
    rows.extend(wrong(
        ACK,
        &[
            (r#"{"acks":{}}"#, "acks"),
            (r#"{"acks":[]}"#, "acks"),
            (r#"{"acks":"all"}"#, "acks"),
            (r#"{"acks":5}"#, "acks"),
        ],
    ));
    rows.push(Row::post("a result nested too deep", ACK, deep).field("result"));
    rows.push(Row::post("ack a job that does not exist", ACK, ack(FREE)).missing("job"));
    rows.push(Row::post("ack a job that is not active", ACK, ack(TAKEN)).is(409, "conflict"));
    rows.push(Row::post("ack by path what does not exist", &format!("/v1/jobs/{FREE}/ack"), "{}").missing("job"));
    let by_path = format!("/v1/jobs/{TAKEN}/ack");
    rows.push(Row::post("ack by path with a bad worker", &by_path, r#"{"worker_id":""}"#).field("worker_id"));
    rows
}

/// Invalid job ids and workers in an ack or nack.
fn job_ids(path: &str) -> Vec<Row> {
    let long = format!(r#"{{"job_id":"{}"}}"#, "a".repeat(129));
    let mut rows = wrong(
        path,
        &[
            ("{}", "job_id"),
            (r#"{"job_id":null}"#, "job_id"),
            (r#"{"job_id":5}"#, "job_id"),
            (r#"{"job_id":""}"#, "job_id"),
            (r#"{"job_id":["a"]}"#, "job_id"),
            (r#"{"job_id":"a\u0000b"}"#, "job_id"),
            (r#"{"job_id":"\ud800"}"#, "job_id"),
        ],
    );
    rows.push(Row::post(format!("an id that is too long for {path}"), path, long).field("job_id"));
    for worker in ["5", "\"\"", "\"w\\u0007\"", "[]"] {
        let body = format!(r#"{{"job_id":"{TAKEN}","worker_id":{worker}}}"#);
        rows.push(Row::post(format!("the worker {worker} for {path}"), path, body).field("worker_id"));
    }
    rows
}

fn nacks() -> Vec<Row> {
    let mut rows = job_ids(NACK);
    for (members, field) in [
        (r#""error":"it broke""#, "error"),
        (r#""error":[]"#, "error"),
        (r#""error":{"message":1}"#, "error.message"),
        (r#""error":{"message":"\ud800"}"#, "error.message"),
        (r#""error":{"code":5}"#, "error.code"),
        (r#""error":{"type":{}}"#, "error.type"),
        (r#""error":{"retryable":"no"}"#, "error.retryable"),
        (r#""requeue":"yes""#, "requeue"),
        (r#""requeue":1"#, "requeue"),
    ] {
        let by_path = format!("/v1/jobs/{TAKEN}/nack");
        rows.push(Row::post(format!("nack by path {members}"), &by_path, format!("{{{members}}}")).field(field));
        let body = format!(r#"{{"job_id":"{TAKEN}",{members}}}"#);
        rows.push(Row::post(format!("nack {members}"), NACK, body).field(field));
    }
    let deep = format!(r#"{{"job_id":"{FREE}","error":{{"details":{}}}}}"#, nested(MAX_NESTING));
    rows.push(Row::post("an error nested too deep", NACK, deep).field("error"));
    rows.push(Row::post("nack a job that does not exist", NACK, ack(FREE)).missing("job"));
    rows.push(Row::post("nack a job that is not active", NACK, ack(TAKEN)).is(409, "conflict"));
    rows
}

fn heartbeats() -> Vec<Row> {
    let mut rows = Vec::new();
    for (members, field) in [
        (r#""state":"sleeping""#, "state"),
        (r#""state":5"#, "state"),
        (r#""active_jobs":"x""#, "active_jobs"),
        (r#""active_jobs":[1]"#, "active_jobs"),
        (r#""active_jobs":-1"#, "active_jobs"),
        (r#""active_jobs":{}"#, "active_jobs"),
        (r#""active_job_ids":"x""#, "active_job_ids"),
        (r#""active_job_ids":[null]"#, "active_job_ids"),
        (r#""job_id":5"#, "job_id"),
        (r#""visibility_timeout_ms":0"#, "visibility_timeout_ms"),
        (r#""visibility_timeout_ms":"1s""#, "visibility_timeout_ms"),
        (r#""queues":"default""#, "queues"),
        (r#""labels":[1]"#, "labels"),
        (r#""concurrency":-1"#, "concurrency"),
        (r#""concurrency":"ten""#, "concurrency"),
    ] {
        for path in [HEARTBEAT, REGISTER] {
            let row = Row::post(format!("{path} {members}"), path, format!(r#"{{"worker_id":"w1",{members}}}"#));
            rows.push(row.field(field));
        }
    }
    for path in [HEARTBEAT, REGISTER] {
        for worker in ["null", "5", "\"\"", "\"a\\u0000\"", "\"a\\u007f\"", "\"\\ud83d\"", "{}"] {
            let body = format!(r#"{{"worker_id":{worker}}}"#);
            rows.push(Row::post(format!("{path} of {worker}"), path, body).field("worker_id"));
        }
        rows.push(Row::post(format!("{path} of nobody"), path, "{}").field("worker_id"));
    }
    rows.extend(wrong(
        REGISTER,
        &[
            (r#"{"worker":"w1"}"#, "worker"),
            (r#"{"worker":[]}"#, "worker"),
            (r#"{"worker":{}}"#, "worker.worker_id"),
            (r#"{"worker":{"worker_id":"w","state":5}}"#, "worker.state"),
        ],
    ));
    rows
}
