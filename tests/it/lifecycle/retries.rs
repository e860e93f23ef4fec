//! Retries of failed jobs and their times.

use super::{NOON, SECOND};
use crate::support::{TestApp, json};

#[tokio::test]
async fn a_failed_job_waits_for_its_backoff_and_then_runs_again() {
    let app = TestApp::start_at(NOON).await;
    let retry = json!({"max_attempts": 3, "initial_interval": "PT2S", "jitter": false});
    let id = app.client.enqueue(json!({"type": "test.job", "args": [], "retry": retry})).await;
    app.client.fetch("default", 1).await;
    let nack = app.client.nack(&id).await.expect(200);
    assert_eq!((nack.text_at("/state"), nack.at("/retry_delay_ms")), ("retryable", &json!(2000)));
    assert_eq!(nack.text_at("/next_attempt_at"), "2027-01-15T08:00:02.000Z");

    app.clock.advance(2 * SECOND - 1);
    assert!(app.client.fetch("default", 1).await.job_ids().is_empty(), "not before its time");
    app.clock.advance(1);
    let again = app.client.fetch("default", 1).await;
    assert_eq!((again.at("/jobs/0/attempt"), again.at("/jobs/0/retry_delay_ms")), (&json!(2), &json!(2000)));
    assert_eq!(again.text_at("/jobs/0/error/message"), "it broke");

    let nack = app.client.nack(&id).await.expect(200);
    assert_eq!(nack.at("/retry_delay_ms"), &json!(4000), "exponential");
    app.clock.advance(4 * SECOND);
    app.client.fetch("default", 1).await;
    assert_eq!(app.client.nack(&id).await.expect(200).text_at("/state"), "discarded");
    let job = app.client.job(&id).await;
    assert_eq!(job["errors"].as_array().map(Vec::len), Some(3));
    assert_eq!(job["completed_at"], job["discarded_at"]);
}

#[tokio::test]
async fn every_backoff_follows_its_formula_and_its_cap() {
    let app = TestApp::start_at(NOON).await;
    for (strategy, coefficient, expected) in [
        ("constant", 3.0, [1000, 1000, 1000]),
        ("none", 3.0, [1000, 1000, 1000]),
        ("linear", 3.0, [1000, 2000, 3000]),
        ("exponential", 3.0, [1000, 3000, 9000]),
        ("polynomial", 2.0, [1000, 4000, 9000]),
        ("exponential", 10.0, [1000, 10_000, 10_000]),
    ] {
        let retry = json!({"max_attempts": 9, "initial_interval": "PT1S", "max_interval": "PT10S", "jitter": false,
            "backoff_strategy": strategy, "backoff_coefficient": coefficient});
        let id = app.client.enqueue(json!({"type": "test.job", "args": [], "retry": retry})).await;
        for delay in expected {
            app.client.fetch("default", 1).await;
            assert_eq!(app.client.nack(&id).await.expect(200).at("/retry_delay_ms"), &json!(delay), "{strategy}");
            app.clock.advance(delay);
        }
        app.client.delete(&format!("/v1/jobs/{id}")).await.expect(200);
    }
}

#[tokio::test]
async fn jitter_spreads_retries_within_its_bounds() {
    let app = TestApp::start().await;
    let retry = json!({"initial_interval": "PT10S", "jitter": true});
    let mut delays = std::collections::BTreeSet::new();
    for _ in 0..20 {
        let id = app.client.enqueue(json!({"type": "test.job", "args": [], "retry": retry})).await;
        app.client.fetch("default", 1).await;
        delays.insert(app.client.nack(&id).await.expect(200).at("/retry_delay_ms").as_i64().unwrap());
    }
    assert!(delays.iter().all(|delay| (5000..=15_000).contains(delay)), "{delays:?}");
    assert!(delays.len() > 10, "the delays differ: {delays:?}");
}

#[tokio::test]
async fn the_error_of_a_handler_decides_about_a_retry() {
    let app = TestApp::start_at(NOON).await;
    let retry = json!({"max_attempts": 5, "non_retryable_errors": ["auth.*", "Fatal"], "on_exhaustion": "dead_letter"});
    for (error, state, dead) in [
        (json!({"message": "m"}), "retryable", false),
        (json!({"message": "m", "retryable": false}), "discarded", true),
        (json!({"message": "m", "type": "auth.expired"}), "discarded", true),
        (json!({"message": "m", "type": "auth"}), "retryable", false),
        (json!({"message": "m", "details": {"error_class": "Fatal"}}), "discarded", true),
        (json!({"message": "m", "code": "Fatal"}), "discarded", true),
        (json!({"message": "m", "code": "DISCARD"}), "discarded", false),
        (json!({"message": "m", "code": "FAIL"}), "discarded", false),
        (json!({"message": "m", "code": "DEAD_LETTER"}), "discarded", true),
        (json!({"message": "m", "code": "RETRY"}), "retryable", false),
    ] {
        let id = app.client.enqueue(json!({"type": "test.job", "args": [], "retry": retry})).await;
        app.client.fetch("default", 1).await;
        let nack = app.client.post("/v1/workers/nack", json!({"job_id": id, "error": error})).await.expect(200);
        assert_eq!(nack.text_at("/state"), state, "{error}");
        let is_dead = app.client.get(&format!("/v1/dead-letter/{id}")).await.status == 200;
        assert_eq!(is_dead, dead, "{error}");
    }
}
