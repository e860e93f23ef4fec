//! A Redis Cluster moves our slot to another node: calls wait for it, and nothing runs on half of the keys.

use crate::support::server::start;
use crate::support::{Client, Cluster, eventually, json};
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const PRODUCERS: usize = 4;
const WORKERS: usize = 4;
/// Jobs that wait while the slot is moved, so that the move takes a while.
const WAITING: usize = 2_000;

#[derive(Default)]
struct Ledger {
    accepted: HashSet<String>,
    /// Times that each job was handed to a worker.
    delivered: HashMap<String, usize>,
    acked: HashSet<String>,
    /// Responses that were no success.
    failures: Vec<String>,
}

/// Producers and workers, and what they were told.
#[derive(Clone)]
struct Load {
    client: Client,
    ledger: Arc<Mutex<Ledger>>,
    closing: Arc<AtomicBool>,
}

impl Load {
    async fn post(&self, path: &str, body: serde_json::Value) -> Option<crate::support::Answer> {
        let answer = self.client.post(path, body).await;
        if !matches!(answer.status, 200..=299) {
            self.ledger.lock().unwrap().failures.push(format!("{path}: {} {}", answer.status, answer.text));
            return None;
        }
        Some(answer)
    }

    fn is_closing(&self) -> bool {
        self.closing.load(Ordering::SeqCst)
    }

    async fn produce(self) {
        while !self.is_closing() {
            let job = json!({"type": "test.job", "args": [], "queue": "q"});
            if let Some(answer) = self.post("/v1/jobs", job).await {
                self.ledger.lock().unwrap().accepted.insert(answer.text_at("/job/id").to_owned());
            }
        }
    }

    async fn work(self) {
        loop {
            let was_closing = self.is_closing();
            let fetch = json!({"queues": ["q"], "count": 10, "worker_id": "w1"});
            let ids = self.post("/v1/workers/fetch", fetch).await.map(|answer| answer.job_ids()).unwrap_or_default();
            for id in &ids {
                *self.ledger.lock().unwrap().delivered.entry(id.clone()).or_default() += 1;
                if self.post("/v1/workers/ack", json!({"job_id": id})).await.is_some() {
                    self.ledger.lock().unwrap().acked.insert(id.clone());
                }
            }
            if ids.is_empty() && was_closing {
                return;
            }
        }
    }

    fn acked(&self) -> usize {
        self.ledger.lock().unwrap().acked.len()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_that_moves_under_load_costs_no_request_and_no_job() {
    let cluster = Cluster::start().await;
    // A busy machine may take long to move the keys, and calls wait for all of it.
    let (_app, client) = start(&cluster.url(), |config| config.store.call_timeout = Duration::from_secs(15)).await;
    let job = json!({"type": "test.job", "args": [], "queue": "idle"});
    for _ in 0..WAITING / 500 {
        client.post("/v1/jobs/batch", json!({"jobs": vec![job.clone(); 500]})).await.expect(201);
    }
    let load = Load { client: client.clone(), ledger: Arc::default(), closing: Arc::default() };
    let mut tasks = tokio::task::JoinSet::new();
    (0..PRODUCERS).for_each(|_| _ = tasks.spawn(load.clone().produce()));
    (0..WORKERS).for_each(|_| _ = tasks.spawn(load.clone().work()));
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
    load.closing.store(true, Ordering::SeqCst);
    while let Some(ended) = tasks.join_next().await {
        ended.expect("producers and workers do not panic");
    }
    let ledger = std::mem::take(&mut *load.ledger.lock().unwrap());
    let repeated = ledger.delivered.values().filter(|times| **times > 1).count();
    let figures = format!(
        "keys moved {moved:?}; {} jobs accepted, {} acked, {} delivered, {repeated} more than once; {} failed responses",
        ledger.accepted.len(),
        ledger.acked.len(),
        ledger.delivered.len(),
        ledger.failures.len(),
    );
    println!("{figures}");
    assert!(moved.iter().all(|keys| *keys > WAITING), "{figures}");
    assert!(ledger.failures.is_empty(), "{figures}: {:?}", &ledger.failures[..ledger.failures.len().min(5)]);
    assert_eq!(repeated, 0, "{figures}");
    assert_eq!(ledger.acked, ledger.accepted, "{figures}");
    let stats = client.get("/v1/queues/idle/stats").await.expect(200);
    assert_eq!(stats.at("/queue/available"), &json!(WAITING), "what waited is all there");
}

/// Requests that need the slot are answered with 503 and Retry-After, none with 500.
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
async fn a_slot_that_nobody_serves_is_a_503() {
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
