//! A release is killed or stopped between any two of its steps: each job runs exactly once.

use super::release::{assert_each_once, pause, staged};
use super::ruby::{Worker, WorkerOptions, script};
use super::*;
use crate::support::{ChaosProxy, Process, Random};
use fairgate::config::FairplayClass;
use fairgate::store::{Hold, ImportOutcome, Inbox};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// The number of kills of one release; `FAIRGATE_TEST_KILLS` overrides it.
const KILLS: usize = 12;
const JOBS: usize = 3000;

/// Arguments of a fairgate between two Redis servers.
fn arguments(ours: &TestRedis, theirs: &str) -> Vec<String> {
    let file = ours.directory().join("fairgate.toml");
    let text = format!(
        "[[main_queue]]\nname = \"legacy\"\nkind = \"sidekiq\"\nurl = \"{theirs}\"\nstaging_queue = \"stage\"\n\
         [[plan]]\nname = \"r\"\ntypes = [\"*Job\"]\nqueue = \"heavy\"\nmain_queue = \"legacy\"\ntenant_key = \"args.0\"\n"
    );
    std::fs::write(&file, text).expect("a file");
    ["--config", file.to_str().expect("a path"), "--redis", &ours.url()].map(str::to_owned).to_vec()
}

fn spawn_release(words: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fairgate"));
    command.args(["sidekiq", "release"]).args(words).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().expect("it runs")
}

/// Runs releases until one succeeds: after a kill, the lock must expire first.
async fn release_at_last(words: &[&str]) {
    eventually("a release succeeds", async || {
        let mut release = spawn_release(words);
        tokio::task::spawn_blocking(move || release.wait()).await.expect("it ends").expect("a status").success()
    })
    .await;
}

/// Stages jobs and stops fairgate; returns their jids.
async fn stage_and_stop(words: &[&str], theirs: &TestRedis, jobs: usize) -> Vec<String> {
    let mut process = Process::serve(words).await;
    pause(&process.client).await;
    let push = format!(r#"{jobs}.times {{ |n| puts StagedJob.perform_async("t#{{n % 7}}", n) }}"#);
    let pushed: Vec<String> = script(theirs, &push).await.lines().map(str::to_owned).collect();
    eventually("all jobs are staged", async || staged(&process.client).await == jobs as u64).await;
    assert_eq!(process.terminate(), Some(0));
    pushed
}

async fn runs_each_once(theirs: &TestRedis, queue: &str, pushed: &[String]) {
    let worker = Worker::start(theirs, &WorkerOptions { queues: &[queue], ..WorkerOptions::default() });
    let ran: Vec<String> = worker.ran_all(pushed.len()).await.into_iter().map(|ran| ran.jid).collect();
    assert_each_once(&ran, pushed);
}

/// Steps of a release are recognised by the text they send: the reply is lost, and the process is killed.
#[tokio::test]
async fn a_release_that_dies_after_any_step_is_completed_by_the_next_one_or_by_the_next_start() {
    for (step, is_ours, completes) in [
        ("_unstage\r\n", true, "release"), // jobs are in the outbox
        (":returned", false, "release"),   // jobs are back
        (":returned", false, "serve"),
    ] {
        let (ours, theirs) = (TestRedis::durable(), TestRedis::start());
        let (here, there) = (ChaosProxy::start(&ours).await, ChaosProxy::start(&theirs).await);
        let straight = arguments(&ours, &theirs.url());
        let straight: Vec<&str> = straight.iter().map(String::as_str).collect();
        let pushed = stage_and_stop(&straight, &theirs, 120).await;
        let mut proxied = arguments(&ours, &there.url());
        proxied[3] = here.url();
        let proxied: Vec<&str> = proxied.iter().map(String::as_str).collect();
        let proxy = if is_ours { &here } else { &there };
        proxy.arm(step);
        let mut release = spawn_release(&proxied);
        proxy.struck().await;
        release.kill().expect("it runs");
        release.wait().expect("it ends");
        assert_eq!(ours.keys_with("outbox:legacy:queue:stage").await.len(), 1, "{step:?}");
        let straight = arguments(&ours, &theirs.url());
        let straight: Vec<&str> = straight.iter().map(String::as_str).collect();
        if completes == "release" {
            release_at_last(&straight).await;
            runs_each_once(&theirs, "stage", &pushed).await;
        } else {
            let process = Process::serve(&straight).await;
            process.client.post("/v1/admin/planner/r/resume", json!({})).await.expect(200);
            runs_each_once(&theirs, "heavy", &pushed).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kills_at_any_time_neither_lose_nor_repeat_jobs() {
    let kills = std::env::var("FAIRGATE_TEST_KILLS").map_or(KILLS, |text| text.parse().expect("a number of kills"));
    for is_elsewhere in [true, false] {
        let (ours, other) = (TestRedis::durable(), TestRedis::start());
        let theirs = if is_elsewhere { &other } else { &ours };
        let arguments = arguments(&ours, &theirs.url());
        let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let pushed = stage_and_stop(&words, theirs, JOBS).await;
        let (mut random, mut connection) = (Random(20_260_103), theirs.connection().await);
        let mut back = async || {
            let depth = redis::cmd("LLEN").arg("queue:stage").query_async::<u64>(&mut connection).await;
            depth.expect("a number")
        };
        for _ in 0..kills {
            // At a random point of its work.
            let enough = back().await + 1 + random.below(2 * JOBS / kills) as u64;
            let mut release = spawn_release(&words);
            while release.try_wait().expect("a status").is_none() && back().await < enough {}
            // It may have ended by then.
            _ = release.kill();
            release.wait().expect("it ends");
            // No other process runs, so the test need not wait for the lock.
            ours.command::<i64>(&["DEL", "fg:{default}:release:legacy"]).await;
        }
        release_at_last(&words).await;
        assert_eq!(ours.keys_with("job:").await, Vec::<String>::new());
        runs_each_once(theirs, "stage", &pushed).await;
    }
}

/// An importer that was stopped while jobs were returned has entries of the inbox in memory.
#[tokio::test]
async fn an_importer_that_continues_late_repeats_no_job() {
    let app = beside(&[rule(|_| {})], legacy(|_| {})).await;
    let store = app.store();
    let rules: String = app.redis.command(&["HGET", "fg:{default}:state", "rules"]).await;
    let take_in = async |release: &str, before: u64, after: u64| {
        let mut job = fairgate::domain::job::NewJob::foreign("HeavyJob", "heavy", "[]", "{\"args\":\u{1c}}".to_owned());
        job.plan = Some(fairgate::domain::job::Planned { rule: "r".to_owned(), tenant: "a".to_owned() });
        let inbox = Inbox { main_queue: "legacy", name: "i", before, after, release };
        store.import_inbox(&inbox, vec![job], rules.as_str().into()).await.expect("an answer")
    };
    pause(&app.client).await;
    assert!(matches!(take_in("", 0, 5).await, ImportOutcome::Stored));
    assert!(store.register_importer("legacy", "late", "queue:stage").await.expect("an answer"));
    assert!(matches!(store.hold_release("legacy", "t").await, Ok(Hold::Drained { process, .. }) if process == "late"));
    assert_eq!(store.deregister_importer("legacy", "late", "queue:stage").await.expect("an answer"), 0);
    assert_eq!(store.hold_release("legacy", "t").await.expect("an answer"), Hold::Held);
    assert_eq!(store.hold_release("legacy", "other").await.expect("an answer"), Hold::Taken);
    assert!(!store.register_importer("legacy", "late", "queue:stage").await.expect("an answer"));
    // The release also returns the jobs of the importer; the importer is refused meanwhile and afterwards.
    assert!(matches!(take_in("", 5, 9).await, ImportOutcome::Released));
    assert!(matches!(take_in("other", 5, 9).await, ImportOutcome::Released));
    assert!(matches!(take_in("t", 5, 9).await, ImportOutcome::Stored));
    store.end_release("legacy", "t").await.expect("an answer");
    assert!(matches!(take_in("", 5, 9).await, ImportOutcome::AlreadyImported));
    assert!(matches!(take_in("t", 9, 10).await, ImportOutcome::Released), "it has ended");
    assert_eq!(staged(&app.client).await, 2);
}

/// An expired lock of the gem is noticed before anything is returned.
#[tokio::test]
async fn nothing_is_put_back_into_the_gems_keys_without_its_lock() {
    let app = beside(&[rule(|_| {})], legacy(|_| {})).await;
    let address = fairgate::store::Address::unix(app.redis.socket());
    let (tasks, metrics) = (tokio_util::task::TaskTracker::new(), app.app.metrics.store.clone());
    let (deadline, stop) = (Duration::from_secs(5), Default::default());
    let redis = fairgate::store::Sidekiq::open(&address, "", deadline, metrics, &tasks, stop).expect("a Sidekiq");
    let class = FairplayClass {
        class: "HeavyJob".to_owned(),
        key: "heavy_job".to_owned(),
        planner_queue: "plans".to_owned(),
        options: String::new(),
    };
    let target = redis.fairplay_target("s".to_owned(), &class, "fairgate:o", 30);
    let entry = fairgate::store::OutboxEntry {
        origin: "o".to_owned(),
        sequence: 7,
        queue: String::new(),
        payloads: ["b", "[2]", "a", "[1]", "b", "[0]"].map(str::to_owned).to_vec(),
    };
    let (lock, queue) = ("fairplay:heavy_job:execute_lock", "fairplay:heavy_job:tenant_queue:b");
    for (owner, is_given, jobs) in [("", false, 0), ("fairgate:o", true, 2), ("fairgate:o", true, 2)] {
        app.redis.command::<String>(&["SET", lock, owner]).await;
        assert_eq!(redis.give_back("marker", &entry, &target).await.expect("an answer"), is_given);
        assert_eq!(app.redis.command::<i64>(&["LLEN", queue]).await, jobs);
    }
    assert_eq!(app.redis.command::<Vec<String>>(&["LRANGE", queue, "0", "-1"]).await, ["[0]", "[2]"]);
}
