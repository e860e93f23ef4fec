//! Fetch and ack: order of jobs, repeated acks, and acks of several jobs.

use super::{NOBODY, NOON, SECOND};
use crate::support::{TestApp, json};

#[tokio::test]
async fn jobs_of_one_priority_leave_in_the_order_of_their_arrival() {
    let app = TestApp::start_at(NOON).await;
    let mut expected = Vec::new();
    for _ in 0..30 {
        expected.push(app.client.enqueue_into("q").await); // all in the same millisecond
    }
    let mut got = app.client.fetch("q", 7).await.job_ids();
    got.extend(app.client.fetch("q", 1).await.job_ids());
    got.extend(app.client.fetch("q", 64).await.job_ids());
    assert_eq!(got, expected);
}

#[tokio::test]
async fn higher_priorities_leave_first() {
    let app = TestApp::start_at(NOON).await;
    let mut by_priority = Vec::new();
    for priority in [0, 5, -100, 100, 5, 0] {
        let job = json!({"type": "test.job", "args": [], "options": {"queue": "q", "priority": priority}});
        by_priority.push((priority, app.client.enqueue(job).await));
    }
    by_priority.sort_by_key(|(priority, _)| -priority); // stable: arrival order inside one priority
    let expected: Vec<String> = by_priority.into_iter().map(|(_, id)| id).collect();
    assert_eq!(app.client.fetch("q", 100).await.job_ids(), expected);
}

#[tokio::test]
async fn queues_are_emptied_from_left_to_right() {
    let app = TestApp::start_at(NOON).await;
    let (low, high) = (app.client.enqueue_into("low").await, app.client.enqueue_into("high").await);
    let body = json!({"queues": ["high", "nothing", "low"], "count": 5});
    assert_eq!(app.client.post("/v1/workers/fetch", body).await.expect(200).job_ids(), [high, low]);
}

#[tokio::test]
async fn a_batch_is_stored_whole_or_not_at_all() {
    let app = TestApp::start_at(NOON).await;
    let taken = app.client.enqueue_into("q").await;
    let job = json!({"type": "test.job", "args": [1], "options": {"queue": "b"}});
    let with_taken = json!({"jobs": [job, job, {"id": taken, "type": "test.job", "args": []}]});
    let refused = app.client.post("/v1/jobs/batch", with_taken).await.expect(409);
    assert_eq!((refused.text_at("/error/code"), refused.at("/error/details/index")), ("duplicate", &json!(2)));
    assert!(app.client.fetch("b", 10).await.job_ids().is_empty());
    let stored = app.client.post("/v1/jobs/batch", json!({"jobs": vec![job; 1000]})).await.expect(201);
    assert_eq!(stored.at("/count"), &json!(1000));
    assert_eq!(app.client.fetch("b", 1000).await.job_ids(), stored.job_ids(), "in the order of the request");
}

#[tokio::test]
async fn a_fetch_with_an_id_is_replayed_and_not_repeated() {
    let app = TestApp::start_at(NOON).await;
    let expected = [app.client.enqueue_into("q").await, app.client.enqueue_into("q").await];
    app.client.enqueue_into("q").await;
    let body = json!({"queues": ["q"], "count": 2, "worker_id": "w1", "fetch_id": "f-1"});
    let first = app.client.post("/v1/workers/fetch", body.clone()).await.expect(200);
    assert_eq!(first.job_ids(), expected);
    app.client.ack(&expected[0]).await.expect(200);
    let again = app.client.post("/v1/workers/fetch", body).await.expect(200);
    assert_eq!(again.job_ids(), [expected[1].clone()], "what is still held; nothing new");
    assert_eq!(again.at("/jobs/0/attempt"), &json!(1));
}

#[tokio::test]
async fn a_second_ack_is_a_conflict_unless_it_carries_the_same_key() {
    let app = TestApp::start_at(NOON).await;
    let (first, second) = (app.client.enqueue_into("q").await, app.client.enqueue_into("q").await);
    app.client.fetch("q", 2).await;
    app.client.ack(&first).await.expect(200);
    app.client.ack(&first).await.expect(409);

    let ack = json!({"job_id": second, "result": {"n": 1}}).to_string();
    let send = async |key| {
        let headers = [("idempotency-key", key)];
        app.client.try_send("POST", "/v1/workers/ack", &headers, Some(ack.clone())).await.unwrap()
    };
    let original = send("k1").await.expect(200);
    app.clock.advance(SECOND);
    let replayed = send("k1").await.expect(200);
    assert_eq!(replayed.at("/job"), original.at("/job"), "the first response again");
    send("k2").await.expect(409);
}

#[tokio::test]
async fn several_jobs_are_acked_in_one_request_each_with_its_own_result() {
    let app = TestApp::start_at(NOON).await;
    let id = app.client.enqueue_into("q").await;
    app.client.fetch("q", 1).await;
    let body = json!({"acks": [{"job_id": id, "result": 7}, {"job_id": NOBODY}, {"job_id": 5}]});
    let answer = app.client.post("/v1/workers/ack", body).await.expect(200);
    assert_eq!(answer.at("/results/0/state"), "completed");
    assert_eq!(answer.at("/results/1/error/code"), "not_found");
    assert_eq!(answer.at("/results/2/error/details/field"), "acks[2].job_id");
    assert_eq!(app.client.job(&id).await["result"], 7);
}
