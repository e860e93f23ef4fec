//! Migration from the gem sidekiq-fairplay, based only on its keys.

use super::ruby::{Worker, WorkerOptions};
use super::*;
use std::collections::HashSet;

const KEYS: &str = "fairplay:heavy_job:";

fn taking_over() -> MainQueue {
    taking_over_with("")
}

fn taking_over_with(options: &str) -> MainQueue {
    let class = fairgate::config::FairplayClass {
        class: "HeavyJob".to_owned(),
        key: "heavy_job".to_owned(),
        planner_queue: "plans".to_owned(),
        options: options.to_owned(),
    };
    legacy(|sidekiq| sidekiq.fairplay_classes = vec![class])
}

fn all_at_once() -> Rule {
    rule(|rule| (rule.batch, rule.pace) = (Batch::Jobs(1000), Pace::Every(50)))
}

/// Does what the gem does when a job of the class is enqueued.
async fn stage(redis: &TestRedis, tenant: &str, number: usize) {
    let script = "redis.call('RPUSH', KEYS[1], ARGV[2]) redis.call('HINCRBY', KEYS[2], ARGV[1], 1) \
        redis.call('EXPIRE', KEYS[1], 604800) redis.call('EXPIRE', KEYS[2], 604800) return 1";
    let queue = format!("{KEYS}tenant_queue:{tenant}");
    let counts = format!("{KEYS}tenant_counts");
    let args = json!([tenant, number]).to_string();
    redis.command::<i64>(&["EVAL", script, "2", &queue, &counts, tenant, &args]).await;
}

#[tokio::test]
async fn what_the_gem_staged_is_promoted_once_while_more_comes_and_the_gem_gets_its_locks_back() {
    let redis = Arc::new(TestRedis::start());
    for number in 0..100 {
        stage(&redis, "a", number).await;
    }
    stage(&redis, "b", 0).await;
    // A count whose list has expired, which makes the gem fail in every round.
    redis.command::<i64>(&["HSET", &format!("{KEYS}tenant_counts"), "gone", "3"]).await;
    let app = TestApp::start_on(Arc::clone(&redis), Clock::System, |config| {
        configure(config, &[all_at_once()], taking_over());
    })
    .await;
    for number in 100..200 {
        stage(&redis, "a", number).await;
    }
    eventually("all are promoted", async || waiting(&redis, "queue:heavy").await.len() >= 201).await;
    let payloads = waiting(&redis, "queue:heavy").await;
    let numbers: HashSet<String> = payloads.iter().map(|payload| payload["args"].to_string()).collect();
    assert_eq!((payloads.len(), numbers.len()), (201, 201));
    assert!(payloads.iter().all(|payload| payload["fairplay_enqueued_at"].is_u64() && payload["retry"].is_null()));
    assert!(payloads[..4].iter().any(|payload| payload["args"][0] == "b"), "the other tenant does not wait behind");
    assert_eq!(redis.command::<i64>(&["EXISTS", &format!("{KEYS}tenant_counts")]).await, 0);
    for lock in ["enqueue_lock", "execute_lock"] {
        let owner: String = redis.command(&["GET", &format!("{KEYS}{lock}")]).await;
        assert!(owner.starts_with("fairgate:") && owner.len() > 20, "{lock} {owner}");
    }
    app.app.shut_down().await;
    let locks = [format!("{KEYS}enqueue_lock"), format!("{KEYS}execute_lock")];
    assert_eq!(redis.command::<i64>(&["EXISTS", &locks[0], &locks[1]]).await, 0);
    let planner = &waiting(&redis, "queue:plans").await[0];
    assert_eq!((&planner["class"], &planner["args"]), (&json!("Sidekiq::Fairplay::Planner"), &json!(["HeavyJob"])));
}

#[tokio::test]
async fn the_gem_gets_its_locks_back_from_the_last_process() {
    let redis = Arc::new(TestRedis::start());
    let start = async || {
        let change = |config: &mut Config| configure(config, &[all_at_once()], taking_over());
        TestApp::start_on(Arc::clone(&redis), Clock::System, change).await
    };
    let (first, second) = (start().await, start().await);
    eventually("both drain", async || redis.command::<i64>(&["ZCARD", "fg:{default}:importers:legacy"]).await == 2)
        .await;
    stage(&redis, "a", 0).await;
    eventually("it is promoted", async || waiting(&redis, "queue:heavy").await.len() == 1).await;
    first.app.shut_down().await;
    let lock = format!("{KEYS}execute_lock");
    let owner: Option<String> = redis.command(&["GET", &lock]).await;
    assert!(owner.is_some_and(|owner| owner.starts_with("fairgate:")), "the other one needs the locks");
    assert_eq!(waiting(&redis, "queue:plans").await.len(), 0);
    second.app.shut_down().await;
    assert_eq!(redis.command::<i64>(&["EXISTS", &lock]).await, 0);
    assert_eq!(waiting(&redis, "queue:plans").await.len(), 1);
}

#[tokio::test]
async fn nothing_is_taken_while_a_planner_of_the_gem_has_its_lock_or_runs() {
    let redis = Arc::new(TestRedis::start());
    stage(&redis, "a", 0).await;
    let (lock, identity) = (format!("{KEYS}execute_lock"), "host:1:abc");
    redis.command::<String>(&["SET", &lock, ""]).await;
    let work = json!({"queue": "plans", "payload": {"class": "Sidekiq::Fairplay::Planner", "args": ["HeavyJob"]}});
    redis.command::<i64>(&["SADD", "processes", identity]).await;
    redis.command::<i64>(&["HSET", &format!("{identity}:workers"), "t1", &work.to_string()]).await;
    let app = TestApp::start_on(Arc::clone(&redis), Clock::System, |config| {
        configure(config, &[all_at_once()], taking_over());
    })
    .await;
    let has_enqueue_lock = async || {
        let owner: Option<String> = redis.command(&["GET", &format!("{KEYS}enqueue_lock")]).await;
        owner.is_some_and(|owner| owner.starts_with("fairgate:"))
    };
    eventually("no planner is enqueued any more", has_enqueue_lock).await;
    let is_untouched = async || redis.command::<i64>(&["LLEN", &format!("{KEYS}tenant_queue:a")]).await == 1;
    assert!(is_untouched().await && redis.command::<String>(&["GET", &lock]).await.is_empty());
    // The list outlived its lock.
    redis.command::<i64>(&["DEL", &lock]).await;
    eventually("the lock is ours", async || redis.command::<i64>(&["EXISTS", &lock]).await == 1).await;
    assert!(is_untouched().await);
    redis.command::<i64>(&["DEL", &format!("{identity}:workers")]).await;
    eventually("it is promoted", async || waiting(&redis, "queue:heavy").await.len() == 1).await;
    drop(app);
}

#[tokio::test]
async fn a_worker_runs_what_the_gem_staged_in_balanced_order() {
    let redis = Arc::new(TestRedis::start());
    for (tenant, jobs) in [("noisy", 40), ("b", 10), ("c", 10)] {
        for number in 0..jobs {
            stage(&redis, tenant, number).await;
        }
    }
    let app = TestApp::start_on(Arc::clone(&redis), Clock::System, |config| {
        configure(config, &[rule(|_| {})], taking_over());
    })
    .await;
    app.client.post("/v1/admin/planner/r/pause", json!({})).await.expect(200);
    eventually("all are taken over", async || {
        redis.command::<i64>(&["EXISTS", &format!("{KEYS}tenant_counts")]).await == 0
    })
    .await;
    let before = waiting(&redis, "queue:heavy").await.len();
    app.client.post("/v1/admin/planner/r/resume", json!({})).await.expect(200);
    let worker = Worker::start(&redis, &WorkerOptions::default());
    let ran = worker.ran_all(60).await;
    let (jids, args): (HashSet<&str>, HashSet<&str>) =
        ran.iter().map(|ran| (ran.jid.as_str(), ran.args.as_str())).unzip();
    assert_eq!((ran.len(), jids.len(), args.len()), (60, 60, 60));
    // Promotions before the pause may have covered all jobs taken over by then.
    let fair: Vec<String> = ran[before..before + 24].iter().map(|ran| ran.tenant()).collect();
    for turn in fair.chunks(3) {
        assert_eq!(turn.iter().collect::<HashSet<_>>().len(), 3, "{fair:?}");
    }
}

/// Failing jobs of a class, with its own options and with those of the configuration.
#[tokio::test]
async fn a_job_of_the_gem_is_retried_and_tagged_as_its_class_says() {
    let once = "\"retry\":false,\"tags\":[\"billing\"]";
    for (class_retries, options, retried) in [("true", "", 1), ("false", "", 0), ("true", once, 0)] {
        let redis = Arc::new(TestRedis::start());
        stage(&redis, "a", 0).await;
        let app = TestApp::start_on(Arc::clone(&redis), Clock::System, |config| {
            configure(config, &[all_at_once()], taking_over_with(options));
        })
        .await;
        eventually("it is promoted", async || waiting(&redis, "queue:heavy").await.len() == 1).await;
        let payload = waiting(&redis, "queue:heavy").await.remove(0);
        assert_eq!(payload["tags"], if options.is_empty() { json!(null) } else { json!(["billing"]) });
        drop(app);
        let failing = WorkerOptions { fails: true, retries: class_retries, ..WorkerOptions::default() };
        let _worker = Worker::start(&redis, &failing);
        // Sidekiq writes a 0 with its first heartbeat.
        let is_done =
            async || redis.command::<Option<u64>>(&["GET", "stat:failed"]).await.is_some_and(|failed| failed > 0);
        eventually("it has failed", is_done).await;
        assert_eq!(redis.command::<i64>(&["ZCARD", "retry"]).await, retried, "{class_retries} {options}");
        assert_eq!(redis.command::<i64>(&["ZCARD", "dead"]).await, 0, "{class_retries} {options}");
    }
}
