//! Redis stops, restarts, is emptied, is full or loses connections: precise errors and automatic recovery.

use crate::support::{TestApp, eventually, json};
use fairgate::app::App;
use fairgate::clock::Clock;
use fairgate::config::{Config, StoreUrl};
use fairgate::store::embedded::{Options, PrivateRedis};
use futures_util::future::join_all;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

fn durable(directory: &tempfile::TempDir) -> PrivateRedis {
    PrivateRedis::start(Options { data_dir: directory.path().to_owned(), durable: true }).expect("redis-server starts")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_redis_is_down_requests_get_503_and_then_work_again() {
    let directory = tempfile::tempdir().unwrap();
    let redis = durable(&directory);
    let mut config = Config::default();
    config.server.listen = "127.0.0.1:0".parse().unwrap();
    config.store.url = Some(StoreUrl::parse(&format!("unix://{}", redis.socket().display())).unwrap());
    let app = App::start(&config, Clock::System).await.unwrap();
    let client = crate::support::Client::new(format!("http://{}", app.address));
    let id = client.enqueue_into("q").await;

    tokio::task::spawn_blocking(move || drop(redis)).await.unwrap();
    for (method, path, body) in [
        ("POST", "/v1/jobs", Some(json!({"type": "test.job", "args": []}))),
        ("POST", "/v1/workers/fetch", Some(json!({"queues": ["q"]}))),
        ("POST", "/v1/workers/ack", Some(json!({"job_id": id}))),
        ("GET", "/v1/queues", None),
        ("GET", "/v1/events", None),
    ] {
        let answer = client.send(method, path, body.map(|body| body.to_string())).await.expect(503);
        assert_eq!(
            (answer.text_at("/error/code"), answer.at("/error/retryable")),
            ("backend_unavailable", &json!(true))
        );
        assert_eq!(answer.header("retry-after"), "1");
    }
    assert_eq!(client.get("/ready").await.expect(503).text_at("/status"), "not_ready");
    assert_eq!(client.get("/health").await.expect(503).text_at("/backend/status"), "unhealthy");
    assert!(client.get("/metrics").await.expect(200).text.contains("fairgate_store_errors_total"));

    let redis = tokio::task::spawn_blocking(move || (durable(&directory), directory)).await.unwrap();
    eventually("fairgate is ready again", async || client.get("/ready").await.status == 200).await;
    assert_eq!(client.fetch("q", 1).await.job_ids(), [id], "the job is still there");
    app.shut_down().await;
    drop(redis);
}

/// Enqueues continuously until stopped; every request must succeed. Returns the number of jobs.
async fn enqueue_all_the_while(app: &TestApp, disturb: impl AsyncFnOnce()) -> usize {
    let (stop, accepted) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let producers: Vec<_> = (0..8)
        .map(|_| {
            let (client, stop, accepted) = (app.client.clone(), Arc::clone(&stop), Arc::clone(&accepted));
            tokio::spawn(async move {
                while !stop.load(Ordering::SeqCst) {
                    client.post("/v1/jobs", json!({"type": "test.job", "args": [], "queue": "q"})).await.expect(201);
                    accepted.fetch_add(1, Ordering::SeqCst);
                }
            })
        })
        .collect();
    disturb().await;
    stop.store(true, Ordering::SeqCst);
    for producer in producers {
        producer.await.expect("every response was a success");
    }
    accepted.load(Ordering::SeqCst)
}

/// Waits until more jobs were accepted, so that the disturbance falls between requests.
async fn while_busy(app: &TestApp) {
    let calls = async || -> usize {
        let metrics = app.client.get("/metrics").await.text;
        let line = metrics.lines().find(|line| line.starts_with("fairgate_store_calls_total{call=\"ENQUEUE\"}"));
        line.and_then(|line| line.split(' ').nth(1)?.parse().ok()).unwrap_or(0)
    };
    let before = calls().await;
    eventually("more calls", async || calls().await > before + 20).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forgotten_scripts_are_sent_again_under_load() {
    let app = TestApp::start().await;
    enqueue_all_the_while(&app, async || {
        for _ in 0..5 {
            while_busy(&app).await;
            app.redis.command::<()>(&["FUNCTION", "FLUSH"]).await;
        }
        while_busy(&app).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_emptied_redis_is_still_used_under_load() {
    let app = TestApp::start().await;
    enqueue_all_the_while(&app, async || {
        for _ in 0..3 {
            while_busy(&app).await;
            app.redis.command::<()>(&["FLUSHALL"]).await;
        }
        while_busy(&app).await;
    })
    .await;
    let id = app.client.enqueue_into("fresh").await;
    assert_eq!(app.client.fetch("fresh", 1).await.job_ids(), [&*id]);
    app.client.ack(&id).await.expect(200);
    eventually("the schema mark is back", async || !app.redis.keys_with("schema").await.is_empty()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_whose_reply_was_lost_is_repeated_and_counts_once() {
    let app = TestApp::start().await;
    let accepted = enqueue_all_the_while(&app, async || {
        for _ in 0..10 {
            while_busy(&app).await;
            app.redis.command::<()>(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]).await;
        }
        while_busy(&app).await;
    })
    .await;
    let stats = app.client.get("/v1/queues/q/stats").await.expect(200);
    assert_eq!(stats.at("/queue/available"), &json!(accepted), "no job twice and none lost");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leases_whose_reply_was_lost_are_not_lost() {
    let app = TestApp::start().await;
    let job = json!({"type": "test.job", "args": [], "queue": "q"});
    app.client.post("/v1/jobs/batch", json!({"jobs": vec![job; 1000]})).await.expect(201);
    let disturbed = Arc::new(AtomicBool::new(true));
    let killer = {
        let (redis, disturbed) = (Arc::clone(&app.redis), Arc::clone(&disturbed));
        tokio::spawn(async move {
            while disturbed.load(Ordering::SeqCst) {
                redis.command::<()>(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]).await;
                tokio::time::sleep(Duration::from_millis(20)).await; // a rate of disturbance, not a wait
            }
        })
    };
    let fetchers = (0..8).map(|_| async {
        let mut got = Vec::new();
        loop {
            let answer = app.client.post("/v1/workers/fetch", json!({"queues": ["q"], "count": 3})).await;
            match answer.status {
                200 if answer.job_ids().is_empty() => return got,
                200 => got.extend(answer.job_ids()),
                _ => {} // killed twice in one call: the leases of that one run out, which the count below forgives
            }
        }
    });
    let got: Vec<String> = join_all(fetchers).await.concat();
    disturbed.store(false, Ordering::SeqCst);
    killer.await.unwrap();
    let distinct: std::collections::HashSet<&String> = got.iter().collect();
    assert_eq!(distinct.len(), got.len(), "no job was delivered twice");
    let active = app.client.get("/v1/queues/q/stats").await.at("/queue/active").as_u64().unwrap() as usize;
    assert_eq!(active, 1000, "every job is leased");
    assert!(got.len() >= 990, "nearly every response arrived: {}", got.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_of_a_disconnected_client_are_returned_at_once() {
    use tokio::io::AsyncWriteExt;
    let app = TestApp::start().await;
    let ids = [app.client.enqueue_into("q").await, app.client.enqueue_into("q").await];
    app.redis.command::<()>(&["CLIENT", "PAUSE", "1000", "ALL"]).await;
    let mut stream = tokio::net::TcpStream::connect(app.app.address).await.unwrap();
    let body = r#"{"queues":["q"],"count":2,"worker_id":"gone"}"#;
    let head = format!(
        "POST /ojs/v1/workers/fetch HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
    eventually("the request is on its way to Redis", async || {
        // Any request to fairgate would need Redis, which is paused; the connection count does not.
        app.app.metrics.http.connections().get() >= 2
    })
    .await;
    tokio::time::sleep(Duration::from_millis(100)).await; // for the bytes to be read: nothing else can tell
    drop(stream);
    eventually("both are available again", async || {
        let stats = app.client.get("/v1/queues/q/stats").await;
        let events = app.client.get("/v1/events?types=job.started").await;
        stats.at("/queue/available") == &json!(2)
            && events.at("/events").as_array().is_some_and(|events| events.len() == 2)
    })
    .await;
    let again = app.client.fetch("q", 2).await;
    assert_eq!(again.job_ids(), ids, "in their old positions");
    assert_eq!(again.at("/jobs/0/attempt"), &json!(1), "the lost attempt is not counted");
}

#[tokio::test]
async fn a_full_redis_is_a_503_that_ends_when_there_is_room() {
    let app = TestApp::start().await;
    app.client.enqueue_into("q").await;
    app.redis.command::<()>(&["CONFIG", "SET", "maxmemory", "1"]).await;
    let answer = app.client.post("/v1/jobs", json!({"type": "test.job", "args": []})).await.expect(503);
    assert_eq!((answer.text_at("/error/code"), answer.header("retry-after")), ("backend_unavailable", "1"));
    app.redis.command::<()>(&["CONFIG", "SET", "maxmemory", "0"]).await;
    app.client.enqueue_into("q").await;
}

#[tokio::test]
async fn a_redis_that_became_a_replica_is_a_503() {
    let app = TestApp::start().await;
    app.client.enqueue_into("q").await;
    app.redis.command::<()>(&["REPLICAOF", "127.0.0.1", "1"]).await;
    app.client.post("/v1/jobs", json!({"type": "test.job", "args": []})).await.expect(503);
    app.redis.command::<()>(&["REPLICAOF", "NO", "ONE"]).await;
    eventually("writes work again", async || {
        app.client.post("/v1/jobs", json!({"type": "test.job", "args": []})).await.status == 201
    })
    .await;
}

#[tokio::test]
async fn data_of_an_unknown_shape_is_refused() {
    let redis = Arc::new(crate::support::TestRedis::start());
    redis.command::<()>(&["SET", "fg:{default}:schema", "999"]).await;
    let mut config = Config::default();
    config.server.listen = "127.0.0.1:0".parse().unwrap();
    config.store.url = Some(StoreUrl::parse(&redis.url()).unwrap());
    let error = App::start(&config, Clock::System).await.err().expect("it does not start");
    assert!(error.to_string().contains("999"), "{error}");
    let untouched: String = redis.command(&["GET", "fg:{default}:schema"]).await;
    assert_eq!(untouched, "999");
}
