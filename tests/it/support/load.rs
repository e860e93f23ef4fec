//! Producers and workers that keep queue `q` busy while a test disturbs Redis.

use super::{Answer, Client, json};
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use tokio::task::JoinSet;

/// The outcome of every request that producers and workers sent.
#[derive(Default)]
pub struct LoadResults {
    pub accepted: HashSet<String>,
    /// Times that each job was handed to a worker.
    pub delivered: HashMap<String, usize>,
    pub acked: HashSet<String>,
    /// Responses with status 503.
    pub unavailable: usize,
    /// Other responses without success.
    pub failures: Vec<String>,
}

/// Running producers and workers.
pub struct Load {
    task: Task,
    tasks: JoinSet<()>,
}

/// One producer or worker.
#[derive(Clone)]
struct Task {
    client: Client,
    results: Arc<Mutex<LoadResults>>,
    closing: Arc<AtomicBool>,
}

impl Load {
    pub fn start(client: &Client, producers: usize, workers: usize) -> Self {
        let task = Task { client: client.clone(), results: Arc::default(), closing: Arc::default() };
        let mut tasks = JoinSet::new();
        (0..producers).for_each(|_| _ = tasks.spawn(task.clone().produce()));
        (0..workers).for_each(|_| _ = tasks.spawn(task.clone().work()));
        Load { task, tasks }
    }

    pub fn accepted(&self) -> usize {
        self.task.results.lock().unwrap().accepted.len()
    }

    pub fn acked(&self) -> usize {
        self.task.results.lock().unwrap().acked.len()
    }

    /// Stops the producers, and the workers once the queue is empty.
    pub async fn stop(mut self) -> LoadResults {
        self.task.closing.store(true, Ordering::SeqCst);
        while let Some(ended) = self.tasks.join_next().await {
            ended.expect("producers and workers do not panic");
        }
        std::mem::take(&mut *self.task.results.lock().unwrap())
    }
}

impl LoadResults {
    /// Fails the test if a request failed otherwise than with 503.
    #[track_caller]
    pub fn assert_no_failures(&self, figures: &str) {
        assert!(self.failures.is_empty(), "{figures}: {:?}", &self.failures[..self.failures.len().min(5)]);
    }
}

impl Task {
    /// Sends a request; returns its response if it succeeded.
    async fn post(&self, path: &str, body: Value) -> Option<Answer> {
        let answer = self.client.post(path, body).await;
        let mut results = self.results.lock().unwrap();
        match answer.status {
            200..=299 => return Some(answer),
            503 => results.unavailable += 1,
            status => results.failures.push(format!("{path}: {status} {}", answer.text)),
        }
        None
    }

    fn is_closing(&self) -> bool {
        self.closing.load(Ordering::SeqCst)
    }

    async fn produce(self) {
        while !self.is_closing() {
            let job = json!({"type": "test.job", "args": [], "queue": "q"});
            if let Some(answer) = self.post("/v1/jobs", job).await {
                self.results.lock().unwrap().accepted.insert(answer.text_at("/job/id").to_owned());
            }
        }
    }

    async fn work(self) {
        loop {
            let was_closing = self.is_closing();
            let fetch = json!({"queues": ["q"], "count": 10, "worker_id": "w1"});
            let ids = self.post("/v1/workers/fetch", fetch).await.map(|answer| answer.job_ids()).unwrap_or_default();
            for id in &ids {
                *self.results.lock().unwrap().delivered.entry(id.clone()).or_default() += 1;
                if self.post("/v1/workers/ack", json!({"job_id": id})).await.is_some() {
                    self.results.lock().unwrap().acked.insert(id.clone());
                }
            }
            if ids.is_empty() && was_closing {
                return;
            }
        }
    }
}
