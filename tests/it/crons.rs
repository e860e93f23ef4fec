//! Crons: what is registered, when it fires, how often, and what a crash leaves.

use crate::support::{Client, Process, TestApp, TestRedis, eventually, json};
use fairgate::clock::Clock;
use fairgate::fair::Rule;
use fairgate::job::time::At;
use serde_json::Value;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

/// 2026-01-01T00:00:00Z, a Thursday.
const NEW_YEAR: i64 = 1_767_225_600_000;
const MINUTE: i64 = 60_000;

fn cron(name: &str, expression: &str, more: Value) -> Value {
    let mut cron = json!({"name": name, "expression": expression,
        "job_template": {"type": "cron.job", "args": [1], "options": {"queue": "q"}}});
    for (name, value) in more.as_object().cloned().unwrap_or_default() {
        cron[name] = value;
    }
    cron
}

async fn register(client: &Client, cron: Value) {
    client.post("/v1/cron", cron).await.expect(201);
}

async fn shown(client: &Client, name: &str) -> Value {
    client.get(&format!("/v1/cron/{name}")).await.expect(200).at("/cron").clone()
}

async fn patch(client: &Client, name: &str, change: Value) -> crate::support::Answer {
    client.send("PATCH", &format!("/v1/cron/{name}"), Some(change.to_string())).await
}

/// Jobs that a queue ever got.
async fn made(client: &Client, queue: &str) -> i64 {
    let answer = client.get(&format!("/v1/queues/{queue}/stats")).await;
    if answer.status == 404 {
        return 0;
    }
    let states = ["available", "active", "completed", "cancelled", "discarded", "pending", "scheduled", "retryable"];
    states.iter().filter_map(|state| answer.at(&format!("/queue/{state}")).as_i64()).sum()
}

async fn runs(client: &Client, name: &str) -> i64 {
    shown(client, name).await["run_count"].as_i64().expect("a number")
}

/// Waits until every cron whose time has come was looked at: its next time is later.
async fn looked_at(app: &TestApp, name: &str) {
    eventually("the cron was looked at", async || {
        let cron = shown(&app.client, name).await;
        cron["next_run_at"].as_str().is_some_and(|at| at > fairgate::job::time::rfc3339(app.clock.now_ms()).as_str())
    })
    .await;
}

async fn events(client: &Client, kinds: &str) -> Vec<Value> {
    client
        .get(&format!("/v1/events?types={kinds}&limit=1000"))
        .await
        .at("/events")
        .as_array()
        .cloned()
        .unwrap_or_default()
}

#[tokio::test]
async fn a_cron_is_shown_listed_changed_and_deleted() {
    let app = TestApp::start_at(NEW_YEAR).await;
    let client = &app.client;
    let answer = client.post("/v1/cron", cron("b", "*/5 * * * *", json!({"description": "d"}))).await.expect(201);
    assert_eq!(answer.header("location"), "/ojs/v1/cron/b");
    for (pointer, expected) in [
        ("/cron/name", json!("b")),
        ("/cron/expression", json!("*/5 * * * *")),
        ("/cron/cron", json!("*/5 * * * *")),
        ("/cron/timezone", json!("UTC")),
        ("/cron/overlap_policy", json!("skip")),
        ("/cron/enabled", json!(true)),
        ("/cron/description", json!("d")),
        ("/cron/type", json!("cron.job")),
        ("/cron/args", json!([1])),
        ("/cron/job_template/options/queue", json!("q")),
        ("/cron/next_run_at", json!("2026-01-01T00:05:00.000Z")),
        ("/cron/last_run_at", Value::Null),
        ("/cron/run_count", json!(0)),
        ("/cron/created_at", json!("2026-01-01T00:00:00.000Z")),
        ("/cron_job/name", json!("b")),
    ] {
        assert_eq!(answer.at(pointer), &expected, "{pointer}");
    }
    // The same name again is a change.
    client.post("/v1/cron", cron("b", "0 3 * * *", json!({"timezone": "America/New_York"}))).await.expect(200);
    assert_eq!(shown(client, "b").await["next_run_at"], "2026-01-01T08:00:00.000Z");
    register(client, cron("a", "@hourly", json!({"enabled": false}))).await;
    assert_eq!(shown(client, "a").await["next_run_at"], Value::Null);
    for (query, names) in [("", vec!["a", "b"]), ("?enabled=true", vec!["b"]), ("?enabled=false", vec!["a"])] {
        let list = client.get(&format!("/v1/cron{query}")).await.expect(200);
        let listed: Vec<&str> =
            list.at("/crons").as_array().unwrap().iter().map(|c| c["name"].as_str().unwrap()).collect();
        assert_eq!(
            (listed, list.at("/pagination/total").as_u64()),
            (names.clone(), Some(names.len() as u64)),
            "{query}"
        );
        assert_eq!(list.at("/cron_jobs"), list.at("/crons"));
    }
    patch(client, "a", json!({"enabled": true})).await.expect(200);
    assert_eq!(shown(client, "a").await["next_run_at"], "2026-01-01T01:00:00.000Z");
    patch(client, "a", json!({"enabled": "yes"})).await.expect(400);
    patch(client, "c", json!({"enabled": true})).await.expect(404);
    let deleted = client.delete("/v1/cron/a").await.expect(200);
    assert_eq!((deleted.at("/cron/name"), deleted.at("/deleted")), (&json!("a"), &json!(true)));
    client.get("/v1/cron/a").await.expect(404);
    client.delete("/v1/cron/a").await.expect(404);
}

#[tokio::test]
async fn next_times_are_shown_before_and_after_registration_and_follow_daylight_saving() {
    // 2026-03-28: the night after it, Berlin has no 02:30.
    let app = TestApp::start_at(1_774_656_000_000).await;
    let client = &app.client;
    let expected = json!(["2026-03-28T01:30:00.000Z", "2026-03-30T00:30:00.000Z", "2026-03-31T00:30:00.000Z"]);
    let question = json!({"expression": "30 2 * * *", "timezone": "Europe/Berlin", "count": 3});
    let preview = client.post("/v1/cron-preview", question).await.expect(200);
    assert_eq!(preview.at("/next_run_times"), &expected);
    register(client, cron("night", "30 2 * * *", json!({"timezone": "Europe/Berlin", "enabled": false}))).await;
    let next = client.get("/v1/cron/night/next?count=3").await.expect(200);
    assert_eq!((next.at("/next_run_times"), next.at("/enabled")), (&expected, &json!(false)));
    client.post("/v1/cron-preview", json!({"expression": "x"})).await.expect(400);
    client.post("/v1/cron-preview", json!({"expression": "@daily", "count": 101})).await.expect(400);
    client.get("/v1/cron/night/next?count=0").await.expect(400);
    client.get("/v1/cron/day/next").await.expect(404);
}

#[tokio::test]
async fn a_time_that_daylight_saving_leaves_out_is_told_of_and_the_next_one_fires() {
    // Half an hour before Berlin's clocks go from 02:00 to 03:00.
    let app = TestApp::start_at(1_774_744_200_000).await;
    let client = &app.client;
    register(client, cron("night", "30 2 * * *", json!({"timezone": "Europe/Berlin"}))).await;
    register(client, cron("half", "30 * * * *", json!({"timezone": "Europe/Berlin"}))).await;
    let next = async |name: &str| shown(client, name).await["next_run_at"].clone();
    assert_eq!(next("night").await, "2026-03-30T00:30:00.000Z");
    assert_eq!(next("half").await, "2026-03-29T01:30:00.000Z");
    // Nobody looked for a while: the time after the one that is left out is made up for.
    app.clock.advance(70 * MINUTE);
    eventually("both are told of", async || events(client, "cron.skipped").await.len() == 2).await;
    for told in events(client, "cron.skipped").await {
        let data = &told["data"];
        assert_eq!((&data["reason"], &data["scheduled_at"]), (&json!("dst_skip"), &json!("2026-03-29T01:00:00.000Z")));
        assert_eq!(data["job_type"], "cron.job");
    }
    eventually("the other fires", async || runs(client, "half").await == 1).await;
    assert_eq!(
        (runs(client, "night").await, shown(client, "half").await["last_run_at"].clone()),
        (0, json!("2026-03-29T01:30:00.000Z"))
    );
    assert_eq!(next("night").await, "2026-03-30T00:30:00.000Z");
    app.clock.advance(24 * 60 * MINUTE);
    eventually("it fires the next night", async || runs(client, "night").await == 1).await;
}

#[tokio::test]
async fn a_due_cron_makes_one_job_which_says_where_it_comes_from() {
    let app = TestApp::start_at(NEW_YEAR).await;
    let client = &app.client;
    register(client, cron("each", "* * * * *", json!({"overlap_policy": "allow"}))).await;
    app.clock.advance(MINUTE - 1);
    assert_eq!(runs(client, "each").await, 0);
    app.clock.advance(1);
    looked_at(&app, "each").await;
    let jobs = client.fetch("q", 9).await;
    assert_eq!(jobs.job_ids().len(), 1);
    assert_eq!(jobs.at("/jobs/0/meta"), &json!({"cron_name": "each", "cron_triggered_at": "2026-01-01T00:01:00.000Z"}));
    assert_eq!(jobs.at("/jobs/0/args"), &json!([1]));
    let cron = shown(client, "each").await;
    assert_eq!(cron["last_run_at"], "2026-01-01T00:01:00.000Z");
    assert_eq!((&cron["run_count"], &cron["next_run_at"]), (&json!(1), &json!("2026-01-01T00:02:00.000Z")));
    let told = events(client, "cron.*").await;
    assert_eq!(told.len(), 1);
    assert_eq!((&told[0]["type"], &told[0]["subject"]), (&json!("cron.triggered"), &json!("each")));
    let data = &told[0]["data"];
    assert_eq!((&data["cron_name"], &data["cron_expr"]), (&json!("each"), &json!("* * * * *")));
    assert_eq!((&data["job_id"], &data["scheduled_at"]), (jobs.at("/jobs/0/id"), &json!("2026-01-01T00:01:00.000Z")));
}

#[tokio::test]
async fn of_several_missed_times_one_is_made_up_for() {
    let app = TestApp::start_at(NEW_YEAR).await;
    register(&app.client, cron("each", "* * * * *", json!({"overlap_policy": "allow"}))).await;
    register(
        &app.client,
        cron(
            "every",
            "@every 90s",
            json!({"overlap_policy": "allow", "job_template": {"type": "a.b", "options": {"queue": "e"}}}),
        ),
    )
    .await;
    app.clock.advance(10 * MINUTE + 5000);
    looked_at(&app, "each").await;
    looked_at(&app, "every").await;
    assert_eq!((made(&app.client, "q").await, made(&app.client, "e").await), (1, 1));
    assert_eq!(shown(&app.client, "each").await["next_run_at"], "2026-01-01T00:11:00.000Z");
    assert_eq!(shown(&app.client, "every").await["next_run_at"], "2026-01-01T00:10:30.000Z");
}

#[tokio::test]
async fn overlap_policies_decide_what_becomes_of_two_at_once() {
    // Whether the first is held by a worker, or only waits.
    for (policy, is_active) in [
        ("skip", true),
        ("skip", false),
        ("allow", true),
        ("cancel_previous", true),
        ("cancel", false),
        ("enqueue", true),
    ] {
        let app = TestApp::start_at(NEW_YEAR).await;
        let client = &app.client;
        register(client, cron("c", "* * * * *", json!({"overlap_policy": policy}))).await;
        app.clock.advance(MINUTE);
        looked_at(&app, "c").await;
        let first = events(client, "cron.triggered").await[0]["data"]["job_id"].as_str().unwrap().to_owned();
        if is_active {
            assert_eq!(client.fetch("q", 9).await.job_ids(), [first.as_str()], "{policy}");
        }
        app.clock.advance(MINUTE);
        looked_at(&app, "c").await;
        let skipped = events(client, "cron.skipped").await;
        let state = client.state(&first).await;
        let next = client.fetch("q", 9).await.job_ids();
        match policy {
            "skip" => {
                assert_eq!(made(client, "q").await, 1);
                assert_eq!(skipped[0]["data"]["reason"], "overlap_skip");
                assert_eq!(skipped[0]["data"]["existing_job_id"], first.as_str());
                // Once it has ended, the next time counts again.
                client.ack(&first).await.expect(200);
                app.clock.advance(MINUTE);
                looked_at(&app, "c").await;
                assert_eq!(client.fetch("q", 9).await.job_ids().len(), 1, "{policy}");
            }
            "allow" => assert_eq!((state.as_str(), next.len()), ("active", 1)),
            "enqueue" => {
                assert_eq!((state.as_str(), next.len(), made(client, "q").await), ("active", 0, 2), "one at a time");
                client.ack(&first).await.expect(200);
                assert_eq!(client.fetch("q", 9).await.job_ids().len(), 1);
            }
            _ => {
                assert_eq!((state.as_str(), next.len()), ("cancelled", 1), "{policy}");
                assert_ne!(next[0], first);
            }
        }
        assert_eq!(skipped.len(), usize::from(policy == "skip"), "{policy}");
    }
}

#[tokio::test]
async fn registering_again_neither_loses_a_due_time_nor_puts_it_off() {
    let app =
        TestApp::start_with(Clock::manual(NEW_YEAR), |config| config.server.roles = vec![fairgate::config::Role::Api])
            .await;
    let client = &app.client;
    register(client, cron("c", "* * * * *", json!({}))).await;
    app.clock.advance(MINUTE + 500);
    client.post("/v1/cron", cron("c", "* * * * *", json!({"description": "new"}))).await.expect(200);
    assert_eq!(shown(client, "c").await["next_run_at"], "2026-01-01T00:01:00.000Z");
    client.post("/v1/cron", cron("c", "*/2 * * * *", json!({}))).await.expect(200);
    assert_eq!(shown(client, "c").await["next_run_at"], "2026-01-01T00:02:00.000Z", "other times count from now");
    patch(client, "c", json!({"enabled": false})).await.expect(200);
    app.clock.advance(10 * MINUTE);
    patch(client, "c", json!({"enabled": true})).await.expect(200);
    assert_eq!(shown(client, "c").await["next_run_at"], "2026-01-01T00:12:00.000Z", "nothing is made up for");
}

#[tokio::test]
async fn a_disabled_or_deleted_cron_does_not_fire() {
    let app = TestApp::start_at(NEW_YEAR).await;
    let client = &app.client;
    for name in ["off", "gone", "on"] {
        let own = json!({"job_template": {"type": "a.b", "options": {"queue": name}}});
        register(client, cron(name, "* * * * *", own)).await;
    }
    patch(client, "off", json!({"enabled": false})).await.expect(200);
    client.delete("/v1/cron/gone").await.expect(200);
    app.clock.advance(MINUTE);
    looked_at(&app, "on").await;
    assert_eq!((made(client, "on").await, made(client, "off").await, made(client, "gone").await), (1, 0, 0));
}

#[tokio::test]
async fn a_person_may_run_one_now() {
    let app = TestApp::start_at(NEW_YEAR).await;
    let client = &app.client;
    register(client, cron("c", "@yearly", json!({"enabled": false}))).await;
    let job = client.post("/v1/cron/c/run", json!({})).await.expect(201);
    assert_eq!(job.at("/job/meta/cron_triggered_at"), "2026-01-01T00:00:00.000Z");
    let refused = client.post("/v1/cron/c/run", json!({})).await.expect(409);
    assert_eq!(refused.at("/error/details/existing_job_id"), job.at("/job/id"));
    client.ack(&client.fetch("q", 1).await.job_ids()[0]).await.expect(200);
    client.post("/v1/cron/c/run", json!({})).await.expect(201);
    let cron = shown(client, "c").await;
    assert_eq!((&cron["run_count"], &cron["next_run_at"]), (&json!(2), &Value::Null));
    client.post("/v1/cron/d/run", json!({})).await.expect(404);
}

#[tokio::test]
async fn its_jobs_go_through_the_same_door_as_all_others() {
    let app = TestApp::start_with(Clock::manual(NEW_YEAR), |config| {
        let mut rule = Rule::new("reports", &["report.*"]);
        rule.on_missing_tenant = fairgate::fair::OnMissingTenant::Default;
        rule.max_staged = Some(1);
        config.plan.push(rule.clone());
        config.server.roles = vec![fairgate::config::Role::Api, fairgate::config::Role::Dispatch];
    })
    .await;
    let client = &app.client;
    let limited = json!({"queue": "l", "rate_limit": {"key": "k", "concurrency": 1}});
    register(
        client,
        cron(
            "limited",
            "* * * * *",
            json!({"overlap_policy": "allow", "job_template": {"type": "a.b", "options": limited}}),
        ),
    )
    .await;
    let planned = json!({"type": "report.made", "meta": {"tenant_id": "acme"}, "options": {"queue": "p"}});
    register(client, cron("planned", "* * * * *", json!({"overlap_policy": "allow", "job_template": planned}))).await;
    client.enqueue_into("p").await; // so that nothing passes
    for _ in 0..2 {
        app.clock.advance(MINUTE);
        looked_at(&app, "limited").await;
        looked_at(&app, "planned").await;
    }
    assert_eq!(client.fetch("l", 9).await.job_ids().len(), 1, "the limit holds");
    assert_eq!(made(client, "l").await, 2);
    let states = client.get("/v1/queues/p/stats").await;
    assert_eq!(
        (states.at("/queue/pending"), made(client, "p").await),
        (&json!(1), 2),
        "staged, and no more than may be"
    );
    let skipped = events(client, "cron.skipped").await;
    assert_eq!(skipped.len(), 1);
    assert_eq!((&skipped[0]["data"]["reason"], &skipped[0]["subject"]), (&json!("queue_full"), &json!("planned")));
}

#[tokio::test]
async fn however_many_processes_look_each_time_fires_once() {
    let redis = Arc::new(TestRedis::start());
    let clock = Clock::manual(NEW_YEAR);
    let mut apps = Vec::new();
    for _ in 0..4 {
        apps.push(TestApp::start_on(redis.clone(), clock.clone(), |_| {}).await);
    }
    for number in 0..20 {
        register(&apps[0].client, cron(&format!("c{number}"), "* * * * *", json!({"overlap_policy": "allow"}))).await;
    }
    for minute in 1..=5 {
        clock.advance(MINUTE);
        for number in 0..20 {
            looked_at(&apps[0], &format!("c{number}")).await;
        }
        assert_eq!(made(&apps[0].client, "q").await, 20 * minute);
    }
}

/// The times for which jobs were made, and whether one was made twice.
fn times(jobs: &[Value]) -> HashSet<String> {
    let times: Vec<String> =
        jobs.iter().map(|job| job["meta"]["cron_triggered_at"].as_str().unwrap_or_default().to_owned()).collect();
    let distinct: HashSet<String> = times.iter().cloned().collect();
    assert_eq!(distinct.len(), times.len(), "a time fired twice: {times:?}");
    distinct
}

#[tokio::test]
async fn killed_in_the_middle_no_time_fires_twice_and_the_others_go_on() {
    let redis = TestRedis::durable();
    let url = redis.url();
    let arguments = ["--redis", url.as_str()];
    let mut first = Process::serve(&arguments).await;
    let second = Process::serve(&arguments).await;
    let every = json!({"overlap_policy": "allow", "job_template": {"type": "a.b", "options": {"queue": "q"}}});
    register(&first.client, cron("every", "* * * * * *", every)).await;
    let mut jobs = Vec::new();
    let mut take = async |client: &Client, wanted: usize| {
        eventually("jobs are made", async || {
            jobs.extend(client.fetch("q", 100).await.at("/jobs").as_array().cloned().unwrap_or_default());
            times(&jobs).len() >= wanted
        })
        .await;
    };
    take(&second.client, 1).await;
    first.kill();
    take(&second.client, 3).await;
    first.restart(&arguments);
    take(&second.client, 4).await;
    drop(second); // killed as well: the first goes on alone
    eventually("it is ready", async || {
        first.client.try_send("GET", "/ready", &[], None).await.is_ok_and(|answer| answer.status == 200)
    })
    .await;
    take(&first.client, 6).await;
    assert_eq!(times(&jobs).len() as i64, runs(&first.client, "every").await - made_since(&first.client).await);
}

/// Jobs that wait since the last fetch.
async fn made_since(client: &Client) -> i64 {
    client.get("/v1/queues/q/stats").await.at("/queue/available").as_i64().unwrap_or(0)
}

#[tokio::test]
async fn a_time_that_came_while_nobody_ran_is_made_up_for_once_after_kill_9() {
    let redis = TestRedis::durable();
    let url = redis.url();
    let arguments = ["--redis", url.as_str()];
    let mut process = Process::serve(&arguments).await;
    register(&process.client, cron("every", "@every 1s", json!({"overlap_policy": "allow"}))).await;
    process.kill();
    let mut connection = redis.connection().await;
    eventually("its time has come", async || {
        let score: f64 =
            redis::cmd("ZSCORE").arg("fg:{default}:crons").arg("every").query_async(&mut connection).await.unwrap();
        let (seconds, _): (f64, f64) = redis::cmd("TIME").query_async(&mut connection).await.unwrap();
        seconds * 1000.0 > score + 2000.0
    })
    .await;
    process.restart(&arguments);
    tokio::time::timeout(Duration::from_secs(20), async {
        loop {
            if let Ok(answer) = process.client.try_send("GET", "/v1/cron/every", &[], None).await
                && answer.at("/cron/run_count").as_i64().is_some_and(|runs| runs > 0)
            {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await
    .expect("it fires again");
    let fired = events(&process.client, "cron.triggered").await;
    let at = |index: usize| match fired.get(index)?["data"]["scheduled_at"].as_str().map(At::parse) {
        Some(Some(At::Absolute(ms))) => Some(ms),
        other => panic!("no time: {other:?}"),
    };
    let first = at(0).expect("it fired");
    assert!(at(1).is_none_or(|second| second > first + 2000), "those in between are not made up for: {fired:?}");
}
