//! Reports about a weights webhook: one when it begins to fail, with the weights used instead, and one when it
//! recovers.

use super::weights::{WeightsWebhook, weights};
use super::{registry, run, stage};
use crate::support::{NOON, TestApp, json};
use fairgate::clock::Clock;
use fairgate::config::Role;
use fairgate::domain::plan::{OnWebhookError, Rule};
use serde_json::Value;
use wiremock::ResponseTemplate;

/// Starts a fairgate with a manual clock and staged jobs of tenants a and b.
async fn start_with_rule(rule: &Rule) -> TestApp {
    let app = TestApp::start_with(Clock::manual(NOON), |config| {
        config.plan = vec![rule.clone()];
        config.server.roles = vec![Role::Api, Role::Dispatch];
    })
    .await;
    stage(&app, &[("a", 200), ("b", 200)]).await;
    app
}

/// Events about weights, oldest first: type and data.
async fn events(app: &TestApp) -> Vec<(String, Value)> {
    let answer = app.client.get("/v1/events?types=weights.*&limit=100").await.expect(200);
    let events = answer.at("/events").as_array().expect("events").clone();
    events.iter().map(|one| (one["type"].as_str().expect("a type").to_owned(), one["data"].clone())).collect()
}

async fn kinds(app: &TestApp) -> Vec<String> {
    events(app).await.into_iter().map(|(kind, _)| kind).collect()
}

/// Runs rounds, one second apart.
async fn rounds(app: &TestApp, registry: &fairgate::planner::RunnerRegistry, count: usize) {
    for _ in 0..count {
        app.clock.advance(1_100);
        run(registry).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failure_is_reported_once_with_the_weights_in_use_and_its_end_once() {
    let webhook = WeightsWebhook::responding(weights(json!({"a": 3, "b": 1}))).await;
    let rule = webhook.rule(2, |rule| rule.weights.max_weight_age = 60_000);
    let app = start_with_rule(&rule).await;
    let registry = registry(app.store(), std::slice::from_ref(&rule));
    rounds(&app, &registry, 2).await;
    assert_eq!(kinds(&app).await, Vec::<String>::new());

    // Five failures, an open circuit breaker and its failed probes.
    webhook.respond_with(ResponseTemplate::new(500));
    rounds(&app, &registry, 12).await;
    let reported = events(&app).await;
    assert_eq!(reported.len(), 1, "{reported:?}");
    let (kind, data) = &reported[0];
    assert_eq!((kind.as_str(), &data["rule"], &data["kind"]), ("weights.failed", &json!("r"), &json!("status")));
    assert_eq!((&data["fallback"], &data["weights_age_ms"]), (&json!("last_weights"), &json!(1100)), "{data}");
    let message = data["message"].as_str().unwrap();
    assert!(message.contains("returned HTTP 500") && message.contains("using weights from 1.1 s ago"), "{message}");

    let stats = app.client.get("/v1/admin/planner/r").await.expect(200);
    assert_eq!(stats.at("/weights/failing_since"), "2027-01-15T08:00:03.300Z", "{}", stats.text);
    assert!(stats.text_at("/weights/last_error").contains("returned HTTP 500"), "{}", stats.text);
    assert_eq!((stats.at("/weights/breaker"), stats.at("/weights/fallback")), (&json!("open"), &json!("last_weights")));
    assert!(stats.at("/weights/next_attempt_at").as_str() > Some("2027-01-15T08:00:15"), "{}", stats.text);

    // Its last weights have expired: the fallback changes, which is reported.
    app.clock.advance(61_000);
    rounds(&app, &registry, 3).await;
    let reported = events(&app).await;
    assert_eq!((reported.len(), &reported[1].1["fallback"]), (2, &json!("default_weight")), "{reported:?}");
    assert!(reported[1].1["message"].as_str().unwrap().contains("using static and default weights"), "{reported:?}");

    webhook.respond_with(weights(json!({"a": 3, "b": 1})));
    app.clock.advance(60_000);
    rounds(&app, &registry, 3).await;
    assert_eq!(kinds(&app).await, ["weights.failed", "weights.failed", "weights.recovered"]);
    let stats = app.client.get("/v1/admin/planner/r").await.expect(200);
    let of = |name: &str| stats.at(&format!("/weights/{name}")).clone();
    assert_eq!(
        (of("failing_since"), of("breaker"), of("next_attempt_at")),
        (Value::Null, json!("closed"), Value::Null)
    );
    assert!(of("last_error").is_string() && of("fallback").is_null(), "{}", stats.text);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failure_that_holds_all_tenants_says_so() {
    let webhook = WeightsWebhook::responding(ResponseTemplate::new(503)).await;
    let rule = webhook.rule(2, |rule| rule.weights.on_webhook_error = Some(OnWebhookError::Hold));
    let app = start_with_rule(&rule).await;
    let registry = registry(app.store(), std::slice::from_ref(&rule));
    rounds(&app, &registry, 3).await;
    let reported = events(&app).await;
    assert_eq!(
        (reported.len(), &reported[0].1["fallback"], &reported[0].1["weights_age_ms"]),
        (1, &json!("hold"), &Value::Null)
    );
    assert!(
        reported[0].1["message"].as_str().unwrap().ends_with("all tenants are held until it answers"),
        "{reported:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn doubtful_responses_are_reported_once() {
    for (answer, reason) in
        [(json!({}), "empty"), (json!({"A": 3, "17": 1}), "unknown_ids"), (json!({"a": 0, "b": 0}), "all_zero")]
    {
        let webhook = WeightsWebhook::responding(weights(answer.clone())).await;
        let rule = webhook.rule(2, |_| {});
        let app = start_with_rule(&rule).await;
        let registry = registry(app.store(), std::slice::from_ref(&rule));
        rounds(&app, &registry, 4).await;
        let reported = events(&app).await;
        assert_eq!(reported.len(), 1, "{reported:?}");
        assert_eq!(
            (reported[0].0.as_str(), &reported[0].1["reason"]),
            ("weights.doubtful", &json!(reason)),
            "{reported:?}"
        );
        webhook.respond_with(weights(json!({"a": 3, "b": 1})));
        rounds(&app, &registry, 3).await;
        assert_eq!(kinds(&app).await, ["weights.doubtful", "weights.recovered"]);
        // After valid responses, three doubtful ones in a row are reported.
        webhook.respond_with(weights(answer));
        rounds(&app, &registry, 6).await;
        assert_eq!(kinds(&app).await, ["weights.doubtful", "weights.recovered", "weights.doubtful"]);
    }
}

/// A failure reported by one process ends in another: after a restart, or when another process plans the rule.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_process_continues_where_the_first_stopped() {
    let webhook = WeightsWebhook::responding(ResponseTemplate::new(500)).await;
    let rule = webhook.rule(2, |_| {});
    let app = start_with_rule(&rule).await;
    for _ in 0..2 {
        let one = registry(app.store(), std::slice::from_ref(&rule));
        rounds(&app, &one, 2).await;
        one.release().await;
        assert_eq!(kinds(&app).await, ["weights.failed"]);
    }
    webhook.respond_with(weights(json!({"a": 3, "b": 1})));
    let other = registry(app.store(), std::slice::from_ref(&rule));
    rounds(&app, &other, 2).await;
    assert_eq!(kinds(&app).await, ["weights.failed", "weights.recovered"]);
}
