//! Concurrency limits are never exceeded, with any number of workers.

use super::{LimitsEnv, concurrency, job, request};
use crate::support::{TestApp, json};
use fairgate::domain::job::State;
use fairgate::store::{Ack, EventFilter, LimitLayer};
use std::collections::HashSet;
use std::sync::Arc;

/// The maximum and the final number of running jobs, from the events in Redis.
async fn history(app: &TestApp) -> (usize, usize) {
    let page = app.store().events(&EventFilter::default(), None, 100_000).await.unwrap().unwrap();
    let (mut running, mut most) = (HashSet::new(), 0);
    for event in page.events {
        match event.kind.as_str() {
            "job.started" => assert!(running.insert(event.subject.clone()), "{} runs already", event.subject),
            "job.completed" | "job.failed" => assert!(running.remove(&event.subject), "{} did not run", event.subject),
            _ => continue,
        }
        most = most.max(running.len());
    }
    (most, running.len())
}

/// RL-001: 64 concurrent callers, one key,
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_64_concurrent_callers_at_most_7_have_a_job() {
    const JOBS: usize = 600;
    let app = Arc::new(TestApp::start().await);
    let jobs = vec![job("q", 0, json!({"key": "k", "concurrency": 7})); JOBS];
    app.client.post("/v1/jobs/batch", json!({"jobs": jobs})).await.expect(201);
    let callers = (0..64).map(|caller| {
        let app = Arc::clone(&app);
        tokio::spawn(async move {
            let (store, worker) = (app.store(), format!("w{caller}"));
            let mut done = 0;
            loop {
                let jobs = store.fetch(request(&worker, &["q"], 1 + caller % 3)).await.unwrap().deliver();
                if jobs.is_empty() && store.queue_counts("q").await.unwrap()[&State::Completed] == JOBS as i64 {
                    return done;
                }
                for job in jobs {
                    tokio::task::yield_now().await;
                    let (job_id, worker) = (job.id, Some(worker.clone()));
                    store.ack(Ack { job_id, worker, result: None, idempotency_key: None }).await.unwrap();
                    done += 1;
                }
            }
        })
    });
    let done: usize = futures_util::future::join_all(callers).await.into_iter().map(Result::unwrap).sum();
    assert_eq!((done, history(&app).await), (JOBS, (7, 0)));
    super::audit::audit(&app).await;
}

#[tokio::test]
async fn a_limit_holds_inside_one_request_and_inside_a_group_of_requests() {
    let env = LimitsEnv::open().await;
    env.push_many(20, "q", json!({"key": "k", "concurrency": 5})).await;
    let first = env.fetch("q", 20).await;
    assert_eq!(first.len(), 5);
    env.ack_all(&first).await;
    // Sent concurrently, they are one call.
    let store = env.store();
    let requests = (0..10).map(|worker| store.fetch(request(&format!("w{worker}"), &["q"], 2)));
    let leased = futures_util::future::join_all(requests).await;
    let sizes: Vec<usize> = leased.into_iter().map(|leased| leased.unwrap().deliver().len()).collect();
    assert_eq!(sizes.iter().sum::<usize>(), 5, "{sizes:?}");
    assert_eq!(sizes[..2], [2, 2], "in order of arrival: {sizes:?}");
    env.audit().await;
}

/// RL-002: keys are independent of each other.
#[tokio::test]
async fn each_key_has_its_own_slots() {
    let env = LimitsEnv::open().await;
    for key in ["a", "b", "a", "b", "a"] {
        env.push("q", json!({"key": key, "concurrency": 1})).await;
    }
    assert_eq!(env.fetch("q", 10).await.len(), 2);
    env.audit().await;
}

/// RL-003, RL-004: jobs behind a blocked one run; blocked jobs stay available and come first when a slot is free.
#[tokio::test]
async fn a_blocked_job_is_skipped_and_keeps_its_place() {
    let env = LimitsEnv::open().await;
    let limited = env.push_many(3, "q", json!({"key": "k", "concurrency": 1})).await;
    let free = env.push_many(2, "q", json!(null)).await;
    assert_eq!(env.fetch("q", 10).await, [&limited[..1], &free[..]].concat());
    assert_eq!(env.state(&limited[1]).await, "available");
    let late = env.push("q", json!(null)).await;
    env.ack(&limited[0]).await;
    assert_eq!(env.fetch("q", 10).await, [limited[1].clone(), late]);
    env.audit().await;
}

#[tokio::test]
async fn concurrency_0_pauses_a_key() {
    let env = LimitsEnv::open().await;
    let paused = env.push("q", json!({"key": "k", "concurrency": 0})).await;
    assert!(env.fetch("q", 5).await.is_empty());
    env.advance(3_600_000).await;
    assert!(env.fetch("q", 5).await.is_empty(), "not by waiting");
    assert_eq!(env.limit("k").await.waiting(), 1);
    env.set("k", LimitLayer::Override, concurrency(1), None).await;
    assert_eq!(env.fetch("q", 5).await, [paused]);
    env.audit().await;
}

/// The last enqueued limits apply to the key, and lanes that wait under the old ones are checked again.
#[tokio::test]
async fn the_last_enqueued_limits_apply_and_wake_waiting_lanes() {
    let env = LimitsEnv::open().await;
    let jobs = env.push_many(3, "q", json!({"key": "k", "concurrency": 1})).await;
    assert_eq!(env.fetch("q", 5).await, jobs[..1]);
    let more = env.push("other", json!({"key": "k", "concurrency": 3})).await;
    assert_eq!(env.fetch("q", 5).await, jobs[1..]);
    assert!(env.fetch("other", 5).await.is_empty());
    let unsaid = env.push_at("q", 7, json!({"key": "k"})).await;
    assert_eq!(env.limit("k").await.quota, concurrency(3), "a job without numbers changes none");
    env.ack_all(&jobs).await;
    assert_eq!(env.fetch_from(&["q", "other"], 5).await, [unsaid, more]);
    env.audit().await;
}

/// The same if the job with new limits is scheduled, or part of a batch.
#[tokio::test]
async fn limits_of_scheduled_and_batched_jobs_apply() {
    let env = LimitsEnv::open().await;
    let jobs = env.push_many(3, "q", json!({"key": "k", "concurrency": 1})).await;
    assert_eq!(env.fetch("q", 5).await, jobs[..1]);
    let mut later = job("q", 0, json!({"key": "k", "concurrency": 2}));
    later["scheduled_at"] = json!("2030-01-01T00:00:00Z");
    env.client.enqueue(later).await;
    assert_eq!(env.limit("k").await.quota, concurrency(2));
    assert_eq!(env.fetch("q", 5).await, jobs[1..2]);
    let batch = [(3, 5), (0, 4), (-3, 3)];
    let batch = batch.map(|(priority, most)| job("q", priority, json!({"key": "k", "concurrency": most})));
    env.enqueue_all(batch.to_vec()).await;
    assert_eq!(env.limit("k").await.quota, concurrency(3), "the last of a batch");
    env.audit().await;
}
