//! A Redis Cluster moves the slot of the namespace to another node: calls wait for it, and nothing runs on half of the
//! keys.

use crate::support::server::start;
use crate::support::{Client, Cluster, Load, eventually, json};
use std::time::Duration;

const PRODUCERS: usize = 4;
const WORKERS: usize = 4;
/// Jobs that wait while the slot is moved, so that the move takes a while.
const WAITING: usize = 2_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_that_moves_under_load_costs_no_request_and_no_job() {
    let cluster = Cluster::start().await;
    // A busy machine may take long to move the keys, and calls wait for all of it.
    let (_app, client) = start(&cluster.url(), |config| config.store.call_timeout = Duration::from_secs(15)).await;
    let job = json!({"type": "test.job", "args": [], "queue": "idle"});
    for _ in 0..WAITING / 500 {
        client.post("/v1/jobs/batch", json!({"jobs": vec![job.clone(); 500]})).await.expect(201);
    }
    let load = Load::start(&client, PRODUCERS, WORKERS);
    let busy = async || {
        let before = load.acked();
        eventually("more jobs are done", async || load.acked() > before + 200).await;
    };
    let mut moved = Vec::new();
    for _ in 0..2 {
        busy().await;
        let (source, target) = cluster.owner_and_other();
        cluster.begin_move(source, target);
        moved.push(cluster.move_keys(source, target));
        cluster.finish_move(source, target);
    }
    busy().await;
    let results = load.stop().await;
    let repeated = results.delivered.values().filter(|times| **times > 1).count();
    let figures = format!(
        "keys moved {moved:?}; {} jobs accepted, {} acked, {} delivered, {repeated} more than once; {} responses 503, {} other failures",
        results.accepted.len(),
        results.acked.len(),
        results.delivered.len(),
        results.unavailable,
        results.failures.len(),
    );
    println!("{figures}");
    assert!(moved.iter().all(|keys| *keys > WAITING), "{figures}");
    results.assert_no_failures(&figures);
    assert_eq!(results.unavailable, 0, "{figures}");
    assert_eq!(repeated, 0, "{figures}");
    assert_eq!(results.acked, results.accepted, "{figures}");
    let stats = client.get("/v1/queues/idle/stats").await.expect(200);
    assert_eq!(stats.at("/queue/available"), &json!(WAITING), "all waiting jobs are still there");
}

/// Asserts that requests that need the slot get 503 with Retry-After.
async fn is_unavailable(client: &Client, id: &str) {
    for (path, body) in [
        ("/v1/jobs", json!({"type": "test.job", "args": []})),
        ("/v1/workers/fetch", json!({"queues": ["q"]})),
        ("/v1/workers/ack", json!({"job_id": id})),
    ] {
        let answer = client.post(path, body).await.expect(503);
        assert_eq!((answer.text_at("/error/code"), answer.header("retry-after")), ("backend_unavailable", "1"));
    }
}

async fn works_again(client: &Client, id: &str) {
    eventually("the job is acked", async || client.ack(id).await.status == 200).await;
    let next = client.enqueue_into("q").await;
    assert_eq!(client.fetch("q", 1).await.job_ids(), [next]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_that_moves_for_longer_than_a_call_may_take_is_a_503() {
    let cluster = Cluster::start().await;
    let (_app, client) = start(&cluster.url(), |config| config.store.call_timeout = Duration::from_millis(300)).await;
    let id = client.enqueue_into("q").await;
    assert_eq!(client.fetch("q", 1).await.job_ids(), [&*id]);
    let (source, target) = cluster.owner_and_other();
    cluster.begin_move(source, target);
    is_unavailable(&client, &id).await;
    let strays = target.cli(&["CLUSTER", "COUNTKEYSINSLOT", &cluster.slot()]);
    assert_eq!(strays.trim(), "0", "nothing was run on the node that has no keys yet");
    cluster.give_up_move(source, target);
    works_again(&client, &id).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unassigned_slot_is_a_503() {
    let cluster = Cluster::start().await;
    let (_app, client) = start(&cluster.url(), |config| config.store.call_timeout = Duration::from_millis(300)).await;
    let id = client.enqueue_into("q").await;
    assert_eq!(client.fetch("q", 1).await.job_ids(), [&*id]);
    let (owner, _) = cluster.owner_and_other();
    assert_eq!(owner.cli(&["CLUSTER", "DELSLOTS", &cluster.slot()]).trim(), "OK");
    is_unavailable(&client, &id).await;
    assert_eq!(owner.cli(&["CLUSTER", "ADDSLOTS", &cluster.slot()]).trim(), "OK");
    works_again(&client, &id).await;
}
