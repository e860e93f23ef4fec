//! Sentinel makes a replica the primary while jobs come in: fairgate follows at once, and what can be lost is counted.

use crate::support::server::{SentinelSite, Server, start};
use crate::support::{Client, eventually, json};
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

const PRODUCERS: usize = 4;
/// A primary that Sentinel cannot demote goes on accepting writes: only a client that follows Sentinel leaves it.
const UNDEMOTABLE: [&str; 6] = ["--rename-command", "SLAVEOF", "", "--rename-command", "REPLICAOF", ""];

/// What `fairgate doctor` recommends.
const GUARDS: [&str; 4] = ["--min-replicas-to-write", "1", "--min-replicas-max-lag", "10"];

#[derive(Default)]
struct Ledger {
    accepted: HashSet<String>,
    /// Responses with status 503.
    refused: usize,
    /// Other responses that were no success.
    failures: Vec<String>,
}

/// Producers, and what they were told.
#[derive(Clone)]
struct Load {
    client: Client,
    ledger: Arc<Mutex<Ledger>>,
    closing: Arc<AtomicBool>,
}

impl Load {
    async fn produce(self) {
        while !self.closing.load(Ordering::SeqCst) {
            let answer = self.client.post("/v1/jobs", json!({"type": "test.job", "args": [], "queue": "q"})).await;
            let mut ledger = self.ledger.lock().unwrap();
            match answer.status {
                201 => _ = ledger.accepted.insert(answer.text_at("/job/id").to_owned()),
                503 => ledger.refused += 1,
                _ => ledger.failures.push(answer.text),
            }
        }
    }

    fn accepted(&self) -> usize {
        self.ledger.lock().unwrap().accepted.len()
    }

    async fn goes_on(&self) {
        let before = self.accepted();
        eventually("more jobs are accepted", async || self.accepted() > before + 100).await;
    }
}

/// All jobs of the queue.
async fn drain(client: &Client) -> HashSet<String> {
    let mut found = HashSet::new();
    loop {
        let ids = client.fetch("q", 100).await.job_ids();
        if ids.is_empty() {
            return found;
        }
        found.extend(ids);
    }
}

struct Outcome {
    /// Accepted jobs that the new primary does not have.
    missing: usize,
    /// All figures, to be printed.
    figures: String,
}

/// Lets producers run through `SENTINEL FAILOVER`; counts what became of them.
async fn fail_over(site: &SentinelSite, client: &Client) -> Outcome {
    let load = Load { client: client.clone(), ledger: Arc::default(), closing: Arc::default() };
    let mut tasks = tokio::task::JoinSet::new();
    (0..PRODUCERS).for_each(|_| _ = tasks.spawn(load.clone().produce()));
    load.goes_on().await;
    assert_eq!(site.sentinel.cli(&["SENTINEL", "FAILOVER", "mymaster"]).trim(), "OK");
    let new_port = site.replica.port.to_string();
    eventually("Sentinel names the new primary", async || {
        site.sentinel.cli(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", "mymaster"]).contains(&new_port)
    })
    .await;
    let named_at = load.accepted();
    // Somebody who can confirm what the new primary gets.
    let _replica = Server::start(&["--replicaof", "127.0.0.1", &new_port]).up().await;
    eventually("fairgate writes to the new primary", async || {
        client.post("/v1/jobs", json!({"type": "test.job", "args": [], "queue": "probe"})).await;
        site.replica.cli(&["EXISTS", "fg:{default}:ready:probe"]).trim() == "1"
    })
    .await;
    let used_at = load.accepted();
    load.goes_on().await;
    load.closing.store(true, Ordering::SeqCst);
    while let Some(ended) = tasks.join_next().await {
        ended.expect("producers do not panic");
    }
    let ledger = std::mem::take(&mut *load.ledger.lock().unwrap());
    let found = drain(client).await;
    let missing = ledger.accepted.difference(&found).count();
    let figures = format!(
        "{} jobs accepted, {missing} of them missing after the failover; {} accepted between Sentinel's word and the new \
         primary's use; {} responses 503, {} other failures",
        ledger.accepted.len(),
        used_at - named_at,
        ledger.refused,
        ledger.failures.len(),
    );
    println!("{figures}");
    assert!(ledger.failures.is_empty(), "{figures}: {:?}", &ledger.failures[..ledger.failures.len().min(5)]);
    Outcome { missing, figures }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_planned_failover_is_followed_although_the_old_primary_still_accepts_writes() {
    let site = SentinelSite::start(&UNDEMOTABLE).await;
    let (_app, client) = start(&site.sentinel.sentinel_url(), |_| {}).await;
    let Outcome { figures, .. } = fail_over(&site, &client).await;
    let role = site.primary.cli(&["INFO", "replication"]);
    assert!(role.contains("role:master"), "nothing but Sentinel's word can have led away from it: {figures}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_primary_that_refuses_jobs_without_replicas_costs_nothing_but_503s() {
    let site = SentinelSite::start(&[&UNDEMOTABLE[..], &GUARDS].concat()).await;
    let (_app, client) = start(&site.sentinel.sentinel_url(), |_| {}).await;
    // How much it refuses depends on how soon Sentinel notices; that nothing else goes wrong is checked in there.
    fail_over(&site, &client).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failover_loses_no_job_that_a_replica_confirmed() {
    let site = SentinelSite::start(&[&UNDEMOTABLE[..], &GUARDS].concat()).await;
    let (_app, client) = start(&site.sentinel.sentinel_url(), |config| config.store.wait_replicas = 1).await;
    let Outcome { missing, figures } = fail_over(&site, &client).await;
    assert_eq!(missing, 0, "{figures}");
}
