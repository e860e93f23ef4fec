//! A job's way through its states, with a clock that the test turns.

use crate::support::{TestApp, json};

/// A moment that is far from any boundary.
const NOON: i64 = 1_800_000_000_000;
const SECOND: i64 = 1000;
const MINUTE: i64 = 60 * SECOND;

/// An id that nobody has.
const NOBODY: &str = "019461a8-1a2b-7c3d-8e4f-5a6b7c8d9e0f";

#[tokio::test]
async fn jobs_of_one_priority_leave_in_the_order_of_their_arrival() {
    let app = TestApp::start_at(NOON).await;
    let mut expected = Vec::new();
    for _ in 0..30 {
        expected.push(app.client.enqueue_into("q").await); // all in the same millisecond
    }
    let mut got = app.client.fetch("q", 7).await.job_ids();
    got.extend(app.client.fetch("q", 1).await.job_ids());
    got.extend(app.client.fetch("q", 64).await.job_ids());
    assert_eq!(got, expected);
}

#[tokio::test]
async fn higher_priorities_leave_first() {
    let app = TestApp::start_at(NOON).await;
    let mut by_priority = Vec::new();
    for priority in [0, 5, -100, 100, 5, 0] {
        let job = json!({"type": "test.job", "args": [], "options": {"queue": "q", "priority": priority}});
        by_priority.push((priority, app.client.enqueue(job).await));
    }
    by_priority.sort_by_key(|(priority, _)| -priority); // stable: arrival order inside one priority
    let expected: Vec<String> = by_priority.into_iter().map(|(_, id)| id).collect();
    assert_eq!(app.client.fetch("q", 100).await.job_ids(), expected);
}

#[tokio::test]
async fn queues_are_emptied_from_left_to_right() {
    let app = TestApp::start_at(NOON).await;
    let (low, high) = (app.client.enqueue_into("low").await, app.client.enqueue_into("high").await);
    let body = json!({"queues": ["high", "nothing", "low"], "count": 5});
    assert_eq!(app.client.post("/v1/workers/fetch", body).await.expect(200).job_ids(), [high, low]);
}

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
    assert!(delays.len() > 10, "they differ: {delays:?}");
}

#[tokio::test]
async fn what_a_handler_says_of_its_error_decides() {
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

#[tokio::test]
async fn a_job_that_is_handed_back_keeps_its_place_and_its_attempts() {
    let app = TestApp::start_at(NOON).await;
    let (first, second) = (app.client.enqueue_into("q").await, app.client.enqueue_into("q").await);
    app.client.fetch("q", 1).await;
    let body = json!({"job_id": first, "requeue": true, "error": {"message": "bye", "retryable": false}});
    let nack = app.client.post("/v1/workers/nack", body).await.expect(200);
    assert_eq!((nack.text_at("/state"), nack.at("/attempt")), ("available", &json!(1)));
    assert_eq!(app.client.fetch("q", 5).await.job_ids(), [first, second]);
}

#[tokio::test]
async fn a_reservation_that_lapses_makes_the_job_available_at_once() {
    let app = TestApp::start_at(NOON).await;
    let id = app.client.enqueue_into("q").await;
    let body = json!({"queues": ["q"], "worker_id": "w1", "visibility_timeout_ms": 5000});
    app.client.post("/v1/workers/fetch", body).await.expect(200);
    app.clock.advance(5 * SECOND - 1);
    assert!(app.client.fetch("q", 1).await.job_ids().is_empty());
    app.clock.advance(1);
    let again = app.client.fetch("q", 1).await;
    assert_eq!(again.job_ids(), [&*id]);
    assert_eq!((again.at("/jobs/0/attempt"), again.text_at("/jobs/0/error/type")), (&json!(2), "visibility_timeout"));
    let late = app.client.post("/v1/workers/ack", json!({"job_id": id, "worker_id": "w0"})).await;
    assert_eq!(late.expect(409).text_at("/error/code"), "conflict");
}

#[tokio::test]
async fn a_job_without_attempts_left_is_discarded_when_its_reservation_lapses() {
    let app = TestApp::start_at(NOON).await;
    let retry = json!({"max_attempts": 1, "on_exhaustion": "dead_letter"});
    let id = app.client.enqueue(json!({"type": "test.job", "args": [], "retry": retry})).await;
    app.client.fetch("default", 1).await;
    app.clock.advance(31 * MINUTE);
    assert!(app.client.fetch("default", 1).await.job_ids().is_empty());
    assert_eq!(app.client.state(&id).await, "discarded");
    app.client.get(&format!("/v1/dead-letter/{id}")).await.expect(200);
}

#[tokio::test]
async fn heartbeats_extend_reservations_but_not_the_execution_timeout() {
    let app = TestApp::start_at(NOON).await;
    let options = json!({"timeout_ms": 9000, "visibility_timeout_ms": 4000, "queue": "q"});
    let id = app.client.enqueue(json!({"type": "test.job", "args": [], "options": options})).await;
    app.client.fetch("q", 1).await;
    for _ in 0..2 {
        app.clock.advance(3 * SECOND);
        let beat = json!({"worker_id": "w1", "active_jobs": [id]});
        let answer = app.client.post("/v1/workers/heartbeat", beat).await.expect(200);
        assert_eq!(answer.at("/jobs_extended"), &json!([id]));
    }
    assert!(app.client.fetch("q", 1).await.job_ids().is_empty(), "still held at 6 s");
    app.clock.advance(3 * SECOND);
    app.client.fetch("q", 1).await; // due things are handled by any fetch
    let job = app.client.job(&id).await;
    assert_eq!((&job["state"], &job["error"]["type"]), (&json!("retryable"), &json!("timeout")));
    assert_eq!(job["error"]["limit_seconds"], json!(9.0));
}

#[tokio::test]
async fn a_silent_worker_is_dead_and_its_jobs_go_on() {
    let app = TestApp::start_at(NOON).await;
    let id = app.client.enqueue_into("q").await;
    app.client.post("/v1/workers/register", json!({"worker": {"worker_id": "w1", "concurrency": 2}})).await.expect(200);
    app.client.fetch("q", 1).await;
    app.clock.advance(29 * SECOND);
    app.app.store.tick(false).await.unwrap();
    assert_eq!(app.client.state(&id).await, "active");
    app.clock.advance(2 * SECOND);
    app.app.store.tick(false).await.unwrap();
    let job = app.client.job(&id).await;
    assert_eq!((&job["state"], &job["error"]["type"]), (&json!("available"), &json!("worker_death")));
    assert_eq!(app.redis.keys_with("worker").await, Vec::<String>::new());
}

#[tokio::test]
async fn a_worker_that_only_fetches_is_not_watched() {
    let app = TestApp::start_at(NOON).await;
    let id = app.client.enqueue_into("q").await;
    app.client.fetch("q", 1).await;
    app.clock.advance(20 * MINUTE);
    app.app.store.tick(false).await.unwrap();
    assert_eq!(app.client.state(&id).await, "active");
}

#[tokio::test]
async fn a_worker_that_says_goodbye_hands_its_jobs_back() {
    let app = TestApp::start_at(NOON).await;
    let id = app.client.enqueue_into("q").await;
    app.client.post("/v1/workers/heartbeat", json!({"worker_id": "w1"})).await.expect(200);
    app.client.fetch("q", 1).await;
    let answer = app.client.delete("/v1/workers/w1").await.expect(200);
    assert_eq!(answer.at("/jobs_requeued"), &json!(1));
    assert_eq!(app.client.state(&id).await, "available");
    app.client.delete("/v1/workers/w1").await.expect(404);
}

#[tokio::test]
async fn a_worker_that_is_not_running_gets_nothing() {
    let app = TestApp::start_at(NOON).await;
    app.client.enqueue_into("q").await;
    let beat = json!({"worker_id": "w1", "state": "quiet"});
    app.client.post("/v1/workers/heartbeat", beat).await.expect(200);
    assert!(app.client.fetch("q", 1).await.job_ids().is_empty());
    app.client.post("/v1/workers/heartbeat", json!({"worker_id": "w1", "state": "running"})).await.expect(200);
    assert_eq!(app.client.fetch("q", 1).await.job_ids().len(), 1);
}

#[tokio::test]
async fn a_stalled_job_fails_after_its_own_heartbeat_timeout() {
    let app = TestApp::start_at(NOON).await;
    let id = app.client.enqueue(json!({"type": "test.job", "args": [], "heartbeat_timeout": 10})).await;
    app.client.fetch("default", 1).await;
    let beat = json!({"worker_id": "w1", "active_jobs": [id]});
    app.client.post("/v1/workers/heartbeat", beat).await.expect(200);
    app.clock.advance(11 * SECOND);
    app.app.store.tick(false).await.unwrap();
    let job = app.client.job(&id).await;
    assert_eq!((&job["state"], &job["error"]["type"]), (&json!("retryable"), &json!("stalled")));
}

#[tokio::test]
async fn a_scheduled_job_becomes_available_in_its_time_and_not_before() {
    let app = TestApp::start_at(NOON).await;
    let at = "2027-01-15T09:00:10+01:00"; // ten seconds after noon of this clock
    let absolute = app.client.enqueue(json!({"type": "test.job", "args": [], "scheduled_at": at})).await;
    let options = json!({"delay_until": "+PT10S"});
    let relative = app.client.enqueue(json!({"type": "test.job", "args": [], "options": options})).await;
    let job = app.client.job(&absolute).await;
    assert_eq!((&job["state"], &job["scheduled_at"]), (&json!("scheduled"), &json!(at)), "echoed as it was sent");
    assert_eq!(app.client.job(&relative).await["scheduled_at"], "2027-01-15T08:00:10.000Z");
    app.clock.advance(10 * SECOND - 1);
    assert!(app.client.fetch("default", 9).await.job_ids().is_empty());
    app.clock.advance(1);
    app.app.store.tick(false).await.unwrap();
    assert_eq!(app.client.job(&absolute).await["enqueued_at"], "2027-01-15T08:00:10.000Z");
    assert_eq!(app.client.fetch("default", 9).await.job_ids().len(), 2);
}

#[tokio::test]
async fn a_job_that_was_not_started_in_time_is_discarded() {
    let app = TestApp::start_at(NOON).await;
    let expiring = app.client.enqueue(json!({"type": "test.job", "args": [], "expires_at": "+PT5S"})).await;
    let by_ttl = app.client.enqueue(json!({"type": "test.job", "args": [], "enqueue_ttl": 5})).await;
    let scheduled = json!({"type": "test.job", "args": [], "expires_at": "+PT5S", "scheduled_at": "+PT1H"});
    let scheduled = app.client.enqueue(scheduled).await;
    let fresh = app.client.enqueue_into("default").await;
    app.clock.advance(5 * SECOND);
    assert_eq!(app.client.fetch("default", 1).await.job_ids(), [fresh], "the same fetch goes on to the next job");
    for (id, kind) in [(expiring, "expired"), (by_ttl, "enqueue_ttl_expired"), (scheduled, "expired")] {
        let job = app.client.job(&id).await;
        assert_eq!((&job["state"], &job["error"]["type"]), (&json!("discarded"), &json!(kind)), "{job}");
        assert!(job.get("completed_at").is_none() && job.get("discarded_at").is_some(), "{job}");
    }
}

#[tokio::test]
async fn a_started_job_outlives_its_enqueue_ttl_but_not_its_total_timeout() {
    let app = TestApp::start_at(NOON).await;
    let body = json!({"type": "test.job", "args": [], "enqueue_ttl": 5, "total_timeout": 60,
        "retry": {"initial_interval": "PT10S", "jitter": false, "max_attempts": 99}});
    let id = app.client.enqueue(body).await;
    app.client.fetch("default", 1).await;
    app.client.nack(&id).await.expect(200);
    app.clock.advance(10 * SECOND);
    assert_eq!(app.client.fetch("default", 1).await.job_ids(), [&*id], "the ttl was for the first start");
    app.clock.advance(50 * SECOND);
    app.app.store.tick(false).await.unwrap();
    let job = app.client.job(&id).await;
    assert_eq!((&job["state"], &job["error"]["type"]), (&json!("discarded"), &json!("total_timeout")));
}

#[tokio::test]
async fn a_pending_job_waits_for_its_activation() {
    let app = TestApp::start_at(NOON).await;
    let id = app.client.enqueue(json!({"type": "test.job", "args": [], "options": {"pending": true}})).await;
    assert_eq!(app.client.state(&id).await, "pending");
    assert!(app.client.fetch("default", 1).await.job_ids().is_empty());
    let activated = app.client.post(&format!("/v1/jobs/{id}/activate"), json!({})).await.expect(200);
    assert_eq!((activated.text_at("/job/state"), activated.text_at("/job/previous_state")), ("available", "pending"));
    app.client.post(&format!("/v1/jobs/{id}/activate"), json!({})).await.expect(409);
    assert_eq!(app.client.fetch("default", 1).await.job_ids(), [id]);
}

#[tokio::test]
async fn any_unfinished_job_can_be_cancelled_and_is_then_nowhere() {
    let app = TestApp::start_at(NOON).await;
    let available = app.client.enqueue_into("q").await;
    let active = app.client.enqueue_into("active").await;
    app.client.fetch("active", 1).await;
    let scheduled = app.client.enqueue(json!({"type": "test.job", "args": [], "scheduled_at": "+PT1M"})).await;
    let pending = app.client.enqueue(json!({"type": "test.job", "args": [], "options": {"pending": true}})).await;
    let retryable = app.client.enqueue_into("retryable").await;
    app.client.fetch("retryable", 1).await;
    app.client.nack(&retryable).await.expect(200);
    for (id, state) in [
        (&available, "available"),
        (&active, "active"),
        (&scheduled, "scheduled"),
        (&pending, "pending"),
        (&retryable, "retryable"),
    ] {
        let answer = app.client.delete(&format!("/v1/jobs/{id}")).await.expect(200);
        assert_eq!((answer.text_at("/job/state"), answer.text_at("/job/previous_state")), ("cancelled", state));
        let again = app.client.delete(&format!("/v1/jobs/{id}")).await.expect(409);
        assert_eq!(again.text_at("/error/details/current_state"), "cancelled");
    }
    let beat = json!({"worker_id": "w1", "active_jobs": [active]});
    let answer = app.client.post("/v1/workers/heartbeat", beat).await.expect(200);
    assert_eq!(answer.at("/cancelled_jobs"), &json!([active]), "its worker is told");
    app.client.ack(&active).await.expect(409);
    app.clock.advance(60 * MINUTE);
    let queues = json!({"queues": ["q", "active", "default", "retryable"], "count": 10});
    assert!(app.client.post("/v1/workers/fetch", queues).await.job_ids().is_empty());
    for set in ["due", "leases", "expiry", "ready", "lane"] {
        assert_eq!(app.redis.keys_with(set).await, Vec::<String>::new(), "{set} is empty");
    }
}

#[tokio::test]
async fn a_batch_is_stored_whole_or_not_at_all() {
    let app = TestApp::start_at(NOON).await;
    let taken = app.client.enqueue_into("q").await;
    let job = json!({"type": "test.job", "args": [1], "options": {"queue": "b"}});
    let with_taken = json!({"jobs": [job, job, {"id": taken, "type": "test.job", "args": []}]});
    let refused = app.client.post("/v1/jobs/batch", with_taken).await.expect(409);
    assert_eq!((refused.text_at("/error/code"), refused.at("/error/details/index")), ("duplicate", &json!(2)));
    assert!(app.client.fetch("b", 10).await.job_ids().is_empty());
    let stored = app.client.post("/v1/jobs/batch", json!({"jobs": vec![job; 1000]})).await.expect(201);
    assert_eq!(stored.at("/count"), &json!(1000));
    assert_eq!(app.client.fetch("b", 1000).await.job_ids(), stored.job_ids(), "in the order of the request");
}

#[tokio::test]
async fn a_dead_letter_can_be_found_revived_and_deleted() {
    let app = TestApp::start_at(NOON).await;
    let mut ids = Vec::new();
    for (queue, kind) in [("a", "Smtp"), ("b", "Http"), ("b", "Smtp")] {
        let retry = json!({"max_attempts": 1, "on_exhaustion": "dead_letter"});
        let options = json!({"queue": queue, "retry": retry});
        let id = app.client.enqueue(json!({"type": "test.job", "args": [], "options": options})).await;
        app.client.fetch(queue, 1).await;
        let nack = json!({"job_id": id, "error": {"type": kind, "message": "m"}});
        app.client.post("/v1/workers/nack", nack).await.expect(200);
        app.clock.advance(SECOND);
        ids.push(id);
    }
    let found = async |query: &str| app.client.get(&format!("/v1/dead-letter?{query}")).await.expect(200).job_ids();
    assert_eq!(found("").await, [&*ids[2], &*ids[1], &*ids[0]], "newest first");
    assert_eq!(found("queue=b").await, [&*ids[2], &*ids[1]]);
    assert_eq!(found("error_type=Smtp").await, [&*ids[2], &*ids[0]]);
    assert_eq!(found("until=2027-01-15T08:00:00.500Z").await, [&*ids[0]]);
    assert_eq!(found("limit=1&offset=1").await, [&*ids[1]]);
    let stats = app.client.get("/v1/dead-letter/stats").await.expect(200);
    assert_eq!(stats.at("/by_error_type"), &json!({"Smtp": 2, "Http": 1}));

    let revived = app.client.post(&format!("/v1/dead-letter/{}/retry", ids[0]), json!({})).await.expect(200);
    assert_eq!((revived.text_at("/job/state"), revived.at("/job/attempt")), ("available", &json!(0)));
    assert_eq!(revived.at("/job/errors").as_array().map(Vec::len), Some(1), "its history stays");
    assert!(revived.at("/job/completed_at").is_null());
    assert_eq!(app.client.fetch("a", 1).await.job_ids(), [ids[0].clone()]);
    let ttl: i64 = app.redis.command(&["PTTL", &format!("fg:{{default}}:job:{}", ids[0])]).await;
    assert_eq!(ttl, -1, "a living job never has a TTL");

    app.client.delete(&format!("/v1/dead-letter/{}", ids[1])).await.expect(200);
    app.client.get(&format!("/v1/jobs/{}", ids[1])).await.expect(404);
    assert_eq!(app.redis.keys_with(&ids[1]).await, Vec::<String>::new());
    app.client.post(&format!("/v1/dead-letter/{NOBODY}/retry"), json!({})).await.expect(404);
}

#[tokio::test]
async fn a_second_ack_is_a_conflict_unless_it_carries_the_same_key() {
    let app = TestApp::start_at(NOON).await;
    let (first, second) = (app.client.enqueue_into("q").await, app.client.enqueue_into("q").await);
    app.client.fetch("q", 2).await;
    app.client.ack(&first).await.expect(200);
    app.client.ack(&first).await.expect(409);

    let ack = json!({"job_id": second, "result": {"n": 1}}).to_string();
    let send = async |key| {
        let headers = [("idempotency-key", key)];
        app.client.try_send("POST", "/v1/workers/ack", &headers, Some(ack.clone())).await.unwrap()
    };
    let original = send("k1").await.expect(200);
    app.clock.advance(SECOND);
    let replayed = send("k1").await.expect(200);
    assert_eq!(replayed.at("/job"), original.at("/job"), "the first answer again");
    send("k2").await.expect(409);
}

#[tokio::test]
async fn several_jobs_are_acked_in_one_request_each_with_its_own_result() {
    let app = TestApp::start_at(NOON).await;
    let id = app.client.enqueue_into("q").await;
    app.client.fetch("q", 1).await;
    let body = json!({"acks": [{"job_id": id, "result": 7}, {"job_id": NOBODY}, {"job_id": 5}]});
    let answer = app.client.post("/v1/workers/ack", body).await.expect(200);
    assert_eq!(answer.at("/results/0/state"), "completed");
    assert_eq!(answer.at("/results/1/error/code"), "not_found");
    assert_eq!(answer.at("/results/2/error/details/field"), "acks[2].job_id");
    assert_eq!(app.client.job(&id).await["result"], 7);
}

#[tokio::test]
async fn a_fetch_with_an_id_is_replayed_and_not_repeated() {
    let app = TestApp::start_at(NOON).await;
    let expected = [app.client.enqueue_into("q").await, app.client.enqueue_into("q").await];
    app.client.enqueue_into("q").await;
    let body = json!({"queues": ["q"], "count": 2, "worker_id": "w1", "fetch_id": "f-1"});
    let first = app.client.post("/v1/workers/fetch", body.clone()).await.expect(200);
    assert_eq!(first.job_ids(), expected);
    app.client.ack(&expected[0]).await.expect(200);
    let again = app.client.post("/v1/workers/fetch", body).await.expect(200);
    assert_eq!(again.job_ids(), [expected[1].clone()], "what is still held; nothing new");
    assert_eq!(again.at("/jobs/0/attempt"), &json!(1));
}

#[tokio::test]
async fn events_tell_the_story_and_a_cursor_goes_on_behind_the_last() {
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
