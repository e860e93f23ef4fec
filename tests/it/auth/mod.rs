//! Authentication and authorization: keys, roles, tenants.

mod cli;
mod credentials;
mod events;
mod matrix;
mod runtime_keys;
mod scope;

use crate::support::{Answer, Client, TestApp, TestRedis};
use fairgate::auth::{ApiKey, Digest, Role};
use fairgate::clock::Clock;
use fairgate::config::Config;
use serde_json::Value;
use std::sync::Arc;

/// A readable key with the length of a real one.
pub fn secret(name: &str) -> String {
    format!("fgk_{name:x<43}")
}

pub fn key(name: &str, role: Role, tenant: Option<&str>) -> ApiKey {
    ApiKey { name: name.to_owned(), role, tenant: tenant.map(str::to_owned), digest: Digest::of(&secret(name)) }
}

/// Starts a server with a key of each role, named after it, and of each role for two tenants, such as `acme-worker`.
pub async fn guarded() -> TestApp {
    guarded_on(Arc::new(TestRedis::start()), |_| {}).await
}

pub async fn guarded_on(redis: Arc<TestRedis>, change: impl FnOnce(&mut Config)) -> TestApp {
    TestApp::start_on(redis, Clock::System, |config| {
        for (name, role) in Role::ALL {
            config.api_keys.push(key(name, role, None));
            for tenant in ["acme", "beta"] {
                config.api_keys.push(key(&format!("{tenant}-{name}"), role, Some(tenant)));
            }
        }
        change(config);
    })
    .await
}

/// A client with a key.
pub struct Caller {
    client: Client,
    header: String,
}

impl Caller {
    pub fn new(client: &Client, key: &str) -> Self {
        Caller { client: client.clone(), header: format!("Bearer {key}") }
    }

    pub async fn send(&self, method: &str, path: &str, body: Option<Value>) -> Answer {
        let body = body.map(|body| body.to_string());
        self.client.try_send(method, path, &[("authorization", &self.header)], body).await.expect("an answer")
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.send("GET", path, None).await
    }

    pub async fn post(&self, path: &str, body: Value) -> Answer {
        self.send("POST", path, Some(body)).await
    }

    pub async fn delete(&self, path: &str) -> Answer {
        self.send("DELETE", path, None).await
    }

    /// Enqueues a job, which must be accepted, and returns its id.
    pub async fn enqueue(&self, job: Value) -> String {
        self.post("/v1/jobs", job).await.expect(201).text_at("/job/id").to_owned()
    }
}

/// A client with the key of that name.
pub fn caller(app: &TestApp, name: &str) -> Caller {
    Caller::new(&app.client, &secret(name))
}
