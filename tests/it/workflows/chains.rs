//! Chains: one step after the other.

use super::*;
use crate::support::{NOON, eventually};

#[tokio::test]
async fn steps_run_in_order_and_each_gets_the_results_of_those_before() {
    let app = app().await;
    let client = &app.client;
    let answer = client.post("/v1/workflows", chain(jobs(&["a", "b", "c"]))).await.expect(201);
    let id = answer.text_at("/workflow/id").to_owned();
    assert_eq!(answer.header("location"), format!("/ojs/v1/workflows/{id}"));
    assert_eq!(answer.text_at("/workflow/state"), "running");
    assert_eq!((answer.at("/workflow/steps_total"), answer.at("/workflow/steps_completed")), (&json!(3), &json!(0)));
    assert_eq!(states(answer.at("/workflow")), ["pending", "waiting", "waiting"]);

    let first = take(client, "a").await;
    assert_eq!((first["workflow_id"].as_str(), first.get("parent_results")), (Some(id.as_str()), None));
    assert_eq!(states(&show(client, &id).await), ["active", "waiting", "waiting"]);
    finish(client, &first, json!({"n": 1})).await;
    let second = take(client, "b").await;
    assert_eq!(second["parent_results"], json!([{"n": 1}]));
    client.post("/v1/workers/ack", json!({"job_id": super::id(&second)})).await.expect(200);
    let third = take(client, "c").await;
    assert_eq!(third["parent_results"], json!([{"n": 1}, null]), "a step without a result gives null");
    assert_eq!(client.job(super::id(&third)).await["parent_results"], third["parent_results"], "GET shows the same");
    let half = show(client, &id).await;
    assert_eq!((&half["steps_completed"], half["state"].as_str()), (&json!(2), Some("running")));
    finish(client, &third, json!("end")).await;

    let whole = show(client, &id).await;
    assert_eq!((whole["state"].as_str(), &whole["steps_completed"]), (Some("completed"), &json!(3)));
    assert_eq!(states(&whole), ["completed", "completed", "completed"]);
    assert_eq!(whole["steps"][0]["result"], json!({"n": 1}));
    assert_eq!(whole["steps"][2]["job_id"], third["id"]);
    assert_eq!(whole["name"], "a chain");
    assert_eq!(whole["metadata"]["completed_count"], 3);
    for time in ["created_at", "started_at", "completed_at"] {
        assert!(whole[time].is_string() && whole["metadata"][time] == whole[time], "{time}: {whole}");
    }
    assert!(taken(client).await.is_empty());
}

#[tokio::test]
async fn results_are_passed_byte_for_byte() {
    let app = app().await;
    begin(&app.client, chain(jobs(&["a", "b"]))).await;
    let first = take(&app.client, "a").await;
    let result = r#"{"x": 1.0, "y":1e308,"x":[ ],"big":123456789012345678901234567890,"é":"\u00e9"}"#;
    let body = format!(r#"{{"job_id":{},"result":{result}}}"#, first["id"]);
    app.client.send("POST", "/v1/workers/ack", Some(body)).await.expect(200);
    let answer = app.client.fetch("q", 1).await;
    assert!(answer.text.contains(&format!(r#""parent_results":[{result}]"#)), "{}", answer.text);
}

#[tokio::test]
async fn a_step_that_fails_for_good_ends_the_chain_and_a_retry_does_not() {
    let app = TestApp::start_at(NOON).await;
    let client = &app.client;
    let twice = json!({"type": "test.b", "args": [], "options": {"queue": "q",
        "retry": {"max_attempts": 2, "initial_interval": "PT1S", "jitter": false}}});
    let id = begin(client, chain(vec![job("a"), twice, job("c")])).await;
    pass(client, "a").await;
    let step = take(client, "b").await;
    client.nack(super::id(&step)).await.expect(200);
    let retrying = show(client, &id).await;
    assert_eq!(
        (retrying["state"].as_str(), states(&retrying)),
        (Some("running"), vec!["completed", "pending", "waiting"])
    );
    app.clock.advance(2000);
    let again = take(client, "b").await;
    assert_eq!(again["parent_results"], json!(["a"]));
    assert_eq!(client.nack(super::id(&again)).await.expect(200).text_at("/state"), "discarded");
    let failed = show(client, &id).await;
    assert_eq!(failed["state"], "failed");
    assert_eq!(states(&failed), ["completed", "failed", "cancelled"]);
    assert_eq!((&failed["steps_completed"], &failed["failed_step_index"]), (&json!(1), &json!(1)));
    assert_eq!(failed["failed_job_ids"], json!([again["id"]]));
    assert_eq!(failed["steps"][2].get("job_id"), None, "it was never a job");
    assert!(taken(client).await.is_empty());
}

#[tokio::test]
async fn a_step_that_is_cancelled_or_expires_ends_the_chain() {
    let app = app().await;
    let client = &app.client;
    let cancelled = begin(client, chain(jobs(&["a", "b"]))).await;
    let step = show(client, &cancelled).await["steps"][0]["job_id"].as_str().unwrap().to_owned();
    client.delete(&format!("/v1/jobs/{step}")).await.expect(200);
    let shown = show(client, &cancelled).await;
    assert_eq!((shown["state"].as_str(), states(&shown)), (Some("failed"), vec!["cancelled", "cancelled"]));

    let brief = json!({"type": "test.a", "args": [], "options": {"queue": "q", "expires_at": "+PT0.01S"}});
    let expired = begin(client, chain(vec![brief, job("b")])).await;
    eventually("the step expires", async || state(client, &expired).await == "failed").await;
    assert!(taken(client).await.is_empty());
}

#[tokio::test]
async fn a_step_whose_worker_goes_silent_too_often_ends_the_chain() {
    let app = TestApp::start_at(NOON).await;
    let client = &app.client;
    let id = begin(client, chain(vec![fragile("a"), job("b")])).await;
    let body = json!({"queues": ["q"], "worker_id": "w1", "visibility_timeout_ms": 1000});
    client.post("/v1/workers/fetch", body).await.expect(200);
    app.clock.advance(2000);
    eventually("the lease lapses", async || state(client, &id).await == "failed").await;
    assert!(taken(client).await.is_empty());
}

#[tokio::test]
async fn a_delay_counts_from_the_turn_of_its_step() {
    let app = TestApp::start_at(NOON).await;
    let client = &app.client;
    let later = json!({"type": "test.b", "args": [], "options": {"queue": "q", "delay_until": "+PT10S"}});
    begin(client, chain(vec![job("a"), later])).await;
    app.clock.advance(60_000);
    pass(client, "a").await;
    assert!(taken(client).await.is_empty());
    app.clock.advance(9_999);
    assert!(taken(client).await.is_empty());
    app.clock.advance(1);
    take(client, "b").await;
}

#[tokio::test]
async fn options_of_the_workflow_apply_to_steps_without_them() {
    let app = app().await;
    let steps = json!([{"type": "test.a", "args": []}, {"type": "test.b", "args": [], "options": {"priority": 1}}]);
    let body = json!({"type": "chain", "steps": steps, "meta": {"tenant_id": "acme", "x": [1]},
        "options": {"queue": "q", "priority": 7, "retry": {"max_attempts": 9}}});
    let id = begin(&app.client, body).await;
    let first = pass(&app.client, "a").await;
    assert_eq!((&first["priority"], &first["max_attempts"]), (&json!(7), &json!(9)));
    assert_eq!(first["meta"], json!({"tenant_id": "acme"}));
    let second = take(&app.client, "b").await;
    assert_eq!((&second["priority"], second["meta"]["tenant_id"].as_str()), (&json!(1), Some("acme")));
    assert_eq!(show(&app.client, &id).await["meta"], json!({"tenant_id": "acme", "x": [1]}));
}
