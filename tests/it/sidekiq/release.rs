//! Staged jobs are returned to their source, on request and at exit.

use super::ruby::{Worker, WorkerOptions, script};
use super::*;
use crate::support::Process;
use std::path::PathBuf;
use std::process::Output;

pub const KEYS: &str = "fairplay:heavy_job:";

/// A rule whose jobs stay staged until the test changes it: see `pause`.
fn held() -> Rule {
    rule(|rule| rule.pace = Pace::Every(50))
}

fn draining() -> MainQueue {
    legacy(|sidekiq| sidekiq.staging_queue = Some("stage".to_owned()))
}

fn taking_over() -> MainQueue {
    let class = fairgate::config::FairplayClass {
        class: "HeavyJob".to_owned(),
        key: "heavy_job".to_owned(),
        planner_queue: "plans".to_owned(),
        options: String::new(),
    };
    legacy(|sidekiq| sidekiq.fairplay_classes = vec![class])
}

pub async fn pause(client: &Client) {
    client.post("/v1/admin/planner/r/pause", json!({})).await.expect(200);
}

pub async fn staged(client: &Client) -> u64 {
    client.get("/v1/admin/planner/r").await.expect(200).at("/staged/jobs").as_u64().expect("a number")
}

/// Starts a fairgate whose rule `r` is paused.
async fn paused(redis: &Arc<TestRedis>, main_queue: MainQueue) -> TestApp {
    let app =
        TestApp::start_on(Arc::clone(redis), Clock::System, |config| configure(config, &[held()], main_queue)).await;
    pause(&app.client).await;
    app
}

/// Writes a configuration file with the Sidekiq `legacy`.
fn file(ours: &TestRedis, sidekiq: &str) -> PathBuf {
    let file = ours.directory().join("release.toml");
    let text = format!("[[main_queue]]\nname = \"legacy\"\nkind = \"sidekiq\"\n{sidekiq}\n");
    std::fs::write(&file, text).expect("a file");
    file
}

/// Runs `fairgate sidekiq release` with a configuration of the Sidekiq.
async fn release(ours: &TestRedis, sidekiq: &str, more: &[&str]) -> Output {
    let file = file(ours, sidekiq);
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_fairgate"));
    command.args(["sidekiq", "release", "--redis", &ours.url(), "--config"]).arg(file).args(more);
    command.output().await.expect("it runs")
}

/// The same, which must succeed; returns its output.
pub async fn released(ours: &TestRedis, sidekiq: &str, more: &[&str]) -> String {
    let output = release(ours, sidekiq, more).await;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The payloads in the staging queue, in the order in which workers would fetch them.
async fn lines(redis: &TestRedis, key: &str) -> Vec<String> {
    redis.command::<Vec<String>>(&["LRANGE", key, "0", "-1"]).await.into_iter().rev().collect()
}

/// A payload without its enqueue time.
fn timeless(text: &str) -> String {
    let (before, rest) = text.split_once("\"enqueued_at\":").expect("a time");
    let end = rest.find([',', '}']).expect("an end");
    format!("{before}{}", &rest[end..])
}

/// Pushes jobs of three tenants like a Sidekiq client, waits until they are staged, and stops fairgate; returns their
/// jids.
async fn stage_and_stop(app: TestApp, theirs: &TestRedis) -> Vec<String> {
    let push = r#"20.times { |n| %w[noisy b noisy c].each { |t| puts StagedJob.perform_async(t, n) } }"#;
    let jids: Vec<String> = script(theirs, push).await.lines().map(str::to_owned).collect();
    eventually("all jobs are staged", async || staged(&app.client).await == 80).await;
    app.app.shut_down().await;
    jids
}

/// Pushes jobs after the stop.
async fn push_newer(theirs: &TestRedis) -> Vec<String> {
    let jids = script(theirs, r#"2.times { |n| puts StagedJob.perform_async("b", n) }"#).await;
    jids.lines().map(str::to_owned).collect()
}

/// Asserts that a worker of the staging queue runs each job once, in the order of the pushes.
async fn runs_in_order(theirs: &TestRedis, jids: &[String], database: u32) {
    let worker = Worker::start(theirs, &WorkerOptions { queues: &["stage"], database, ..WorkerOptions::default() });
    let ran: Vec<String> = worker.ran_all(jids.len()).await.into_iter().map(|ran| ran.jid).collect();
    assert_eq!(ran, jids);
}

#[tokio::test]
async fn jobs_go_back_to_the_staging_queue_before_newer_ones_and_a_worker_runs_them_in_order() {
    let redis = Arc::new(TestRedis::start());
    let app = paused(&redis, draining()).await;
    let mut jids = stage_and_stop(app, &redis).await;
    jids.extend(push_newer(&redis).await);
    let said = released(&redis, "staging_queue = \"stage\"", &[]).await;
    assert_eq!(said, "released 80 jobs of rule r to queue stage\n");
    assert_eq!(redis.keys_with("job:").await, Vec::<String>::new());
    assert_eq!(redis.keys_with("release:").await, Vec::<String>::new());
    let again = released(&redis, "staging_queue = \"stage\"", &[]).await;
    assert_eq!(again, "nothing is staged for main queue legacy\n");
    runs_in_order(&redis, &jids, 0).await;
}

#[tokio::test]
async fn jobs_go_back_to_another_redis_through_an_outbox() {
    let (redis, theirs) = (Arc::new(TestRedis::start()), TestRedis::start());
    let main_queue =
        legacy(|sidekiq| (sidekiq.access, sidekiq.staging_queue) = (at(&theirs), Some("stage".to_owned())));
    let app = paused(&redis, main_queue).await;
    let mut jids = stage_and_stop(app, &theirs).await;
    jids.extend(push_newer(&theirs).await);
    let sidekiq = format!("staging_queue = \"stage\"\nurl = \"{}\"", theirs.url());
    assert_eq!(released(&redis, &sidekiq, &[]).await, "released 80 jobs of rule r to queue stage\n");
    assert_eq!(redis.keys_with("outbox").await, Vec::<String>::new());
    runs_in_order(&theirs, &jids, 0).await;
}

#[tokio::test]
async fn jobs_go_back_to_another_database() {
    let redis = Arc::new(TestRedis::start());
    let main_queue = legacy(|sidekiq| (sidekiq.database, sidekiq.staging_queue) = (Some(3), Some("stage".to_owned())));
    let app = paused(&redis, main_queue).await;
    let text = r#"{"class":"HeavyJob","args":["a"],"queue":"stage","enqueued_at":1690000000.5,"jid":"%"}"#;
    let there = "redis.call('SELECT', 3) return redis.call(ARGV[1], 'queue:stage', unpack(ARGV, 2))";
    for n in 0..5 {
        redis.command::<i64>(&["EVAL", there, "0", "LPUSH", &text.replace('%', &n.to_string())]).await;
    }
    eventually("all jobs are staged", async || staged(&app.client).await == 5).await;
    app.app.shut_down().await;
    released(&redis, "staging_queue = \"stage\"\ndatabase = 3", &[]).await;
    let texts: Vec<String> = redis.command(&["EVAL", there, "0", "LRANGE", "0", "-1"]).await;
    let expected: Vec<String> = (0..5).rev().map(|n| timeless(&text.replace('%', &n.to_string()))).collect();
    assert_eq!(texts.iter().map(|text| timeless(text)).collect::<Vec<_>>(), expected);
    assert_eq!(redis.command::<i64>(&["EXISTS", "queue:stage"]).await, 0);
}

#[tokio::test]
async fn a_payload_keeps_every_byte_but_its_time() {
    let redis = Arc::new(TestRedis::start());
    let app = paused(&redis, draining()).await;
    let long = "é\"\\\\".repeat(50_000).replace('"', "'");
    let texts = [
        r#"{"x":1.0,"queue":"stage","class":"HeavyJob","args":["a",12345678901234567890, "\u00e9é"],"retry":7,"jid":"abc","locale":{"queue":"heavy"},"enqueued_at":1690000000.123,"fairgate":{"queue":"heavy","tenant":"b"}}"#.to_owned(),
        format!(r#"{{"class":"HeavyJob","args":["a","{long}"],"queue":"stage","enqueued_at":1763320000123}}"#),
    ];
    for text in &texts {
        redis.command::<i64>(&["LPUSH", "queue:stage", text]).await;
    }
    eventually("both are staged", async || staged(&app.client).await == 2).await;
    app.app.shut_down().await;
    released(&redis, "staging_queue = \"stage\"", &[]).await;
    let back = lines(&redis, "queue:stage").await;
    for (text, back) in texts.iter().zip(&back) {
        assert_eq!(timeless(back), timeless(text));
        let payload: Value = serde_json::from_str(back).expect("JSON");
        assert!(payload["enqueued_at"].as_f64().is_some_and(|time| time > 1_700_000_000.0), "when it was staged");
    }
    assert_eq!(back.len(), 2);
}

/// Does what the gem does when a job of the class is enqueued.
pub async fn stage_by_gem(redis: &TestRedis, tenant: &str, number: usize) {
    let args = json!([tenant, number]).to_string();
    redis.command::<i64>(&["RPUSH", &format!("{KEYS}tenant_queue:{tenant}"), &args]).await;
    redis.command::<i64>(&["HINCRBY", &format!("{KEYS}tenant_counts"), tenant, "1"]).await;
}

/// The jobs that the gem has staged for a tenant: numbers in fetch order, and its count.
pub async fn of_gem(redis: &TestRedis, tenant: &str) -> (Vec<u64>, Option<u64>) {
    let args: Vec<String> = redis.command(&["LRANGE", &format!("{KEYS}tenant_queue:{tenant}"), "0", "-1"]).await;
    let number = |args: &String| serde_json::from_str::<Value>(args).expect("JSON")[1].as_u64().expect("a number");
    (args.iter().map(number).collect(), redis.command(&["HGET", &format!("{KEYS}tenant_counts"), tenant]).await)
}

const GEM: &str = "fairplay_classes = [{ class = \"HeavyJob\", planner_queue = \"plans\" }]";
/// Tenants of the gem. The second and the third are not valid tenant ids.
const TENANTS: [&str; 3] = ["a", "", "b:\u{1f} %c"];

#[tokio::test]
async fn jobs_go_back_to_the_keys_of_the_gem_before_newer_ones_and_its_planner_is_woken() {
    for is_elsewhere in [false, true] {
        let (redis, other) = (Arc::new(TestRedis::start()), TestRedis::start());
        let theirs = if is_elsewhere { &other } else { &*redis };
        let mut main_queue = taking_over();
        if let (MainQueueKind::Sidekiq(sidekiq), true) = (&mut main_queue.kind, is_elsewhere) {
            sidekiq.access = at(theirs);
        }
        let app = paused(&redis, main_queue).await;
        for (tenant, jobs) in TENANTS.into_iter().zip([100, 3, 2]) {
            for number in 0..jobs {
                stage_by_gem(theirs, tenant, number).await;
            }
        }
        eventually("all jobs are staged", async || staged(&app.client).await == 105).await;
        app.app.shut_down().await;
        assert_eq!(lines(theirs, "queue:plans").await.len(), 1, "the gem continues on its own");
        for tenant in TENANTS {
            stage_by_gem(theirs, tenant, 1000).await;
        }
        let sidekiq = if is_elsewhere { format!("{GEM}\nurl = \"{}\"", theirs.url()) } else { GEM.to_owned() };
        let said = released(&redis, &sidekiq, &[]).await;
        assert_eq!(said, "released 105 jobs of rule r to fairplay keys of class HeavyJob\n");
        for (tenant, jobs) in TENANTS.into_iter().zip([100, 3, 2]) {
            let expected: Vec<u64> = (0..jobs).chain([1000]).collect();
            assert_eq!(of_gem(theirs, tenant).await, (expected, Some(jobs + 1)), "{tenant}");
        }
        let locks = [format!("{KEYS}enqueue_lock"), format!("{KEYS}execute_lock")];
        assert_eq!(theirs.command::<i64>(&["EXISTS", &locks[0], &locks[1]]).await, 0);
        let planners = waiting(theirs, "queue:plans").await;
        assert!(planners.iter().all(|one| one["class"] == "Sidekiq::Fairplay::Planner"), "{planners:?}");
        assert_eq!(planners.len(), 2);
        assert_eq!(redis.keys_with("outbox").await, Vec::<String>::new());
    }
}

#[tokio::test]
async fn a_running_planner_of_the_gem_is_waited_for() {
    let redis = Arc::new(TestRedis::start());
    let app = paused(&redis, taking_over()).await;
    stage_by_gem(&redis, "a", 0).await;
    eventually("it is staged", async || staged(&app.client).await == 1).await;
    app.app.shut_down().await;
    let (lock, locked) = (format!("{KEYS}execute_lock"), format!("{KEYS}enqueue_lock"));
    redis.command::<String>(&["SET", &lock, ""]).await;
    let released = async { released(&redis, GEM, &[]).await };
    let ended = async {
        eventually("no planner is enqueued any more", async || {
            redis.command::<Option<String>>(&["GET", &locked]).await.is_some_and(|owner| owner.starts_with("fairgate:"))
        })
        .await;
        assert_eq!(of_gem(&redis, "a").await, (vec![], None));
        redis.command::<i64>(&["DEL", &lock]).await;
    };
    let (said, ()) = tokio::join!(released, ended);
    assert_eq!(said, "released 1 job of rule r to fairplay keys of class HeavyJob\n");
    assert_eq!(of_gem(&redis, "a").await, (vec![0], Some(1)));
}

#[tokio::test]
async fn a_dry_run_counts_and_changes_nothing_and_jobs_over_http_stay() {
    let redis = Arc::new(TestRedis::start());
    let app = paused(&redis, draining()).await;
    let ids = push(&app.client, "a", 3).await;
    let text = r#"{"class":"HeavyJob","args":["a"],"queue":"stage","enqueued_at":1690000000.5}"#;
    for _ in 0..5 {
        redis.command::<i64>(&["LPUSH", "queue:stage", text]).await;
    }
    eventually("all jobs are staged", async || staged(&app.client).await == 8).await;
    app.app.shut_down().await;
    let keys = async || {
        let mut keys: Vec<String> = redis.command(&["KEYS", "*"]).await;
        keys.sort();
        keys
    };
    let before = keys().await;
    let said = released(&redis, "staging_queue = \"stage\"", &["--dry-run"]).await;
    let stays = "left 3 jobs of rule r staged: they came over HTTP\n";
    let mut said: Vec<&str> = said.split_inclusive('\n').collect();
    said.sort_unstable();
    assert_eq!(said, [stays, "would release 5 jobs of rule r to queue stage\n"]);
    assert_eq!((keys().await, lines(&redis, "queue:stage").await.len()), (before, 0));
    // Their destination is unknown.
    let lost = released(&redis, "", &["legacy"]).await;
    assert!(
        lost.contains("left 5 jobs of rule r staged: they came through a staging queue, and main queue legacy has no")
    );
    released(&redis, "staging_queue = \"stage\"", &[]).await;
    let app = paused(&redis, legacy(|_| {})).await;
    assert_eq!((staged(&app.client).await, lines(&redis, "queue:stage").await.len()), (3, 5));
    assert_eq!(app.client.job(&ids[0]).await["x_staged"], true);
    let events = app.client.get("/v1/events?types=main_queue.released,job.released").await.expect(200).body;
    let kinds: Vec<&str> =
        events["events"].as_array().expect("a list").iter().filter_map(|one| one["type"].as_str()).collect();
    assert_eq!(kinds.iter().filter(|kind| kind.ends_with("job.released")).count(), 5, "{events}");
    assert_eq!(kinds.iter().filter(|kind| kind.ends_with("main_queue.released")).count(), 1, "{events}");
}

#[tokio::test]
async fn it_is_refused_while_a_process_takes_jobs_in() {
    let redis = Arc::new(TestRedis::start());
    let app = paused(&redis, draining()).await;
    redis.command::<i64>(&["LPUSH", "queue:stage", r#"{"class":"HeavyJob","args":["a"],"jid":"1"}"#]).await;
    eventually("it is staged", async || staged(&app.client).await == 1).await;
    let refused = release(&redis, "staging_queue = \"stage\"", &[]).await;
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        !refused.status.success()
            && said.contains("main queue legacy")
            && said.contains("imports jobs from queue:stage and"),
        "{said}"
    );
    assert_eq!(String::from_utf8_lossy(&refused.stdout), "", "nothing was counted");
    assert_eq!(staged(&app.client).await, 1);
    let unknown = release(&redis, "staging_queue = \"stage\"", &["legaci"]).await;
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("it has legacy"));
    app.app.shut_down().await;
    released(&redis, "staging_queue = \"stage\"", &[]).await;
    assert_eq!(lines(&redis, "queue:stage").await.len(), 1);
}

#[tokio::test]
async fn jobs_being_imported_are_returned_too_although_their_rule_is_full() {
    let redis = Arc::new(TestRedis::start());
    let full = Rule { max_staged: Some(10), ..held() };
    let app =
        TestApp::start_on(Arc::clone(&redis), Clock::System, |config| configure(config, &[full], draining())).await;
    pause(&app.client).await;
    for n in 0..100 {
        let text = json!({"class": "HeavyJob", "args": ["a"], "jid": n, "queue": "stage"}).to_string();
        redis.command::<i64>(&["LPUSH", "queue:stage", &text]).await;
    }
    eventually("the rule is full", async || staged(&app.client).await == 10).await;
    eventually("more was taken off the queue", async || redis.command::<i64>(&["LLEN", "queue:stage"]).await == 26)
        .await;
    app.app.shut_down().await;
    let counted = released(&redis, "staging_queue = \"stage\"", &["--dry-run"]).await;
    assert!(counted.contains("would release 64 jobs from the inbox to queue stage"), "{counted}");
    let said = released(&redis, "staging_queue = \"stage\"", &[]).await;
    assert_eq!(said, "released 74 jobs of rule r to queue stage\n");
    let jids: Vec<Value> = waiting(&redis, "queue:stage").await.iter().map(|payload| payload["jid"].clone()).collect();
    assert_eq!(jids, (0..100).map(|n| json!(n)).collect::<Vec<_>>());
}

#[tokio::test]
async fn many_tenants_and_priorities_go_back_in_order() {
    let redis = Arc::new(TestRedis::start());
    let app = paused(&redis, draining()).await;
    let boosted = json!({"priority_boost": 5});
    app.client.send("PUT", "/v1/admin/tenants/t7", Some(boosted.to_string())).await;
    for portion in 0..30 {
        let text = |n: usize| json!({"class": "HeavyJob", "args": [format!("t{}", n % 700)], "jid": n}).to_string();
        let texts: Vec<String> = (portion * 50..(portion + 1) * 50).map(text).collect();
        let words: Vec<&str> = ["LPUSH", "queue:stage"].into_iter().chain(texts.iter().map(String::as_str)).collect();
        redis.command::<i64>(&words).await;
    }
    eventually("all jobs are staged", async || staged(&app.client).await == 1500).await;
    app.app.shut_down().await;
    assert_eq!(
        released(&redis, "staging_queue = \"stage\"", &[]).await,
        "released 1,500 jobs of rule r to queue stage\n"
    );
    let jids: Vec<Value> = waiting(&redis, "queue:stage").await.iter().map(|payload| payload["jid"].clone()).collect();
    assert_eq!(jids, (0..1500).map(|n| json!(n)).collect::<Vec<_>>());
    assert_eq!(redis.keys_with("fair:r:heavy:").await, Vec::<String>::new());
    let tenants: Vec<String> = redis.command(&["HKEYS", "fg:{default}:tenants"]).await;
    assert_eq!(tenants, Vec::<String>::new(), "nothing is counted any more");
}

/// Arguments of a `fairgate serve` that returns staged jobs at exit.
fn serving(ours: &TestRedis, grace: &str) -> Vec<String> {
    let file = ours.directory().join("serve.toml");
    let text = format!(
        "[server]\nshutdown_grace = \"{grace}\"\n\
         [[main_queue]]\nname = \"legacy\"\nkind = \"sidekiq\"\nstaging_queue = \"stage\"\nrelease_on_exit = true\n\
         [[plan]]\nname = \"r\"\ntypes = [\"*Job\"]\nqueue = \"heavy\"\nmain_queue = \"legacy\"\ntenant_key = \"args.0\"\n"
    );
    std::fs::write(&file, text).expect("a file");
    ["--config", file.to_str().expect("a path"), "--redis", &ours.url()].map(str::to_owned).to_vec()
}

#[tokio::test]
async fn the_last_process_returns_jobs_at_exit() {
    let redis = TestRedis::start();
    let arguments = serving(&redis, "30s");
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (mut first, mut second) = (Process::serve(&words).await, Process::serve(&words).await);
    pause(&first.client).await;
    let pushed = script(&redis, r#"100.times { |n| puts StagedJob.perform_async("a", n) }"#).await;
    eventually("all jobs are staged", async || staged(&first.client).await == 100).await;
    eventually("both drain", async || redis.command::<i64>(&["ZCARD", "fg:{default}:importers:legacy"]).await == 2)
        .await;
    assert_eq!(first.terminate(), Some(0));
    assert_eq!((staged(&second.client).await, lines(&redis, "queue:stage").await.len()), (100, 0));
    assert_eq!(second.terminate(), Some(0));
    assert_eq!(lines(&redis, "queue:stage").await.len(), 100, "{}", second.logged());
    let jids: Vec<String> = pushed.lines().map(str::to_owned).collect();
    runs_in_order(&redis, &jids, 0).await;
}

#[tokio::test]
async fn jobs_beyond_the_grace_period_stay_staged_and_are_counted() {
    let redis = TestRedis::start();
    let arguments = serving(&redis, "0s");
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let mut process = Process::serve(&words).await;
    pause(&process.client).await;
    for _ in 0..10 {
        redis.command::<i64>(&["LPUSH", "queue:stage", r#"{"class":"HeavyJob","args":["a"]}"#]).await;
    }
    eventually("all jobs are staged", async || staged(&process.client).await == 10).await;
    assert_eq!(process.terminate(), Some(0));
    assert_eq!(lines(&redis, "queue:stage").await.len(), 0);
    let log = process.logged();
    assert!(log.lines().any(|line| line.contains("stay staged") && line.contains("\"left\":10")), "{log}");
    released(&redis, "staging_queue = \"stage\"", &[]).await;
    assert_eq!(lines(&redis, "queue:stage").await.len(), 10);
}

#[tokio::test]
async fn the_gem_gets_jobs_and_locks_back_at_exit() {
    let redis = Arc::new(TestRedis::start());
    let mut main_queue = taking_over();
    if let MainQueueKind::Sidekiq(sidekiq) = &mut main_queue.kind {
        sidekiq.release_on_exit = true;
    }
    let app = paused(&redis, main_queue).await;
    for number in 0..70 {
        stage_by_gem(&redis, "a", number).await;
    }
    eventually("all jobs are staged", async || staged(&app.client).await == 70).await;
    app.app.shut_down().await;
    assert_eq!(of_gem(&redis, "a").await, ((0..70).collect(), Some(70)));
    assert_eq!(redis.command::<i64>(&["EXISTS", &format!("{KEYS}execute_lock")]).await, 0);
    assert_eq!(lines(&redis, "queue:plans").await.len(), 1);
}

/// Asserts that each pushed job has run exactly once.
pub fn assert_each_once(ran: &[String], pushed: &[String]) {
    let times = |jid: &String| ran.iter().filter(|ran| *ran == jid).count();
    let odd: Vec<(&String, usize)> =
        pushed.iter().map(|jid| (jid, times(jid))).filter(|(_, times)| *times != 1).collect();
    assert_eq!((ran.len(), odd), (pushed.len(), Vec::new()));
}
