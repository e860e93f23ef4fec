//! The position of a job, and the checks that do not stem from a setting: workers, batches, turns.

use super::*;
use fairgate::domain::tenant::Weight;

async fn jobs_before(app: &TestApp, id: &str) -> (u64, bool) {
    let shown = explain(&app.client, id).await;
    let position = shown.at("/position");
    (position["jobs_before"].as_u64().unwrap_or_else(|| panic!("{}", shown.text)), position["is_estimate"] == true)
}

#[tokio::test]
async fn the_position_in_a_queue_counts_priorities_and_other_lanes() {
    let app = start(|_| {}).await;
    let job = |priority: i64, key: Option<&str>| {
        let mut job = json!({"type": "a.b", "args": [], "options": {"queue": "q", "priority": priority}});
        if let Some(key) = key {
            job["options"]["rate_limit"] = json!({"key": key, "concurrency": 5});
        }
        job
    };
    let mut ids = Vec::new();
    for (priority, key) in [(0, None), (0, Some("a")), (5, None), (0, None), (-3, None), (0, Some("a")), (5, Some("b"))]
    {
        ids.push(app.client.enqueue(job(priority, key)).await);
    }
    for (place, before) in [(2, 0), (6, 1), (0, 2), (1, 3), (3, 4), (5, 5), (4, 6)] {
        assert_eq!(jobs_before(&app, &ids[place]).await, (before, false), "job {place}");
    }
    // Workers take them in this order.
    let taken = app.client.fetch("q", 9).await.job_ids();
    assert_eq!(taken, [2, 6, 0, 1, 3, 5, 4].map(|place: usize| ids[place].clone()));
}

#[tokio::test]
async fn the_position_of_a_tenant_that_takes_turns_is_an_estimate() {
    let app = start(|config| config.policy.tenant_fairness.enabled = Some(true)).await;
    let mut ids = app.enqueue_all(vec![plain("q", "noisy"); 100]).await;
    ids.extend(app.enqueue_all(vec![plain("q", "quiet"); 5]).await);
    for (place, least, most) in [(50, 50, 60), (104, 7, 10), (100, 0, 2)] {
        let (before, is_estimate) = jobs_before(&app, &ids[place]).await;
        assert!(is_estimate && (least..=most).contains(&before), "job {place}: {before}");
    }
}

#[tokio::test]
async fn the_position_in_staging_estimates_the_promotions_before() {
    let app = planned(|rule| {
        by_hand(rule, 1000);
        rule.weights.fixed.insert("big".to_owned(), Weight::of(4.0).expect("a weight"));
    })
    .await;
    app.client.post("/v1/admin/planner/r/pause", json!({})).await.expect(200);
    let big = app.enqueue_all(vec![job("big"); 200]).await;
    let small = app.enqueue_all(vec![job("small"); 50]).await;
    app.client.post("/v1/admin/planner/r/resume", json!({})).await.expect(200);
    let mut estimates = Vec::new();
    for id in [&big[40], &big[150], &small[3], &small[30]] {
        let shown = explain(&app.client, id).await;
        assert_eq!((shown.text_at("/position/in"), shown.text_at("/binding")), ("staging", "fair_turn"));
        estimates.push((id, shown.at("/position/jobs_before").as_u64().expect("a number")));
    }
    assert_eq!(explain(&app.client, &small[30]).await.at("/position/of_tenant"), 30);
    run_round(&app).await;
    let order = app.client.fetch("q", 250).await.job_ids();
    for (id, estimate) in estimates {
        let actual = order.iter().position(|other| other == id).expect("promoted") as u64;
        assert!(estimate.abs_diff(actual) <= 2, "{estimate} instead of {actual}");
    }
}

#[tokio::test]
async fn a_queue_from_which_nobody_fetches_is_named() {
    let app = start(|_| {}).await;
    let ids = [app.client.enqueue_into("q").await, app.client.enqueue_into("q").await];
    let shown = explain(&app.client, &ids[0]).await;
    assert_eq!((shown.at("/binding"), &check(&shown, "workers")["state"]), (&Value::Null, &json!("unknown")));
    app.clock.advance(12 * SECOND);
    for id in &ids {
        assert_eq!(binding(&app.client, id).await, "workers");
    }
    let shown = explain(&app.client, &ids[1]).await;
    assert_eq!(
        shown.text_at("/summary"),
        "No worker has taken a job from queue q for 12 s; it has 2 ready and 0 active jobs."
    );
    assert_eq!(shown.at("/eta"), &Value::Null);
    app.client.fetch("q", 1).await;
    assert_eq!(binding(&app.client, &ids[1]).await, "");
}

#[tokio::test]
async fn a_spent_batch_says_when_the_next_round_is_due() {
    let mut rule = Rule::new("r", &["t.*"]);
    rule.queue = Some("q".to_owned());
    by_hand(&mut rule, 1);
    let plan = vec![rule.clone()];
    let app = start(|config| config.plan = plan).await;
    let ids = [app.client.enqueue(job("acme")).await, app.client.enqueue(job("acme")).await];
    assert_eq!(app.client.state(&ids[0]).await, "available", "it passed straight through");
    assert_eq!(binding(&app.client, &ids[1]).await, "batch");
    let shown = explain(&app.client, &ids[1]).await;
    assert_eq!(check(&shown, "batch")["until"], "2027-01-15T09:00:00.000Z");
    assert_eq!((shown.at("/eta/seconds"), shown.text_at("/eta/of")), (&json!(3600.0), "start"));
}

#[tokio::test]
async fn a_pause_that_keeps_the_gate_closed_comes_first() {
    let app = planned(|rule| rule.max_depth = 1).await;
    app.client.enqueue(plain("q", "other")).await;
    let id = app.client.enqueue(job("acme")).await;
    assert_eq!(binding(&app.client, &id).await, "gate");
    app.client.post("/v1/queues/q/pause", json!({})).await.expect(200);
    assert_eq!(binding(&app.client, &id).await, "queue_paused");
    app.client.post("/v1/admin/planner/r/pause", json!({})).await.expect(200);
    assert_eq!(binding(&app.client, &id).await, "rule_paused");
}

#[tokio::test]
async fn a_postponed_job_names_its_limit_and_a_pending_one_its_activation() {
    let app = start(|_| {}).await;
    let limit = json!({"key": "late", "rate": {"limit": 1, "period": "PT1M"}, "on_limit": "reschedule"});
    let job = json!({"type": "a.b", "args": [], "options": {"queue": "q", "rate_limit": limit}});
    let ids = app.enqueue_all(vec![job; 2]).await;
    assert_eq!(app.client.fetch("q", 2).await.job_ids(), ids[..1]);
    assert_eq!(binding(&app.client, &ids[1]).await, "postponement");
    let shown = explain(&app.client, &ids[1]).await;
    assert_eq!(check(&shown, "postponement")["key"], "late");
    assert_eq!(shown.at("/eta/seconds"), &json!(60.0));
    let pending = app.client.enqueue(json!({"type": "a.b", "args": [], "options": {"pending": true}})).await;
    assert_eq!(binding(&app.client, &pending).await, "activation");
    assert_eq!(explain(&app.client, &pending).await.at("/eta"), &Value::Null);
}
