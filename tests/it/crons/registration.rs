//! Registration of crons: show, list, change, disable and delete.

use super::{MINUTE, NEW_YEAR, cron, looked_at, made, patch, register, shown};
use crate::support::{TestApp, json};
use fairgate::clock::Clock;
use serde_json::Value;

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
    // Registering the same name again changes the cron.
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
async fn registering_again_neither_loses_nor_delays_a_due_time() {
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
    assert_eq!(shown(client, "c").await["next_run_at"], "2026-01-01T00:12:00.000Z", "missed times are not caught up");
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

/// Otherwise its job would be refused at every run without notice.
#[tokio::test]
async fn a_cron_without_a_tenant_is_refused_if_tenants_are_required() {
    let app = TestApp::start_with(Clock::manual(NEW_YEAR), |config| config.tenancy.require_tenant = true).await;
    let bare = cron("n", "@hourly", json!({}));
    let refused = app.client.post("/v1/cron", bare.clone()).await.expect(422);
    assert_eq!(refused.at("/error/details/field"), "job_template.meta.tenant_id", "{}", refused.text);
    let flat = json!({"name": "n", "cron": "@hourly", "type": "cron.job", "args": []});
    let refused = app.client.post("/v1/cron", flat.clone()).await.expect(422);
    assert_eq!(refused.at("/error/details/field"), "meta.tenant_id", "{}", refused.text);
    app.client.get("/v1/cron/n").await.expect(404);
    let mut owned = flat;
    owned["meta"] = json!({"tenant_id": "acme"});
    app.client.post("/v1/cron", owned).await.expect(201);
    let refused = patch(&app.client, "n", json!({"job_template": bare["job_template"]})).await.expect(422);
    assert_eq!(refused.at("/error/details/field"), "job_template.meta.tenant_id");
    patch(&app.client, "n", json!({"description": "d"})).await.expect(200);
}
