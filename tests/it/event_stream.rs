//! `GET /events` as a stream: what happens from now on, or behind the last event that a reader has seen.

use crate::support::{TestApp, json};
use std::time::Duration;

/// Reads frames of the stream until `wanted` says that it has seen enough.
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
async fn a_reader_gets_what_happens_from_now_on_and_may_go_on_later() {
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
async fn a_stream_is_filtered_and_tells_of_limits() {
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
async fn a_place_that_is_none_is_refused() {
    let app = TestApp::start().await;
    let headers = [("accept", "text/event-stream"), ("last-event-id", "7")];
    let answer = app.client.try_send("GET", "/v1/events", &headers, None).await.unwrap().expect(400);
    assert_eq!(answer.at("/error/details/field"), "Last-Event-ID");
}
