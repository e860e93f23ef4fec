//! Staging: jobs of planned types wait, are promoted, pass through, return and expire, up to a maximum.

mod idle;
mod max_blocked;
mod max_staged;
mod pass_through;
mod priorities;
mod returns;
mod shared_queue;
mod staged_jobs;
mod tenant;
mod weights;

use crate::support::{Answer, NOON, TestApp, json};
use fairgate::domain::plan::Rule;
use fairgate::store::{Begun, Ended, Promoted, Round, Why};
use serde_json::Value;
use std::collections::BTreeSet;
use std::ops::Deref;

const SECOND: i64 = 1000;

/// A passive fairgate with the plan rule `plan` for the types `test.*`.
struct StagingEnv {
    app: TestApp,
    rule: Rule,
}

impl Deref for StagingEnv {
    type Target = TestApp;

    fn deref(&self) -> &TestApp {
        &self.app
    }
}

impl StagingEnv {
    async fn open() -> StagingEnv {
        StagingEnv::with(|_| {}).await
    }

    async fn with(change: impl FnOnce(&mut Rule)) -> StagingEnv {
        let mut rule = Rule::new("plan", &["test.*"]);
        change(&mut rule);
        let planned = rule.clone();
        let app = TestApp::start_passive(|config| config.plan = vec![planned]).await;
        StagingEnv { app, rule }
    }

    /// Starts one on which nothing passes through: its queue `default` has a job of an unplanned type.
    async fn busy(change: impl FnOnce(&mut Rule)) -> StagingEnv {
        let env = StagingEnv::with(change).await;
        env.client.enqueue(json!({"type": "other.job", "args": []})).await;
        env
    }

    async fn begin(&self, why: Why) -> Begun {
        self.store().begin_round(&self.rule, "test", why, None).await.unwrap()
    }

    /// Runs a requested round that promotes up to `jobs` jobs per queue.
    async fn round(&self, jobs: u64) -> u64 {
        match self.begin(Why::Run).await {
            Begun::Round(round) => self.finish_round(round, jobs).await,
            Begun::Empty => 0,
            other => panic!("no round: {other:?}"),
        }
    }

    /// Finishes a round that has begun.
    async fn finish_round(&self, round: Round, jobs: u64) -> u64 {
        let (store, name) = (self.store(), &self.rule.name);
        let mut total = 0;
        for queue in &round.queues {
            match store.promote(name, &round.token, &queue.queue, jobs).await.unwrap() {
                Promoted::Jobs { promoted, .. } => total += promoted,
                other => panic!("not promoted: {other:?}"),
            }
        }
        let ended = Ended { document: "{}".to_owned(), promoted: total, ..Ended::default() };
        assert!(store.end_round(name, &round.token, round.number, &ended).await.unwrap());
        total
    }

    /// Enqueues a planned job of a tenant.
    async fn push(&self, tenant: &str) -> String {
        self.client.enqueue(planned(tenant)).await
    }

    async fn state(&self, id: &str) -> String {
        self.client.state(id).await
    }

    async fn is_staged(&self, id: &str) -> bool {
        let job = self.client.job(id).await;
        assert_eq!(job.get("x_staged").is_some(), job["x_staged"] == true, "true or not there");
        assert!(job["x_staged"] != true || job["state"] == "pending", "{job}");
        job["x_staged"] == true
    }

    /// The rule's count of staged jobs.
    async fn staged(&self) -> u64 {
        self.store().rule_status(&self.rule.name, None).await.unwrap().staged
    }

    /// Names of all tenants with jobs staged for a queue.
    async fn tenants(&self, queue: &str) -> Vec<String> {
        let (mut names, mut cursor) = (BTreeSet::new(), 0);
        loop {
            let (next, more) = self.store().tenant_names(&self.rule.name, queue, cursor, 1000).await.unwrap();
            names.extend(more);
            cursor = next;
            if cursor == 0 {
                return names.into_iter().collect();
            }
        }
    }

    async fn counts(&self, queue: &str) -> Answer {
        self.client.get(&format!("/v1/queues/{queue}")).await.expect(200)
    }

    /// Keys of tenants in staging.
    async fn tenant_keys(&self) -> Vec<String> {
        self.redis.keys_with("fair:plan:*:").await
    }
}

fn planned(tenant: &str) -> Value {
    json!({"type": "test.job", "args": [], "meta": {"tenant_id": tenant}})
}

fn id_of(answer: &Answer) -> String {
    answer.header("location").trim_start_matches("/ojs/v1/jobs/").to_owned()
}
