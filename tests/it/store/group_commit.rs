//! Concurrent requests are sent to Redis as one call, and an invalid request affects only itself.

use crate::support::{TestApp, json};
use futures_util::future::join_all;

/// The number of script calls according to Redis.
async fn script_calls(app: &TestApp) -> u64 {
    let stats: String = app.redis.command(&["INFO", "commandstats"]).await;
    let calls = |name: &str| {
        let line = stats.lines().find(|line| line.starts_with(&format!("cmdstat_{name}:")))?;
        line.split_once("calls=")?.1.split(',').next()?.parse::<u64>().ok()
    };
    calls("fcall").unwrap_or(0)
}

/// Starts an app without the tick, whose calls would be counted as well.
async fn quiet_app() -> TestApp {
    TestApp::start_with(Default::default(), |config| config.server.roles = vec![fairgate::config::Role::Api]).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_four_enqueues_at_once_cost_few_calls() {
    let app = quiet_app().await;
    app.client.enqueue_into("warm").await;
    let before = script_calls(&app).await;
    let ids = join_all((0..64).map(|_| app.client.enqueue_into("q"))).await;
    let calls = script_calls(&app).await - before;
    assert!(calls <= 24, "64 concurrent enqueues took {calls} script calls");

    let mut fetched = app.client.fetch("q", 64).await.job_ids();
    let mut expected = ids.clone();
    fetched.sort();
    expected.sort();
    assert_eq!(fetched, expected, "every one of them is there");

    let before = script_calls(&app).await;
    for answer in join_all(ids.iter().map(|id| app.client.ack(id))).await {
        answer.expect(200);
    }
    let calls = script_calls(&app).await - before;
    assert!(calls <= 24, "64 concurrent acks took {calls} script calls");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fetches_that_go_together_each_get_what_they_ask_for() {
    let app = quiet_app().await;
    let of_a = join_all((0..64).map(|_| app.client.enqueue_into("a"))).await;
    let of_b = join_all((0..64).map(|_| app.client.enqueue_into("b"))).await;
    // Some requests equal the one before, in any order, and some do not.
    let asked = [("a", 1), ("a", 1), ("b", 2), ("b", 1), ("b", 1), ("a", 3), ("a", 3), ("b", 2)].repeat(4);
    let answers = join_all(asked.iter().map(|(queue, count)| app.client.fetch(queue, *count))).await;
    for ((queue, count), answer) in asked.iter().zip(answers) {
        let (ids, own) = (answer.job_ids(), if *queue == "a" { &of_a } else { &of_b });
        assert_eq!(ids.len(), *count, "jobs of {queue}");
        assert!(ids.iter().all(|id| own.contains(id)), "{ids:?} are all of {queue}");
    }
}

#[tokio::test]
async fn a_single_request_is_one_call() {
    let app = quiet_app().await;
    app.client.enqueue_into("q").await;
    let before = script_calls(&app).await;
    app.client.enqueue_into("q").await;
    assert_eq!(script_calls(&app).await - before, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_invalid_request_in_a_group_affects_only_itself() {
    let app = quiet_app().await;
    let taken = app.client.enqueue_into("q").await;
    let damaged = app.client.enqueue_into("broken").await;
    // A key of the wrong type makes every command on this job fail inside the script.
    app.redis.command::<()>(&["DEL", &format!("fg:{{default}}:job:{damaged}")]).await;
    app.redis.command::<()>(&["HSET", &format!("fg:{{default}}:job:{damaged}"), "not", "a string"]).await;

    let good = join_all((0..20).map(|_| app.client.enqueue_into("q")));
    let duplicate = app.client.post("/v1/jobs", json!({"id": taken, "type": "test.job", "args": []}));
    let broken = app.client.ack(&damaged);
    let missing = app.client.ack("019461a8-1a2b-7c3d-8e4f-5a6b7c8d9e0f");
    let (good, duplicate, broken, missing) = tokio::join!(good, duplicate, broken, missing);
    assert_eq!(good.len(), 20);
    assert_eq!(duplicate.expect(409).text_at("/error/code"), "duplicate");
    assert_eq!(broken.expect(500).text_at("/error/code"), "backend_error");
    assert_eq!(missing.expect(404).text_at("/error/code"), "not_found");
    assert_eq!(app.client.fetch("q", 100).await.job_ids().len(), 21);
}

/// An answer that fails inside the script, after it has changed counts, leaves those of the others as they are.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counts_of_a_failed_answer_are_reverted_and_those_of_its_group_are_kept() {
    let app = quiet_app().await;
    let ordinary = join_all((0..30).map(|_| app.client.enqueue_into("q"))).await;
    let unique = json!({"type": "test.job", "args": [], "options": {"queue": "q", "unique": {"keys": ["type"]}}});
    let broken = app.client.enqueue(unique).await;
    assert_eq!(app.client.fetch("q", 31).await.job_ids().len(), 31);
    // The index of unique jobs is read after the counts were changed.
    let index = app.redis.keys_with("unique:").await.pop().expect("the index of the unique job");
    app.redis.command::<()>(&["DEL", &index]).await;
    app.redis.command::<()>(&["SET", &index, "not a sorted set"]).await;

    let before = script_calls(&app).await;
    let ids = ordinary[..15].iter().chain([&broken]).chain(&ordinary[15..]);
    let statuses: Vec<u16> =
        join_all(ids.map(|id| app.client.ack(id))).await.iter().map(|answer| answer.status).collect();
    assert!(script_calls(&app).await - before < 31, "the answers went in groups");
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 30, "{statuses:?}");
    assert_eq!(statuses[15], 500);
    let stats = app.client.get("/v1/queues/q/stats").await.expect(200);
    assert_eq!((stats.at("/queue/active"), stats.at("/queue/completed")), (&json!(1), &json!(30)));
    assert_eq!(app.client.state(&broken).await, "active");
}

/// One script call leases fewer jobs from many queues; a request still gets as many as it asks for.
#[tokio::test]
async fn a_fetch_over_many_queues_gets_all_that_it_asks_for() {
    let app = TestApp::start().await;
    let queues: Vec<String> = (0..100).map(|number| format!("q{number}")).collect();
    for queue in &queues {
        app.client.enqueue_into(queue).await;
    }
    let fetch = async |count: usize| {
        let body = json!({"queues": queues, "count": count, "worker_id": "w"});
        app.client.post("/v1/workers/fetch", body).await.expect(200).job_ids().len()
    };
    assert_eq!((fetch(70).await, fetch(64).await, fetch(1).await), (70, 30, 0));
}
