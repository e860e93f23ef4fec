//! Everything that ends a lease frees its slot, at once and exactly once.

use super::{SECOND, Site, request};
use crate::support::json;
use fairgate::store::{Fetch, Heartbeat, Nack};

/// A site where the first of three jobs holds the only slot of its key, by worker `w`.
async fn full() -> (Site, Vec<String>) {
    let site = Site::open().await;
    let jobs = site.push_many(3, "q", json!({"key": "k", "concurrency": 1})).await;
    assert_eq!(lease(&site, 3).await, jobs[..1]);
    assert!(site.fetch("q", 3).await.is_empty());
    (site, jobs)
}

/// Fetches with a reservation of ten seconds.
async fn lease(site: &Site, count: usize) -> Vec<String> {
    let fetch = Fetch { visibility_ms: Some(10_000), ..request("w", &["q"], count) };
    site.store().fetch(fetch).await.unwrap().deliver().into_iter().map(|record| record.id).collect()
}

async fn next_is(site: &Site, id: &str) {
    site.audit().await;
    assert_eq!(site.fetch("q", 3).await, [id.to_owned()], "one slot, and this job is the first for it");
    assert_eq!(site.limit("k").await.running, 1);
    site.audit().await;
}

async fn nack(site: &Site, id: &str, requeue: bool) {
    let error = r#"{"message":"oops"}"#;
    let failure = fairgate::job::Failure::parse("error", Some(error)).unwrap();
    let nack = Nack { job_id: id.to_owned(), worker: None, failure, requeue, idempotency_key: None };
    site.store().nack(nack).await.unwrap();
}

#[tokio::test]
async fn by_an_ack() {
    let (site, jobs) = full().await;
    site.ack(&jobs[0]).await;
    site.ack(&jobs[0]).await; // in vain
    next_is(&site, &jobs[1]).await;
}

#[tokio::test]
async fn by_a_failure() {
    let (site, jobs) = full().await;
    nack(&site, &jobs[0], false).await;
    next_is(&site, &jobs[1]).await;
    site.advance(SECOND).await;
    assert!(site.fetch("q", 3).await.is_empty(), "the retry waits for the slot like any other");
    site.ack(&jobs[1]).await;
    next_is(&site, &jobs[2]).await;
    site.ack(&jobs[2]).await;
    next_is(&site, &jobs[0]).await;
}

#[tokio::test]
async fn by_handing_back() {
    let (site, jobs) = full().await;
    nack(&site, &jobs[0], true).await;
    next_is(&site, &jobs[0]).await;
}

#[tokio::test]
async fn by_cancelling_an_active_job_but_not_a_waiting_one() {
    let (site, jobs) = full().await;
    site.store().cancel(&jobs[1]).await.unwrap();
    site.audit().await;
    assert!(site.fetch("q", 3).await.is_empty());
    site.store().cancel(&jobs[0]).await.unwrap();
    next_is(&site, &jobs[2]).await;
}

#[tokio::test]
async fn when_everybody_who_waits_is_cancelled_nothing_is_left() {
    let (site, jobs) = full().await;
    for id in &jobs {
        site.store().cancel(id).await.unwrap();
        site.audit().await;
    }
    assert!(site.fetch("q", 3).await.is_empty());
    assert_eq!((site.limit("k").await.available, site.limit("k").await.running), (0, 0));
}

#[tokio::test]
async fn by_a_reservation_that_lapses() {
    let (site, jobs) = full().await;
    site.advance(10 * SECOND - 1).await;
    assert!(site.fetch("q", 3).await.is_empty());
    site.app.clock.advance(1); // without a tick: the fetch finds it
    next_is(&site, &jobs[0]).await;
}

#[tokio::test]
async fn by_the_death_of_its_worker() {
    let (site, jobs) = full().await;
    let beat = Heartbeat { worker: "w".to_owned(), ..Heartbeat::default() };
    site.store().heartbeat(&beat).await.unwrap();
    site.advance(30 * SECOND + 1).await;
    next_is(&site, &jobs[0]).await;
}

#[tokio::test]
async fn by_a_goodbye() {
    let (site, jobs) = full().await;
    let beat = Heartbeat { worker: "w".to_owned(), ..Heartbeat::default() };
    site.store().heartbeat(&beat).await.unwrap();
    assert_eq!(site.store().deregister("w").await.unwrap(), Some(1));
    next_is(&site, &jobs[0]).await;
}

#[tokio::test]
async fn by_a_client_that_is_gone() {
    let (site, jobs) = full().await;
    site.ack(&jobs[0]).await;
    let leased = site.store().fetch(request("w", &["q"], 1)).await.unwrap();
    assert_eq!(site.limit("k").await.running, 1);
    drop(leased); // never delivered
    crate::support::eventually("the job is handed back", async || site.limit("k").await.running == 0).await;
    next_is(&site, &jobs[1]).await;
}

/// A queue's own limit counts what is active in the queue.
#[tokio::test]
async fn of_a_queue_as_well() {
    let site = Site::open().await;
    site.set("queue:q", fairgate::store::Layer::Admin, super::concurrency(2), None).await;
    let jobs = site.push_many(6, "q", json!(null)).await;
    assert_eq!(site.fetch("q", 6).await, jobs[..2]);
    site.ack(&jobs[0]).await;
    assert_eq!(lease(&site, 6).await, jobs[2..3]);
    nack(&site, &jobs[1], true).await;
    assert_eq!(site.fetch("q", 6).await, jobs[1..2]);
    site.store().cancel(&jobs[1]).await.unwrap();
    assert_eq!(lease(&site, 6).await, jobs[3..4]);
    site.advance(10 * SECOND).await;
    assert_eq!(site.fetch("q", 6).await, jobs[2..4], "both lapsed");
    assert_eq!(site.limit("queue:q").await.running, 2);
    site.audit().await;
}

/// Who is in another queue and has a key that reads like this queue's does not wait for what runs here.
#[tokio::test]
async fn of_a_queue_are_not_those_of_a_key_of_its_name() {
    let site = Site::open().await;
    site.set("queue:q", fairgate::store::Layer::Admin, super::concurrency(1), None).await;
    let own = site.push("q", json!(null)).await;
    let other = site.push("other", json!({"key": "queue:q"})).await;
    assert_eq!(site.fetch_from(&["q", "other"], 5).await, [own.clone(), other]);
    let waiting = site.push("q", json!(null)).await;
    assert!(site.fetch("q", 5).await.is_empty());
    site.ack(&own).await;
    assert_eq!(site.fetch("q", 5).await, [waiting]);
    site.audit().await;
}
