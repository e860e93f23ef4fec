//! fairgate is killed while jobs move from one Redis to another: each arrives exactly once.

use super::*;
use crate::support::{ChaosProxy, Process, Random};
use std::collections::HashMap;
use std::time::Duration;

/// The number of kills; `FAIRGATE_TEST_KILLS` overrides it.
const KILLS: usize = 100;

/// Arguments of a fairgate between two Redis servers.
fn arguments(ours: &TestRedis, theirs: &str) -> Vec<String> {
    let file = ours.directory().join("fairgate.toml");
    let text = format!(
        "[[main_queue]]\nname = \"legacy\"\nkind = \"sidekiq\"\nurl = \"{theirs}\"\nstaging_queue = \"stage\"\n\
         [[plan]]\nname = \"r\"\ntypes = [\"t.*\", \"*Job\"]\nclass = \"HeavyJob\"\nqueue = \"heavy\"\nmain_queue = \"legacy\"\n\
         tenant_key = \"args.0\"\nenqueue_interval = \"10ms\"\nenqueue_jobs = 20\nplanner_lock_ttl = \"1s\"\n"
    );
    std::fs::write(&file, text).expect("a file");
    ["--config", file.to_str().expect("a path"), "--redis", &ours.url()].map(str::to_owned).to_vec()
}

#[tokio::test]
async fn a_kill_between_delivery_and_confirmation_repeats_no_job() {
    let (ours, theirs) = (TestRedis::durable(), TestRedis::start());
    let proxy = ChaosProxy::start(&theirs).await;
    let arguments = arguments(&ours, &proxy.url());
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let mut process = Process::serve(&words).await;
    for (what, pattern) in [("delivered", ":delivered"), ("claimed", ":inbox:last")] {
        proxy.arm(pattern);
        if what == "delivered" {
            push(&process.client, "a", 5).await;
        } else {
            for n in 0..5 {
                let text = json!({"class": "HeavyJob", "args": ["b"], "jid": n}).to_string();
                theirs.command::<i64>(&["LPUSH", "queue:stage", &text]).await;
            }
        }
        proxy.struck().await;
        process.kill();
        proxy.open();
        process.restart(&words);
        eventually("all have arrived", async || {
            let delivered = ours.keys_with("outbox").await.is_empty();
            let inboxes: Vec<String> = theirs.command(&["KEYS", "*:inbox"]).await;
            delivered && inboxes.is_empty() && theirs.command::<i64>(&["LLEN", "queue:stage"]).await == 0
        })
        .await;
        eventually("five", async || waiting(&theirs, "queue:heavy").await.len() >= 5).await;
        assert_eq!(waiting(&theirs, "queue:heavy").await.len(), 5, "{what}");
        theirs.command::<i64>(&["DEL", "queue:heavy"]).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kills_at_any_time_neither_lose_nor_repeat_jobs() {
    let kills = std::env::var("FAIRGATE_TEST_KILLS").map_or(KILLS, |text| text.parse().expect("a number of kills"));
    let (ours, theirs) = (TestRedis::durable(), TestRedis::start());
    let arguments = arguments(&ours, &theirs.url());
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let mut process = Process::serve(&words).await;
    let (mut random, mut pushed, mut arrived) = (Random(20_260_102), 0_u64, HashMap::<String, u64>::new());
    let take = async |arrived: &mut HashMap<String, u64>| {
        let texts: Vec<String> = theirs.command(&["RPOP", "queue:heavy", "1000"]).await;
        for text in texts {
            let payload: Value = serde_json::from_str(&text).expect("a payload");
            *arrived.entry(payload["args"][1].to_string()).or_insert(0) += 1;
        }
    };
    for _ in 0..kills {
        // Over HTTP with an explicit id, so that a push without a response can be repeated; and like a Sidekiq client.
        for _ in 0..5 {
            pushed += 2;
            let id = fairgate::domain::job::id::generate();
            let body = json!({"id": id, "type": "t.job", "args": ["a", pushed]}).to_string();
            eventually("it is accepted", async || {
                let answer = process.client.try_send("POST", "/v1/jobs", &[], Some(body.clone())).await;
                matches!(answer.map(|answer| answer.status), Ok(201 | 409))
            })
            .await;
            let text = json!({"class": "HeavyJob", "args": ["b", pushed + 1]}).to_string();
            theirs.command::<i64>(&["LPUSH", "queue:stage", &text]).await;
        }
        tokio::time::sleep(Duration::from_millis(random.below(60) as u64)).await;
        process.kill();
        process.restart(&words);
        take(&mut arrived).await;
    }
    eventually("all have arrived", async || {
        take(&mut arrived).await;
        arrived.len() as u64 >= pushed
    })
    .await;
    assert_eq!(arrived.len() as u64, pushed);
    let doubled: Vec<_> = arrived.iter().filter(|(_, times)| **times != 1).collect();
    assert!(doubled.is_empty(), "{doubled:?}");
}
