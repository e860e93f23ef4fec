//! A rule without a queue promotes into the queues that its jobs name, which share its rounds.

use super::{by_hand, planning, registry, rule, run, serving};
use crate::support::{Client, TestApp, eventually, json};
use fairgate::domain::job::State;
use fairgate::domain::plan::{Batch, Rule, Webhook};
use std::time::Duration;
use wiremock::matchers::method;
use wiremock::{Mock, MockServer, ResponseTemplate};

fn spread(rule: Rule) -> Rule {
    Rule { queue: None, ..rule }
}

async fn push_into(client: &Client, queue: &str, jobs: usize) {
    let job = json!({"type": "t.job", "args": [], "queue": queue, "meta": {"tenant_id": "a"}});
    client.post("/v1/jobs/batch", json!({"jobs": vec![job; jobs]})).await.expect(201);
}

/// Stages jobs for several queues while nothing may pass through.
async fn stage_for(app: &TestApp, queues: &[String], jobs: usize) {
    app.store().pause_rule("r", true, "test").await.unwrap();
    for queue in queues {
        push_into(&app.client, queue, jobs).await;
    }
    app.store().pause_rule("r", false, "test").await.unwrap();
}

fn names(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("q{number}")).collect()
}

#[tokio::test]
async fn no_queue_takes_the_whole_batch() {
    let rule = spread(by_hand(10, |_| {}));
    let app = serving(std::slice::from_ref(&rule)).await;
    let queues = names(3);
    stage_for(&app, &queues, 100).await;
    let registry = registry(app.store(), &[rule]);
    for _ in 0..6 {
        assert_eq!(run(&registry).await.promoted, 10);
    }
    for queue in &queues {
        let got = app.store().queue_counts(queue).await.unwrap()[&State::Available];
        assert!((18..=22).contains(&got), "{queue} got {got} of 60");
    }
}

#[tokio::test]
async fn a_preview_shares_the_batch_as_the_round_does() {
    let rule = spread(by_hand(10, |_| {}));
    let app = serving(std::slice::from_ref(&rule)).await;
    let queues = names(3);
    stage_for(&app, &queues, 20).await;
    let registry = registry(app.store(), &[rule]);
    let mut promoted = std::collections::BTreeMap::new();
    for _ in 0..4 {
        let preview = app.client.get("/ojs/v1/admin/planner/r/preview").await.expect(200);
        for queue in preview.at("/queues").as_array().unwrap() {
            let name = queue["name"].as_str().unwrap().to_owned();
            *promoted.entry(name).or_insert(0) += queue["batch"].as_i64().unwrap();
        }
        run(&registry).await;
        for queue in &queues {
            let got = app.store().queue_counts(queue).await.unwrap()[&State::Available];
            assert_eq!(promoted.get(queue), Some(&got), "{queue}: {}", preview.text);
        }
    }
}

#[tokio::test]
async fn a_dry_queue_is_served_before_a_full_one() {
    let rule = spread(by_hand(10, |rule| rule.strict_interval = false));
    let app = serving(std::slice::from_ref(&rule)).await;
    stage_for(&app, &names(2), 100).await;
    let registry = registry(app.store(), &[rule]);
    for _ in 0..4 {
        run(&registry).await;
        app.client.fetch("q1", 50).await;
        assert_eq!(run(&registry).await.promoted, 10);
        assert!(!app.client.fetch("q1", 50).await.job_ids().is_empty(), "its share, in any order of names");
    }
}

#[tokio::test]
async fn a_round_serves_some_of_many_queues_and_all_in_turn() {
    let rule = spread(rule(|rule| rule.batch = Batch::Auto));
    let app = serving(std::slice::from_ref(&rule)).await;
    let queues = names(150);
    stage_for(&app, &queues, 1).await;
    let status = app.store().rule_status("r", None).await.unwrap();
    assert_eq!((status.staged, status.queues.len()), (150, 64));
    let registry = registry(app.store(), &[rule]);
    let mut promoted = 0;
    for _ in 0..3 {
        let round = run(&registry).await;
        assert!(round.promoted <= 64);
        promoted += round.promoted;
    }
    assert_eq!(promoted, 150);
    assert_eq!(app.store().rule_status("r", None).await.unwrap().staged, 0);
}

/// Each webhook call takes longer than the queues last; sequential calls would stop promotion.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_webhook_holds_up_no_queue() {
    let server = MockServer::start().await;
    let slow = ResponseTemplate::new(200).set_delay(Duration::from_millis(1500)).set_body_json(json!({"weights": {}}));
    Mock::given(method("POST")).respond_with(slow).mount(&server).await;
    let rule = spread(rule(|rule| {
        rule.weights.webhook = Some(Webhook { url: server.uri(), timeout: 5000, secret_env: None });
    }));
    let app = planning(&[rule]).await;
    let queues = names(4);
    stage_for(&app, &queues, 100).await;
    let mut got = 0;
    eventually("400 jobs are promoted in a few seconds, without one webhook call after the other", async || {
        for queue in &queues {
            got += app.client.fetch(queue, 20).await.job_ids().len();
        }
        got == 400
    })
    .await;
}
