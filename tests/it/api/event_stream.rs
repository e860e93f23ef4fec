//! `GET /events` as a stream: new events, or those after the last one that a reader has seen.

use crate::auth;
use crate::support::{TestApp, json};
use fairgate::weights;
use std::net::IpAddr;
use std::time::Duration;

/// Reads frames of the stream until `wanted` returns true.
async fn read(
    app: &TestApp,
    query: &str,
    last: Option<&str>,
    wanted: impl Fn(&str) -> bool,
    act: impl AsyncFn(),
) -> String {
    let mut request = fairgate::weights::client_builder()
        .build()
        .expect("a client")
        .get(format!("{}/ojs/v1/events{query}", app.client.base()))
        .header("accept", "text/event-stream");
    if let Some(last) = last {
        request = request.header("last-event-id", last);
    }
    let mut response = request.send().await.unwrap();
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let mut text = String::new();
    let reading = async {
        while let Some(chunk) = response.chunk().await.unwrap() {
            let was_empty = text.is_empty();
            text.push_str(&String::from_utf8_lossy(&chunk));
            if was_empty {
                act().await; // the stream has begun
            }
            if wanted(&text) {
                break;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(20), reading).await.expect("the events come");
    text
}

#[tokio::test]
async fn a_reader_gets_new_events_and_can_resume_later() {
    let app = TestApp::start().await;
    app.client.enqueue_into("before").await;
    let text = read(
        &app,
        "",
        None,
        |text| text.contains("job.enqueued"),
        async || {
            app.client.enqueue_into("after").await;
        },
    )
    .await;
    assert!(text.contains("retry: 3000") && text.contains("event: job.enqueued") && !text.contains("before"), "{text}");
    let id = text.lines().find_map(|line| line.strip_prefix("id: ")).unwrap().to_owned();
    app.client.enqueue_into("meanwhile").await;
    let text = read(&app, "", Some(&id), |text| text.contains("meanwhile"), async || ()).await;
    assert!(!text.contains("\"after\""), "{text}");
}

#[tokio::test]
async fn a_channel_is_one_queue_or_one_job() {
    let app = TestApp::start().await;
    let id = app.client.enqueue_into("other").await;
    let act = async || {
        app.client.enqueue_into("noise").await;
        app.client.enqueue_into("q").await;
        app.client.delete(&format!("/v1/jobs/{id}")).await.expect(200);
    };
    let of_queue = read(&app, "/stream?channel=queue:q", None, |text| text.contains("job.enqueued"), act).await;
    assert!(of_queue.contains("\"queue\":\"q\"") && !of_queue.contains("noise"), "{of_queue}");
    let other = app.client.enqueue_into("q").await;
    let channel = format!("/stream?channel=job:{other}");
    let cancel = async || _ = app.client.delete(&format!("/v1/jobs/{other}")).await.expect(200);
    let of_job = read(&app, &channel, None, |text| text.contains("job.cancelled"), cancel).await;
    assert_eq!(of_job.matches("event: ").count(), 1, "{of_job}");
    for wrong in ["queue:", "queue:NO", "job:1", "tenant:a", "everything"] {
        let answer = app.client.get(&format!("/v1/events/stream?channel={wrong}")).await.expect(400);
        assert_eq!(answer.text_at("/error/details/field"), "channel", "{wrong}");
    }
}

#[tokio::test]
async fn a_stream_is_filtered_and_reports_limits() {
    let app = TestApp::start().await;
    let text = read(
        &app,
        "?types=rate_limit.*,scheduling.*",
        None,
        |text| text.contains("rate_limit.exceeded"),
        async || {
            for _ in 0..2 {
                let limit = json!({"key": "k", "concurrency": 1});
                app.client
                    .enqueue(json!({"type": "t", "args": [], "options": {"queue": "q", "rate_limit": limit}}))
                    .await;
            }
            app.client.fetch("q", 2).await;
        },
    )
    .await;
    let data = text.lines().find_map(|line| line.strip_prefix("data: ")).unwrap();
    let event: serde_json::Value = serde_json::from_str(data).unwrap();
    assert_eq!(event["data"], json!({"key": "k", "strategy": "concurrency", "limit": 1, "current": 1}));
    assert!(!text.contains("job."), "{text}");
}

#[tokio::test]
async fn an_invalid_position_is_refused() {
    let app = TestApp::start().await;
    let headers = [("accept", "text/event-stream"), ("last-event-id", "7")];
    let answer = app.client.try_send("GET", "/v1/events", &headers, None).await.unwrap().expect(400);
    assert_eq!(answer.at("/error/details/field"), "Last-Event-ID");
}

/// Opens a stream from a loopback address with a key and returns the response.
async fn open(app: &TestApp, path: &str, from: &str, key: &str) -> reqwest::Response {
    let from: IpAddr = from.parse().expect("an address");
    let client = weights::client_builder().local_address(from).build().expect("a client");
    let request = client.get(format!("{}/ojs/v1{path}", app.client.base())).header("accept", "text/event-stream");
    request.header("x-api-key", auth::secret(key)).send().await.expect("an answer")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_are_limited_for_each_address_or_key() {
    const MOST: usize = 100;
    let app = TestApp::start().await;
    let mut streams = Vec::new();
    for number in 0..MOST {
        let path = if number % 2 == 0 { "/events" } else { "/admin/planner/events" };
        streams.push(open(&app, path, "127.0.0.1", "").await);
    }
    assert!(streams.iter().all(|stream| stream.status() == 200));
    for path in ["/events", "/events/stream", "/admin/planner/events"] {
        let refused = open(&app, path, "127.0.0.1", "").await;
        assert_eq!((refused.status().as_u16(), refused.headers()["retry-after"].as_bytes()), (429, &b"5"[..]));
        assert_eq!(open(&app, path, "127.0.0.2", "").await.status(), 200, "another address has its own");
    }
    streams.pop();
    crate::support::eventually("a stream that is closed makes room", async || {
        open(&app, "/events", "127.0.0.1", "").await.status() == 200
    })
    .await;

    let app = auth::guarded().await;
    let mut streams = Vec::new();
    for _ in 0..MOST {
        streams.push(open(&app, "/events", "127.0.0.1", "operator").await);
    }
    assert!(streams.iter().all(|stream| stream.status() == 200));
    assert_eq!(open(&app, "/events", "127.0.0.2", "operator").await.status(), 429, "a key counts wherever it is used");
    assert_eq!(open(&app, "/events", "127.0.0.1", "admin").await.status(), 200, "another key has its own");
}

/// All events of a query, page by page.
async fn pages(app: &TestApp, query: &str, limit: usize) -> Vec<String> {
    let (mut ids, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = app.client.get(&format!("/v1/events?{query}&limit={limit}{cursor}")).await.expect(200);
        let events = page.at("/events").as_array().unwrap();
        assert!(events.len() <= limit);
        ids.extend(events.iter().map(|event| event["id"].as_str().unwrap().to_owned()));
        if page.at("/has_more") == false {
            return ids;
        }
        cursor = format!("&cursor={}", page.text_at("/cursor"));
    }
}

#[tokio::test]
async fn events_are_listed_newest_first_if_asked_for() {
    let app = TestApp::start().await;
    // Entries of several events, and of one.
    for _ in 0..3 {
        let job = json!({"type": "a.b", "args": [], "queue": "q"});
        app.client.post("/v1/jobs/batch", json!({"jobs": [job, job, job]})).await.expect(201);
        app.client.enqueue_into("r").await;
        app.client.fetch("q", 2).await;
    }
    for filter in ["", "types=job.enqueued", "queues=r", "types=none"] {
        let oldest_first = pages(&app, filter, 100).await;
        for limit in [1, 4, 100] {
            let mut newest_first = pages(&app, &format!("{filter}&order=desc"), limit).await;
            newest_first.reverse();
            assert_eq!(newest_first, oldest_first, "{filter} in pages of {limit}");
        }
    }
    assert!(pages(&app, "", 100).await.len() > 15);
    // In descending order, the events after an event are the older ones.
    let all = pages(&app, "", 100).await;
    let before = pages(&app, &format!("order=desc&after={}", all[5]), 100).await;
    assert_eq!(before.len(), 5);
    let refused = app.client.get("/v1/events?order=sideways").await.expect(400);
    assert_eq!(refused.text_at("/error/details/field"), "order");
    let stream = [("accept", "text/event-stream")];
    app.client.try_send("GET", "/v1/events?order=desc", &stream, None).await.unwrap().expect(400);
}
