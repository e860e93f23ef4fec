//! Size limits of workflows, and work per call.

use super::*;
use crate::support::eventually;

fn many(count: usize) -> Vec<Value> {
    (0..count).map(|number| job(&format!("j{number}"))).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_jobs_are_available_at_once_and_one_more_is_refused() {
    let app = app().await;
    let client = &app.client;
    let id = begin(client, group(many(1000))).await;
    let stats = client.get("/v1/queues/q/stats").await.expect(200);
    assert_eq!(stats.at("/queue/available"), &json!(1000));
    for answer in [
        client.post("/v1/workflows", group(many(1001))).await.expect(413),
        client.post("/v1/workflows", chain(vec![group(many(600)), group(many(401))])).await.expect(413),
        client.post("/v1/workflows", batch(many(1000), json!({"on_complete": job("c")}))).await.expect(413),
    ] {
        assert_eq!(
            (answer.text_at("/error/code"), answer.at("/error/max_batch_size")),
            ("BATCH_SIZE_EXCEEDED", &json!(1000))
        );
    }
    assert_eq!(client.get("/v1/queues/q/stats").await.at("/queue/available"), &json!(1000));
    client.delete(&format!("/v1/workflows/{id}")).await.expect(200);
    assert_eq!(client.get("/v1/queues/q/stats").await.at("/queue/available"), &json!(0));
}

/// The tick does what exceeds one call.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_groups_that_begin_at_once_begin_in_portions() {
    let app = app().await;
    let client = &app.client;
    let first = |number: usize| json!({"type": "test.first", "args": [number], "options": {"queue": "first"}});
    let mut ids = Vec::new();
    for number in 0..4 {
        ids.push(begin(client, chain(vec![first(number), group(many(400))])).await);
    }
    let acks: Vec<Value> = client.fetch("first", 4).await.job_ids().iter().map(|id| json!({"job_id": id})).collect();
    client.post("/v1/workers/ack", json!({"acks": acks})).await.expect(200);
    eventually("all have begun", async || {
        client.get("/v1/queues/q/stats").await.at("/queue/available") == &json!(1600)
    })
    .await;
    // Jobs that are not started yet when their workflow is cancelled never start.
    for id in &ids {
        client.delete(&format!("/v1/workflows/{id}")).await.expect(200);
    }
    assert_eq!(client.get("/v1/queues/q/stats").await.at("/queue/available"), &json!(0));
    assert_eq!(app.redis.keys_with("todo").await, Vec::<String>::new());
}

#[tokio::test]
async fn results_beyond_what_a_workflow_keeps_are_passed_by_reference() {
    let app = app().await;
    let client = &app.client;
    let id = begin(client, chain(jobs(&["a", "b", "c", "d", "e", "f"]))).await;
    let large = json!("x".repeat(1_000_000));
    for name in ["a", "b", "c", "d"] {
        let step = take(client, name).await;
        finish(client, &step, large.clone()).await;
    }
    let step = pass(client, "e").await;
    assert!(step["parent_results"].as_array().unwrap().iter().all(|result| *result == large), "4 MiB are kept");
    let last = take(client, "f").await;
    assert_eq!(last["parent_results"][4], "e", "results within the limit are kept");
    finish(client, &last, json!(1)).await;
    assert_eq!(state(client, &id).await, "completed");

    let other = begin(client, chain(jobs(&["g", "h", "i", "j", "k", "l"]))).await;
    let mut fifth = Value::Null;
    for name in ["g", "h", "i", "j", "k"] {
        fifth = take(client, name).await;
        finish(client, &fifth, large.clone()).await;
    }
    let last = take(client, "l").await;
    let reference = format!("/ojs/v1/jobs/{}", super::id(&fifth));
    assert_eq!(last["parent_results"][4], json!({"$ref": reference}));
    assert_eq!(client.get(&reference).await.expect(200).at("/job/result"), &large);
    finish(client, &last, json!(1)).await;
    assert_eq!(state(client, &other).await, "completed");
}
