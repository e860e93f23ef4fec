//! Planner processes are killed at random times: every accepted job is done once; none is lost or done twice.

use super::processes;
use crate::support::{Client, Process, Random, TestRedis, json};
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The number of kills; `FAIRGATE_TEST_KILLS` overrides it.
const KILLS: usize = 200;
const TENANTS: [&str; 4] = ["a", "b", "c", "d"];
const CONSUMERS: usize = 4;
const BURST: usize = 10;
/// Short enough that jobs of a response lost in a kill are delivered again soon, and long enough for a busy machine.
const VISIBILITY_MS: u64 = 3000;

#[derive(Default)]
struct Ledger {
    accepted: HashSet<String>,
    /// The number of confirmed acks per job.
    done: HashMap<String, usize>,
    /// Jobs delivered after they were done.
    doubled: Vec<String>,
}

#[derive(Clone)]
struct Load {
    bases: Vec<String>,
    ledger: Arc<Mutex<Ledger>>,
    /// Producers stop when this is set.
    closing: Arc<AtomicBool>,
    over: Arc<AtomicBool>,
}

impl Load {
    fn clients(&self) -> Vec<Client> {
        self.bases.iter().cloned().map(Client::new).collect()
    }

    /// Pushes more jobs at once than the main queue takes, with explicit ids: pushes without a response are repeated
    /// until they are known to be stored.
    async fn produce(self, tenant: &'static str) {
        let clients = self.clients();
        for number in 0.. {
            if self.closing.load(Ordering::SeqCst) {
                return;
            }
            let ids: Vec<String> = (0..BURST).map(|_| fairgate::domain::job::id::generate()).collect();
            let job = |id| {
                json!({"id": id, "type": "t.job", "args": [], "meta": {"tenant_id": tenant},
                    "options": {"retry": {"max_attempts": 1000}}})
            };
            let body = json!({"jobs": ids.iter().map(job).collect::<Vec<_>>()}).to_string();
            for client in clients.iter().cycle().skip(number) {
                let answer = client.try_send("POST", "/v1/jobs/batch", &[], Some(body.clone())).await;
                match answer.map(|answer| answer.status) {
                    Ok(201 | 409) => break,
                    _ => tokio::time::sleep(Duration::from_millis(2)).await,
                }
            }
            self.ledger.lock().unwrap().accepted.extend(ids);
            tokio::time::sleep(Duration::from_millis(120)).await;
        }
    }

    async fn consume(self, worker: usize) {
        let clients = self.clients();
        for turn in worker.. {
            if self.over.load(Ordering::SeqCst) {
                return;
            }
            let body = json!({"queues": ["q"], "count": 10, "visibility_timeout_ms": VISIBILITY_MS}).to_string();
            let client = &clients[turn % clients.len()];
            let answer = client.try_send("POST", "/v1/workers/fetch", &[], Some(body)).await;
            let ids = answer.map(|answer| answer.job_ids()).unwrap_or_default();
            {
                let mut ledger = self.ledger.lock().unwrap();
                let doubled: Vec<String> = ids.iter().filter(|id| ledger.done.contains_key(*id)).cloned().collect();
                ledger.doubled.extend(doubled);
            }
            if ids.is_empty() {
                tokio::time::sleep(Duration::from_millis(3)).await;
            }
            for id in ids {
                self.finish(&clients, turn, id).await;
            }
        }
    }

    /// Acks until there is a response. A conflict after a lost response means that the ack was carried out, or that the
    /// lease expired meanwhile; in that case the next worker finishes the job.
    async fn finish(&self, clients: &[Client], turn: usize, id: String) {
        let body = json!({"job_id": id}).to_string();
        let mut unsure = false;
        for client in clients.iter().cycle().skip(turn % clients.len()) {
            match client.try_send("POST", "/v1/workers/ack", &[], Some(body.clone())).await {
                Ok(answer) if answer.status == 200 => break,
                Ok(answer) if answer.status == 409 && unsure && answer.text.contains("completed") => break,
                Ok(answer) if answer.status == 409 => return,
                _ => unsure = true,
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        *self.ledger.lock().unwrap().done.entry(id).or_insert(0) += 1;
    }
}

async fn is_ready(process: &Process) -> bool {
    process.client.try_send("GET", "/ready", &[], None).await.is_ok_and(|answer| answer.status == 200)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_kills_neither_lose_nor_repeat_jobs() {
    let kills = std::env::var("FAIRGATE_TEST_KILLS").map_or(KILLS, |text| text.parse().expect("a number of kills"));
    let redis = TestRedis::durable();
    let options = "enqueue_interval = \"10ms\"\nenqueue_jobs = 5\nmax_depth = 5\nplanner_lock_ttl = \"1s\"";
    let (mut processes, arguments) = processes(&redis, 2, options).await;
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let load = Load {
        bases: processes.iter().map(|process| process.client.base().to_owned()).collect(),
        ledger: Arc::default(),
        closing: Arc::default(),
        over: Arc::default(),
    };
    let producers: Vec<_> = TENANTS.iter().map(|tenant| tokio::spawn(load.clone().produce(tenant))).collect();
    let consumers: Vec<_> = (0..CONSUMERS).map(|worker| tokio::spawn(load.clone().consume(worker))).collect();

    let mut random = Random(20_260_101);
    for kill in 0..kills {
        let victim = &mut processes[kill % 2];
        while !is_ready(victim).await {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        // The other process continues to promote without waiting for the lock to expire.
        _ = redis.command::<i64>(&["DEL", "fg:{default}:plan:r:lock"]).await;
        tokio::time::sleep(Duration::from_millis(5 + random.below(35) as u64)).await;
        victim.kill();
        victim.restart(&arguments);
    }
    load.closing.store(true, Ordering::SeqCst);
    for producer in producers {
        producer.await.unwrap();
    }
    let deadline = Instant::now() + Duration::from_secs(60);
    let left = || {
        let ledger = load.ledger.lock().unwrap();
        ledger.accepted.iter().filter(|id| !ledger.done.contains_key(*id)).count()
    };
    while left() > 0 {
        assert!(Instant::now() < deadline, "{} jobs are lost", left());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    load.over.store(true, Ordering::SeqCst);
    for consumer in consumers {
        consumer.await.unwrap();
    }

    let ledger = std::mem::take(&mut *load.ledger.lock().unwrap());
    assert!(ledger.accepted.len() > kills, "there was load all the while: {} jobs", ledger.accepted.len());
    assert_eq!(ledger.done.len(), ledger.accepted.len());
    assert_eq!(ledger.doubled, Vec::<String>::new(), "no job was delivered after it was done");
    assert!(ledger.done.values().all(|times| *times == 1), "each was done once");
    let accepted = ledger.accepted.len() as i64;
    for (state, jobs) in [("completed", accepted), ("available", 0), ("active", 0), ("pending", 0), ("discarded", 0)] {
        let count: Option<i64> = redis.command(&["HGET", "fg:{default}:counts:q", state]).await;
        assert_eq!(count.unwrap_or(0), jobs, "{state}");
    }
    let staged: Option<i64> = redis.command(&["HGET", "fg:{default}:plan:r", "staged"]).await;
    assert_eq!(staged, Some(0));
    // Counts only rounds that were not killed.
    let promoted: i64 = redis.command(&["HGET", "fg:{default}:plan:r", "promoted"]).await;
    assert!(promoted > accepted / 4, "{promoted} of {accepted} were promoted, the others passed");
    assert_eq!(redis.keys_with("fair:r:q:lane:").await, Vec::<String>::new());
}
