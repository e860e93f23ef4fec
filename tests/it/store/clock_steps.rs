//! The store's clock is set back by an hour or a minute: nothing waits for the size of the step.

use crate::support::{NOON, TestApp, eventually, json};
use fairgate::clock::Clock;
use fairgate::config::Role;
use fairgate::domain::job::State;
use serde_json::Value;

const SECOND: i64 = 1000;
/// Steps smaller and larger than the times in the tests.
const STEPS: [i64; 2] = [40 * SECOND, 3600 * SECOND];

/// Starts a passive server: a tick of its own could still use the time before a step.
async fn start() -> TestApp {
    TestApp::start_with(Clock::manual(NOON), |config| config.server.roles = vec![Role::Api]).await
}

/// Sets the clock back and ticks until everything is shifted.
async fn set_back(app: &TestApp, step: i64) {
    pass(app, 0).await;
    let before = events(app).await.len();
    app.clock.advance(-step);
    while {
        app.store().tick_and_signal().await.unwrap();
        let step: Option<i64> = app.redis.command(&["HGET", "fg:{default}:state", "step"]).await;
        step.is_some()
    } {}
    assert_eq!(events(app).await[before]["data"]["step_ms"], json!(step));
}

async fn events(app: &TestApp) -> Vec<Value> {
    let page = app.client.get("/v1/events?types=clock.stepped_back&limit=100").await.expect(200);
    page.at("/events").as_array().cloned().unwrap_or_default()
}

/// Advances the clock and handles everything that is due.
async fn pass(app: &TestApp, seconds: i64) {
    app.clock.advance(seconds * SECOND);
    while app.store().tick_and_signal().await.unwrap() {}
}

#[tokio::test]
async fn a_lease_lasts_as_long_as_before() {
    for step in STEPS {
        let app = start().await;
        let id = app.client.enqueue(json!({"type": "t", "args": [], "options": {"visibility_timeout": 60}})).await;
        assert_eq!(app.client.fetch("default", 1).await.job_ids(), [&*id]);
        pass(&app, 50).await;
        set_back(&app, step).await;
        pass(&app, 9).await;
        assert_eq!(app.client.state(&id).await, "active", "step of {step} ms");
        pass(&app, 2).await;
        assert_eq!(app.client.state(&id).await, "available", "step of {step} ms");
    }
}

#[tokio::test]
async fn leases_that_end_or_start_meanwhile_are_not_shifted() {
    let app = start().await;
    let body = json!({"type": "t", "args": [], "options": {"visibility_timeout": 60}});
    let (answered, extended) = (app.client.enqueue(body.clone()).await, app.client.enqueue(body).await);
    app.client.fetch("default", 2).await;
    pass(&app, 50).await;
    app.clock.advance(-3600 * SECOND);
    app.client.ack(&answered).await.expect(200);
    let beat = json!({"worker_id": "w1", "active_jobs": [extended]});
    app.client.post("/v1/workers/heartbeat", beat).await.expect(200);
    pass(&app, 20).await;
    assert_eq!(app.client.state(&answered).await, "completed");
    assert_eq!(app.client.state(&extended).await, "active", "extended after the step");
}

#[tokio::test]
async fn many_leases_are_shifted_in_portions() {
    let app = start().await;
    let job = json!({"type": "t", "args": [], "options": {"visibility_timeout": 60}});
    app.client.post("/v1/jobs/batch", json!({"jobs": vec![job; 700]})).await.expect(201);
    assert_eq!(app.client.fetch("default", 700).await.job_ids().len(), 700);
    set_back(&app, 3600 * SECOND).await;
    pass(&app, 61).await;
    assert_eq!(app.store().queue_counts("default").await.unwrap()[&State::Available], 700);
}

#[tokio::test]
async fn a_retry_comes_after_its_delay() {
    for step in STEPS {
        let app = start().await;
        let retry = json!({"initial_interval": "PT60S", "jitter": false});
        let id = app.client.enqueue(json!({"type": "t", "args": [], "retry": retry})).await;
        app.client.fetch("default", 1).await;
        app.client.nack(&id).await.expect(200);
        pass(&app, 30).await;
        set_back(&app, step).await;
        pass(&app, 29).await;
        assert_eq!(app.client.state(&id).await, "retryable", "step of {step} ms");
        pass(&app, 1).await;
        assert_eq!(app.client.fetch("default", 1).await.job_ids(), [&*id], "step of {step} ms");
    }
}

#[tokio::test]
async fn a_delay_is_kept_and_a_time_of_day_is_too() {
    let app = start().await;
    let delayed = app.client.enqueue(json!({"type": "t", "args": [], "scheduled_at": "+PT60S"})).await;
    let at_a_minute_past_noon = "2027-01-15T08:01:00Z";
    let timed = app.client.enqueue(json!({"type": "t", "args": [], "scheduled_at": at_a_minute_past_noon})).await;
    set_back(&app, 600 * SECOND).await;
    pass(&app, 60).await;
    assert_eq!(app.client.state(&delayed).await, "available");
    assert_eq!(app.client.state(&timed).await, "scheduled");
    pass(&app, 600).await;
    assert_eq!(app.client.state(&timed).await, "available");
}

#[tokio::test]
async fn a_silent_worker_is_dead_after_the_usual_time() {
    for step in STEPS {
        let app = start().await;
        let id = app.client.enqueue_into("q").await;
        app.client.post("/v1/workers/heartbeat", json!({"worker_id": "w1"})).await.expect(200);
        app.client.fetch("q", 1).await;
        set_back(&app, step).await;
        pass(&app, 31).await;
        assert_eq!(app.client.job(&id).await["error"]["type"], "worker_death", "step of {step} ms");
    }
}

#[tokio::test]
async fn a_rate_neither_opens_nor_stays_closed() {
    for step in STEPS {
        for limit in ["rate", "throttle"] {
            let app = start().await;
            let rate_limit = json!({"key": "k", limit: {"limit": 1, "period": "PT1M"}});
            let job = json!({"type": "t", "args": [], "rate_limit": rate_limit});
            app.client.post("/v1/jobs/batch", json!({"jobs": [job, job]})).await.expect(201);
            assert_eq!(app.client.fetch("default", 2).await.job_ids().len(), 1);
            pass(&app, 30).await;
            set_back(&app, step).await;
            pass(&app, 29).await;
            assert!(app.client.fetch("default", 1).await.job_ids().is_empty(), "{limit}, step of {step} ms");
            pass(&app, 1).await;
            assert_eq!(app.client.fetch("default", 1).await.job_ids().len(), 1, "{limit}, step of {step} ms");
        }
    }
}

#[tokio::test]
async fn a_job_rescheduled_by_a_limit_runs_in_its_turn() {
    for step in STEPS {
        let app = start().await;
        let rate = json!({"limit": 1, "period": "PT1M"});
        let job = json!({"type": "t", "args": [], "rate_limit": {"key": "k", "rate": rate, "on_limit": "reschedule"}});
        app.client.post("/v1/jobs/batch", json!({"jobs": [job, job]})).await.expect(201);
        assert_eq!(app.client.fetch("default", 2).await.job_ids().len(), 1);
        pass(&app, 10).await;
        set_back(&app, step).await;
        pass(&app, 49).await;
        assert!(app.client.fetch("default", 1).await.job_ids().is_empty(), "step of {step} ms");
        pass(&app, 1).await;
        assert_eq!(app.client.fetch("default", 1).await.job_ids().len(), 1, "step of {step} ms");
    }
}

#[tokio::test]
async fn the_enqueue_rate_of_a_tenant_is_still_enforced() {
    for step in STEPS {
        let app = start().await;
        let tenant = json!({"limits": {"max_enqueue_rate": {"limit": 1, "period": "PT1M"}}});
        app.client.send("PUT", "/v1/admin/tenants/acme", Some(tenant.to_string())).await.expect(201);
        let job = json!({"type": "t", "args": [], "meta": {"tenant_id": "acme"}});
        app.client.post("/v1/jobs", job.clone()).await.expect(201);
        pass(&app, 30).await;
        set_back(&app, step).await;
        pass(&app, 29).await;
        app.client.post("/v1/jobs", job.clone()).await.expect(429);
        pass(&app, 1).await;
        app.client.post("/v1/jobs", job).await.expect(201);
    }
}

#[tokio::test]
async fn crons_fire_at_the_next_time_that_the_clock_shows() {
    let app = TestApp::start_at(NOON).await;
    for (name, expression) in [("minutely", "* * * * *"), ("interval", "@every 90s")] {
        let template = json!({"type": "t", "args": [], "options": {"queue": name}});
        let cron = json!({"name": name, "expression": expression, "job_template": template});
        app.client.post("/v1/cron", cron).await.expect(201);
    }
    set_back(&app, 3600 * SECOND).await;
    let next = async |name: &str| {
        let cron = app.client.get(&format!("/v1/cron/{name}")).await.expect(200);
        cron.text_at("/cron/next_run_at").to_owned()
    };
    eventually("they are advanced to the next time", async || next("minutely").await == "2027-01-15T07:01:00.000Z")
        .await;
    assert_eq!(next("interval").await, "2027-01-15T07:01:30.000Z");
    pass(&app, 60).await;
    eventually("it fires", async || app.client.fetch("minutely", 1).await.job_ids().len() == 1).await;
}

#[tokio::test]
async fn a_second_step_is_accepted_as_well() {
    let app = start().await;
    let id = app.client.enqueue(json!({"type": "t", "args": [], "options": {"visibility_timeout": 60}})).await;
    app.client.fetch("default", 1).await;
    for step in [600, 1200, 1800] {
        set_back(&app, step * SECOND).await;
    }
    pass(&app, 61).await;
    assert_eq!(app.client.state(&id).await, "available");
}
