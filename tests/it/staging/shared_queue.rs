//! Two rules that promote into one main queue.

use super::{NOON, planned};
use crate::support::{TestApp, eventually, json};
use fairgate::clock::Clock;
use fairgate::config::Role;
use fairgate::domain::plan::Rule;
use fairgate::store::{Begun, Ended, Mark, Round, Signal, Why};
use std::time::Duration;

async fn begin(app: &TestApp, rule: &Rule) -> Round {
    match app.store().begin_round(rule, "test", Why::Run, None).await.unwrap() {
        Begun::Round(round) => round,
        other => panic!("no round: {other:?}"),
    }
}

#[tokio::test]
async fn a_draining_rule_does_not_stop_signals_of_the_other() {
    let rules = [Rule::new("stays", &["test.*"]), Rule::new("drains", &["more.*"])];
    let app = TestApp::start_with(Clock::manual(NOON), |config| {
        config.server.roles = vec![Role::Api];
        config.plan = rules.to_vec();
    })
    .await;
    let store = app.store();
    eventually("signals arrive", async || {
        let heard: (String, u64) = app.redis.command(&["PUBSUB", "NUMSUB", "fg:{default}:signals"]).await;
        heard.1 == 1
    })
    .await;
    app.client.enqueue(json!({"type": "other.job", "args": []})).await;
    app.client.enqueue(planned("a")).await;
    app.client.enqueue(json!({"type": "more.job", "args": []})).await;

    let round = begin(&app, &rules[0]).await;
    let mark = Mark { queue: "default".to_owned(), low: 2, aim: 0, holds_ms: 0 };
    let ended = Ended { document: "{}".to_owned(), marks: vec![mark], ..Ended::default() };
    assert!(store.end_round("stays", &round.token, round.number, &ended).await.unwrap());
    let round = begin(&app, &rules[1]).await;
    store.promote("drains", &round.token, "default", 9).await.unwrap();

    let mut signals = store.signals();
    assert_eq!(app.client.fetch("default", 9).await.job_ids().len(), 2);
    let low = async { while signals.recv().await.unwrap() != (Signal::Low { queue: "default".to_owned() }) {} };
    tokio::time::timeout(Duration::from_secs(5), low).await.expect("the planner is notified that the queue runs low");

    // The last rule removes the mark.
    let round = begin(&app, &rules[0]).await;
    store.promote("stays", &round.token, "default", 9).await.unwrap();
    let left: Vec<String> = app.redis.command(&["HGETALL", "fg:{default}:low_water"]).await;
    assert_eq!(left, Vec::<String>::new());
}
