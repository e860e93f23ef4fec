//! Long polls. They wait up to 30 s and each test has ten seconds, so a fetch that returns in time returned because of
//! what the test did.

use crate::support::{Answer, Client, Process, TestApp, TestRedis, eventually, json};
use fairgate::clock::Clock;
use fairgate::config::{Config, Role, Secret};
use fairgate::telemetry::Format;
use futures_util::future::join_all;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

const LONG: u64 = 30_000;

/// Runs a test that must be shorter than a long poll.
async fn promptly<T>(test: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(10), test).await.expect("every waiting fetch got a job")
}

fn request(queues: &[&str], worker: &str) -> Value {
    json!({"queues": queues, "worker_id": worker, "wait_ms": LONG})
}

/// Sends a long poll.
fn poll(client: &Client, body: Value) -> JoinHandle<Answer> {
    let client = client.clone();
    tokio::spawn(async move { client.post("/v1/workers/fetch", body).await })
}

/// Waits until this number of fetches are long polling.
async fn waiting(app: &TestApp, count: i64) {
    eventually("this number of fetches wait", async || app.app.metrics.http.long_polls().count() == count).await;
}

/// Sends long polls one after the other, each when the one before is waiting.
async fn line<const N: usize>(app: &TestApp, bodies: [Value; N]) -> Vec<JoinHandle<Answer>> {
    let mut polls = Vec::new();
    for body in bodies {
        polls.push(poll(&app.client, body));
        waiting(app, polls.len() as i64).await;
    }
    polls
}

async fn ids(poll: JoinHandle<Answer>) -> Vec<String> {
    poll.await.expect("it does not panic").expect(200).job_ids()
}

/// The number of calls of a script by this process.
fn calls(app: &TestApp, script: &str) -> u64 {
    // Read in process, because a scrape over HTTP calls scripts itself.
    let metrics = app.app.metrics.encode(Format::Text);
    let start = format!("fairgate_store_calls_total{{call=\"{script}\"}} ");
    metrics.lines().find_map(|line| line.strip_prefix(&start)?.parse().ok()).unwrap_or(0)
}

#[tokio::test]
async fn a_push_completes_a_long_poll() {
    let app = TestApp::start().await;
    promptly(async {
        let polls = line(&app, [request(&["other", "q"], "w1")]).await;
        let id = app.client.enqueue_into("q").await;
        for poll in polls {
            assert_eq!(ids(poll).await, [&*id]);
        }
        waiting(&app, 0).await;
    })
    .await;
}

#[tokio::test]
async fn without_a_wait_or_at_its_end_the_response_is_empty() {
    let app = TestApp::start().await;
    promptly(async {
        for wait in [json!(0), json!(1), json!(20), json!(20.0)] {
            let answer = app.client.post("/v1/workers/fetch", json!({"queues": ["q"], "wait_ms": wait})).await;
            assert_eq!(answer.expect(200).text, r#"{"jobs":[]}"#, "{wait}");
        }
        let id = app.client.enqueue_into("q").await;
        for (wait, found) in [(json!(99_999_999_999_999_999_999_999_f64), vec![id]), (json!(0), vec![])] {
            let answer = app.client.post("/v1/workers/fetch", json!({"queues": ["q"], "wait_ms": wait})).await;
            assert_eq!(answer.expect(200).job_ids(), found, "more than the longest wait is no error");
        }
    })
    .await;
}

#[tokio::test]
async fn jobs_pushed_one_by_one_go_out_in_the_order_of_waiting() {
    let app = TestApp::start().await;
    promptly(async {
        let polls = line(&app, ["w1", "w2", "w3"].map(|worker| request(&["q"], worker))).await;
        for poll in polls {
            let id = app.client.enqueue_into("q").await;
            assert_eq!(ids(poll).await, [id]);
        }
    })
    .await;
}

#[tokio::test]
async fn one_batch_completes_all_long_polls() {
    let app = TestApp::start().await;
    promptly(async {
        let polls = line(&app, ["w1", "w2", "w3"].map(|worker| request(&["q"], worker))).await;
        let job = json!({"type": "test.job", "args": [], "queue": "q"});
        let batch = app.client.post("/v1/jobs/batch", json!({"jobs": vec![job; 3]})).await.expect(201);
        let got = join_all(polls.into_iter().map(ids)).await;
        assert_eq!(got.concat(), batch.job_ids(), "one each, in the order of waiting");
    })
    .await;
}

#[tokio::test]
async fn a_disconnected_client_gets_nothing_and_delays_no_other() {
    let app = TestApp::start().await;
    promptly(async {
        let mut gone = TcpStream::connect(app.app.address).await.unwrap();
        let body = request(&["q"], "gone").to_string();
        let head = format!("POST /ojs/v1/workers/fetch HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n", body.len());
        gone.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
        waiting(&app, 1).await;
        let next = poll(&app.client, request(&["q"], "next"));
        waiting(&app, 2).await;
        drop(gone);
        waiting(&app, 1).await;
        let id = app.client.enqueue_into("q").await;
        assert_eq!(ids(next).await, [&*id]);
        let leases: Vec<String> = app.redis.command(&["ZRANGE", "fg:{default}:leases", "0", "-1"]).await;
        assert_eq!(leases, [id]);
    })
    .await;
}

#[tokio::test]
async fn a_worker_without_work_does_not_delay_those_behind_it() {
    let app = TestApp::start().await;
    promptly(async {
        let polls = line(&app, ["quiet", "w2", "quiet", "w3"].map(|worker| request(&["q"], worker))).await;
        app.client.post("/v1/workers/heartbeat", json!({"worker_id": "quiet", "state": "quiet"})).await.expect(200);
        let [first, second] = [app.client.enqueue_into("q").await, app.client.enqueue_into("q").await];
        let mut polls = polls.into_iter();
        let (_quiet, w2, _quiet_too, w3) = (polls.next(), polls.next(), polls.next(), polls.next());
        let got = [ids(w2.unwrap()).await, ids(w3.unwrap()).await].concat();
        assert_eq!(got, [first, second]);
    })
    .await;
}

#[tokio::test]
async fn a_due_job_completes_a_long_poll() {
    const NOW: i64 = 1_800_000_000_000;
    let app = TestApp::start_at(NOW).await;
    promptly(async {
        let policy = json!({"max_attempts": 3, "initial_interval": "PT5S", "jitter": false});
        let failing = json!({"type": "test.job", "args": [], "queue": "q", "options": {"queue": "q", "retry": policy}});
        let retried = app.client.enqueue(failing).await;
        app.client.fetch("q", 1).await;
        app.client.nack(&retried).await.expect(200);
        let options = json!({"queue": "q", "scheduled_at": "2027-01-15T08:10:00Z"});
        let scheduled = app.client.enqueue(json!({"type": "test.job", "args": [], "options": options})).await;
        for (id, by) in [(retried, 60_000), (scheduled, 3_600_000)] {
            let polls = line(&app, [request(&["q"], "w1")]).await;
            app.clock.advance(by);
            for poll in polls {
                assert_eq!(ids(poll).await, [&*id]);
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_shutdown_completes_all_long_polls() {
    let app = TestApp::start().await;
    promptly(async {
        let polls = line(&app, ["w1", "w2", "w3"].map(|worker| request(&["q"], worker))).await;
        app.app.shut_down().await;
        for poll in polls {
            assert_eq!(poll.await.unwrap().expect(200).text, r#"{"jobs":[]}"#);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_outlasts_a_restart_of_redis() {
    let app = TestApp::start_on(Arc::new(TestRedis::durable()), Clock::System, |_| {}).await;
    promptly(async {
        let polls = line(&app, ["w1", "w2"].map(|worker| request(&["q"], worker))).await;
        app.redis.kill();
        let push = async || app.client.post("/v1/jobs", json!({"type": "test.job", "args": [], "queue": "q"})).await;
        for poll in polls {
            eventually("a job is accepted", async || push().await.status == 201).await;
            assert_eq!(ids(poll).await.len(), 1);
        }
    })
    .await;
}

#[tokio::test]
async fn a_wait_is_not_cut_off_by_the_deadline_of_requests() {
    let short = |config: &mut Config| config.limits.request_timeout = Duration::from_millis(300);
    let app = TestApp::start_with(Clock::System, short).await;
    promptly(async {
        let short_wait = json!({"queues": ["empty"], "wait_ms": 900});
        let polls = line(&app, [request(&["q"], "w1"), short_wait]).await;
        waiting(&app, 1).await; // three times the deadline is over
        let id = app.client.enqueue_into("q").await;
        let got = join_all(polls.into_iter().map(ids)).await;
        assert_eq!(got, [vec![id], vec![]]);
    })
    .await;
}

#[tokio::test]
async fn a_redis_user_without_the_channel_still_gets_jobs() {
    let redis = Arc::new(TestRedis::start());
    let user = ["on", ">pw", "~fg:*", "resetchannels", "+@all", "-@admin", "+info"];
    redis.command::<()>(&[&["ACL", "SETUSER", "fg"][..], &user].concat()).await;
    let deaf = |config: &mut Config| {
        config.store.username = Some("fg".to_owned());
        config.store.password = Some(Secret::new("pw".to_owned()));
    };
    let app = TestApp::start_on(redis, Clock::System, deaf).await;
    promptly(async {
        let polls = line(&app, ["w1", "w2"].map(|worker| request(&["q"], worker))).await;
        for poll in polls {
            let id = app.client.enqueue_into("q").await;
            assert_eq!(ids(poll).await, [id]);
        }
    })
    .await;
}

#[tokio::test]
async fn a_fetch_id_and_a_wait_go_together() {
    let app = TestApp::start().await;
    promptly(async {
        let body = json!({"queues": ["q"], "worker_id": "w1", "wait_ms": LONG, "fetch_id": "f1"});
        let polls = line(&app, [body.clone()]).await;
        let id = app.client.enqueue_into("q").await;
        for poll in polls {
            assert_eq!(ids(poll).await, [&*id]);
        }
        let again = app.client.post("/v1/workers/fetch", body).await.expect(200);
        assert_eq!(again.job_ids(), [id], "a repeat gets the same job at once");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_polls_cost_redis_nothing() {
    let app = TestApp::start().await;
    promptly(async {
        let polls: Vec<_> = (0..200).map(|n| poll(&app.client, request(&["q", &format!("q{n}")], "w1"))).collect();
        waiting(&app, 200).await;
        let fcall = async || -> u64 {
            let stats: String = app.redis.command(&["INFO", "commandstats"]).await;
            let calls = stats.lines().find_map(|line| line.strip_prefix("cmdstat_fcall:calls=")?.split(',').next());
            calls.and_then(|calls| calls.parse().ok()).expect("scripts were called")
        };
        let count = async || (calls(&app, "FETCH"), calls(&app, "runnable"));
        let (before, scripts_before, ticks_before) = (count().await, fcall().await, calls(&app, "TICK"));
        eventually("twenty ticks", async || calls(&app, "TICK") >= ticks_before + 20).await;
        let scripts = fcall().await - scripts_before;
        let ticks = calls(&app, "TICK") - ticks_before;
        assert_eq!(count().await, before, "nobody asked");
        assert!(scripts < 2 * ticks + 20, "{scripts} scripts in {ticks} ticks");
        polls.iter().for_each(JoinHandle::abort);
        waiting(&app, 0).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_push_to_one_process_completes_a_long_poll_of_another() {
    let redis = TestRedis::start();
    let url = redis.url();
    let [one, other] =
        [Process::serve(&["--redis", &url]).await, Process::serve(&["--redis", &url, "--roles", "api"]).await];
    promptly(async {
        let poll = poll(&other.client, request(&["q"], "w1"));
        eventually("it waits", async || other.client.get("/metrics").await.text.contains("fairgate_long_polls 1\n"))
            .await;
        let id = one.client.enqueue_into("q").await;
        assert_eq!(ids(poll).await, [id]);
    })
    .await;
}

/// Workers at two servers return to waiting immediately, and jobs arrive in threes through both: a lost wake-up would
/// leave a job and the workers waiting for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_wake_up_is_lost_between_two_servers() {
    let first = TestApp::start().await;
    let roles = |config: &mut Config| config.server.roles = vec![Role::Api];
    let second = TestApp::start_on(Arc::clone(&first.redis), Clock::System, roles).await;
    let (sender, mut got) = tokio::sync::mpsc::unbounded_channel();
    let work = |n: usize| {
        let client = if n.is_multiple_of(2) { first.client.clone() } else { second.client.clone() };
        let own = ["a", "b"][n / 2 % 2];
        let body = json!({"queues": [own, "c"], "count": 1 + n % 3, "wait_ms": LONG});
        let sender = sender.clone();
        tokio::spawn(async move {
            loop {
                let ids = client.post("/v1/workers/fetch", body.clone()).await.expect(200).job_ids();
                ids.into_iter().for_each(|id| sender.send(id).expect("the test goes on"));
            }
        })
    };
    let workers: Vec<_> = (0..6).map(work).collect();
    for _ in 0..100 {
        let pushes = [(&first, "a"), (&second, "b"), (&first, "c")].map(|(app, queue)| app.client.enqueue_into(queue));
        let mut pushed = join_all(pushes).await;
        let mut fetched = Vec::new();
        while fetched.len() < pushed.len() {
            fetched.push(promptly(got.recv()).await.expect("workers go on"));
        }
        pushed.sort();
        fetched.sort();
        assert_eq!(fetched, pushed, "each of them once");
    }
    workers.iter().for_each(JoinHandle::abort);
}
