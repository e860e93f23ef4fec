//! Sentinel promotes a replica to primary under load: fairgate follows at once, and lost jobs are counted.

use crate::support::server::{SentinelSetup, Server, start};
use crate::support::{Client, Load, eventually, json};
use std::collections::HashSet;

const PRODUCERS: usize = 4;
/// Arguments of a primary that Sentinel cannot demote. It continues to accept writes, so only a client that follows
/// Sentinel leaves it.
const UNDEMOTABLE: [&str; 6] = ["--rename-command", "SLAVEOF", "", "--rename-command", "REPLICAOF", ""];

/// Arguments that `fairgate doctor` recommends.
const GUARDS: [&str; 4] = ["--min-replicas-to-write", "1", "--min-replicas-max-lag", "10"];

async fn goes_on(load: &Load) {
    let before = load.accepted();
    eventually("more jobs are accepted", async || load.accepted() > before + 100).await;
}

/// Fetches all jobs of the queue.
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
    /// All figures as text.
    figures: String,
}

/// Runs producers during `SENTINEL FAILOVER` and counts the outcomes.
async fn fail_over(setup: &SentinelSetup, client: &Client) -> Outcome {
    let load = Load::start(client, PRODUCERS, 0);
    goes_on(&load).await;
    assert_eq!(setup.sentinel.cli(&["SENTINEL", "FAILOVER", "mymaster"]).trim(), "OK");
    let new_port = setup.replica.port.to_string();
    eventually("Sentinel names the new primary", async || {
        setup.sentinel.cli(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", "mymaster"]).contains(&new_port)
    })
    .await;
    let named_at = load.accepted();
    // A replica that confirms writes of the new primary.
    let _replica = Server::start(&["--replicaof", "127.0.0.1", &new_port]).up().await;
    eventually("fairgate writes to the new primary", async || {
        client.post("/v1/jobs", json!({"type": "test.job", "args": [], "queue": "probe"})).await;
        setup.replica.cli(&["EXISTS", "fg:{default}:ready:probe"]).trim() == "1"
    })
    .await;
    let used_at = load.accepted();
    goes_on(&load).await;
    let results = load.stop().await;
    let found = drain(client).await;
    let missing = results.accepted.difference(&found).count();
    let figures = format!(
        "{} jobs accepted, {missing} of them missing after the failover; {} accepted between Sentinel's word and the new \
         primary's use; {} responses 503, {} other failures",
        results.accepted.len(),
        used_at - named_at,
        results.unavailable,
        results.failures.len(),
    );
    println!("{figures}");
    results.assert_no_failures(&figures);
    Outcome { missing, figures }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_planned_failover_is_followed_although_the_old_primary_still_accepts_writes() {
    let setup = SentinelSetup::start(&UNDEMOTABLE).await;
    let (_app, client) = start(&setup.sentinel.sentinel_url(), |_| {}).await;
    let Outcome { figures, .. } = fail_over(&setup, &client).await;
    let role = setup.primary.cli(&["INFO", "replication"]);
    assert!(role.contains("role:master"), "only Sentinel's answer can have caused the change of primary: {figures}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_primary_that_refuses_jobs_without_replicas_costs_nothing_but_503s() {
    let setup = SentinelSetup::start(&[&UNDEMOTABLE[..], &GUARDS].concat()).await;
    let (_app, client) = start(&setup.sentinel.sentinel_url(), |_| {}).await;
    // The number of refusals depends on how soon Sentinel notices; `fail_over` asserts that nothing else fails.
    fail_over(&setup, &client).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failover_loses_no_job_that_a_replica_confirmed() {
    let setup = SentinelSetup::start(&[&UNDEMOTABLE[..], &GUARDS].concat()).await;
    let (_app, client) = start(&setup.sentinel.sentinel_url(), |config| config.store.wait_replicas = 1).await;
    let Outcome { missing, figures } = fail_over(&setup, &client).await;
    assert_eq!(missing, 0, "{figures}");
}
