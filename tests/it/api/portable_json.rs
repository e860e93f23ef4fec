//! JSON that some clients cannot parse is refused at every entry point, so that no client loses a response to it.

use crate::support::{TestApp, json};

/// JSON values that parsers disagree about.
const POISON: [&str; 3] = ["1e400", "-1E999", r#""a\ud800b""#];

/// Requests that store a value: method, path, body and the path of the value in it. `@` stands for the value, `ID` for
/// an active job.
const DOORS: [(&str, &str, &str, &str); 17] = [
    ("POST", "/v1/jobs", r#"{"type":"t.j","args":[{"amount":@}]}"#, "args[0].amount"),
    ("POST", "/v1/jobs", r#"{"type":"t.j","args":[],"meta":{"a":{"b":[1,@]}}}"#, "meta.a.b[1]"),
    ("POST", "/v1/jobs", r#"{"type":"t.j","args":[],"options":{"meta":{"a":@}}}"#, "options.meta.a"),
    ("POST", "/v1/jobs", r#"{"type":"t.j","args":[],"options":{"metadata":{"a":@}}}"#, "options.metadata.a"),
    ("POST", "/v1/jobs", r#"{"type":"t.j","args":[],"x_own":[[],@]}"#, "x_own[1]"),
    ("POST", "/v1/jobs", r#"{"type":"t.j","args":[],"unique":{"keys":["type"],"x":@}}"#, "unique.x"),
    ("POST", "/v1/jobs", r#"{"type":"t.j","args":[],"retry":{"max_attempts":2,"x":@}}"#, "retry.x"),
    ("POST", "/v1/jobs/batch", r#"{"jobs":[{"type":"t.j","args":[]},{"type":"t.j","args":[@]}]}"#, "jobs[1].args[0]"),
    ("POST", "/v1/workers/ack", r#"{"job_id":"ID","result":{"total":@}}"#, "result.total"),
    ("POST", "/v1/jobs/ID/ack", r#"{"result":@}"#, "result"),
    ("POST", "/v1/workers/nack", r#"{"job_id":"ID","error":{"message":"m","details":{"a":@}}}"#, "error.details.a"),
    ("POST", "/v1/jobs/ID/nack", r#"{"error":{"message":"m","backtrace":["x",@]}}"#, "error.backtrace[1]"),
    ("PUT", "/v1/jobs/ID/progress", r#"{"progress":0.5,"data":{"a":@}}"#, "data.a"),
    ("PUT", "/v1/jobs/ID/checkpoint", r#"{"state":[@]}"#, "state[0]"),
    ("POST", "/v1/workflows", r#"{"type":"chain","steps":[{"type":"t.j","args":[@]}]}"#, "steps[0].args[0]"),
    (
        "POST",
        "/v1/cron",
        r#"{"name":"c","expression":"@hourly","job_template":{"type":"t.j","args":[@]}}"#,
        "job_template.args[0]",
    ),
    ("POST", "/v1/workers/register", r#"{"worker_id":"w2","queues":["q"],"metadata":{"a":@}}"#, "metadata.a"),
];

#[tokio::test]
async fn json_that_some_clients_cannot_parse_is_refused_with_its_path() {
    let app = TestApp::start().await;
    let active = app.client.enqueue_into("q").await;
    app.client.fetch("q", 1).await;
    for (method, path, body, field) in DOORS {
        for poison in POISON {
            let (path, body) = (path.replace("ID", &active), body.replace("@hourly", "HOURLY").replace('@', poison));
            let body = body.replace("HOURLY", "@hourly").replace("ID", &active);
            let refused = app.client.send(method, &path, Some(body.clone())).await;
            assert_eq!(refused.status, 400, "{method} {path} {body}: {}", refused.text);
            assert_eq!(refused.text_at("/error/details/field"), field, "{body}");
            assert!(refused.text_at("/error/message").contains(field), "{}", refused.text);
        }
    }
    assert_eq!(app.client.state(&active).await, "active", "nothing was taken of a request that was refused");
    assert!(app.client.fetch("default", 10).await.job_ids().is_empty());
}

#[tokio::test]
async fn one_bad_result_of_a_list_does_not_hold_up_the_others() {
    let app = TestApp::start().await;
    let (first, second) = (app.client.enqueue_into("q").await, app.client.enqueue_into("q").await);
    app.client.fetch("q", 2).await;
    let body = format!(r#"{{"acks":[{{"job_id":"{first}","result":[1e400]}},{{"job_id":"{second}","result":1.0}}]}}"#);
    let answer = app.client.send("POST", "/v1/workers/ack", Some(body)).await.expect(200);
    assert_eq!(answer.at("/results/0/error/details/field"), &json!("acks[0].result[0]"));
    assert_eq!(answer.text_at("/results/1/state"), "completed");
    assert_eq!(app.client.state(&first).await, "active");
}
