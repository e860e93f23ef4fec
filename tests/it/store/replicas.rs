//! Replicas: they confirm accepted jobs, and are not mistaken for the primary.

use crate::support::server::{SentinelSetup, Server, start};
use crate::support::{Answer, Client, Cluster, TestRedis, eventually, json};
use fairgate::clock::Clock;
use fairgate::config::{Config, Host, Topology};
use fairgate::store::{Address, OlderData, Options, Settings, Store};
use fairgate::telemetry::StoreMetrics;
use std::process::Command;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Requires the confirmation of one replica, with a timeout short enough for tests.
fn one_confirms(config: &mut Config) {
    config.store.wait_replicas = 1;
    config.store.wait_replicas_timeout = Duration::from_millis(200);
}

fn url(server: &Server) -> String {
    format!("redis://127.0.0.1:{}", server.port)
}

async fn enqueue(client: &Client, id: &str) -> Answer {
    client.post("/v1/jobs", json!({"id": id, "type": "test.job", "args": [], "queue": "q"})).await
}

/// Asserts that the response says that the primary carried out the request and no replica confirmed it.
fn is_unconfirmed(answer: &Answer) {
    assert_eq!((answer.status, answer.header("retry-after")), (503, "1"), "{}", answer.text);
    assert_eq!(answer.text_at("/error/code"), "backend_unavailable");
    let message = answer.text_at("/error/message");
    assert!(message.contains("The request was stored") && message.contains("0 of 1 replicas"), "{message}");
}

async fn replica_of(primary: &Server) -> Server {
    let replica = Server::start(&["--replicaof", "127.0.0.1", &primary.port.to_string()]).up().await;
    replica.replicates(primary).await;
    replica
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_replicas_confirmation_the_response_is_503_and_the_job_is_stored() {
    let primary = Server::start(&[]).up().await;
    let (_app, client) = start(&url(&primary), one_confirms).await;
    let id = fairgate::domain::job::id::generate();
    is_unconfirmed(&enqueue(&client, &id).await);
    assert_eq!(client.state(&id).await, "available", "the primary has it");
    assert_eq!(client.fetch("q", 1).await.job_ids(), [&*id], "a fetch waits for no replica");
    is_unconfirmed(&client.ack(&id).await);
    assert_eq!(client.state(&id).await, "completed");

    let _replica = replica_of(&primary).await;
    enqueue(&client, &id).await.expect(409);
    let next = client.enqueue_into("q").await;
    assert_eq!(client.fetch("q", 1).await.job_ids(), [&*next]);
    client.nack(&next).await.expect(200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repeat_that_writes_nothing_is_confirmed_only_if_the_first_attempt_is() {
    let primary = Server::start(&[]).up().await;
    let replica = replica_of(&primary).await;
    let (_app, client) = start(&url(&primary), one_confirms).await;
    enqueue(&client, &fairgate::domain::job::id::generate()).await.expect(201);

    replica.freeze();
    let id = fairgate::domain::job::id::generate();
    is_unconfirmed(&enqueue(&client, &id).await);
    primary.cli(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
    // On a new connection without writes.
    is_unconfirmed(&enqueue(&client, &id).await);
    replica.thaw();
    eventually("the replica has confirmed the job", async || enqueue(&client, &id).await.status == 409).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_requests_share_the_wait_for_a_replica() {
    let primary = Server::start(&[]).up().await;
    let _replica = replica_of(&primary).await;
    let (_app, client) = start(&url(&primary), one_confirms).await;
    let requests = (0..200).map(|_| client.enqueue_into("q"));
    assert_eq!(futures_util::future::join_all(requests).await.len(), 200);
    let stats = primary.cli(&["INFO", "commandstats"]);
    let calls = |name: &str| -> usize {
        let line = stats.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{name}:calls=")));
        line.and_then(|line| line.split(',').next()?.parse().ok()).unwrap_or(0)
    };
    assert!((1..=calls("fcall")).contains(&calls("wait")), "{} for {} calls", calls("wait"), calls("fcall"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_a_cluster_replicas_of_the_node_with_the_slot_confirm() {
    let cluster = Cluster::start().await;
    let (_app, client) = start(&cluster.url(), one_confirms).await;
    is_unconfirmed(&enqueue(&client, &fairgate::domain::job::id::generate()).await);
    // The other nodes have no replica.
    let (owner, _) = cluster.owner_and_other();
    let _replica = cluster.add_replica(owner).await;
    enqueue(&client, &fairgate::domain::job::id::generate()).await.expect(201);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_is_not_used_as_if_it_were_the_primary() {
    let primary = Server::start(&[]).up().await;
    let replica = replica_of(&primary).await;
    let host = Host { name: "127.0.0.1".to_owned(), port: replica.port };
    let options = Options {
        address: Address::plain(Topology::Server { host, database: 0 }),
        namespace: "default".to_owned(),
        call_timeout: Duration::from_secs(5),
        wait_replicas: 0,
        wait_replicas_timeout: Duration::from_secs(1),
        clock: Clock::System,
        settings: Settings::default(),
        older_data: OlderData::Refuse,
    };
    let stop = CancellationToken::new();
    let store = Store::open(options, StoreMetrics::default(), &TaskTracker::new(), stop.clone()).unwrap();
    let reason = |error: fairgate::store::Error| error.to_string();
    let wanted = format!("connected to a replica of 127.0.0.1:{}", primary.port);
    eventually("the reason is reported", async || {
        store
            .connected_within(Duration::from_millis(50))
            .await
            .map_err(reason)
            .is_err_and(|text| text.contains(&wanted))
    })
    .await;
    stop.cancel();

    let (_app, client) = start(&url(&replica), |_| {}).await;
    client.get("/v1/queues").await.expect(503);
    replica.cli(&["REPLICAOF", "NO", "ONE"]);
    eventually("it is used once it is a primary", async || client.get("/v1/queues").await.status == 200).await;
}

fn doctor(url: &str, wait_replicas: &str) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_fairgate"))
        .args(["doctor", "--redis", url])
        .env("FAIRGATE_STORE__WAIT_REPLICAS", wait_replicas)
        .output()
        .unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn doctor_recommends_settings_that_keep_jobs_in_a_failover() {
    let advice = "set `min-replicas-to-write 1` and `min-replicas-max-lag 10`";
    let alone = TestRedis::start();
    let said = doctor(&alone.url(), "0");
    assert!(!said.contains("replicas"), "{said}");

    let SentinelSetup { primary, sentinel, replica: _replica } = SentinelSetup::start(&[]).await;
    let said = doctor(&sentinel.sentinel_url(), "2");
    assert!(said.contains(advice), "{said}");
    assert!(said.contains("store.wait_replicas is 2, but connected replicas are 1"), "{said}");
    primary.cli(&["CONFIG", "SET", "min-replicas-to-write", "1"]);
    let said = doctor(&sentinel.sentinel_url(), "1");
    assert!(!said.contains(advice) && !said.contains("wait_replicas"), "{said}");
    assert!(said.contains("min-replicas-to-write is 1"), "{said}");

    let rights = ["~fg:*", "&*", "+@all", "-@admin", "+info"];
    primary.cli(&[&["ACL", "SETUSER", "default"], &["reset", "on", "nopass"], &rights[..]].concat());
    let said = doctor(&url(&primary), "0");
    assert!(said.contains("role master") && !said.contains("min-replicas"), "CONFIG is forbidden: {said}");
}
