//! An OJS client that keeps the raw text of responses and validates them against the server's OpenAPI document.

use super::contract;
use fairgate::weights;
use serde_json::Value;

pub use serde_json::json;

/// A client for one server.
#[derive(Clone)]
pub struct Client {
    base: String,
    http: reqwest::Client,
}

/// A response: status, headers, text, and the text parsed as JSON (null if it is not JSON).
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: reqwest::header::HeaderMap,
    pub text: String,
    pub body: Value,
}

impl Answer {
    /// Returns the response if it has the expected status.
    #[track_caller]
    pub fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}", self.text);
        self
    }

    /// The value at a JSON pointer such as `/job/state`.
    pub fn at(&self, pointer: &str) -> &Value {
        self.body.pointer(pointer).unwrap_or(&Value::Null)
    }

    /// The text at a JSON pointer.
    #[track_caller]
    pub fn text_at(&self, pointer: &str) -> &str {
        self.at(pointer).as_str().unwrap_or_else(|| panic!("no text at {pointer}: {}", self.text))
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// Ids of `jobs`, in order.
    pub fn job_ids(&self) -> Vec<String> {
        let jobs = self.at("/jobs").as_array().cloned().unwrap_or_default();
        jobs.iter().map(|job| job["id"].as_str().unwrap_or_default().to_owned()).collect()
    }
}

impl Client {
    pub fn new(base: String) -> Self {
        // A request that hangs should fail its test, not the whole run.
        let http = weights::client_builder().timeout(std::time::Duration::from_secs(30)).build().expect("a client");
        Client { base, http }
    }

    pub fn base(&self) -> &str {
        &self.base
    }

    /// Sends a request unchanged; an error means that there was no response.
    pub async fn try_send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<String>,
    ) -> Result<Answer, reqwest::Error> {
        let path =
            if path.starts_with("/ojs") || !path.starts_with("/v1") { path.to_owned() } else { format!("/ojs{path}") };
        let method = reqwest::Method::from_bytes(method.as_bytes()).expect("a method");
        let mut request = self.http.request(method.clone(), format!("{}{path}", self.base));
        if body.is_some() && !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type")) {
            request = request.header("content-type", "application/openjobspec+json");
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if let Some(body) = &body {
            request = request.body(body.clone());
        }
        let response = request.send().await?;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let text = response.text().await?;
        let parsed = serde_json::from_str(&text).unwrap_or(Value::Null);
        let answer = Answer { status, headers, text, body: parsed };
        contract::check(method.as_str(), &path, body.as_deref(), &answer);
        Ok(answer)
    }

    pub async fn send(&self, method: &str, path: &str, body: Option<String>) -> Answer {
        self.try_send(method, path, &[], body).await.expect("an answer")
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.send("GET", path, None).await
    }

    pub async fn delete(&self, path: &str) -> Answer {
        self.send("DELETE", path, None).await
    }

    pub async fn post(&self, path: &str, body: Value) -> Answer {
        self.send("POST", path, Some(body.to_string())).await
    }

    /// Enqueues a job, which must be accepted, and returns its id.
    pub async fn enqueue(&self, job: Value) -> String {
        self.post("/v1/jobs", job).await.expect(201).text_at("/job/id").to_owned()
    }

    /// Enqueues a job of an arbitrary type.
    pub async fn enqueue_into(&self, queue: &str) -> String {
        self.enqueue(json!({"type": "test.job", "args": [], "options": {"queue": queue}})).await
    }

    /// Fetches from one queue and returns the response.
    pub async fn fetch(&self, queue: &str, count: usize) -> Answer {
        self.post("/v1/workers/fetch", json!({"queues": [queue], "count": count, "worker_id": "w1"})).await.expect(200)
    }

    pub async fn ack(&self, id: &str) -> Answer {
        self.post("/v1/workers/ack", json!({"job_id": id})).await
    }

    /// Nacks a job with a retryable error.
    pub async fn nack(&self, id: &str) -> Answer {
        self.post("/v1/workers/nack", json!({"job_id": id, "error": {"code": "oops", "message": "it broke"}})).await
    }

    /// The job as returned by GET.
    pub async fn job(&self, id: &str) -> Value {
        self.get(&format!("/v1/jobs/{id}")).await.expect(200).at("/job").clone()
    }

    pub async fn state(&self, id: &str) -> String {
        self.job(id).await["state"].as_str().unwrap_or_default().to_owned()
    }
}
