//! Previews and tenant lists of rules with many tenants or several main queues.

use super::{by_hand, registry, rulebook, run, serving, stage, work};
use crate::support::{Client, TestApp, json};
use fairgate::domain::plan::{Pace, Rule};
use fairgate::domain::tenant::Weight;
use fairgate::planner::RoundAttempt;
use serde_json::Value;

const PLANNER: &str = "/ojs/v1/admin/planner";

/// Stages jobs, given by tenant and main queue.
async fn stage_for(app: &TestApp, jobs: impl Iterator<Item = (String, &str)>) {
    app.store().pause_rule("r", true, "test").await.unwrap();
    let jobs: Vec<Value> = jobs
        .map(|(tenant, queue)| json!({"type": "t.job", "args": [], "queue": queue, "meta": {"tenant_id": tenant}}))
        .collect();
    for portion in jobs.chunks(1000) {
        app.client.post("/v1/jobs/batch", json!({"jobs": portion})).await.expect(201);
    }
    app.store().pause_rule("r", false, "test").await.unwrap();
}

/// A rule whose jobs name their main queues.
fn of_many_queues(batch: u32, change: impl FnOnce(&mut Rule)) -> Rule {
    by_hand(batch, |rule| {
        rule.queue = None;
        change(rule);
    })
}

async fn preview(client: &Client) -> Value {
    client.get(&format!("{PLANNER}/r/preview")).await.expect(200).at("").clone()
}

fn texts(list: &Value) -> Vec<String> {
    serde_json::from_value(list.clone()).expect("a list of texts")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_preview_of_many_tenants_ends_before_it_would_have_to_guess() {
    let heavy = Weight::of(3.0).unwrap();
    let rule = by_hand(100_000, |rule| _ = rule.weights.fixed.insert("heavy".to_owned(), heavy));
    let app = serving(std::slice::from_ref(&rule)).await;
    let light = (0..600).map(|number| format!("t{number:03}"));
    let tenants: Vec<String> = light.chain(std::iter::repeat_n("heavy".to_owned(), 20)).collect();
    stage_for(&app, tenants.iter().map(|tenant| (tenant.clone(), "q"))).await;

    let foreseen = preview(&app.client).await;
    assert_eq!((&foreseen["batch"], &foreseen["truncated"]), (&json!(620), &json!(true)));
    let order = texts(&foreseen["order"]);
    assert!((250..520).contains(&order.len()), "{} of them", order.len());
    assert_eq!(run(&registry(app.store(), &[rule])).await.promoted, 620);
    let mut went = Vec::new();
    while went.len() < order.len() {
        went.extend(work(&app.client, 50).await);
    }
    assert_eq!(order, went[..order.len()]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_preview_of_few_tenants_is_whole() {
    let app = serving(&[by_hand(40, |_| {})]).await;
    stage(&app, &[("a", 30), ("b", 30)]).await;
    let foreseen = preview(&app.client).await;
    assert_eq!((&foreseen["truncated"], texts(&foreseen["order"]).len()), (&json!(false), 40));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_preview_lists_main_queues_separately_and_splits_the_batch() {
    let app = serving(&[of_many_queues(4, |_| {})]).await;
    let jobs = [("a", "q1"), ("a", "q1"), ("a", "q1"), ("a", "q2"), ("a", "q2"), ("b", "q2")];
    stage_for(&app, jobs.iter().map(|(tenant, queue)| ((*tenant).to_owned(), *queue))).await;
    let whole = app.client.get(&format!("{PLANNER}/r/preview?jobs=100")).await.expect(200);
    let mut queues = whole.at("/queues").as_array().unwrap().clone();
    queues.sort_by_key(|queue| queue["name"].to_string());
    let (a, b) =
        (json!({"tenant_id": "a", "weight": 1.0, "jobs": 3}), json!({"tenant_id": "b", "weight": 1.0, "jobs": 1}));
    assert_eq!(queues[0]["tenants"], json!([a]));
    assert_eq!(queues[1]["tenants"], json!([{"tenant_id": "a", "weight": 1.0, "jobs": 2}, b]));
    let mut all = whole.at("/tenants").as_array().unwrap().clone();
    all.sort_by_key(|tenant| tenant["tenant_id"].to_string());
    assert_eq!(all, [json!({"tenant_id": "a", "weight": 1.0, "jobs": 5}), b]);

    let next = preview(&app.client).await;
    let ran = app.client.post(&format!("{PLANNER}/r/run"), json!({})).await.expect(200);
    assert_eq!((&next["batch"], texts(&next["order"]).len()), (ran.at("/promoted"), 4));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenants_shares_are_those_of_its_main_queue() {
    let rule = of_many_queues(100, |rule| rule.max_depth = 6);
    let app = serving(&[rule]).await;
    let jobs = [("a", "q1"), ("a", "q2"), ("b", "q2")].repeat(10);
    stage_for(&app, jobs.iter().map(|(tenant, queue)| ((*tenant).to_owned(), *queue))).await;
    app.client.post(&format!("{PLANNER}/r/run"), json!({})).await.expect(200);
    let tenants = app.client.get(&format!("{PLANNER}/r/tenants?sort=name")).await.expect(200);
    assert_eq!(tenants.at("/pagination/total"), 3);
    for tenant in tenants.at("/items").as_array().unwrap() {
        let (part, bound) = if tenant["queue"] == "q1" { (json!(1.0), json!(2)) } else { (json!(0.5), json!(3)) };
        let shares = (&tenant["share"], &tenant["expected_share"], &tenant["wait_bound_jobs"]);
        assert_eq!(shares, (&part, &part, &bound), "{tenant}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rule_and_its_rounds_name_the_same_source_of_weights() {
    let app = serving(&[by_hand(1, |_| {})]).await;
    stage(&app, &[("a", 2)]).await;
    app.client.post(&format!("{PLANNER}/r/run"), json!({})).await.expect(200);
    let shown = app.client.get(&format!("{PLANNER}/r")).await.expect(200);
    assert_eq!(shown.at("/weights/source"), shown.at("/last_rounds/0/weights_source"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_round_that_is_asked_for_runs_although_the_schedule_has_just_changed() {
    let rule = by_hand(5, |_| {});
    let app = serving(std::slice::from_ref(&rule)).await;
    let registry = registry(app.store(), std::slice::from_ref(&rule));
    registry.rules().known().await.unwrap();
    stage(&app, &[("a", 3)]).await;
    let pace = Pace::Cron { expression: "0 3 1 1 *".to_owned(), timezone: "UTC".to_owned() };
    rulebook(app.store(), &[]).put(Rule { pace, ..rule }).await.unwrap();
    // This registry receives no signals: it still uses the old interval.
    match registry.run("r").await.unwrap() {
        Some(RoundAttempt::Ran { report, .. }) => assert_eq!(report.promoted, 3),
        other => panic!("no round: {other:?}"),
    }
}
