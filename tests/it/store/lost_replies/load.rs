//! Producers and workers while replies of Redis break off, or Redis is killed: accepted jobs are done once, and at the
//! end no job is leased.

use crate::support::{ChaosProxy, Client, TestApp, TestRedis, eventually, json};
use fairgate::clock::Clock;
use fairgate::config::StoreUrl;
use fairgate::domain::job::State;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const WORKERS: usize = 4;
const CUTS: usize = 200;
const KILLS: usize = 25;
/// Large enough that the reply to a fetch takes several packets, so that a kill can hit a half-sent one.
const PADDING: usize = 4_000;
/// Shorter than an outage of the test.
const CALL_TIMEOUT: Duration = Duration::from_millis(300);
const JOBS_A_FETCH: usize = 10;

#[derive(Default)]
struct Ledger {
    accepted: HashSet<String>,
    /// Times that each job was handed to a worker.
    delivered: HashMap<String, usize>,
    done: HashSet<String>,
}

#[derive(Clone)]
struct Load {
    client: Client,
    ledger: Arc<Mutex<Ledger>>,
    closing: Arc<AtomicBool>,
}

impl Load {
    fn is_closing(&self) -> bool {
        self.closing.load(Ordering::SeqCst)
    }

    /// Repeats a request until it succeeds; a conflict means that an earlier attempt succeeded.
    async fn insist(&self, path: &str, body: serde_json::Value) {
        loop {
            let answer = self.client.post(path, body.clone()).await;
            if matches!(answer.status, 200 | 201 | 409) {
                return;
            }
            assert_ne!(answer.status, 500, "{path}: {}", answer.text);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Pushes jobs with explicit ids, so that a push that returned an error can be repeated.
    async fn produce(self) {
        while !self.is_closing() {
            let ids: Vec<String> = (0..JOBS_A_FETCH).map(|_| fairgate::domain::job::id::generate()).collect();
            let job = |id| json!({"id": id, "type": "test.job", "args": ["x".repeat(PADDING)], "queue": "q"});
            self.insist("/v1/jobs/batch", json!({"jobs": ids.iter().map(job).collect::<Vec<_>>()})).await;
            self.ledger.lock().unwrap().accepted.extend(ids);
        }
    }

    async fn work(self, worker: usize) {
        loop {
            let was_closing = self.is_closing();
            let wanted = json!({"queues": ["q"], "count": JOBS_A_FETCH, "worker_id": format!("w{worker}")});
            let answer = self.client.post("/v1/workers/fetch", wanted).await;
            assert_ne!(answer.status, 500, "{}", answer.text);
            let ids = answer.job_ids();
            if answer.status == 200 && ids.is_empty() && was_closing {
                return;
            }
            for id in ids {
                *self.ledger.lock().unwrap().delivered.entry(id.clone()).or_default() += 1;
                self.insist("/v1/workers/ack", json!({"job_id": id})).await;
                self.ledger.lock().unwrap().done.insert(id);
            }
        }
    }

    /// Runs the load during a disturbance and until all jobs are done; returns the results.
    async fn run(app: &TestApp, disturb: impl AsyncFnOnce()) -> Ledger {
        let load = Load { client: app.client.clone(), ledger: Arc::default(), closing: Arc::default() };
        let producers: Vec<_> = (0..2).map(|_| tokio::spawn(load.clone().produce())).collect();
        let workers: Vec<_> = (0..WORKERS).map(|worker| tokio::spawn(load.clone().work(worker))).collect();
        disturb().await;
        load.closing.store(true, Ordering::SeqCst);
        for task in producers.into_iter().chain(workers) {
            task.await.expect("no request was answered with 500");
        }
        // Jobs that were returned while the last worker stopped.
        eventually("nothing is leased or waits", async || {
            for id in app.client.fetch("q", 50).await.job_ids() {
                *load.ledger.lock().unwrap().delivered.entry(id.clone()).or_default() += 1;
                load.insist("/v1/workers/ack", json!({"job_id": id})).await;
                load.ledger.lock().unwrap().done.insert(id);
            }
            let leases: i64 = app.redis.command(&["ZCARD", "fg:{default}:leases"]).await;
            let counts = app.store().queue_counts("q").await.unwrap();
            leases == 0 && counts[&State::Available] == 0 && counts[&State::Active] == 0
        })
        .await;
        std::mem::take(&mut *load.ledger.lock().unwrap())
    }
}

impl Ledger {
    fn balances(&self) {
        assert_eq!(self.done, self.accepted, "each accepted job was done");
        let doubled: Vec<_> = self.delivered.iter().filter(|(_, times)| **times > 1).collect();
        assert_eq!(doubled, [], "no job was delivered twice");
    }
}

async fn behind(redis: &Arc<TestRedis>, proxy: &ChaosProxy, call_timeout: Duration) -> TestApp {
    let url = proxy.url();
    TestApp::start_on(Arc::clone(redis), Clock::System, |config| {
        config.store.url = Some(StoreUrl::parse(&url).unwrap());
        config.store.call_timeout = call_timeout;
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hundreds_of_truncated_replies_change_nothing() {
    let redis = Arc::new(TestRedis::start());
    let proxy = ChaosProxy::start(&redis).await;
    let app = behind(&redis, &proxy, Duration::from_secs(20)).await;
    let ledger = Load::run(&app, async || {
        proxy.cut_one_of(6);
        while proxy.cuts() < CUTS {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        proxy.cut_one_of(0);
    })
    .await;
    println!("{} replies cut, {} jobs accepted, {} done", proxy.cuts(), ledger.accepted.len(), ledger.done.len());
    ledger.balances();
    app.assert_consistent().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kills_of_redis_and_outages_leave_no_orphaned_lease() {
    let redis = Arc::new(TestRedis::durable());
    let proxy = ChaosProxy::start(&redis).await;
    let app = behind(&redis, &proxy, CALL_TIMEOUT).await;
    // Acknowledged writes are on disk, so that a kill loses nothing. A restarted Redis forgets the setting, so it is
    // set first.
    let keep_all = async || redis.command::<()>(&["CONFIG", "SET", "appendfsync", "always"]).await;
    keep_all().await;
    let completed = async || -> i64 {
        let count: Option<i64> = redis.command(&["HGET", "fg:{default}:counts:q", "completed"]).await;
        count.unwrap_or(0)
    };
    let ledger = Load::run(&app, async || {
        for _ in 0..KILLS {
            let before = completed().await;
            eventually("jobs are still being done", async || completed().await > before + 10).await;
            // A reply breaks off, and no connection is available for a repeat before the call times out.
            let cuts = proxy.cuts();
            proxy.cut_one_of(2);
            eventually("a reply broke off", async || proxy.cuts() > cuts).await;
            proxy.close();
            let pid = redis.pid();
            redis.kill();
            tokio::time::sleep(CALL_TIMEOUT + CALL_TIMEOUT / 2).await;
            eventually("Redis is there again", async || redis.pid() != pid).await;
            keep_all().await;
            proxy.cut_one_of(0);
            proxy.open();
        }
    })
    .await;
    println!(
        "{KILLS} kills, {} replies cut, {} jobs accepted, {} done",
        proxy.cuts(),
        ledger.accepted.len(),
        ledger.done.len()
    );
    ledger.balances();
    app.assert_consistent().await;
}
