//! Rate limits over HTTP: usage, overrides, queue limits, and responses to producers.

use crate::support::{Answer, NOON, TestApp, TestRedis, eventually, json};
use fairgate::clock::Clock;
use fairgate::domain::limit::{Quota, Window};
use fairgate::domain::pool::{LimitRule, LimitTarget};
use serde_json::Value;
use std::sync::Arc;

const LIMITS: &str = "/ojs/v1/rate-limits";

fn limited(limit: Value) -> Value {
    json!({"type": "t.x", "args": [], "queue": "q", "rate_limit": limit})
}

async fn put(app: &TestApp, path: &str, body: Value) -> Answer {
    app.client.send("PUT", path, Some(body.to_string())).await
}

async fn limit(app: &TestApp, key: &str) -> Value {
    app.client.get(&format!("{LIMITS}/{key}")).await.expect(200).body
}

async fn fetched(app: &TestApp, queue: &str) -> usize {
    app.client.fetch(queue, 50).await.job_ids().len()
}

fn rule(target: LimitTarget, concurrency: u32) -> LimitRule {
    LimitRule { target, quota: Quota { concurrency: Some(concurrency), ..Quota::default() } }
}

fn headers(answer: &Answer) -> [&str; 3] {
    ["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"].map(|name| answer.header(name))
}

#[tokio::test]
async fn a_limit_is_shown_as_specified() {
    let app = TestApp::start_at(NOON).await;
    let policy = json!({"key": "stripe-api", "concurrency": 5, "rate": {"limit": 100, "period": "PT1M"},
        "throttle": {"limit": 10, "period": "PT1S"}});
    for _ in 0..4 {
        app.client.enqueue(limited(policy.clone())).await;
    }
    assert_eq!(fetched(&app, "q").await, 1, "the throttle spaces them");
    let expected = json!({
        "key": "stripe-api", "scope": "key",
        "concurrency": {"limit": 5, "active": 1, "available": 4},
        "rate": {"limit": 100, "period": "PT1M", "current_count": 1, "window_resets_at": "2027-01-15T08:01:00.000Z"},
        "throttle": {"limit": 10, "period": "PT1S", "next_allowed_at": "2027-01-15T08:00:00.100Z"},
        "waiting_count": 3,
    });
    assert_eq!(limit(&app, "stripe-api").await, expected);
    let list = app.client.get(LIMITS).await.expect(200);
    let expected = json!({
        "key": "stripe-api", "scope": "key",
        "concurrency": {"limit": 5, "active": 1},
        "rate": {"limit": 100, "period": "PT1M", "current_count": 1},
        "throttle": {"limit": 10, "period": "PT1S"},
        "waiting_count": 3,
    });
    assert_eq!((list.at("/items/0"), list.at("/pagination/total")), (&expected, &json!(1)));

    app.client.enqueue(limited(json!({"key": "only", "concurrency": 2}))).await;
    assert_eq!(
        limit(&app, "only").await,
        json!({"key": "only", "scope": "key", "concurrency": {"limit": 2, "active": 0, "available": 2}, "waiting_count": 0})
    );
    for number in 0..5 {
        app.client.enqueue(limited(json!({"key": format!("k{number}"), "concurrency": 1}))).await;
    }
    let mut seen = Vec::new();
    for page in 1..=3 {
        let page = app.client.get(&format!("{LIMITS}?page={page}&per_page=3")).await.expect(200);
        assert_eq!(page.at("/pagination/total"), 7);
        seen.extend(page.at("/items").as_array().unwrap().iter().map(|item| item["key"].as_str().unwrap().to_owned()));
    }
    seen.sort();
    assert_eq!(seen, ["k0", "k1", "k2", "k3", "k4", "only", "stripe-api"]);
    let unknown = app.client.get(&format!("{LIMITS}/nobody")).await.expect(404);
    assert!(unknown.text_at("/error/hint").contains("/rate-limits"), "{}", unknown.text);
}

#[tokio::test]
async fn an_override_applies_until_it_ends_and_wakes_waiting_fetches() {
    let app = TestApp::start_at(NOON).await;
    let policy = json!({"key": "api", "concurrency": 2, "rate": {"limit": 50, "period": "PT1H"}});
    for _ in 0..10 {
        app.client.enqueue(limited(policy.clone())).await;
    }
    let path = format!("{LIMITS}/api");
    let paused = put(&app, &path, json!({"concurrency": 0, "expires_at": "+PT1M"})).await.expect(200);
    assert_eq!(paused.at("/concurrency"), &json!({"limit": 0, "active": 0, "available": 0}));
    assert_eq!(paused.at("/rate/limit"), 50, "limits it does not set are unchanged");
    assert_eq!(
        (paused.at("/waiting_count"), paused.text_at("/override/expires_at")),
        (&json!(10), "2027-01-15T08:01:00.000Z")
    );
    assert_eq!(fetched(&app, "q").await, 0);
    app.clock.advance(59_999);
    assert_eq!(fetched(&app, "q").await, 0);
    app.clock.advance(1);
    assert_eq!(fetched(&app, "q").await, 2, "it has ended");
    assert!(limit(&app, "api").await["override"].is_null());
    app.client.delete(&path).await.expect(404);

    let wider = put(&app, &path, json!({"concurrency": 5, "expires_at": "2027-01-16T00:00:00Z"})).await.expect(200);
    assert_eq!(wider.at("/concurrency/available"), 3);
    assert_eq!(fetched(&app, "q").await, 3, "jobs that waited for the limit can run");
    put(&app, &path, json!({"rate": {"limit": 6, "period": "PT1H"}})).await.expect(200);
    let state = limit(&app, "api").await;
    assert_eq!(
        (&state["concurrency"]["limit"], &state["rate"]["limit"]),
        (&json!(2), &json!(6)),
        "nothing of the older one"
    );
    assert_eq!(state["override"], json!({"expires_at": null}));
    let restored = app.client.delete(&path).await.expect(200);
    assert_eq!((restored.at("/rate/limit"), restored.at("/override")), (&json!(50), &Value::Null));
    let gone = app.client.delete(&path).await.expect(404);
    assert_eq!(gone.at("/error/details/resource_type"), "override");
}

/// A document that was read can be sent back unchanged, which changes nothing, or with other numbers.
#[tokio::test]
async fn a_shown_limit_can_be_sent_back() {
    let app = TestApp::start_at(NOON).await;
    let policy = json!({"key": "api", "concurrency": 2, "rate": {"limit": 50, "period": "PT1H"},
        "throttle": {"limit": 10, "period": "PT1S"}});
    app.client.enqueue(limited(policy)).await;
    app.client.enqueue(limited(json!({"key": "bare"}))).await;
    app.client.enqueue(limited(json!({"key": "held"}))).await;
    assert_eq!(fetched(&app, "q").await, 3);
    let held = app.client.get("/v1/admin/jobs?state=active&sort=created_at&order=desc").await.expect(200);
    let error = json!({"message": "429", "rate_limit_until": "2027-01-15T08:05:00Z"});
    let nack = json!({"job_id": held.at("/items/0/id"), "error": error});
    app.client.post("/v1/workers/nack", nack).await.expect(200);
    put(&app, &format!("{LIMITS}/ending"), json!({"concurrency": 3, "expires_at": "+PT1M"})).await.expect(200);
    put(&app, &format!("{LIMITS}/lasting"), json!({"concurrency": 3})).await.expect(200);
    for key in ["api", "bare", "held", "ending", "lasting"] {
        let shown = limit(&app, key).await;
        let answer = put(&app, &format!("{LIMITS}/{key}"), shown.clone()).await.expect(200);
        assert_eq!((&answer.body, limit(&app, key).await), (&shown, shown.clone()), "{key}");
        let list = app.client.get(LIMITS).await.expect(200);
        let item = list.at("/items").as_array().unwrap().iter().find(|item| item["key"] == key).unwrap().clone();
        put(&app, &format!("{LIMITS}/{key}"), item).await.expect(200);
        assert_eq!(limit(&app, key).await, shown, "as the list has it: {key}");
    }
    let mut changed = limit(&app, "ending").await;
    changed["concurrency"]["limit"] = json!(7);
    let answer = put(&app, &format!("{LIMITS}/ending"), changed).await.expect(200);
    assert_eq!(
        (answer.at("/concurrency/limit"), answer.text_at("/override/expires_at")),
        (&json!(7), "2027-01-15T08:01:00.000Z")
    );
    let path = format!("{LIMITS}/api");
    for (body, field) in [
        (json!({"key": "other", "concurrency": {"limit": 1}}), "key"),
        (json!({"concurrency": {"limit": 1, "most": 2}}), "concurrency.most"),
        (json!({"concurrency": {"active": 2}}), "concurrency.limit"),
        (json!({"concurrency": {"limit": 1}, "waiting": 2}), "waiting"),
        (json!({"rate": {"limit": 1, "period": "PT1S", "burst": 2}}), "rate.burst"),
        (json!({"concurrency": 1, "override": {"until": null}}), "override.until"),
        (json!({"concurrency": 1, "override": 5}), "override"),
    ] {
        let refused = put(&app, &path, body.clone()).await.expect(422);
        assert_eq!(refused.at("/error/details/field"), field, "{body}: {}", refused.text);
    }
    assert_eq!(limit(&app, "api").await["concurrency"]["limit"], 2, "nothing of these was stored");
}

#[tokio::test]
async fn a_key_that_nobody_has_used_can_be_overridden() {
    let app = TestApp::start().await;
    let path = format!("{LIMITS}/api.down.example");
    put(&app, &path, json!({"concurrency": 0})).await.expect(200);
    app.client.enqueue(limited(json!({"key": "api.down.example", "concurrency": 9}))).await;
    app.client.enqueue_into("q").await;
    assert_eq!(fetched(&app, "q").await, 1, "only the other one");
    let waiting = json!({"queues": ["q"], "worker_id": "w2", "wait_ms": 10_000});
    let (got, removed) = tokio::join!(app.client.post("/v1/workers/fetch", waiting), async {
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        app.client.delete(&path).await
    });
    removed.expect(200);
    assert_eq!(got.expect(200).job_ids().len(), 1, "a long poll returns when the override ends");

    put(&app, &format!("{LIMITS}/unused"), json!({"concurrency": 0})).await.expect(200);
    let last = app.client.delete(&format!("{LIMITS}/unused")).await.expect(200);
    assert_eq!(last.body, json!({"key": "unused", "scope": "key", "waiting_count": 0}));
    app.client.get(&format!("{LIMITS}/unused")).await.expect(404);
    let list = app.client.get(LIMITS).await.expect(200);
    assert_eq!((list.at("/pagination/total"), list.at("/items/0/key")), (&json!(1), &json!("api.down.example")));
}

#[tokio::test]
async fn limits_of_types_are_listed_and_can_be_overridden_under_their_key() {
    let app = TestApp::start_with(Clock::System, |config| {
        config.policy.limits = vec![rule(LimitTarget::Type("report.*".to_owned()), 1)];
    })
    .await;
    for kind in ["report.daily", "report.weekly", "report.daily"] {
        app.client.enqueue(json!({"type": kind, "args": [], "queue": "q"})).await;
    }
    assert_eq!(fetched(&app, "q").await, 1);
    let key = app.client.get(LIMITS).await.text_at("/items/0/key").to_owned();
    assert_eq!(key, "type:report.*");
    for path in [format!("{LIMITS}/{key}"), format!("{LIMITS}/type%3Areport.%2A")] {
        let state = put(&app, &path, json!({"concurrency": 2})).await.expect(200);
        assert_eq!((state.at("/key"), state.at("/concurrency/available")), (&json!(key), &json!(1)));
        assert_eq!(app.client.get(&path).await.expect(200).at("/waiting_count"), 1);
    }
    assert_eq!(fetched(&app, "q").await, 1);
    app.client.delete(&format!("{LIMITS}/{key}")).await.expect(200);
}

#[tokio::test]
async fn a_queue_limit_set_at_run_time_replaces_that_of_the_file_until_removed() {
    let app = TestApp::start_with(Clock::manual(NOON), |config| {
        config.policy.limits = vec![rule(LimitTarget::Queue("filed".to_owned()), 1)];
    })
    .await;
    let path = |queue: &str| format!("/ojs/v1/admin/queues/{queue}/rate-limit");
    app.client.get(&path("q")).await.expect(404);
    let set = put(&app, &path("q"), json!({"limit": 2, "period": "minute"})).await.expect(200);
    assert_eq!((set.at("/rate"), set.at("/source")), (&json!({"limit": 2, "period": "PT1M"}), &json!("api")));
    for _ in 0..5 {
        app.client.enqueue_into("q").await;
        app.client.enqueue(limited(json!({"key": "own", "concurrency": 50}))).await;
    }
    assert_eq!(fetched(&app, "q").await, 2, "whatever limits the jobs have of their own");
    let shown = app.client.get(&path("q")).await.expect(200);
    assert_eq!((shown.at("/state/rate/current_count"), shown.at("/state/waiting_count")), (&json!(2), &json!(8)));
    assert_eq!(limit(&app, "queue:q").await, *shown.at("/state"));
    assert_eq!(put(&app, &path("q"), shown.body.clone()).await.expect(200).body, shown.body, "it can be sent back");
    put(&app, &path("q"), json!({"concurrency": 4, "rate": {"limit": 1000, "period": "PT1H"}})).await.expect(200);
    assert_eq!(fetched(&app, "q").await, 2, "two are running");
    assert_eq!(app.client.delete(&path("q")).await.expect(200).at("/holds"), &Value::Null);
    assert_eq!(fetched(&app, "q").await, 6);
    app.client.delete(&path("q")).await.expect(404);

    assert_eq!(app.client.get(&path("filed")).await.expect(200).at("/source"), "file");
    app.client.delete(&path("filed")).await.expect(409);
    put(&app, &path("filed"), json!({"concurrency": 3})).await.expect(200);
    for _ in 0..5 {
        app.client.enqueue_into("filed").await;
    }
    assert_eq!(fetched(&app, "filed").await, 3);
    assert_eq!(app.client.delete(&path("filed")).await.expect(200).at("/holds"), "file");
    let shown = app.client.get(&path("filed")).await.expect(200);
    assert_eq!((shown.at("/source"), shown.at("/concurrency")), (&json!("file"), &json!(1)));
}

#[tokio::test]
async fn rate_limit_until_in_a_nack_holds_the_key() {
    let app = TestApp::start_at(NOON).await;
    for key in ["api", "api", "other"] {
        app.client.enqueue(limited(json!({"key": key, "concurrency": 1}))).await;
    }
    let jobs = app.client.fetch("q", 3).await.job_ids();
    assert_eq!(jobs.len(), 2);
    let error = json!({"message": "429", "retryable": false, "rate_limit_until": "2027-01-15T08:05:00Z"});
    app.client.post("/v1/workers/nack", json!({"job_id": jobs[0], "error": error})).await.expect(200);
    let held = app.client.get(&format!("{LIMITS}/api")).await.expect(200);
    assert_eq!(held.text_at("/hold_until"), "2027-01-15T08:05:00.000Z");
    assert_eq!(headers(&held), ["1", "0", "1800000300"]);
    assert_eq!(held.at("/waiting_count"), 1);
    assert!(limit(&app, "other").await["hold_until"].is_null());
    app.clock.advance(300_000);
    assert!(limit(&app, "api").await["hold_until"].is_null());
    assert_eq!(fetched(&app, "q").await, 1);
}

#[tokio::test]
async fn a_producer_gets_the_remaining_limit() {
    let app = TestApp::start_with(Clock::manual(NOON), |config| {
        config.policy.limits = vec![
            LimitRule {
                target: LimitTarget::Type("mail.*".to_owned()),
                quota: Quota { rate: Some(Window { limit: 3, period: 60_000 }), ..Quota::default() },
            },
            rule(LimitTarget::Queue("filed".to_owned()), 4),
        ];
    })
    .await;
    let post = async |job: Value| app.client.post("/v1/jobs", job).await.expect(201);
    let per_second = json!({"key": "rps", "rate": 2, "period": "second"});
    assert_eq!(headers(&post(limited(per_second.clone())).await), ["2", "2", "1800000000"]);
    assert_eq!(fetched(&app, "q").await, 1);
    assert_eq!(headers(&post(limited(per_second)).await), ["2", "1", "1800000001"]);
    let spaced = json!({"key": "even", "throttle": {"limit": 1, "period": "PT10S"}, "concurrency": 8});
    assert_eq!(headers(&post(limited(spaced)).await), ["1", "1", "1800000000"]);
    assert_eq!(headers(&post(limited(json!({"key": "c", "concurrency": 7}))).await), ["7", "7", "1800000000"]);
    assert_eq!(headers(&post(json!({"type": "mail.send", "args": []})).await), ["3", "3", "1800000000"]);
    assert_eq!(headers(&post(json!({"type": "t.x", "args": [], "queue": "filed"})).await), ["4", "4", "1800000000"]);
    assert_eq!(headers(&post(json!({"type": "t.x", "args": []})).await), ["", "", ""]);
    let per_queue = json!({"type": "t.x", "args": [], "queue": "slow", "rate_limit": {"max_per_second": 1}});
    assert_eq!(headers(&post(per_queue).await), ["1", "1", "1800000000"]);
    let shown = app.client.get(&format!("{LIMITS}/queue:slow")).await.expect(200);
    assert_eq!(headers(&shown), ["1", "1", "1800000000"]);
}

#[tokio::test]
async fn overrides_survive_a_restart_and_apply_in_all_processes() {
    let redis = Arc::new(TestRedis::start());
    let with_file = |config: &mut fairgate::config::Config| {
        config.policy.limits = vec![rule(LimitTarget::Key("api".to_owned()), 3)];
    };
    let one = TestApp::start_on(Arc::clone(&redis), Clock::System, with_file).await;
    let other = TestApp::start_on(Arc::clone(&redis), Clock::System, with_file).await;
    put(&one, &format!("{LIMITS}/api"), json!({"concurrency": 1})).await.expect(200);
    put(&one, "/ojs/v1/admin/queues/q/rate-limit", json!({"concurrency": 9})).await.expect(200);
    for _ in 0..4 {
        other.client.enqueue(limited(json!({"key": "api", "concurrency": 8}))).await;
    }
    assert_eq!(fetched(&other, "q").await, 1);
    one.app.shut_down().await;
    other.app.shut_down().await;
    let app = TestApp::start_on(Arc::clone(&redis), Clock::System, with_file).await;
    assert_eq!(limit(&app, "api").await["concurrency"], json!({"limit": 1, "active": 1, "available": 0}));
    assert_eq!(limit(&app, "queue:q").await["concurrency"]["limit"], 9);
    app.client.delete(&format!("{LIMITS}/api")).await.expect(200);
    assert_eq!(limit(&app, "api").await["concurrency"]["limit"], 3, "the file's, over that of the jobs");
    let () = redis.command(&["FLUSHALL"]).await;
    eventually("the file's limit is back", async || {
        let answer = app.client.get(&format!("{LIMITS}/api")).await;
        answer.at("/concurrency/limit") == 3
    })
    .await;
    app.client.get(&format!("{LIMITS}/queue:q")).await.expect(404);
}

#[tokio::test]
async fn an_admin_sees_a_job_bare_with_its_times_and_its_policy() {
    let app = TestApp::start_at(NOON).await;
    let id = app.client.enqueue(limited(json!({"key": "k", "concurrency": 1, "on_limit": "wait"}))).await;
    let job = app.client.get(&format!("/v1/admin/jobs/{id}")).await.expect(200);
    assert_eq!((job.text_at("/id"), job.text_at("/state"), job.text_at("/type")), (id.as_str(), "available", "t.x"));
    assert_eq!(
        job.at("/metadata"),
        &json!({"created_at": job.at("/created_at"), "enqueued_at": job.at("/enqueued_at")})
    );
    assert_eq!(job.at("/retry_policy"), job.at("/retry"));
    assert_eq!(job.at("/retry_policy/max_attempts"), 3);
    fetched(&app, "q").await;
    let job = app.client.get(&format!("/v1/admin/jobs/{id}")).await.expect(200);
    assert_eq!((job.text_at("/state"), job.at("/metadata/started_at")), ("active", job.at("/started_at")));
    app.client.get("/v1/admin/jobs/019461a8-1a2b-7c3d-8e4f-000000000000").await.expect(404);
}

#[tokio::test]
async fn the_manifest_lists_extensions_and_a_client_may_require_them() {
    let app = TestApp::start().await;
    let manifest = app.client.get("/ojs/manifest").await.expect(200);
    let extension = |name: &str| json!({"name": name, "uri": format!("urn:ojs:ext:{name}"), "version": "1.0.0-rc.1"});
    let names = ["fair-scheduling", "rate-limiting", "dead-letter", "backpressure", "admin-api", "multi-tenancy"];
    let expected = names.map(extension);
    assert_eq!(manifest.at("/extensions/official"), &json!(expected));
    assert_eq!(manifest.at("/capabilities/rate_limiting"), true);
    for (required, status) in [
        ("urn:ojs:ext:rate-limiting", 200),
        ("urn:ojs:ext:fair-scheduling, urn:ojs:ext:rate-limiting", 200),
        ("urn:ojs:ext:rate-limiting,urn:ojs:ext:time-travel", 422),
    ] {
        let headers = [("OJS-Requires-Extension", required)];
        let answer = app.client.try_send("GET", "/v1/queues", &headers, None).await.unwrap();
        assert_eq!(answer.status, status, "{required}: {}", answer.text);
    }
}

/// A job's limit key may look like that of its queue; both can be read and overridden.
#[tokio::test]
async fn a_scope_selects_the_limit() {
    let app = TestApp::start().await;
    app.client
        .enqueue(
            json!({"type": "t", "args": [], "queue": "email", "rate_limit": {"key": "queue:email", "concurrency": 5}}),
        )
        .await;
    let queue = "/v1/admin/queues/email/rate-limit";
    put(&app, queue, json!({"concurrency": 7})).await.expect(200);
    let most = async |path: &str| {
        let answer = app.client.get(&format!("{LIMITS}/{path}")).await.expect(200);
        assert_eq!(answer.at("/key"), "queue:email", "{path}");
        (answer.text_at("/scope").to_owned(), answer.at("/concurrency/limit").as_u64())
    };
    assert_eq!(most("queue:email").await, ("key".to_owned(), Some(5)));
    assert_eq!(most("queue:email?scope=key").await, ("key".to_owned(), Some(5)));
    for path in ["email?scope=queue", "queue:email?scope=queue"] {
        assert_eq!(most(path).await, ("queue".to_owned(), Some(7)), "{path}");
    }
    put(&app, &format!("{LIMITS}/email?scope=queue"), json!({"concurrency": 1})).await.expect(200);
    put(&app, &format!("{LIMITS}/queue:email"), json!({"concurrency": 2})).await.expect(200);
    assert_eq!((most("queue:email").await.1, most("email?scope=queue").await.1), (Some(2), Some(1)));
    app.client.delete(&format!("{LIMITS}/email?scope=queue")).await.expect(200);
    assert_eq!((most("queue:email").await.1, most("email?scope=queue").await.1), (Some(2), Some(7)));
    let list = app.client.get(LIMITS).await.expect(200);
    let mut scopes: Vec<&str> =
        list.at("/items").as_array().unwrap().iter().map(|item| item["scope"].as_str().unwrap()).collect();
    scopes.sort_unstable();
    assert_eq!(scopes, ["key", "queue"], "{}", list.text);
    app.client.get(&format!("{LIMITS}/queue:email?scope=pool")).await.expect(400);
    app.client.get(&format!("{LIMITS}/other?scope=queue")).await.expect(404);
}
