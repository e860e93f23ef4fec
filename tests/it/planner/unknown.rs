//! Tenants with unknown weights: the webhook is called before their jobs are promoted, and no tenant is left out.

use super::weights::{WeightsWebhook, expected, shares, start_staged, weights};
use super::{HOUR, planning, push, rule, run, serving, stage, status, work, work_off};
use crate::support::{TestApp, eventually, json};
use fairgate::domain::plan::{Batch, OnUnknownWeight, OnWebhookError, Pace, Rule};
use fairgate::planner::RoundReason;
use fairgate::rules::Removed;
use fairgate::store::{Begun, Why};
use serde_json::Value;
use std::time::Duration;
use wiremock::ResponseTemplate;

/// A response that does not arrive during a test.
fn never() -> ResponseTemplate {
    weights(json!({})).set_delay(Duration::from_secs(50))
}

/// A rule whose planner reacts to signals only: its interval is longer than a test.
fn hourly(webhook: &WeightsWebhook, batch: u32) -> Rule {
    rule(|rule| {
        (rule.pace, rule.batch) = (Pace::Every(HOUR), Batch::Jobs(batch));
        rule.weights.webhook = webhook.settings(60_000);
    })
}

/// The tenants in each request.
async fn asked(webhook: &WeightsWebhook) -> Vec<Vec<String>> {
    let name = |tenant: &Value| tenant["id"].as_str().unwrap().to_owned();
    let names = |body: &[u8]| {
        let asked: Value = serde_json::from_slice(body).unwrap();
        asked["tenants"].as_array().unwrap().iter().map(name).collect()
    };
    webhook.server.received_requests().await.unwrap().iter().map(|request| names(&request.body)).collect()
}

async fn unknown(app: &TestApp) -> u64 {
    status(app.store()).await.queues.first().map_or(0, |queue| queue.unknown_tenants)
}

/// New tenants share the first round by their weights from the webhook, although workers are idle.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn weights_apply_to_the_round_they_are_asked_for() {
    let answer = weights(json!({"a": 9, "b": 1, "c": 0})).set_delay(Duration::from_millis(10));
    let webhook = WeightsWebhook::responding(answer).await;
    let (app, registry) = start_staged(webhook.rule(40, |_| {}), &[("a", 100), ("b", 100), ("c", 100)]).await;
    assert_eq!(shares(&app, &registry).await, expected(&[("a", 36), ("b", 4)]));
    let held = status(app.store()).await;
    assert_eq!((held.queues[0].waiting_tenants, held.staged), (2, 260));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_job_of_a_new_tenant_costs_one_webhook_call_and_later_ones_pass_through() {
    let webhook = WeightsWebhook::responding(weights(json!({"a": 2}))).await;
    let app = planning(&[hourly(&webhook, 5)]).await;
    push(&app.client, "a", 1).await;
    work_off(&app.client, 1).await;
    push(&app.client, "a", 1).await;
    assert_eq!(work(&app.client, 1).await, ["a"], "its weight is known: it passes");
    assert_eq!(asked(&webhook).await, [["a"]]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenant_missing_in_the_response_counts_as_known() {
    let webhook = WeightsWebhook::responding(weights(json!({}))).await;
    let app = planning(&[hourly(&webhook, 5)]).await;
    push(&app.client, "a", 1).await;
    work_off(&app.client, 1).await;
    push(&app.client, "a", 1).await;
    assert_eq!(work(&app.client, 1).await, ["a"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tenants_of_known_weight_never_wait() {
    let webhook = WeightsWebhook::responding(weights(json!({"a": 1}))).await;
    let app = planning(&[hourly(&webhook, 5)]).await;
    push(&app.client, "a", 1).await;
    work_off(&app.client, 1).await;
    webhook.respond_with(never());
    stage(&app, &[("b", 5), ("a", 20)]).await;
    let mut got = Vec::new();
    eventually("all jobs of the known tenant are done", async || {
        got.extend(work(&app.client, 50).await);
        got.len() >= 20
    })
    .await;
    assert_eq!(got, ["a"; 20]);
    // A job that arrives while the webhook is called passes through, or wakes the waiting round.
    for jobs in [1, 12] {
        push(&app.client, "a", jobs).await;
        work_off(&app.client, jobs).await;
    }
    assert_eq!((unknown(&app).await, status(app.store()).await.staged), (1, 5));
    // A process that shuts down does not wait for the response.
    app.app.shut_down().await;
}

/// The webhook is asked about 200 tenants per request, and again in the same round if those do not fill it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_unknown_tenants_need_several_webhook_calls() {
    let names: Vec<String> = (0..450).map(|number| format!("t{number:03}")).collect();
    let zero: serde_json::Map<_, _> = names[..300].iter().map(|name| (name.clone(), json!(0))).collect();
    let webhook = WeightsWebhook::responding(weights(Value::Object(zero))).await;
    let tenants: Vec<(&str, usize)> = names.iter().map(|name| (name.as_str(), 1)).collect();
    let (app, registry) = start_staged(webhook.rule(120, |_| {}), &tenants).await;
    assert_eq!(run(&registry).await.promoted, 120);
    let asked = asked(&webhook).await;
    assert!(asked.iter().all(|tenants| tenants.len() <= 200), "{asked:?}");
    let about: std::collections::HashSet<&String> = asked.iter().flatten().collect();
    assert_eq!((about.len(), unknown(&app).await), (450, 0), "none of the first 300 can be promoted");
    assert_eq!(run(&registry).await.promoted, 30);
    assert_eq!(status(app.store()).await.staged, 300);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_round_does_not_ask_about_more_tenants_than_it_needs() {
    let names: Vec<String> = (0..450).map(|number| format!("t{number:03}")).collect();
    let webhook = WeightsWebhook::responding(weights(json!({}))).await;
    let tenants: Vec<(&str, usize)> = names.iter().map(|name| (name.as_str(), 1)).collect();
    let (app, registry) = start_staged(webhook.rule(40, |_| {}), &tenants).await;
    assert_eq!((run(&registry).await.promoted, unknown(&app).await), (40, 250));
}

/// With a webhook that is down, also while the circuit breaker is open.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn new_tenants_of_a_webhook_that_is_down_get_the_default_weight() {
    let webhook = WeightsWebhook::responding(ResponseTemplate::new(500)).await;
    let (app, registry) = start_staged(webhook.rule(8, |_| {}), &[("t0", 1)]).await;
    for number in 1..9 {
        assert_eq!(run(&registry).await.promoted, 1);
        push(&app.client, &format!("t{number}"), 1).await;
    }
    assert!(asked(&webhook).await.len() < 8, "the breaker is open");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn new_tenants_are_held_while_the_webhook_is_down_if_the_rule_says_so() {
    let webhook = WeightsWebhook::responding(ResponseTemplate::new(500)).await;
    let rule = webhook.rule(8, |rule| rule.weights.on_webhook_error = Some(OnWebhookError::Hold));
    let (app, registry) = start_staged(rule, &[("a", 4), ("b", 4)]).await;
    let held = run(&registry).await;
    assert_eq!((held.promoted, held.reason, unknown(&app).await), (0, Some(RoundReason::Hold), 0));
    webhook.respond_with(weights(json!({"a": 3, "b": 1})));
    let mut got = Vec::new();
    eventually("they are released", async || {
        got = shares(&app, &registry).await;
        !got.is_empty()
    })
    .await;
    assert_eq!(got, expected(&[("a", 4), ("b", 4)]));
}

/// Tenants that waited for a response are served by the rule's static weights.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rule_that_no_longer_asks_the_webhook_promotes_all_tenants() {
    for has_webhook in [false, true] {
        let webhook = WeightsWebhook::responding(never()).await;
        let mut rule = webhook.rule(300, |_| {});
        let names: Vec<String> = (0..250).map(|number| format!("t{number}")).collect();
        let tenants: Vec<(&str, usize)> = names.iter().map(|name| (name.as_str(), 1)).collect();
        let (app, registry) = start_staged(rule.clone(), &tenants).await;
        assert_eq!(unknown(&app).await, 250);
        rule.weights.on_unknown_weight = OnUnknownWeight::DefaultWeight;
        rule.weights.webhook = rule.weights.webhook.filter(|_| has_webhook);
        registry.rules().put(rule).await.unwrap();
        assert_eq!((run(&registry).await.promoted, unknown(&app).await), (250, 0));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_removed_rule_drains_tenants_of_unknown_weight() {
    let webhook = WeightsWebhook::responding(never()).await;
    let app = planning(&[]).await;
    let book = super::rulebook(app.store(), &[]);
    app.store().pause_rule("r", true, "test").await.unwrap();
    let rule = webhook.rule(5, |_| {});
    book.put(rule).await.unwrap();
    push(&app.client, "a", 20).await;
    assert_eq!(book.remove("r").await.unwrap(), Removed::Gone);
    work_off(&app.client, 20).await;
    eventually("nothing of it remains", async || app.redis.keys_with("fair:r:q:").await.is_empty()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenant_with_jobs_of_several_priorities_is_asked_about_once() {
    let webhook = WeightsWebhook::responding(weights(json!({"a": 3, "b": 1}))).await;
    let (app, registry) = start_staged(webhook.rule(8, |_| {}), &[]).await;
    let job = |tenant: &str, priority: i32| json!({"type": "t.job", "args": [], "priority": priority, "meta": {"tenant_id": tenant}});
    let jobs: Vec<_> =
        ["a", "b"].iter().flat_map(|tenant| [0, 5].map(|priority| vec![job(tenant, priority); 10])).collect();
    app.client.post("/v1/jobs/batch", json!({"jobs": jobs.concat()})).await.expect(201);
    assert_eq!(shares(&app, &registry).await, expected(&[("a", 6), ("b", 2)]));
    let mut asked = asked(&webhook).await.remove(0);
    asked.sort();
    assert_eq!((asked, unknown(&app).await), (vec!["a".to_owned(), "b".to_owned()], 0));
    assert_eq!(status(app.store()).await.queues[0].staged_tenants, 2);
    let pending = webhook.server.received_requests().await.unwrap()[0].body_json::<Value>().unwrap();
    assert_eq!(pending["tenants"][0]["pending"], 20);
}

/// A process calls the webhook and dies: the next one calls it again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_process_repeats_unanswered_webhook_calls() {
    let webhook = WeightsWebhook::responding(weights(json!({"a": 3, "b": 1}))).await;
    let rule = webhook.rule(8, |_| {});
    let (app, registry) = start_staged(rule.clone(), &[("a", 40), ("b", 40)]).await;
    let begun = app.store().begin_round(&rule, "A", Why::Run, None).await.unwrap();
    assert!(matches!(begun, Begun::Round(_)), "{begun:?}");
    let _: i64 = app.redis.command(&["DEL", "fg:{default}:plan:r:lock"]).await;
    assert_eq!(shares(&app, &registry).await, expected(&[("a", 6), ("b", 2)]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenant_of_unknown_weight_that_cancels_its_jobs_leaves_nothing() {
    let webhook = WeightsWebhook::responding(never()).await;
    let app = serving(&[webhook.rule(8, |_| {})]).await;
    let ids = push(&app.client, "a", 2).await;
    let tenants = app.client.get("/v1/admin/planner/r/tenants").await.expect(200);
    assert_eq!((tenants.at("/items/0/awaits_weight"), tenants.at("/items/0/held")), (&json!(true), &json!(false)));
    let shown = app.client.get("/v1/admin/planner/r").await.expect(200);
    assert_eq!(shown.at("/main_queue/queues/0/unknown_weights"), &json!(1));
    for id in ids {
        app.client.delete(&format!("/v1/jobs/{id}")).await.expect(200);
    }
    assert_eq!(app.redis.keys_with("fair:r:q:").await, Vec::<String>::new());
}
