//! The job of a cron: its members, its entry point, and overlap with an earlier job.

use super::{MINUTE, NEW_YEAR, cron, events, looked_at, made, register, runs, shown};
use crate::support::{TestApp, json};
use fairgate::clock::Clock;
use fairgate::domain::plan::Rule;
use serde_json::Value;

#[tokio::test]
async fn a_due_cron_enqueues_one_job_that_names_the_cron() {
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
    let reported = events(client, "cron.*").await;
    assert_eq!(reported.len(), 1);
    assert_eq!((&reported[0]["type"], &reported[0]["subject"]), (&json!("cron.triggered"), &json!("each")));
    let data = &reported[0]["data"];
    assert_eq!((&data["cron_name"], &data["cron_expr"]), (&json!("each"), &json!("* * * * *")));
    assert_eq!((&data["job_id"], &data["scheduled_at"]), (jobs.at("/jobs/0/id"), &json!("2026-01-01T00:01:00.000Z")));
}

#[tokio::test]
async fn overlap_policies_decide_about_a_second_job() {
    // The earlier job is active in one case and waiting in the other.
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
                // After it has ended, the next run enqueues a job again.
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
async fn a_cron_can_be_run_by_hand() {
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
async fn jobs_of_crons_use_the_same_entry_point_as_all_others() {
    let app = TestApp::start_with(Clock::manual(NEW_YEAR), |config| {
        let mut rule = Rule::new("reports", &["report.*"]);
        rule.on_missing_tenant = fairgate::domain::plan::OnMissingTenant::Default;
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
    assert_eq!((states.at("/queue/pending"), made(client, "p").await), (&json!(1), 2), "staged, up to the maximum");
    let skipped = events(client, "cron.skipped").await;
    assert_eq!(skipped.len(), 1);
    assert_eq!((&skipped[0]["data"]["reason"], &skipped[0]["subject"]), (&json!("queue_full"), &json!("planned")));
}
