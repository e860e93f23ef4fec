//! Tenants: identity, isolation, limits, statistics and administration.

mod admin;
mod audit;
mod events;
mod identity;
mod isolation;
mod limits;
mod namespaces;
mod rates;
mod shares;
mod slots;
mod stats;

use crate::support::{Answer, NOON, TestApp, json};
use fairgate::clock::Clock;
use fairgate::config::Config;
use fairgate::domain::tenant::{TenantLimits, TenantRule, TenantSettings};
use fairgate::store::TenantJobs;
use serde_json::Value;

/// Starts a fairgate with a manual clock and settings of tenants.
async fn start(rules: &[(&str, TenantLimits)]) -> TestApp {
    start_with(rules, |_| {}).await
}

async fn start_with(terms: &[(&str, TenantLimits)], change: impl FnOnce(&mut Config)) -> TestApp {
    TestApp::start_with(Clock::manual(NOON), |config| {
        config.tenant = rules(terms);
        change(config);
    })
    .await
}

pub fn rules(terms: &[(&str, TenantLimits)]) -> Vec<TenantRule> {
    let rule = |(id, limits): &(&str, TenantLimits)| TenantRule {
        id: (*id).to_owned(),
        terms: TenantSettings { limits: limits.clone(), ..TenantSettings::default() },
    };
    terms.iter().map(rule).collect()
}

pub fn slots(most: u32) -> TenantLimits {
    TenantLimits { max_concurrency: Some(most), ..TenantLimits::default() }
}

fn job(tenant: &str) -> Value {
    json!({"type": "t.job", "args": [], "queue": "q", "meta": {"tenant_id": tenant}})
}

fn later(tenant: &str) -> Value {
    let mut job = job(tenant);
    job["scheduled_at"] = "+PT1H".into();
    job
}

impl TestApp {
    async fn push(&self, job: Value) -> Answer {
        self.client.post("/v1/jobs", job).await
    }

    async fn with_header(&self, method: &str, path: &str, tenant: &str, body: Option<Value>) -> Answer {
        let body = body.map(|body| body.to_string());
        self.client.try_send(method, path, &[("X-OJS-Tenant", tenant)], body).await.expect("an answer")
    }

    async fn fetch_for(&self, tenant: &str, count: usize) -> Vec<String> {
        let body = json!({"queues": ["q"], "count": count, "worker_id": "w"});
        self.with_header("POST", "/v1/workers/fetch", tenant, Some(body)).await.expect(200).job_ids()
    }

    async fn put(&self, path: &str, body: Value) -> Answer {
        self.client.send("PUT", path, Some(body.to_string())).await
    }

    async fn jobs_of(&self, tenant: &str) -> TenantJobs {
        self.app.store.tenant_jobs(&[tenant]).await.unwrap()[0]
    }

    async fn events(&self, kind: &str) -> Vec<Value> {
        let path = format!("/v1/events?types={kind}&limit=200");
        let answer = self.client.get(&path).await.expect(200);
        answer.at("/events").as_array().cloned().unwrap_or_default()
    }
}
