//! fairgate is killed while jobs are delivered to the other server: each arrives and runs once.

use super::*;
use crate::support::{ChaosProxy, Process, TestRedis};
use std::collections::HashMap;
use std::time::Duration;

/// The number of kills; `FAIRGATE_TEST_KILLS` overrides it.
const KILLS: usize = 100;

/// Arguments of a fairgate between a Redis and a server.
fn arguments(redis: &TestRedis, server: &str) -> Vec<String> {
    let file = redis.directory().join("fairgate.toml");
    let text = format!(
        "[[main_queue]]\nname = \"jobs\"\nkind = \"ojs\"\nurl = \"{server}\"\ntimeout = \"1s\"\n\
         [[plan]]\nname = \"r\"\ntypes = [\"t.*\"]\nqueue = \"heavy\"\nmain_queue = \"jobs\"\n\
         enqueue_interval = \"10ms\"\nenqueue_jobs = 20\nplanner_lock_ttl = \"1s\"\n"
    );
    std::fs::write(&file, text).expect("a file");
    ["--config", file.to_str().expect("a path"), "--redis", &redis.url()].map(str::to_owned).to_vec()
}

/// Every other kill happens when the server has stored a batch and its response is lost, which is between sending and
/// confirming; the others at random times.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kills_between_sending_and_confirming_neither_lose_nor_repeat_jobs() {
    let kills = std::env::var("FAIRGATE_TEST_KILLS").map_or(KILLS, |text| text.parse().expect("a number of kills"));
    let (redis, remote) = (TestRedis::durable(), TestApp::start().await);
    let proxy = ChaosProxy::before(remote.app.address).await;
    let arguments = arguments(&redis, &proxy.http_url());
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let mut process = Process::serve(&words).await;
    let (mut pushed, mut runs) = (0_u64, HashMap::<u64, u64>::new());
    // Workers finish fetched jobs at once.
    let work = async |runs: &mut HashMap<u64, u64>| {
        loop {
            let fetched = remote.client.fetch("heavy", 50).await;
            let jobs = fetched.at("/jobs").as_array().cloned().unwrap_or_default();
            for job in &jobs {
                *runs.entry(job["args"][0].as_u64().expect("a number")).or_insert(0) += 1;
                remote.client.ack(job["id"].as_str().expect("an id")).await.expect(200);
            }
            if jobs.is_empty() {
                return;
            }
        }
    };
    for kill in 0..kills {
        if kill % 2 == 0 {
            proxy.arm("POST /ojs/v1/jobs/batch");
        }
        for _ in 0..5 {
            pushed += 1;
            let id = fairgate::domain::job::id::generate();
            // With an explicit id, so that a push without a response can be repeated.
            let job =
                json!({"id": id, "type": "t.job", "args": [pushed], "meta": {"tenant_id": format!("t{}", pushed % 3)}});
            eventually("it is accepted", async || {
                let answer = process.client.try_send("POST", "/v1/jobs", &[], Some(job.to_string())).await;
                matches!(answer.map(|answer| answer.status), Ok(201 | 409))
            })
            .await;
        }
        match kill % 2 {
            0 => proxy.struck().await,
            _ => tokio::time::sleep(Duration::from_millis(kill as u64 * 7 % 60)).await,
        }
        process.kill();
        proxy.open();
        process.restart(&words);
        work(&mut runs).await;
    }
    eventually("all have run", async || {
        work(&mut runs).await;
        runs.len() as u64 >= pushed
    })
    .await;
    eventually("the outbox is empty", async || redis.keys_with("outbox").await.is_empty()).await;
    work(&mut runs).await;
    assert_eq!(runs.len() as u64, pushed);
    let doubled: Vec<_> = runs.iter().filter(|(_, times)| **times != 1).collect();
    assert!(doubled.is_empty(), "{doubled:?}");
}
