//! The gate: nothing is promoted into a main queue that is late or full, and it opens again by itself.

use super::{by_hand, depth, desk, planning, rounds, rule, serving, stage, status, work_off};
use crate::support::eventually;
use fairgate::fair::{Batch, Pace, Rule};
use fairgate::planner::Flight;

/// A rule that wants to promote all the time.
fn eager(change: impl FnOnce(&mut Rule)) -> Rule {
    rule(|rule| {
        rule.pace = Pace::Every(20);
        rule.batch = Batch::Jobs(5);
        change(rule);
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_that_wait_too_long_close_it() {
    let app = planning(&[eager(|rule| rule.latency_threshold = 100)]).await;
    stage(&app, &[("a", 100), ("b", 100)]).await;
    let store = &app.app.store;
    let late = async || rounds(store).await.iter().filter(|round| round["reason"] == "latency").count();
    eventually("rounds are skipped", async || late().await >= 3).await;
    let before = depth(&app).await;
    let many = late().await;
    eventually("more rounds are skipped", async || late().await >= many + 3).await;
    assert_eq!(depth(&app).await, before, "nothing joins what waits too long");
    let rounds = rounds(store).await;
    let last = rounds.last().unwrap();
    assert_eq!((&last["outcome"], &last["promoted"]), (&"skipped".into(), &0.into()));
    assert!(last["latency_ms"].as_u64().unwrap() > 100, "{last}");
    assert!(status(store).await.skipped >= 6);
    work_off(&app.client, 200).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_main_queue_closes_it() {
    let app = planning(&[eager(|rule| rule.max_depth = 7)]).await;
    stage(&app, &[("a", 20), ("b", 20)]).await;
    let store = &app.app.store;
    let full = async || {
        let rounds = rounds(store).await;
        rounds.iter().filter(|round| round["reason"] == "depth" && round["depth"] == 7).count()
    };
    eventually("rounds are skipped", async || full().await >= 3).await;
    assert_eq!(depth(&app).await, 7, "filled to the brim, and no further");
    work_off(&app.client, 40).await;
    assert!(rounds(store).await.iter().all(|round| round["depth"].as_u64().unwrap() <= 7));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paused_rule_promotes_nothing_and_loses_nothing() {
    let app = planning(&[eager(|_| {})]).await;
    let store = &app.app.store;
    store.pause_rule("r", true).await.unwrap();
    super::push(&app.client, "a", 20).await;
    let rule = by_hand(5, |_| {});
    let flight = desk(store, &[eager(|_| {})]).run("r").await.unwrap();
    assert!(matches!(flight, Some(Flight::Paused)), "{flight:?}");
    assert_eq!((depth(&app).await, status(store).await.paused, rule.strict_interval), (0, true, true));
    store.pause_rule("r", false).await.unwrap();
    work_off(&app.client, 20).await;
}

/// A round in mid-promotion notices the pause.
#[tokio::test]
async fn a_pause_stops_a_round_under_way() {
    let rule = by_hand(10, |_| {});
    let app = serving(std::slice::from_ref(&rule)).await;
    let store = &app.app.store;
    stage(&app, &[("a", 20)]).await;
    let begun = store.begin_round(&rule, "A", fairgate::store::Why::Run, None).await.unwrap();
    let fairgate::store::Begun::Round(round) = begun else { panic!("{begun:?}") };
    store.pause_rule("r", true).await.unwrap();
    assert_eq!(store.promote("r", &round.token, "q", 10).await.unwrap(), fairgate::store::Promoted::Paused);
    assert_eq!((depth(&app).await, status(store).await.staged), (0, 20));
}
