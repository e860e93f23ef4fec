//! Jobs on their way to a main queue in another system.

use super::*;
use crate::sidekiq::{at, beside, by_hand as sidekiq_by_hand, legacy};
use crate::support::TestRedis;
use fairgate::domain::job::sidekiq::jid;

async fn staged(app: &TestApp) -> String {
    app.client.enqueue(json!({"type": "t.job", "args": ["acme", 1]})).await
}

#[tokio::test]
async fn a_staged_job_of_a_sidekiq_is_found_by_its_jid() {
    let theirs = TestRedis::start();
    let app = beside(&[sidekiq_by_hand(1)], legacy(|sidekiq| sidekiq.access = at(&theirs))).await;
    let id = staged(&app).await;
    let shown = explain(&app.client, &jid(&id)).await;
    assert_eq!((shown.text_at("/job_id"), shown.text_at("/jid")), (&*id, &*jid(&id)));
    assert_eq!((shown.text_at("/main_queue"), shown.text_at("/queue")), ("legacy", "heavy"));
    let names: Vec<&str> =
        shown.at("/checks").as_array().unwrap().iter().map(|check| check["name"].as_str().unwrap()).collect();
    let expected = [
        "rule_paused",
        "planner",
        "main_queue",
        "queue_paused",
        "processes",
        "gate",
        "batch",
        "tenant_weight",
        "fair_turn",
    ];
    assert_eq!(names, expected);
    run_round(&app).await;
    let promoted = explain(&app.client, &id).await;
    assert_eq!((promoted.at("/waiting"), promoted.text_at("/promoted_to")), (&json!(false), "legacy"));
    app.client.get(&format!("/v1/jobs/{}/explain", jid(&id))).await.expect(404);
}

#[tokio::test]
async fn the_queue_of_a_sidekiq_is_checked_for_pauses_depth_and_quiet_processes() {
    let theirs = TestRedis::start();
    let mut rule = sidekiq_by_hand(5);
    rule.max_depth = 2;
    let app = beside(&[rule], legacy(|sidekiq| sidekiq.access = at(&theirs))).await;
    let id = staged(&app).await;
    let binding = async || binding(&app.client, &id).await;
    assert_eq!(binding().await, "");
    let _: i64 = theirs.command(&["SADD", "paused", "heavy"]).await;
    assert_eq!(binding().await, "queue_paused");
    let _: i64 = theirs.command(&["SREM", "paused", "heavy"]).await;
    for number in 0..2 {
        let payload =
            json!({"class": "Other", "jid": number, "args": [], "queue": "heavy", "enqueued_at": 1.0}).to_string();
        let _: i64 = theirs.command(&["LPUSH", "queue:heavy", &payload]).await;
    }
    assert_eq!(binding().await, "gate");
    let shown = explain(&app.client, &id).await;
    assert_eq!(check(&shown, "gate")["figures"]["depth"], 2);
    let _: i64 = theirs.command(&["DEL", "queue:heavy"]).await;
    assert_eq!(binding().await, "");
}

#[tokio::test]
async fn quiet_processes_of_a_sidekiq_are_named() {
    let theirs = TestRedis::start();
    let info = json!({"concurrency": 5, "queues": ["heavy"]}).to_string();
    let _: i64 = theirs.command(&["SADD", "processes", "p"]).await;
    let _: i64 = theirs.command(&["HSET", "p", "info", &info, "busy", "3", "quiet", "true"]).await;
    let app = beside(&[sidekiq_by_hand(1)], legacy(|sidekiq| sidekiq.access = at(&theirs))).await;
    let id = staged(&app).await;
    assert_eq!(binding(&app.client, &id).await, "processes");
    let shown = explain(&app.client, &id).await;
    assert_eq!(shown.text_at("/summary"), "All processes of main queue legacy that serve the queue are quiet.");
    assert_eq!(check(&shown, "processes")["figures"], json!({"processes": 1, "active": 3}));
}
