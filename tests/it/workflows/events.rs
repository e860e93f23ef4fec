//! Events of workflows.

use super::*;

async fn workflow_events(client: &Client, id: &str) -> Vec<(String, Value)> {
    let answer = client.get("/v1/events?types=workflow.*&limit=1000").await.expect(200);
    let events = answer.at("/events").as_array().unwrap().iter().filter(|event| event["subject"] == id);
    events.map(|event| (event["type"].as_str().unwrap().to_owned(), event["data"].clone())).collect()
}

fn kinds(events: &[(String, Value)]) -> Vec<&str> {
    events.iter().map(|(kind, _)| kind.trim_start_matches("workflow.")).collect()
}

#[tokio::test]
async fn a_chain_emits_events_for_each_step() {
    let app = app().await;
    let id = begin(&app.client, chain(vec![job("a"), fragile("b"), job("c")])).await;
    pass(&app.client, "a").await;
    let failing = take(&app.client, "b").await;
    app.client.nack(super::id(&failing)).await.expect(200);
    let events = workflow_events(&app.client, &id).await;
    assert_eq!(kinds(&events), ["created", "started", "step_completed", "step_failed", "failed"]);
    assert!(events.iter().all(|(_, data)| data["workflow_id"] == id.as_str() && data["workflow_name"] == "a chain"));
    assert_eq!(events[1].1["total_steps"], 3);
    assert_eq!((&events[2].1["step_index"], &events[3].1["step_index"]), (&json!(0), &json!(1)));
    assert_eq!((&events[3].1["job_id"], events[3].1["state"].as_str()), (&failing["id"], Some("failed")));
    assert_eq!((&events[4].1["completed_count"], &events[4].1["failed_count"]), (&json!(1), &json!(1)));
    let all = app.client.get("/v1/events?limit=1000").await;
    let types: Vec<&str> =
        all.at("/events").as_array().unwrap().iter().filter_map(|event| event["type"].as_str()).collect();
    let at = |kind: &str| types.iter().position(|other| *other == kind).unwrap();
    assert!(at("job.completed") < at("workflow.step_completed"), "a job ends before its step: {types:?}");
}

#[tokio::test]
async fn a_batch_emits_events_for_each_job_and_its_callbacks() {
    let app = app().await;
    let id = begin(&app.client, batch(jobs(&["a", "b"]), json!({"on_success": job("success")}))).await;
    for job in taken(&app.client).await {
        finish(&app.client, &job, json!(1)).await;
    }
    pass(&app.client, "success").await;
    let events = workflow_events(&app.client, &id).await;
    assert_eq!(kinds(&events), ["created", "started", "job_completed", "job_completed", "callback_fired", "completed"]);
    assert_eq!(events[4].1["callback"], "on_success");

    let cancelled = begin(&app.client, group(jobs(&["a"]))).await;
    app.client.delete(&format!("/v1/workflows/{cancelled}")).await.expect(200);
    assert_eq!(kinds(&workflow_events(&app.client, &cancelled).await), ["created", "started", "cancelled"]);
}
