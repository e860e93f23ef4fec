//! Events of jobs in order, and counts of queues.

use super::{MINUTE, NOON};
use crate::support::{TestApp, json};

#[tokio::test]
async fn events_describe_the_life_of_a_job_and_a_cursor_resumes_after_the_last() {
    let app = TestApp::start_at(NOON).await;
    let id = app.client.enqueue_into("q").await;
    app.client.fetch("q", 1).await;
    app.client.nack(&id).await.expect(200);
    app.clock.advance(MINUTE);
    app.client.fetch("q", 1).await;
    app.client.ack(&id).await.expect(200);
    let all = app.client.get("/v1/events").await.expect(200);
    let kinds = |answer: &crate::support::Answer| -> Vec<String> {
        let events = answer.at("/events").as_array().unwrap();
        events.iter().map(|event| event["type"].as_str().unwrap().to_owned()).collect()
    };
    let story = ["job.enqueued", "job.started", "job.failed", "job.retrying", "job.started", "job.completed"];
    assert_eq!(kinds(&all), story);
    assert_eq!(all.at("/events/3/data/next_retry_at").as_str().map(str::len), Some(24), "{}", all.at("/events/3"));

    let mut cursor = String::new();
    let mut walked = Vec::new();
    loop {
        let after = if cursor.is_empty() { String::new() } else { format!("&after={cursor}") };
        let page = app.client.get(&format!("/v1/events?limit=2{after}")).await.expect(200);
        walked.extend(kinds(&page));
        cursor = page.text_at("/cursor").to_owned();
        if page.at("/has_more") == &json!(false) {
            break;
        }
    }
    assert_eq!(walked, story, "no event twice and none left out");
    assert_eq!(kinds(&app.client.get("/v1/events?types=job.re*&queues=q&job_types=test.job").await), ["job.retrying"]);
    assert!(kinds(&app.client.get("/v1/events?queues=other").await).is_empty());
}

#[tokio::test]
async fn queues_count_their_jobs_exactly() {
    let app = TestApp::start_at(NOON).await;
    for _ in 0..5 {
        app.client.enqueue_into("q").await;
    }
    let ids = app.client.fetch("q", 3).await.job_ids();
    app.client.ack(&ids[0]).await.expect(200);
    app.client.nack(&ids[1]).await.expect(200);
    app.clock.advance(500);
    let stats = app.client.get("/v1/queues/q/stats").await.expect(200);
    let counts = ["available", "active", "completed", "retryable", "scheduled", "discarded"]
        .map(|state| &stats.at("/queue")[state]);
    assert_eq!(counts, [&json!(2), &json!(1), &json!(1), &json!(1), &json!(0), &json!(0)]);
    assert_eq!(stats.text_at("/stats/oldest_available_at"), "2027-01-15T08:00:00.000Z");
    assert_eq!(stats.at("/queue/latency_ms"), &json!(500));
    assert_eq!(app.client.get("/v1/queues").await.expect(200).text_at("/queues/0/name"), "q");
    app.client.get("/v1/queues/unknown/stats").await.expect(404);
}
