//! Crashes, lost replies, dead letters and retention.

use super::*;
use crate::support::{ChaosProxy, Process, TestRedis, eventually};
use fairgate::clock::Clock;
use fairgate::config::{Role, StoreUrl};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;

/// A chain continues after a kill between any two steps, and after a kill together with Redis.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_chain_survives_kills_of_fairgate_and_of_redis() {
    let redis = TestRedis::durable();
    let url = redis.url();
    let arguments = ["--redis", url.as_str()];
    let mut process = Process::serve(&arguments).await;
    let all = ["a", "b", "c", "d"];
    let id = begin(&process.client, chain(vec![job("a"), job("b"), group(jobs(&["c"])), job("d")])).await;
    for (number, name) in all.into_iter().enumerate() {
        let job = take(&process.client, name).await;
        if number == 1 {
            // Accepted jobs are on disk within a second.
            tokio::time::sleep(Duration::from_millis(1100)).await;
            redis.kill();
            eventually("Redis is back", async || {
                process.client.try_send("GET", "/ready", &[], None).await.is_ok_and(|answer| answer.status == 200)
            })
            .await;
        }
        process.kill();
        process.restart(&arguments);
        eventually("fairgate is back", async || {
            process.client.try_send("GET", "/ready", &[], None).await.is_ok_and(|answer| answer.status == 200)
        })
        .await;
        finish(&process.client, &job, json!(name)).await;
        process.kill();
        process.restart(&arguments);
        eventually("fairgate is back", async || {
            process.client.try_send("GET", "/ready", &[], None).await.is_ok_and(|answer| answer.status == 200)
        })
        .await;
    }
    let shown = show(&process.client, &id).await;
    assert_eq!((shown["state"].as_str(), &shown["steps_completed"]), (Some("completed"), &json!(4)));
    assert!(taken(&process.client).await.is_empty());
}

async fn behind_proxy() -> (TestApp, ChaosProxy) {
    let redis = Arc::new(TestRedis::start());
    let proxy = ChaosProxy::start(&redis).await;
    let url = proxy.url();
    let app = TestApp::start_on(redis, Clock::System, |config| {
        config.server.roles = vec![Role::Api];
        config.store.url = Some(StoreUrl::parse(&url).unwrap());
    })
    .await;
    (app, proxy)
}

/// Sends a request that is carried out and whose reply is lost, so that it is repeated.
async fn twice(proxy: &ChaosProxy, pattern: &str, request: impl Future<Output = Answer> + Send + 'static) -> Answer {
    proxy.arm(pattern);
    let call: JoinHandle<Answer> = tokio::spawn(request);
    proxy.struck().await;
    proxy.open();
    call.await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn repeated_calls_advance_a_workflow_once() {
    let (app, proxy) = behind_proxy().await;
    let client = app.client.clone();
    // All scripts are loaded before faults are armed.
    let warm = begin(&client, chain(vec![job("a"), fragile("b")])).await;
    pass(&client, "a").await;
    let failing = take(&client, "b").await;
    client.nack(id(&failing)).await.expect(200);
    client.delete(&format!("/v1/workflows/{warm}")).await.expect(409);

    let (sender, body) = (client.clone(), chain(vec![job("a"), group(jobs(&["b", "c"])), fragile("d"), job("never")]));
    let begun = twice(&proxy, "test.never", async move { sender.post("/v1/workflows", body).await }).await.expect(201);
    let workflow = begun.text_at("/workflow/id").to_owned();
    for name in ["a", "bc"] {
        for job in taken(&client).await {
            assert!(name.contains(super::name(&job)), "{job}");
            let (sender, job_id) = (client.clone(), id(&job).to_owned());
            let ack = async move { sender.post("/v1/workers/ack", json!({"job_id": job_id, "result": 1})).await };
            twice(&proxy, id(&job), ack).await.expect(200);
        }
    }
    assert_eq!(show(&client, &workflow).await["steps_completed"], 2);
    let failing = take(&client, "d").await;
    let (sender, job_id) = (client.clone(), id(&failing).to_owned());
    twice(&proxy, id(&failing), async move { sender.nack(&job_id).await }).await.expect(200);
    let shown = show(&client, &workflow).await;
    assert_eq!((shown["state"].as_str(), &shown["metadata"]["failed_count"]), (Some("failed"), &json!(1)));

    let cancelled = begin(&client, group(jobs(&["a", "b"]))).await;
    let (sender, path) = (client.clone(), format!("/v1/workflows/{cancelled}"));
    let answer = twice(&proxy, &cancelled, async move { sender.delete(&path).await }).await.expect(200);
    assert_eq!(answer.text_at("/workflow/state"), "cancelled");
    assert!(taken(&client).await.is_empty());
    let events = client.get("/v1/events?types=workflow.*&limit=1000").await;
    let of = |wanted: &str| {
        let events = events.at("/events").as_array().unwrap().iter().filter(|event| event["subject"] == wanted);
        events
            .map(|event| event["type"].as_str().unwrap().trim_start_matches("workflow.").to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        of(&workflow),
        [
            "created",
            "started",
            "step_completed",
            "job_completed",
            "job_completed",
            "step_completed",
            "step_failed",
            "failed"
        ]
    );
    assert_eq!(of(&cancelled), ["created", "started", "cancelled"]);
}

#[tokio::test]
async fn a_workflow_id_is_stored_once() {
    let app = app().await;
    let own = "019461a8-1a2b-7c3d-8e4f-5a6b7c8d9e0f";
    let body = json!({"id": own, "type": "group", "jobs": jobs(&["a"])});
    assert_eq!(begin(&app.client, body.clone()).await, own);
    let answer = app.client.post("/v1/workflows", body).await.expect(409);
    assert_eq!((answer.text_at("/error/code"), answer.text_at("/error/details/field")), ("duplicate", "id"));
    assert_eq!(taken(&app.client).await.len(), 1);
}

/// A retried dead letter still has its parent results and does not advance its workflow a second time.
#[tokio::test]
async fn a_dead_letter_of_a_workflow_can_be_retried_when_the_workflow_is_gone() {
    let app = TestApp::start_with(Clock::System, |config| {
        config.retention.discarded = Duration::from_millis(100);
        config.retention.completed = Duration::from_millis(100);
    })
    .await;
    let client = &app.client;
    let fatal = json!({"type": "test.b", "args": [], "options": {"queue": "q",
        "retry": {"max_attempts": 1, "on_exhaustion": "dead_letter"}}});
    let workflow = begin(client, chain(vec![job("a"), fatal, job("c")])).await;
    pass(client, "a").await;
    let dead = take(client, "b").await;
    client.nack(id(&dead)).await.expect(200);
    assert_eq!(state(client, &workflow).await, "failed");
    // Finished jobs are kept for at least ten seconds.
    eventually("the workflow is gone", async || client.get(&format!("/v1/workflows/{workflow}")).await.status == 404)
        .await;
    client.send("POST", &format!("/v1/dead-letter/{}/retry", id(&dead)), None).await.expect(200);
    let again = take(client, "b").await;
    assert_eq!(again["parent_results"], json!(["a"]));
    finish(client, &again, json!(1)).await;
    assert!(taken(client).await.is_empty(), "the chain has ended");
    eventually("nothing of it remains", async || app.redis.keys_with(id(&dead)).await.is_empty()).await;
}

#[tokio::test]
async fn a_job_retried_by_hand_does_not_advance_its_workflow_twice() {
    let app = app().await;
    let client = &app.client;
    let fatal = json!({"type": "test.a", "args": [], "options": {"queue": "q",
        "retry": {"max_attempts": 1, "on_exhaustion": "dead_letter"}}});
    let workflow = begin(client, batch(vec![fatal, job("b")], json!({"on_complete": job("complete")}))).await;
    let mine = taken(client).await;
    client.nack(id(&mine[0])).await.expect(200);
    client.send("POST", &format!("/v1/dead-letter/{}/retry", id(&mine[0])), None).await.expect(200);
    pass(client, "a").await;
    let shown = show(client, &workflow).await;
    assert_eq!((&shown["jobs_failed"], &shown["jobs_completed"]), (&json!(1), &json!(0)), "it has ended once");
    finish(client, &mine[1], json!(1)).await;
    pass(client, "complete").await;
    assert_eq!(state(client, &workflow).await, "completed");
}

#[tokio::test]
async fn finished_workflows_are_removed_by_retention_and_running_ones_stay() {
    let app = TestApp::start_with(Clock::System, |config| {
        let short = Duration::from_millis(100);
        (config.retention.completed, config.retention.cancelled, config.retention.discarded) = (short, short, short);
    })
    .await;
    let client = &app.client;
    let slow = begin(client, chain(jobs(&["a", "b", "c"]))).await;
    let step = pass(client, "a").await;
    let waiting = take(client, "b").await;
    let completed = begin(client, group(jobs(&["x"]))).await;
    pass(client, "x").await;
    let failed = begin(client, chain(vec![fragile("y"), job("z")])).await;
    let failing = take(client, "y").await;
    client.nack(id(&failing)).await.expect(200);
    let cancelled = begin(client, group(jobs(&["v", "w"]))).await;
    client.delete(&format!("/v1/workflows/{cancelled}")).await.expect(200);
    eventually("finished jobs are removed", async || {
        let mut left = app.redis.keys_with("workflows").await;
        for id in [&completed, &failed, &cancelled] {
            left.extend(app.redis.keys_with(id).await);
        }
        left.is_empty()
    })
    .await;
    eventually("the first step is gone", async || app.redis.keys_with(id(&step)).await.is_empty()).await;
    assert_eq!(show(client, &slow).await["steps"][0]["result"], "a", "the workflow keeps its result");
    finish(client, &waiting, json!("b")).await;
    assert_eq!(take(client, "c").await["parent_results"], json!(["a", "b"]));
}

#[tokio::test]
async fn no_more_ended_workflows_are_kept_than_jobs() {
    let app = TestApp::start_with(Clock::System, |config| config.retention.max_completed = 3).await;
    let mut ids = Vec::new();
    for _ in 0..6 {
        ids.push(begin(&app.client, group(jobs(&["a"]))).await);
        pass(&app.client, "a").await;
    }
    eventually("the oldest are gone", async || {
        let mut left = 0;
        for id in &ids {
            left += usize::from(!app.redis.keys_with(&format!("workflow:{id}")).await.is_empty());
        }
        left == 3
    })
    .await;
    app.client.get(&format!("/v1/workflows/{}", ids[5])).await.expect(200);
}
