//! The time for which limits delay jobs: reported for each job when it starts, and in total.

use super::{LimitsEnv, SECOND, concurrency};
use crate::support::json;
use fairgate::store::LimitLayer;
use serde_json::Value;

impl LimitsEnv {
    /// Jobs delayed by limits according to events: id, key and ms.
    async fn released(&self) -> Vec<(String, String, i64)> {
        let row = |data: &Value| {
            let text = |name: &str| data[name].as_str().unwrap().to_owned();
            (text("job_id"), text("key"), data["waited_ms"].as_i64().unwrap())
        };
        self.event_data("rate_limit.released").await.iter().map(row).collect()
    }

    /// The sum, in seconds, and the count of a key's histogram.
    async fn observed(&self, key: &str) -> (f64, f64) {
        let text = self.client.get("/metrics").await.text;
        let value = |what: &str| {
            let name = format!("ojs_rate_limit_wait_duration_{what}{{key=\"{key}\"}} ");
            text.lines().find_map(|line| line.strip_prefix(&name)).map_or(0.0, |value| value.parse().unwrap())
        };
        (value("sum"), value("count"))
    }
}

/// Workers fetch continuously, one job at a time, so a lane is blocked and released for each job.
#[tokio::test]
async fn each_job_is_reported_once_with_its_whole_wait() {
    let env = LimitsEnv::open().await;
    let jobs = env.push_many(20, "q", json!({"key": "k", "concurrency": 1})).await;
    assert_eq!(env.fetch("q", 1).await, jobs[..1]);
    for place in 1..20 {
        assert!(env.fetch("q", 1).await.is_empty());
        env.advance(4 * SECOND).await;
        env.ack(&jobs[place - 1]).await;
        assert_eq!(env.fetch("q", 1).await, jobs[place..=place]);
    }
    let expected: Vec<_> = (1..20).map(|place| (jobs[place].clone(), "k".to_owned(), place as i64 * 4000)).collect();
    assert_eq!(env.released().await, expected);
    assert_eq!(env.observed("k").await, (f64::from((1..20).sum::<i32>() * 4), 19.0));
    env.audit().await;
}

#[tokio::test]
async fn of_a_queue_as_well() {
    let env = LimitsEnv::open().await;
    env.set("queue:q", LimitLayer::Admin, concurrency(2), None).await;
    let jobs = env.push_many(6, "q", json!(null)).await;
    let mut running = env.fetch("q", 9).await;
    for _ in 0..2 {
        env.advance(5 * SECOND).await;
        env.ack_all(&running).await;
        running = env.fetch("q", 9).await;
        assert_eq!(running.len(), 2);
    }
    let waits: Vec<_> = env.released().await.into_iter().map(|(id, _, ms)| (id, ms)).collect();
    let expected = [5000, 5000, 10_000, 10_000];
    assert_eq!(waits, jobs[2..].iter().cloned().zip(expected).collect::<Vec<_>>());
    env.audit().await;
}

/// The absence of workers is not a limit: only time after a refused fetch counts.
#[tokio::test]
async fn only_time_in_which_the_limit_blocked_a_fetch_counts() {
    let env = LimitsEnv::open().await;
    let rate = json!({"key": "k", "rate": {"limit": 1, "period": "PT10S"}});
    let jobs = env.push_many(3, "q", rate.clone()).await;
    assert_eq!(env.fetch("q", 9).await.len(), 1);
    env.advance(10 * SECOND).await; // the window is open again
    env.advance(60 * SECOND).await; // nobody asks
    let late = env.push("q", rate).await;
    assert_eq!(env.fetch("q", 9).await, jobs[1..2]);
    env.advance(10 * SECOND).await;
    assert_eq!(env.fetch("q", 9).await, jobs[2..3]);
    env.advance(10 * SECOND).await;
    assert_eq!(env.fetch("q", 9).await, std::slice::from_ref(&late));
    let waits: Vec<_> = env.released().await.into_iter().map(|(id, _, ms)| (id, ms)).collect();
    assert_eq!(waits, [(jobs[1].clone(), 10_000), (jobs[2].clone(), 20_000), (late, 20_000)]);
    env.audit().await;
}

/// A job that arrives when the limit has free slots was not delayed, and a lane emptied by an operator leaves nothing
/// behind.
#[tokio::test]
async fn a_job_that_was_not_delayed_is_not_reported() {
    let env = LimitsEnv::open().await;
    let limit = json!({"key": "k", "concurrency": 1});
    let jobs = env.push_many(2, "q", limit.clone()).await;
    assert_eq!(env.fetch("q", 2).await.len(), 1);
    env.advance(SECOND).await;
    env.client.send("DELETE", &format!("/v1/jobs/{}", jobs[1]), None).await.expect(200);
    env.ack(&jobs[0]).await;
    env.advance(SECOND).await;
    let next = env.push("q", limit).await;
    env.advance(SECOND).await;
    assert_eq!(env.fetch("q", 2).await, [next]);
    assert!(env.released().await.is_empty());
    env.audit().await;
}

/// The number of stored periods is bounded: a reported time may include the shortest gaps between them, but never
/// misses a period.
#[tokio::test]
async fn many_periods_miss_nothing() {
    let env = LimitsEnv::open().await;
    let jobs = env.push_many(60, "q", json!({"key": "k", "rate": {"limit": 1, "period": "PT10S"}})).await;
    let mut running = env.fetch("q", 9).await;
    let (mut stopped, mut passed) = (0, 0);
    for place in 1..60_i64 {
        let gap = 10 * (place % 7); // nobody asks for so long
        env.advance(10 * SECOND).await;
        env.advance(gap).await;
        stopped += 10 * SECOND;
        passed += 10 * SECOND + gap;
        env.ack_all(&running).await;
        running = env.fetch("q", 9).await;
        let (id, _, ms) = env.released().await.pop().unwrap();
        assert_eq!(id, jobs[usize::try_from(place).unwrap()]);
        assert!(stopped <= ms && ms <= passed, "{stopped} {ms} {passed}");
        if place < 16 {
            assert_eq!(ms, stopped);
        }
    }
    let kept: String = env.redis.command(&["HGET", "fg:{default}:limit:k", "held"]).await;
    assert_eq!(kept.matches(';').count(), 16, "{kept}");
    assert_eq!(env.released().await.len(), 59);
}

#[tokio::test]
async fn a_rescheduled_job_waited_since_then() {
    let env = LimitsEnv::open().await;
    let limit = json!({"key": "k", "rate": {"limit": 1, "period": "PT10S"}, "on_limit": "reschedule"});
    let jobs = env.push_many(3, "q", limit).await;
    assert_eq!(env.fetch("q", 9).await, jobs[..1]);
    for place in 1..3 {
        env.advance(10 * SECOND).await;
        assert_eq!(env.fetch("q", 9).await, jobs[place..=place]);
    }
    let waits = env.released().await;
    let k = || "k".to_owned();
    assert_eq!(waits, [(jobs[1].clone(), k(), 10_000), (jobs[2].clone(), k(), 20_000)]);
    env.audit().await;
}
