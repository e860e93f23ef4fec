//! A Sidekiq as the main queue, with a real Redis and real workers.

mod autoscale;
mod batch_size;
mod crash;
mod delivery;
mod failures;
mod fairplay;
mod import;
mod inspect;
mod release;
mod release_crash;
mod ruby;
mod warnings;
mod worker;

use crate::support::{Client, TestApp, TestRedis, eventually, json};
use fairgate::clock::Clock;
use fairgate::config::{Access, Config, MainQueue, MainQueueKind, Role, Sidekiq, StoreUrl};
use fairgate::domain::plan::{Batch, Pace, Rule, TenantKey};
use serde_json::Value;
use std::sync::Arc;

const HOUR: u64 = 3_600_000;

/// A rule `r` that promotes jobs of type `t.job` as `HeavyJob` into the queue `heavy` of the Sidekiq `legacy`.
pub fn rule(change: impl FnOnce(&mut Rule)) -> Rule {
    let mut rule = Rule::new("r", &["t.*", "*Job"]);
    rule.queue = Some("heavy".to_owned());
    rule.main_queue = "legacy".to_owned();
    rule.class = Some("HeavyJob".to_owned());
    rule.tenant_key = TenantKey::parse("args.0").expect("a key");
    change(&mut rule);
    rule
}

/// A rule that promotes only when the test asks.
pub fn by_hand(batch: u32) -> Rule {
    rule(|rule| {
        (rule.batch, rule.strict_interval, rule.pace) = (Batch::Jobs(batch), true, Pace::Every(HOUR));
    })
}

/// The configuration of the Sidekiq `legacy`.
pub fn legacy(change: impl FnOnce(&mut Sidekiq)) -> MainQueue {
    let mut sidekiq = Sidekiq::default();
    change(&mut sidekiq);
    MainQueue { name: "legacy".to_owned(), kind: MainQueueKind::Sidekiq(Box::new(sidekiq)) }
}

/// The address of a Sidekiq's Redis that is not the store's.
pub fn at(redis: &TestRedis) -> Access {
    Access { url: Some(StoreUrl::parse(&redis.url()).expect("a url")), ..Access::default() }
}

/// Configures rules and a main queue. If a test runs the rounds, the server does not plan.
pub fn configure(config: &mut Config, rules: &[Rule], main_queue: MainQueue) {
    (config.plan, config.main_queues) = (rules.to_vec(), vec![main_queue]);
    if rules.iter().any(|rule| rule.strict_interval) {
        config.server.roles = vec![Role::Api, Role::Dispatch];
    }
}

/// Starts a fairgate whose rule `r` promotes into a Sidekiq.
pub async fn beside(rules: &[Rule], main_queue: MainQueue) -> TestApp {
    TestApp::start_with(Clock::System, |config| configure(config, rules, main_queue)).await
}

/// Pushes jobs of a tenant over HTTP: `[tenant, number]`.
async fn push(client: &Client, tenant: &str, jobs: usize) -> Vec<String> {
    let job = |number: usize| json!({"type": "t.job", "args": [tenant, number]});
    let jobs: Vec<Value> = (0..jobs).map(job).collect();
    client.post("/v1/jobs/batch", json!({"jobs": jobs})).await.expect(201).job_ids()
}

/// Runs a round of rule `r`.
pub async fn run(client: &Client) -> Value {
    client.post("/v1/admin/planner/r/run", json!({})).await.expect(200).body
}

/// The payloads in a Sidekiq queue, in the order in which workers would fetch them.
pub async fn waiting(redis: &TestRedis, key: &str) -> Vec<Value> {
    let texts: Vec<String> = redis.command(&["LRANGE", key, "0", "-1"]).await;
    texts.iter().rev().map(|text| serde_json::from_str(text).expect("a payload")).collect()
}

/// The tenants of payloads.
fn tenants(payloads: &[Value]) -> Vec<String> {
    payloads.iter().map(|payload| payload["args"][0].as_str().expect("a tenant").to_owned()).collect()
}
