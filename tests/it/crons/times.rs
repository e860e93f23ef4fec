//! The times at which a cron fires: missed times, and times skipped by daylight saving.

use super::{MINUTE, NEW_YEAR, cron, events, looked_at, made, register, runs, shown};
use crate::support::{TestApp, eventually, json};

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
async fn a_time_skipped_by_daylight_saving_is_reported_and_the_next_one_fires() {
    // Half an hour before Berlin's clocks go from 02:00 to 03:00.
    let app = TestApp::start_at(1_774_744_200_000).await;
    let client = &app.client;
    register(client, cron("night", "30 2 * * *", json!({"timezone": "Europe/Berlin"}))).await;
    register(client, cron("half", "30 * * * *", json!({"timezone": "Europe/Berlin"}))).await;
    let next = async |name: &str| shown(client, name).await["next_run_at"].clone();
    assert_eq!(next("night").await, "2026-03-30T00:30:00.000Z");
    assert_eq!(next("half").await, "2026-03-29T01:30:00.000Z");
    // After a gap without ticks, the time after the skipped one is caught up.
    app.clock.advance(70 * MINUTE);
    eventually("both skipped times are reported", async || events(client, "cron.skipped").await.len() == 2).await;
    for reported in events(client, "cron.skipped").await {
        let data = &reported["data"];
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
async fn of_several_missed_times_one_is_caught_up() {
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
