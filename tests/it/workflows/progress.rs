//! Progress of workflows.

use super::*;

async fn progress(client: &Client, id: &str) -> (f64, Vec<Value>) {
    let answer = client.get(&format!("/v1/workflows/{id}/progress")).await.expect(200);
    assert_eq!((answer.at("/workflow_id"), answer.header("cache-control")), (&json!(id), "no-cache"));
    let reached = answer.at("/progress").as_f64().unwrap();
    assert_eq!(answer.header("x-ojs-progress").parse::<f64>().unwrap(), reached);
    let steps = answer.at("/steps").as_array().unwrap().iter();
    (reached, steps.map(|step| json!([step["state"], step["progress"]])).collect())
}

async fn report(client: &Client, job: &Value, progress: f64) {
    let body = json!({"progress": progress, "data": {"rows": 3}}).to_string();
    client.send("PUT", &format!("/v1/jobs/{}/progress", id(job)), Some(body)).await.expect(200);
}

#[tokio::test]
async fn the_progress_of_a_chain_is_the_average_of_its_steps() {
    let app = app().await;
    let client = &app.client;
    let id = begin(client, chain(vec![job("a"), group(jobs(&["b", "c"])), job("d")])).await;
    let waiting = json!(["waiting", null]);
    assert_eq!(
        progress(client, &id).await,
        (0.0, vec![json!(["pending", null]), waiting.clone(), waiting.clone(), waiting.clone()])
    );
    pass(client, "a").await;
    let middle = taken(client).await;
    report(client, &middle[0], 0.5).await;
    let (reached, steps) = progress(client, &id).await;
    assert_eq!(steps, [json!(["completed", 1.0]), json!(["active", 0.5]), json!(["active", null]), waiting]);
    assert!((reached - (1.0 + 0.25) / 3.0).abs() < 1e-9, "{reached}");
    let shown = client.get(&format!("/v1/workflows/{id}/progress")).await;
    assert_eq!(shown.at("/steps/1/data"), &json!({"rows": 3}));
    assert_eq!(shown.text_at("/steps/1/job_id"), super::id(&middle[0]));
    // Progress starts again with a new attempt.
    client.nack(super::id(&middle[0])).await.expect(200);
    for job in &middle[1..] {
        finish(client, job, json!(1)).await;
    }
    client.delete(&format!("/v1/workflows/{id}")).await.expect(200);
    let (reached, steps) = progress(client, &id).await;
    assert_eq!(steps.last(), Some(&json!(["cancelled", null])));
    assert!(reached < 1.0);
}

#[tokio::test]
async fn the_progress_of_a_batch_is_its_share_of_successful_jobs() {
    let app = app().await;
    let client = &app.client;
    let id = begin(client, batch(jobs(&["a", "b"]), json!({"on_complete": job("z")}))).await;
    let both = taken(client).await;
    report(client, &both[1], 0.9).await;
    assert_eq!(progress(client, &id).await.0, 0.0);
    finish(client, &both[0], json!(1)).await;
    assert_eq!(progress(client, &id).await.0, 0.5);
    finish(client, &both[1], json!(1)).await;
    pass(client, "z").await;
    assert_eq!(progress(client, &id).await, (1.0, vec![json!(["completed", 1.0]); 3]));
    client.get("/v1/workflows/none/progress").await.expect(404);
}
