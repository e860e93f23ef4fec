//! Several processes, some of them killed: each time fires once.

use super::{MINUTE, NEW_YEAR, cron, events, looked_at, made, register, runs};
use crate::support::{Client, Process, TestApp, TestRedis, eventually, json};
use fairgate::clock::Clock;
use fairgate::domain::time::At;
use serde_json::Value;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

#[tokio::test]
async fn each_time_fires_once_with_any_number_of_processes() {
    let redis = Arc::new(TestRedis::start());
    let clock = Clock::manual(NEW_YEAR);
    let mut apps = Vec::new();
    for _ in 0..4 {
        apps.push(TestApp::start_on(redis.clone(), clock.clone(), |_| {}).await);
    }
    for number in 0..20 {
        register(&apps[0].client, cron(&format!("c{number}"), "* * * * *", json!({"overlap_policy": "allow"}))).await;
    }
    for minute in 1..=5 {
        clock.advance(MINUTE);
        for number in 0..20 {
            looked_at(&apps[0], &format!("c{number}")).await;
        }
        assert_eq!(made(&apps[0].client, "q").await, 20 * minute);
    }
}

/// The times for which jobs exist; fails the test on a duplicate.
fn times(jobs: &[Value]) -> HashSet<String> {
    let times: Vec<String> =
        jobs.iter().map(|job| job["meta"]["cron_triggered_at"].as_str().unwrap_or_default().to_owned()).collect();
    let distinct: HashSet<String> = times.iter().cloned().collect();
    assert_eq!(distinct.len(), times.len(), "a time fired twice: {times:?}");
    distinct
}

#[tokio::test]
async fn no_time_fires_twice_after_a_kill_and_other_crons_continue() {
    let redis = TestRedis::durable();
    let url = redis.url();
    let arguments = ["--redis", url.as_str()];
    let mut first = Process::serve(&arguments).await;
    let second = Process::serve(&arguments).await;
    let every = json!({"overlap_policy": "allow", "job_template": {"type": "a.b", "options": {"queue": "q"}}});
    register(&first.client, cron("every", "* * * * * *", every)).await;
    let mut jobs = Vec::new();
    let mut take = async |client: &Client, wanted: usize| {
        eventually("jobs are made", async || {
            jobs.extend(client.fetch("q", 100).await.at("/jobs").as_array().cloned().unwrap_or_default());
            times(&jobs).len() >= wanted
        })
        .await;
    };
    take(&second.client, 1).await;
    first.kill();
    take(&second.client, 3).await;
    first.restart(&arguments);
    take(&second.client, 4).await;
    drop(second); // killed as well: the first goes on alone
    eventually("it is ready", async || {
        first.client.try_send("GET", "/ready", &[], None).await.is_ok_and(|answer| answer.status == 200)
    })
    .await;
    take(&first.client, 6).await;
    assert_eq!(times(&jobs).len() as i64, runs(&first.client, "every").await - made_since(&first.client).await);
}

/// The jobs enqueued since the last fetch.
async fn made_since(client: &Client) -> i64 {
    client.get("/v1/queues/q/stats").await.at("/queue/available").as_i64().unwrap_or(0)
}

#[tokio::test]
async fn a_time_missed_while_no_process_ran_is_caught_up_once_after_kill_9() {
    let redis = TestRedis::durable();
    let url = redis.url();
    let arguments = ["--redis", url.as_str()];
    let mut process = Process::serve(&arguments).await;
    register(&process.client, cron("every", "@every 1s", json!({"overlap_policy": "allow"}))).await;
    process.kill();
    let mut connection = redis.connection().await;
    eventually("it is due", async || {
        let score: f64 =
            redis::cmd("ZSCORE").arg("fg:{default}:crons").arg("every").query_async(&mut connection).await.unwrap();
        let (seconds, _): (f64, f64) = redis::cmd("TIME").query_async(&mut connection).await.unwrap();
        seconds * 1000.0 > score + 2000.0
    })
    .await;
    process.restart(&arguments);
    tokio::time::timeout(Duration::from_secs(20), async {
        loop {
            if let Ok(answer) = process.client.try_send("GET", "/v1/cron/every", &[], None).await
                && answer.at("/cron/run_count").as_i64().is_some_and(|runs| runs > 0)
            {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await
    .expect("it fires again");
    let fired = events(&process.client, "cron.triggered").await;
    let at = |index: usize| match fired.get(index)?["data"]["scheduled_at"].as_str().map(At::parse) {
        Some(Some(At::Absolute(ms))) => Some(ms),
        other => panic!("no time: {other:?}"),
    };
    let first = at(0).expect("it fired");
    assert!(at(1).is_none_or(|second| second > first + 2000), "missed times are not caught up: {fired:?}");
}
