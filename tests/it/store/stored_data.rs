//! Data that earlier versions stored, from tests/fixtures: this version migrates it and continues with it.

use crate::support::{TestApp, TestRedis, eventually, json};
use fairgate::clock::Clock;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const SCHEMA: &str = "fg:{default}:schema";

fn fixtures() -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let entries = std::fs::read_dir(directory).expect("the directory exists");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    files.sort();
    files
}

/// A Redis with the data of a fixture, the states of its jobs, and the time at which it was written.
struct Stored {
    redis: Arc<TestRedis>,
    states: BTreeMap<String, String>,
    written_at: i64,
}

impl Stored {
    async fn load(file: &Path) -> Stored {
        let text = std::fs::read_to_string(file).expect("the fixture can be read");
        let mut lines = text.lines();
        let states = serde_json::from_str(lines.next().expect("a line")).expect("states of jobs");
        let redis = Arc::new(TestRedis::start());
        let mut connection = redis.connection().await;
        for line in lines {
            let (key, ttl, command, arguments): (String, i64, String, Vec<String>) =
                serde_json::from_str(line).expect("a key");
            let mut create = redis::cmd(&command);
            create.arg(&key);
            for argument in &arguments {
                // A character stands for a byte.
                create.arg(argument.chars().map(|byte| u8::try_from(byte).expect("a byte")).collect::<Vec<u8>>());
            }
            create.exec_async(&mut connection).await.expect("the key is created");
            if ttl >= 0 {
                redis.command::<()>(&["PEXPIRE", &key, &ttl.to_string()]).await;
            }
        }
        let written_at = redis.command(&["HGET", "fg:{default}:state", "clock"]).await;
        Stored { redis, states, written_at }
    }

    async fn start(&self) -> TestApp {
        TestApp::start_on(Arc::clone(&self.redis), Clock::manual(self.written_at + 1000), |_| {}).await
    }

    /// Ids of the jobs in a state, in the order in which they were enqueued.
    fn ids(&self, state: &str) -> Vec<&str> {
        self.states.iter().filter(|(_, of_job)| *of_job == state).map(|(id, _)| id.as_str()).collect()
    }
}

async fn fetch_all(app: &TestApp, queue: &str) -> Vec<Value> {
    let jobs = app.client.fetch(queue, 10).await.at("/jobs").clone();
    jobs.as_array().cloned().unwrap_or_default()
}

async fn ack_all(app: &TestApp, jobs: &[Value]) {
    for job in jobs {
        app.client.ack(job["id"].as_str().expect("an id")).await.expect(200);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn data_of_every_schema_is_read_and_continued() {
    for file in fixtures() {
        let stored = Stored::load(&file).await;
        let app = stored.start().await;
        app.assert_consistent().await;
        for (id, state) in &stored.states {
            assert_eq!(&app.client.state(id).await, state, "{id} in {}", file.display());
        }
        let [done, ..] = stored.ids("completed")[..] else { panic!("no completed job") };
        assert_eq!(app.client.get(&format!("/v1/jobs/{done}/result")).await.at("/result"), &json!({"sum": 3}));
        let active = stored.ids("active");
        let progress = app.client.get(&format!("/v1/jobs/{}/progress", active[0])).await;
        assert!(progress.text.contains("0.4") || progress.text.contains("40"), "{}", progress.text);
        let checkpoint = app.client.get(&format!("/v1/jobs/{}/checkpoint", active[0])).await;
        assert_eq!(checkpoint.at("/state"), &json!({"page": 7}));

        // The worker that held a lease goes on, which frees the slot that another job waits for.
        assert_eq!(fetch_all(&app, "calls").await.len(), 1, "the job of tenant acme");
        for id in &active {
            app.client.ack(id).await.expect(200);
        }
        ack_all(&app, &fetch_all(&app, "calls").await).await;

        // Staged jobs are promoted once their rule is resumed, the highest priority first.
        app.client.post("/v1/admin/planner/reports/resume", json!({})).await.expect(200);
        let mut reports = Vec::new();
        eventually("all staged jobs are promoted", async || {
            app.clock.advance(1000);
            reports.extend(fetch_all(&app, "reports").await);
            reports.len() == 5
        })
        .await;
        assert_eq!(reports[0]["priority"], 3);
        ack_all(&app, &reports).await;

        app.client.post("/v1/queues/paused/resume", json!({})).await.expect(200);
        let second = fetch_all(&app, "flow").await;
        assert_eq!(second[0]["type"], "flow.second");
        for jobs in [second, fetch_all(&app, "paused").await, fetch_all(&app, "states").await] {
            ack_all(&app, &jobs).await;
        }
        let workflows = app.client.get("/v1/workflows").await.expect(200);
        assert_eq!(workflows.at("/workflows/0/state"), "completed", "{}", workflows.text);
        assert_eq!(app.client.get("/v1/cron/nightly").await.expect(200).at("/cron/expression"), "0 3 * * *");
        app.assert_consistent().await;
    }
}

#[tokio::test]
async fn the_newest_fixture_has_the_present_schema() {
    let app = TestApp::start().await;
    let schema: String = app.redis.command(&["GET", SCHEMA]).await;
    let newest = fixtures().pop().expect("a fixture");
    assert!(newest.ends_with(format!("schema-{schema}.jsonl")), "{} is for another schema", newest.display());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_that_start_at_once_migrate_data_once() {
    let oldest = fixtures().remove(0);
    let stored = Stored::load(&oldest).await;
    let before: String = stored.redis.command(&["GET", SCHEMA]).await;
    let (one, other) = tokio::join!(stored.start(), stored.start());
    let after: String = stored.redis.command(&["GET", SCHEMA]).await;
    assert_ne!(before, after);
    assert_eq!(stored.redis.keys_with("worker_jobs").await.len(), 1);
    for id in stored.ids("active") {
        one.client.ack(id).await.expect(200);
    }
    assert_eq!(stored.redis.keys_with("worker_jobs").await, [""; 0]);
    other.assert_consistent().await;
}
