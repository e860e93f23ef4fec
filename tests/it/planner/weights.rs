//! Weights in promotion: webhook responses take effect at once, webhook failures do not stop promotion; static weights;
//! changed rules.

use super::{HOUR, by_hand, planning, registry, rounds, rule, run, serving, stage, status, work, work_off};
use crate::support::{TestApp, eventually, json};
use fairgate::background::NoisyNeighborWatcher;
use fairgate::domain::noisy::NoisyNeighbors;
use fairgate::domain::plan::{Batch, OnUnknownWeight, OnWebhookError, Pace, Rule, Webhook};
use fairgate::domain::tenant::Weight;
use fairgate::planner::{RoundReason, RunnerRegistry};
use fairgate::telemetry::NoiseMetrics;
use serde_json::Value;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use wiremock::matchers::method;
use wiremock::{Mock, MockServer, Request, Respond, ResponseTemplate};

/// A webhook that responds as the test wants.
pub(super) struct WeightsWebhook {
    pub(super) server: MockServer,
    response: SharedResponse,
}

#[derive(Clone)]
struct SharedResponse(Arc<Mutex<ResponseTemplate>>);

impl Respond for SharedResponse {
    fn respond(&self, _: &Request) -> ResponseTemplate {
        self.0.lock().unwrap().clone()
    }
}

impl WeightsWebhook {
    pub(super) async fn responding(answer: ResponseTemplate) -> WeightsWebhook {
        let (server, response) = (MockServer::start().await, SharedResponse(Arc::new(Mutex::new(answer))));
        Mock::given(method("POST")).respond_with(response.clone()).mount(&server).await;
        WeightsWebhook { server, response }
    }

    pub(super) fn respond_with(&self, answer: ResponseTemplate) {
        *self.response.0.lock().unwrap() = answer;
    }

    pub(super) fn settings(&self, timeout: u64) -> Option<Webhook> {
        Some(Webhook { url: self.server.uri(), timeout, secret_env: None })
    }

    /// A rule that promotes `batch` jobs whenever the test asks.
    pub(super) fn rule(&self, batch: u32, change: impl FnOnce(&mut Rule)) -> Rule {
        by_hand(batch, |rule| {
            rule.weights.webhook = self.settings(5000);
            change(rule);
        })
    }
}

pub(super) fn weights(weights: Value) -> ResponseTemplate {
    ResponseTemplate::new(200).set_body_json(json!({"weights": weights}))
}

/// Starts a fairgate with staged jobs, and a registry that runs its rounds.
pub(super) async fn start_staged(rule: Rule, tenants: &[(&str, usize)]) -> (TestApp, RunnerRegistry) {
    let app = serving(std::slice::from_ref(&rule)).await;
    stage(&app, tenants).await;
    let registry = registry(app.store(), &[rule]);
    (app, registry)
}

/// Runs a round and completes its jobs; returns the number of jobs per tenant.
pub(super) async fn shares(app: &TestApp, registry: &RunnerRegistry) -> Vec<(String, usize)> {
    let promoted = run(registry).await.promoted;
    let mut tenants = work(&app.client, 50).await;
    assert_eq!(tenants.len() as u64, promoted);
    tenants.sort();
    tenants.chunk_by(|left, right| left == right).map(|jobs| (jobs[0].clone(), jobs.len())).collect()
}

pub(super) fn expected(shares: &[(&str, usize)]) -> Vec<(String, usize)> {
    shares.iter().map(|(tenant, jobs)| ((*tenant).to_owned(), *jobs)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_response_applies_to_the_backlog_at_once() {
    // A response that arrives before the promotion may already affect it.
    let late = weights(json!({"a": 3, "b": 1, "stranger": 9})).set_delay(Duration::from_millis(500));
    let webhook = WeightsWebhook::responding(late).await;
    let rule = webhook.rule(8, |rule| rule.weights.on_unknown_weight = OnUnknownWeight::DefaultWeight);
    let (app, registry) = start_staged(rule, &[("a", 40), ("b", 40)]).await;
    assert_eq!(shares(&app, &registry).await, expected(&[("a", 4), ("b", 4)]), "workers do not wait for the webhook");
    assert_eq!(shares(&app, &registry).await, expected(&[("a", 6), ("b", 2)]));
    assert_eq!(shares(&app, &registry).await, expected(&[("a", 6), ("b", 2)]));
    let requests = webhook.server.received_requests().await.unwrap();
    let asked: Value = serde_json::from_slice(&requests[0].body).unwrap();
    assert_eq!((&asked["rule"], &asked["queue"]), (&json!("r"), &json!("q")));
    let mut tenants: Vec<(&str, u64)> = asked["tenants"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tenant| (tenant["id"].as_str().unwrap(), tenant["pending"].as_u64().unwrap()))
        .collect();
    tenants.sort_unstable();
    assert_eq!(tenants, [("a", 40), ("b", 40)]);
    let recorded = rounds(app.store()).await;
    assert_eq!(recorded.last().unwrap()["weights_source"], "webhook");
    assert_eq!(recorded.last().unwrap()["served"][0], json!({"tenant_id": "a", "jobs": 6, "weight": 3.0}));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_request_contains_the_activity_of_each_tenant() {
    let webhook = WeightsWebhook::responding(weights(json!({}))).await;
    let (app, registry) = start_staged(webhook.rule(8, |_| {}), &[("a", 3), ("b", 3)]).await;
    // Tenant activity is counted from the first tick on, because a rule has a webhook.
    let neighbors = NoisyNeighborWatcher::new(app.store().clone(), NoisyNeighbors::default(), NoiseMetrics::default());
    neighbors.look("this test").await.unwrap();
    for tenant in ["a", "a", "b", "a", "b", "b"] {
        let job = json!({"type": "other.job", "args": [], "queue": "elsewhere", "meta": {"tenant_id": tenant}});
        app.client.enqueue(job).await;
    }
    let fetched = app.client.fetch("elsewhere", 6).await.job_ids();
    for id in &fetched[3..5] {
        app.client.ack(id).await.expect(200);
    }
    let failed = json!({"job_id": fetched[5], "error": {"code": "x", "message": "no", "retryable": true}});
    app.client.post("/v1/workers/nack", failed).await.expect(200);
    run(&registry).await;
    eventually("it was asked", async || !webhook.server.received_requests().await.unwrap().is_empty()).await;
    let requests = webhook.server.received_requests().await.unwrap();
    let asked: Value = serde_json::from_slice(&requests[0].body).unwrap();
    let mut reported: Vec<_> = asked["tenants"].as_array().unwrap().iter().collect();
    reported.sort_unstable_by_key(|tenant| tenant["id"].as_str());
    let numbers = |name: &str| reported.iter().map(|tenant| tenant[name].as_u64()).collect::<Vec<_>>();
    assert_eq!(numbers("active"), [Some(2), Some(1)]);
    assert_eq!(numbers("processed_1m"), [Some(1), Some(2)]);
    assert!(numbers("avg_runtime_ms").iter().all(|ms| ms.is_some_and(|ms| ms < 60_000)), "{asked}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fractions_count() {
    let webhook = WeightsWebhook::responding(weights(json!({"a": 0.5, "b": 1.5}))).await;
    let (app, registry) = start_staged(webhook.rule(8, |_| {}), &[("a", 40), ("b", 40)]).await;
    shares(&app, &registry).await;
    assert_eq!(shares(&app, &registry).await, expected(&[("a", 2), ("b", 6)]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenant_of_weight_0_waits_until_it_weighs_more() {
    let webhook = WeightsWebhook::responding(weights(json!({"a": 0, "b": 1}))).await;
    let (app, registry) = start_staged(webhook.rule(4, |_| {}), &[("a", 20), ("b", 12)]).await;
    shares(&app, &registry).await;
    for _ in 0..2 {
        assert_eq!(shares(&app, &registry).await, expected(&[("b", 4)]));
    }
    // b is finished, or nearly: only the held tenant is left, and the webhook is asked about it again.
    shares(&app, &registry).await;
    let held = run(&registry).await;
    assert_eq!((held.promoted, held.reason), (0, Some(RoundReason::Hold)));
    webhook.respond_with(weights(json!({"a": 0.05})));
    let mut got = Vec::new();
    eventually("it is released", async || {
        got.extend(shares(&app, &registry).await);
        !got.is_empty()
    })
    .await;
    assert_eq!(got, expected(&[("a", 4)]));
}

/// Released by the planner without an external signal.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn held_tenants_are_asked_about_in_rotation() {
    let webhook = WeightsWebhook::responding(weights(json!({"a": 0, "b": 0}))).await;
    let app = planning(&[rule(|rule| {
        rule.pace = Pace::Every(50);
        rule.batch = Batch::Jobs(1);
        rule.weights.webhook = webhook.settings(5000);
    })])
    .await;
    stage(&app, &[("a", 10), ("b", 10)]).await;
    let store = app.store();
    let mut done = 0;
    eventually("both are held", async || {
        done += work(&app.client, 10).await.len();
        status(store).await.queues.first().is_some_and(|queue| queue.waiting_tenants == 0)
    })
    .await;
    webhook.respond_with(weights(json!({"a": 1, "b": 1})));
    work_off(&app.client, 20 - done).await;
}

fn bad_answers() -> Vec<(&'static str, ResponseTemplate, u64)> {
    let raw = |body: &str| ResponseTemplate::new(200).set_body_string(body);
    vec![
        ("down", ResponseTemplate::new(500), 5000),
        ("slow", weights(json!({"a": 3})).set_delay(Duration::from_secs(20)), 50),
        ("page", raw("<html>welcome</html>"), 5000),
        ("huge", raw(&"x".repeat(10 << 20)), 5000),
        ("redirect", ResponseTemplate::new(302).insert_header("location", "http://127.0.0.1:1/"), 5000),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhook_that_fails_stops_nothing() {
    for (what, answer, timeout) in bad_answers() {
        let webhook = WeightsWebhook::responding(answer).await;
        let fixed = [("a".to_owned(), Weight::of(3.0).unwrap())];
        let rule = webhook.rule(8, |rule| {
            rule.weights.fixed = fixed.into();
            rule.weights.webhook = webhook.settings(timeout);
        });
        let (app, registry) = start_staged(rule, &[("a", 40), ("b", 40)]).await;
        for _ in 0..2 {
            assert_eq!(
                shares(&app, &registry).await,
                expected(&[("a", 6), ("b", 2)]),
                "{what}: the rule's own weights"
            );
        }
        let record = super::rounds(app.store()).await.pop().unwrap();
        assert!(record["weights_errors_total"].as_u64() >= Some(1), "{what}: {record}");
        let events = app.client.get("/v1/events?types=weights.failed").await;
        assert_eq!(events.at("/events/0/data/rule"), "r", "{what}: {}", events.text);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invalid_weights_change_nothing() {
    for bad in ["-1", "1e999", "\"3\"", "null"] {
        let body = format!(r#"{{"weights": {{"a": {bad}, "b": 3}}}}"#);
        let webhook = WeightsWebhook::responding(ResponseTemplate::new(200).set_body_string(body)).await;
        let (app, registry) = start_staged(webhook.rule(8, |_| {}), &[("a", 40), ("b", 40)]).await;
        shares(&app, &registry).await;
        assert_eq!(shares(&app, &registry).await, expected(&[("a", 2), ("b", 6)]), "{bad}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn last_good_weights_apply_until_they_expire() {
    for (then, after) in [(None, &[("a", 4), ("b", 4)][..]), (Some(OnWebhookError::Hold), &[])] {
        let webhook = WeightsWebhook::responding(weights(json!({"a": 3, "b": 1}))).await;
        let rule = webhook.rule(8, |rule| {
            rule.weights.max_weight_age = 4000;
            rule.weights.on_webhook_error = then;
        });
        let (app, registry) = start_staged(rule, &[("a", 1000), ("a", 1000), ("b", 1000)]).await;
        let good = expected(&[("a", 6), ("b", 2)]);
        if then.is_none() {
            shares(&app, &registry).await;
        } else {
            // All tenants are held until the webhook responds, so the planner can only wait for it.
            assert_eq!(run(&registry).await.promoted, 8);
            work(&app.client, 8).await;
        }
        assert_eq!(shares(&app, &registry).await, good);
        webhook.respond_with(ResponseTemplate::new(200).set_body_string("<html>"));
        eventually("the webhook failed", async || {
            assert_eq!(shares(&app, &registry).await, good);
            super::rounds(app.store()).await.pop().unwrap()["weights_errors_total"].as_u64() > Some(0)
        })
        .await;
        assert_eq!(shares(&app, &registry).await, good, "the last good ones");
        eventually("they are too old", async || shares(&app, &registry).await == expected(after)).await;
        webhook.respond_with(weights(json!({"a": 3, "b": 1})));
        eventually("webhook weights are used again", async || shares(&app, &registry).await == good).await;
    }
}

/// Another process takes over: webhook weights that the first one received keep their remaining lifetime.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn last_good_weights_outlive_the_process_that_asked() {
    let webhook = WeightsWebhook::responding(weights(json!({"a": 3, "b": 1}))).await;
    let rule = webhook.rule(8, |rule| rule.weights.on_webhook_error = None);
    let (app, first) = start_staged(rule.clone(), &[("a", 40), ("b", 40)]).await;
    shares(&app, &first).await;
    first.release().await;
    webhook.respond_with(ResponseTemplate::new(503));
    let second = registry(app.store(), &[rule]);
    for _ in 0..2 {
        assert_eq!(shares(&app, &second).await, expected(&[("a", 6), ("b", 2)]));
    }
}

/// Promotion continues with a slow webhook: workers do not wait for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_webhook_does_not_keep_workers_waiting() {
    let webhook = WeightsWebhook::responding(weights(json!({})).set_delay(Duration::from_secs(40))).await;
    let app = planning(&[rule(|rule| {
        rule.pace = Pace::Every(HOUR);
        rule.batch = Batch::Jobs(5);
        rule.weights.webhook = webhook.settings(60_000);
        rule.weights.on_unknown_weight = OnUnknownWeight::DefaultWeight;
    })])
    .await;
    stage(&app, &[("a", 50), ("b", 50)]).await;
    work_off(&app.client, 100).await; // gives up long before the webhook answers
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn static_weights_and_a_rule_that_changes_them() {
    let with = |a: f64, b: f64| {
        let weights = [("a", a), ("b", b)].map(|(tenant, weight)| (tenant.to_owned(), Weight::of(weight).unwrap()));
        by_hand(8, |rule| rule.weights.fixed = weights.into())
    };
    let (app, registry) = start_staged(with(1.0, 3.0), &[("a", 80), ("b", 80)]).await;
    assert_eq!(shares(&app, &registry).await, expected(&[("a", 2), ("b", 6)]));
    registry.rules().put(with(7.0, 1.0)).await.unwrap();
    assert_eq!(shares(&app, &registry).await, expected(&[("a", 7), ("b", 1)]), "the backlog is reweighed");
    registry.rules().put(with(0.0, 1.0)).await.unwrap();
    assert_eq!(shares(&app, &registry).await, expected(&[("b", 8)]));
    registry.rules().put(with(1.0, 1.0)).await.unwrap();
    assert_eq!(shares(&app, &registry).await, expected(&[("a", 4), ("b", 4)]));
    assert_eq!(rounds(app.store()).await[0]["weights_source"], "static");
}
