//! Each job goes to one worker, no matter how many fetch concurrently and which processes die; none is lost.

use crate::support::{Client, Process, TestApp, TestRedis, json};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const CALLERS: usize = 32;

/// Enqueues jobs in batches and returns their ids.
async fn fill(client: &Client, queue: &str, jobs: usize) -> HashSet<String> {
    let job = json!({"type": "test.job", "args": [], "options": {"queue": queue, "retry": {"max_attempts": 1000}}});
    let mut ids = HashSet::new();
    for _ in 0..jobs / 1000 {
        let answer = client.post("/v1/jobs/batch", json!({"jobs": vec![&job; 1000]})).await.expect(201);
        ids.extend(answer.job_ids());
    }
    ids
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thirty_two_callers_get_every_job_once() {
    let app = TestApp::start().await;
    let ids = fill(&app.client, "q", 20_000).await;
    let callers = (0..CALLERS).map(|caller| {
        let client = app.client.clone();
        tokio::spawn(async move {
            let mut got = Vec::new();
            loop {
                let count = 1 + (got.len() + caller) % 50;
                let body = json!({"queues": ["q"], "count": count, "worker_id": format!("w{caller}")});
                let jobs = client.post("/v1/workers/fetch", body).await.expect(200).job_ids();
                if jobs.is_empty() {
                    return got;
                }
                got.extend(jobs);
            }
        })
    });
    let mut times = HashMap::new();
    for caller in callers.collect::<Vec<_>>() {
        caller.await.unwrap().into_iter().for_each(|id| *times.entry(id).or_insert(0) += 1);
    }
    assert_eq!(times.len(), ids.len(), "each job was delivered");
    assert!(times.values().all(|times| *times == 1), "and each of them once");
}

/// Workers continue while servers are killed: a request without a response is repeated at the other server.
async fn work(
    clients: [String; 2],
    worker: String,
    acked: Arc<std::sync::Mutex<HashMap<String, u32>>>,
    done: Arc<AtomicBool>,
) {
    let clients = clients.map(Client::new);
    let mut turn = 0;
    while !done.load(Ordering::SeqCst) {
        turn += 1;
        let client = &clients[turn % 2];
        let body = json!({"queues": ["q"], "count": 5, "worker_id": worker, "visibility_timeout_ms": 2000}).to_string();
        let Ok(answer) = client.try_send("POST", "/v1/workers/fetch", &[], Some(body)).await else { continue };
        let ids = answer.job_ids();
        if answer.status != 200 || ids.is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
            continue;
        }
        for id in ids {
            let ack = json!({"job_id": id, "worker_id": worker}).to_string();
            // An ack without a response is not repeated: it was carried out, or the lease expires.
            if let Ok(answer) = client.try_send("POST", "/v1/workers/ack", &[], Some(ack)).await
                && answer.status == 200
            {
                *acked.lock().unwrap().entry(id).or_insert(0) += 1;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_job_is_lost_while_servers_are_killed_every_second() {
    let redis = TestRedis::start();
    let url = redis.url();
    let mut processes = [Process::serve(&["--redis", &url]).await, Process::serve(&["--redis", &url]).await];
    let ids = fill(&processes[0].client, "q", 20_000).await;
    let (acked, done) = (Arc::default(), Arc::new(AtomicBool::new(false)));
    let addresses = [processes[0].client.base().to_owned(), processes[1].client.base().to_owned()];
    let workers: Vec<_> = (0..CALLERS)
        .map(|worker| {
            tokio::spawn(work(addresses.clone(), format!("w{worker}"), Arc::clone(&acked), Arc::clone(&done)))
        })
        .collect();

    let completed = async || -> i64 {
        let count: Option<i64> = redis.command(&["HGET", "fg:{default}:counts:q", "completed"]).await;
        count.unwrap_or(0)
    };
    let deadline = Instant::now() + Duration::from_secs(120);
    let mut kills = 0;
    while completed().await < 20_000 {
        assert!(Instant::now() < deadline, "{} of 20000 done after {kills} kills", completed().await);
        tokio::time::sleep(Duration::from_secs(1)).await;
        let victim = &mut processes[kills % 2];
        victim.kill();
        victim.restart(&["--redis", &url]);
        kills += 1;
    }
    done.store(true, Ordering::SeqCst);
    for worker in workers {
        worker.await.unwrap();
    }
    let acked = acked.lock().unwrap().clone();
    assert!(kills >= 1, "at least one server was killed in the middle");
    assert!(acked.keys().all(|id| ids.contains(id)));
    assert!(acked.values().all(|times| *times == 1), "no job was completed twice");
    for state in ["available", "active", "retryable", "discarded"] {
        let left: Option<i64> = redis.command(&["HGET", "fg:{default}:counts:q", state]).await;
        assert_eq!(left.unwrap_or(0), 0, "{state}");
    }
}
