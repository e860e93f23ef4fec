//! Envelopes are returned byte for byte.

use crate::support::{TestApp, json};

/// The text of `args` in a response.
fn raw_args(text: &str) -> &str {
    let start = text.find("\"args\":").expect("args") + 7;
    let end = text[start..].find(",\"meta\":").expect("meta follows args") + start;
    &text[start..end]
}

#[tokio::test]
async fn args_keep_their_bytes_through_the_whole_life() {
    let app = TestApp::start().await;
    for args in [
        "[]",
        "[1.0]",
        "[1e308,-0,0.10]",
        "[12345678901234567890,123456789012345678901234567890]",
        r#"[{"a":1,"a":2,"b":{}}]"#,
        r#"["\u00e9\ud83d\ude00\/","é😀/"]"#,
        r#"[[],{},[[]],null,false]"#,
        "[ 1 ,\t2 ,\n3 ]",
        r#"["\u0000\u001f"]"#,
    ] {
        let body = format!(r#"{{"type":"test.bytes","args":{args},"options":{{"queue":"bytes"}}}}"#);
        let created = app.client.send("POST", "/v1/jobs", Some(body)).await.expect(201);
        assert_eq!(raw_args(&created.text), args, "created");
        let id = created.text_at("/job/id").to_owned();
        assert_eq!(raw_args(&app.client.get(&format!("/v1/jobs/{id}")).await.text), args, "shown");
        assert_eq!(raw_args(&app.client.fetch("bytes", 1).await.text), args, "fetched");
        assert_eq!(raw_args(&app.client.ack(&id).await.expect(200).text), args, "acked");
    }
}

#[tokio::test]
async fn unknown_attributes_meta_and_results_keep_their_bytes() {
    let app = TestApp::start().await;
    let unknown = r#""x_big":98765432109876543210,"x_list":[],"x\u002dkey":{"a":1.00}"#;
    let meta = r#"{"tenant_id":"acme","dotted.key":[],"n":1.50}"#;
    let body = format!(r#"{{"type":"test.bytes","args":[],"meta":{meta},{unknown}}}"#);
    let id = app.client.send("POST", "/v1/jobs", Some(body)).await.expect(201).text_at("/job/id").to_owned();
    app.client.fetch("default", 1).await;
    let result = r#"{"total":1.0,"ids":[],"huge":12345678901234567890}"#;
    let ack = format!(r#"{{"job_id":"{id}","result":{result}}}"#);
    app.client.send("POST", "/v1/workers/ack", Some(ack)).await.expect(200);
    let shown = app.client.get(&format!("/v1/jobs/{id}")).await.text;
    for part in [unknown, &format!("\"meta\":{meta}"), &format!("\"result\":{result}")] {
        assert!(shown.contains(part), "{part} is missing in {shown}");
    }
}

#[tokio::test]
async fn members_set_by_the_server_are_ignored_in_requests() {
    let app = TestApp::start().await;
    let id = app
        .client
        .enqueue(json!({
            "type": "test.job", "args": [], "state": "completed", "attempt": 7, "created_at": "1999-01-01T00:00:00Z",
            "result": 1, "error": {"message": "no"}, "worker_id": "me", "max_attempts": 99,
        }))
        .await;
    let job = app.client.job(&id).await;
    assert_eq!((&job["state"], &job["attempt"], &job["max_attempts"]), (&json!("available"), &json!(0), &json!(3)));
    assert!(job.get("result").is_none() && job.get("error").is_none() && job.get("worker_id").is_none(), "{job}");
    assert_ne!(job["created_at"], "1999-01-01T00:00:00Z");
}

#[tokio::test]
async fn the_trace_of_the_request_stays_with_its_job() {
    let app = TestApp::start().await;
    let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let headers = [("traceparent", parent), ("tracestate", "a=b")];
    let body = json!({"type": "test.job", "args": [], "meta": {"k": 1}}).to_string();
    let answer = app.client.try_send("POST", "/v1/jobs", &headers, Some(body)).await.unwrap().expect(201);
    let fetched = app.client.fetch("default", 1).await;
    assert_eq!(fetched.at("/jobs/0/meta"), &json!({"traceparent": parent, "tracestate": "a=b", "k": 1}));
    let own = json!({"type": "test.job", "args": [], "meta": {"traceparent": "mine"}}).to_string();
    let kept = app.client.try_send("POST", "/v1/jobs", &headers, Some(own)).await.unwrap().expect(201);
    assert_eq!(kept.text_at("/job/meta/traceparent"), "mine", "a job's own context wins");
    let events = app.client.get("/v1/events?types=job.started").await;
    assert_eq!(events.text_at("/events/0/data/trace_id"), "4bf92f3577b34da6a3ce929d0e0e4736");
    assert_eq!(events.text_at("/events/0/subject"), answer.text_at("/job/id"));
}
