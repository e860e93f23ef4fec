//! Another OJS server as the main queue: another fairgate, or a mock that fails on purpose.

mod batch_size;
mod crash;
mod delivery;
mod doctor;
mod failures;
mod proxy;

use crate::support::{Client, TestApp, eventually, json};
use fairgate::clock::Clock;
use fairgate::config::{Config, MainQueue, MainQueueKind, Ojs, Role};
use fairgate::domain::plan::{Batch, Pace, Rule};
use rustls::pki_types::PrivateKeyDer;
use serde_json::Value;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

const HOUR: u64 = 3_600_000;

/// A rule `r` that promotes jobs of type `t.job` into the queue `heavy` of the server `jobs`.
fn rule(change: impl FnOnce(&mut Rule)) -> Rule {
    let mut rule = Rule::new("r", &["t.*"]);
    rule.queue = Some("heavy".to_owned());
    rule.main_queue = "jobs".to_owned();
    change(&mut rule);
    rule
}

/// A rule that promotes only when the test asks.
fn by_hand(batch: u32) -> Rule {
    rule(|rule| (rule.batch, rule.strict_interval, rule.pace) = (Batch::Jobs(batch), true, Pace::Every(HOUR)))
}

/// A rule that promotes continuously.
fn often() -> Rule {
    rule(|rule| (rule.batch, rule.pace) = (Batch::Jobs(100), Pace::Every(50)))
}

fn configure(config: &mut Config, rules: &[Rule], ojs: Ojs) {
    config.plan = rules.to_vec();
    config.main_queues = vec![MainQueue { name: "jobs".to_owned(), kind: MainQueueKind::Ojs(ojs) }];
    if rules.iter().any(|rule| rule.strict_interval) {
        config.server.roles = vec![Role::Api, Role::Dispatch];
    }
}

/// Starts a fairgate whose rules promote into a server.
async fn before(rules: &[Rule], ojs: Ojs) -> TestApp {
    TestApp::start_with(Clock::System, |config| configure(config, rules, ojs)).await
}

fn url_of(app: &TestApp) -> String {
    format!("http://{}", app.app.address)
}

/// Enqueues jobs of a tenant.
async fn push(client: &Client, tenant: &str, jobs: usize) -> Vec<String> {
    let job = |number: usize| json!({"type": "t.job", "args": [tenant, number], "meta": {"tenant_id": tenant}});
    let jobs: Vec<Value> = (0..jobs).map(job).collect();
    client.post("/v1/jobs/batch", json!({"jobs": jobs})).await.expect(201).job_ids()
}

/// Runs a round of rule `r`.
async fn run(client: &Client) -> Value {
    client.post("/v1/admin/planner/r/run", json!({})).await.expect(200).body
}

async fn stats(client: &Client) -> Value {
    client.get("/v1/admin/planner/r").await.expect(200).body
}

/// Starts a TLS proxy with a certificate in front of a server; returns its address.
async fn tls_before(server: SocketAddr, made: &rcgen::CertifiedKey) -> SocketAddr {
    let key = PrivateKeyDer::try_from(made.key_pair.serialize_der()).expect("a key");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.expect("versions").with_no_client_auth().with_single_cert(vec![made.cert.der().clone()], key);
    let acceptor = TlsAcceptor::from(Arc::new(config.expect("a certificate")));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let (Ok(mut client), Ok(mut server)) =
                    (acceptor.accept(client).await, TcpStream::connect(server).await)
                else {
                    return;
                };
                _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
            });
        }
    });
    address
}
