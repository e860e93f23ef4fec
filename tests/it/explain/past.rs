//! Jobs that run or have ended: the time spent in each stage.

use super::*;

/// The names and durations of the stages, in order.
async fn stages(app: &TestApp, id: &str) -> (Vec<(String, u64)>, u64) {
    let shown = explain(&app.client, id).await;
    assert_eq!((shown.at("/waiting"), shown.at("/binding")), (&json!(false), &Value::Null));
    let stages = shown.at("/stages").as_array().expect("stages").clone();
    let one = |stage: &Value| (stage["name"].as_str().unwrap().to_owned(), stage["ms"].as_u64().unwrap());
    (stages.iter().map(one).collect(), shown.at("/total_ms").as_u64().expect("a total"))
}

fn expected(stages: &[(&str, u64)]) -> Vec<(String, u64)> {
    stages.iter().map(|(name, ms)| ((*name).to_owned(), *ms)).collect()
}

#[tokio::test]
async fn a_planned_job_was_staged_then_queued_then_running() {
    let app = planned(|rule| by_hand(rule, 5)).await;
    app.client.post("/v1/admin/planner/r/pause", json!({})).await.expect(200);
    let id = app.client.enqueue(job("acme")).await;
    app.clock.advance(3000);
    app.client.post("/v1/admin/planner/r/resume", json!({})).await.expect(200);
    run_round(&app).await;
    app.clock.advance(500);
    app.client.fetch("q", 1).await;
    app.clock.advance(200);
    let running = [("staged", 3000), ("queued", 500), ("running", 200)];
    assert_eq!(stages(&app, &id).await, (expected(&running), 3700));
    app.clock.advance(50);
    app.client.ack(&id).await.expect(200);
    app.clock.advance(HOUR);
    let ended = [("staged", 3000), ("queued", 500), ("running", 250)];
    assert_eq!(stages(&app, &id).await, (expected(&ended), 3750));
    assert_eq!(explain(&app.client, &id).await.text_at("/summary"), "The job does not wait; it is completed.");
}

#[tokio::test]
async fn a_retried_job_names_its_earlier_attempts_and_the_wait_between() {
    let app = start(|_| {}).await;
    let retry = json!({"initial_interval": "PT10S", "jitter": false});
    let id = app.client.enqueue(json!({"type": "a.b", "args": [], "queue": "q", "retry": retry})).await;
    app.client.fetch("q", 1).await;
    app.clock.advance(700);
    app.client.nack(&id).await.expect(200);
    app.advance(10_000).await;
    app.clock.advance(300);
    app.client.fetch("q", 1).await;
    app.clock.advance(40);
    app.client.ack(&id).await.expect(200);
    let all = [("earlier_attempts", 700), ("waiting_for_retry", 10_000), ("queued", 300), ("running", 40)];
    assert_eq!(stages(&app, &id).await, (expected(&all), 11_040));
}

#[tokio::test]
async fn a_job_that_never_ran_has_only_the_stages_before() {
    let app = start(|_| {}).await;
    let id = app.client.enqueue(json!({"type": "a.b", "args": [], "scheduled_at": "2027-01-15T09:00:00Z"})).await;
    app.clock.advance(2000);
    app.client.delete(&format!("/v1/jobs/{id}")).await.expect(200);
    let (stages, total) = stages(&app, &id).await;
    assert_eq!(stages.iter().map(|(_, ms)| ms).sum::<u64>(), 2000);
    assert_eq!((stages[0].0.as_str(), total), ("scheduled", 2000));
}
