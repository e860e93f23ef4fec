//! Everything that ends a lease frees its slot, at once and exactly once.

use super::{LimitsEnv, SECOND, request};
use crate::support::json;
use fairgate::store::{Fetch, Heartbeat, Nack};

/// Starts an environment in which worker `w` runs the first of three jobs, in the only slot of their key.
async fn full() -> (LimitsEnv, Vec<String>) {
    let env = LimitsEnv::open().await;
    let jobs = env.push_many(3, "q", json!({"key": "k", "concurrency": 1})).await;
    assert_eq!(lease(&env, 3).await, jobs[..1]);
    assert!(env.fetch("q", 3).await.is_empty());
    (env, jobs)
}

/// Fetches with a reservation of ten seconds.
async fn lease(env: &LimitsEnv, count: usize) -> Vec<String> {
    let fetch = Fetch { visibility_ms: Some(10_000), ..request("w", &["q"], count) };
    env.store().fetch(fetch).await.unwrap().deliver().into_iter().map(|record| record.id).collect()
}

async fn next_is(env: &LimitsEnv, id: &str) {
    env.audit().await;
    assert_eq!(env.fetch("q", 3).await, [id.to_owned()], "one slot, and this job is the first for it");
    assert_eq!(env.limit("k").await.running, 1);
    env.audit().await;
}

async fn nack(env: &LimitsEnv, id: &str, requeue: bool) {
    let error = r#"{"message":"oops"}"#;
    let failure = fairgate::domain::job::Failure::parse("error", Some(error)).unwrap();
    let nack = Nack { job_id: id.to_owned(), worker: None, failure, requeue, idempotency_key: None };
    env.store().nack(nack).await.unwrap();
}

#[tokio::test]
async fn by_an_ack() {
    let (env, jobs) = full().await;
    env.ack(&jobs[0]).await;
    env.ack(&jobs[0]).await; // in vain
    next_is(&env, &jobs[1]).await;
}

#[tokio::test]
async fn by_a_failure() {
    let (env, jobs) = full().await;
    nack(&env, &jobs[0], false).await;
    next_is(&env, &jobs[1]).await;
    env.advance(SECOND).await;
    assert!(env.fetch("q", 3).await.is_empty(), "the retry waits for the slot like any other");
    env.ack(&jobs[1]).await;
    next_is(&env, &jobs[2]).await;
    env.ack(&jobs[2]).await;
    next_is(&env, &jobs[0]).await;
}

#[tokio::test]
async fn by_returning_the_job() {
    let (env, jobs) = full().await;
    nack(&env, &jobs[0], true).await;
    next_is(&env, &jobs[0]).await;
}

#[tokio::test]
async fn by_cancelling_an_active_job_but_not_a_waiting_one() {
    let (env, jobs) = full().await;
    env.store().cancel(&jobs[1]).await.unwrap();
    env.audit().await;
    assert!(env.fetch("q", 3).await.is_empty());
    env.store().cancel(&jobs[0]).await.unwrap();
    next_is(&env, &jobs[2]).await;
}

#[tokio::test]
async fn if_all_waiting_jobs_are_cancelled_nothing_is_left() {
    let (env, jobs) = full().await;
    for id in &jobs {
        env.store().cancel(id).await.unwrap();
        env.audit().await;
    }
    assert!(env.fetch("q", 3).await.is_empty());
    assert_eq!((env.limit("k").await.available, env.limit("k").await.running), (0, 0));
}

#[tokio::test]
async fn by_a_reservation_that_expires() {
    let (env, jobs) = full().await;
    env.advance(10 * SECOND - 1).await;
    assert!(env.fetch("q", 3).await.is_empty());
    env.clock.advance(1); // without a tick: the fetch finds it
    next_is(&env, &jobs[0]).await;
}

#[tokio::test]
async fn by_the_death_of_its_worker() {
    let (env, jobs) = full().await;
    let beat = Heartbeat { worker: "w".to_owned(), ..Heartbeat::default() };
    env.store().heartbeat(&beat).await.unwrap();
    env.advance(30 * SECOND + 1).await;
    next_is(&env, &jobs[0]).await;
}

#[tokio::test]
async fn by_a_deregistration() {
    let (env, jobs) = full().await;
    let beat = Heartbeat { worker: "w".to_owned(), ..Heartbeat::default() };
    env.store().heartbeat(&beat).await.unwrap();
    assert_eq!(env.store().deregister("w").await.unwrap(), Some(1));
    next_is(&env, &jobs[0]).await;
}

#[tokio::test]
async fn by_a_client_that_disconnects() {
    let (env, jobs) = full().await;
    env.ack(&jobs[0]).await;
    let leased = env.store().fetch(request("w", &["q"], 1)).await.unwrap();
    assert_eq!(env.limit("k").await.running, 1);
    drop(leased); // never delivered
    crate::support::eventually("the job is handed back", async || env.limit("k").await.running == 0).await;
    next_is(&env, &jobs[1]).await;
}

/// A queue's own limit counts the active jobs of the queue.
#[tokio::test]
async fn of_a_queue_as_well() {
    let env = LimitsEnv::open().await;
    env.set("queue:q", fairgate::store::LimitLayer::Admin, super::concurrency(2), None).await;
    let jobs = env.push_many(6, "q", json!(null)).await;
    assert_eq!(env.fetch("q", 6).await, jobs[..2]);
    env.ack(&jobs[0]).await;
    assert_eq!(lease(&env, 6).await, jobs[2..3]);
    nack(&env, &jobs[1], true).await;
    assert_eq!(env.fetch("q", 6).await, jobs[1..2]);
    env.store().cancel(&jobs[1]).await.unwrap();
    assert_eq!(lease(&env, 6).await, jobs[3..4]);
    env.advance(10 * SECOND).await;
    assert_eq!(env.fetch("q", 6).await, jobs[2..4], "both lapsed");
    assert_eq!(env.limit("queue:q").await.running, 2);
    env.audit().await;
}

/// A job in another queue whose key looks like this queue's limit does not wait for the jobs that run here.
#[tokio::test]
async fn of_a_queue_are_not_those_of_a_key_of_its_name() {
    let env = LimitsEnv::open().await;
    env.set("queue:q", fairgate::store::LimitLayer::Admin, super::concurrency(1), None).await;
    let own = env.push("q", json!(null)).await;
    let other = env.push("other", json!({"key": "queue:q"})).await;
    assert_eq!(env.fetch_from(&["q", "other"], 5).await, [own.clone(), other]);
    let waiting = env.push("q", json!(null)).await;
    assert!(env.fetch("q", 5).await.is_empty());
    env.ack(&own).await;
    assert_eq!(env.fetch("q", 5).await, [waiting]);
    env.audit().await;
}
