//! The planner on a real Redis: locking, schedule, batch sizes, and failures during rounds.

mod batch_size;
mod crash;
mod faults;
mod gate;
mod lock;
mod observers;
mod previews;
mod queues;
mod schedule;
mod simulation;
mod skew;
mod unknown;
mod wake;
mod webhook_reports;
mod weights;

use crate::support::{Client, Process, TestApp, TestRedis, eventually, json};
use fairgate::clock::Clock;
use fairgate::config::{PlanDefaults, Role};
use fairgate::domain::job::State;
use fairgate::domain::plan::{Batch, Rule};
use fairgate::main_queue::MainQueues;
use fairgate::planner::{RoundAttempt, RoundReport, RunnerRegistry};
use fairgate::rules::Rulebook;
use fairgate::store::{RuleStatus, Store};
use fairgate::telemetry::Metrics;
use serde_json::Value;
use std::sync::Arc;

const HOUR: u64 = 3_600_000;

/// A rule `r` for types `t.*` and the main queue `q`.
pub fn rule(change: impl FnOnce(&mut Rule)) -> Rule {
    let mut rule = Rule::new("r", &["t.*"]);
    rule.queue = Some("q".to_owned());
    change(&mut rule);
    rule
}

/// A rule that promotes only when the test asks.
pub fn by_hand(batch: u32, change: impl FnOnce(&mut Rule)) -> Rule {
    rule(|rule| {
        rule.batch = Batch::Jobs(batch);
        rule.strict_interval = true;
        rule.pace = fairgate::domain::plan::Pace::Every(HOUR);
        change(rule);
    })
}

/// Starts a fairgate that plans the given rules.
pub async fn planning(rules: &[Rule]) -> TestApp {
    TestApp::start_with(Clock::System, |config| config.plan = rules.to_vec()).await
}

/// Starts another one that plans them, on the same Redis.
pub async fn planning_on(redis: &Arc<TestRedis>, rules: &[Rule]) -> TestApp {
    TestApp::start_on(Arc::clone(redis), Clock::System, |config| config.plan = rules.to_vec()).await
}

/// Starts a fairgate that has the given rules and does not plan.
pub async fn serving(rules: &[Rule]) -> TestApp {
    serving_on(&Arc::new(TestRedis::start()), rules).await
}

pub async fn serving_on(redis: &Arc<TestRedis>, rules: &[Rule]) -> TestApp {
    TestApp::start_on(Arc::clone(redis), Clock::System, |config| {
        config.plan = rules.to_vec();
        config.server.roles = vec![Role::Api, Role::Dispatch];
    })
    .await
}

/// The rulebook of a process with these rules in its configuration file.
pub fn rulebook(store: &Store, rules: &[Rule]) -> Rulebook {
    Rulebook::new(store.clone(), rules.to_vec(), Default::default(), PlanDefaults::default())
}

/// A registry whose rounds the test runs.
pub fn registry(store: &Store, rules: &[Rule]) -> RunnerRegistry {
    let main_queues = MainQueues::builtin(store.clone());
    RunnerRegistry::new(store.clone(), rulebook(store, rules), main_queues, Metrics::default(), "hand")
}

/// Runs a round now.
async fn run(registry: &RunnerRegistry) -> RoundReport {
    match registry.run("r").await.expect("a round").expect("a rule") {
        RoundAttempt::Ran { report, .. } => *report,
        other => panic!("no round: {other:?}"),
    }
}

/// Enqueues up to 1000 jobs of a tenant in one request.
pub async fn push(client: &Client, tenant: &str, jobs: usize) -> Vec<String> {
    let job = json!({"type": "t.job", "args": [], "meta": {"tenant_id": tenant}});
    client.post("/v1/jobs/batch", json!({"jobs": vec![job; jobs]})).await.expect(201).job_ids()
}

/// Enqueues jobs of tenants while the rule is paused, so that all are staged.
pub async fn stage(app: &TestApp, tenants: &[(&str, usize)]) {
    app.store().pause_rule("r", true, "test").await.unwrap();
    for (tenant, jobs) in tenants {
        push(&app.client, tenant, *jobs).await;
    }
    app.store().pause_rule("r", false, "test").await.unwrap();
}

/// Completes up to `most` jobs of the main queue; returns their tenants in order.
async fn work(client: &Client, most: usize) -> Vec<String> {
    let fetched = client.fetch("q", most).await;
    for id in fetched.job_ids() {
        client.ack(&id).await.expect(200);
    }
    let jobs = fetched.at("/jobs").as_array().cloned().unwrap_or_default();
    jobs.iter().map(|job| job["meta"]["tenant_id"].as_str().unwrap_or_default().to_owned()).collect()
}

/// Works until `jobs` jobs are done.
pub async fn work_off(client: &Client, jobs: usize) {
    let mut done = 0;
    eventually("all jobs are done", async || {
        done += work(client, 50).await.len();
        done >= jobs
    })
    .await;
    assert_eq!((done, work(client, 1).await.len()), (jobs, 0));
}

pub async fn status(store: &Store) -> RuleStatus {
    store.rule_status("r", None).await.expect("a status")
}

/// The number of jobs that wait in the main queue.
pub async fn depth(app: &TestApp) -> i64 {
    app.store().queue_counts("q").await.unwrap()[&State::Available]
}

/// The recorded rounds, oldest first.
async fn rounds(store: &Store) -> Vec<Value> {
    let mut rounds = store.recorded_rounds("r", None, 1000).await.expect("the rounds");
    rounds.reverse();
    rounds.iter().map(|round| serde_json::from_str(&round.document).expect("a document")).collect()
}

/// Starts processes that plan the rule of this configuration, on one Redis.
async fn processes(redis: &TestRedis, count: usize, rule: &str) -> (Vec<Process>, Vec<String>) {
    let file = redis.directory().join("fairgate.toml");
    std::fs::write(&file, format!("[[plan]]\nname = \"r\"\ntypes = [\"t.*\"]\nqueue = \"q\"\n{rule}\n")).unwrap();
    let arguments = ["--config", file.to_str().unwrap(), "--redis", &redis.url()].map(str::to_owned).to_vec();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let mut processes = Vec::new();
    for _ in 0..count {
        processes.push(Process::serve(&words).await);
    }
    (processes, arguments)
}
