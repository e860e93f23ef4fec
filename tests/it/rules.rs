//! Rules that are created, changed and deleted at run time: all processes agree, and no staged job is left behind.

use crate::planner::{
    by_hand, depth, planning, planning_on, push, rule, rulebook, serving, serving_on, stage, status, work_off,
};
use crate::support::{ChaosProxy, TestApp, TestRedis, eventually, json};
use fairgate::clock::Clock;
use fairgate::config::StoreUrl;
use fairgate::domain::plan::{Batch, Rule};
use fairgate::domain::tenant::Weight;
use fairgate::rules::{Removed, RuleSource};
use futures_util::future::join_all;
use std::sync::Arc;

fn named(name: &str, kind: &str) -> Rule {
    Rule { name: name.to_owned(), types: vec![kind.to_owned()], ..by_hand(5, |_| {}) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_process_sees_a_change_on_its_next_push() {
    let redis = Arc::new(TestRedis::start());
    let (first, second) = (serving_on(&redis, &[]).await, serving_on(&redis, &[]).await);
    push(&second.client, "a", 3).await;
    let book = rulebook(&first.app.store, &[]);
    book.put(by_hand(5, |_| {})).await.unwrap();
    stage(&second, &[("a", 4)]).await;
    assert_eq!(status(&first.app.store).await.staged, 4);
    assert_eq!(book.remove("r").await.unwrap(), Removed::Gone);
    assert_eq!(book.remove("r").await.unwrap(), Removed::Unknown);
    let states = second.client.post("/v1/jobs", json!({"type": "t.job", "args": []})).await.expect(201);
    assert_eq!(states.text_at("/job/state"), "available", "no rule plans it any more");
    assert_eq!(status(&first.app.store).await.staged, 4, "those that were staged wait for a planner");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_changes_all_apply() {
    let app = serving(&[]).await;
    let books: Vec<_> = (0..6).map(|_| rulebook(app.store(), &[])).collect();
    let names: Vec<String> = (0..6).map(|number| format!("r{number}")).collect();
    join_all(books.iter().zip(&names).map(|(book, name)| book.put(named(name, name)))).await.into_iter().for_each(
        |outcome| {
            outcome.expect("each rule was set");
        },
    );
    let known = books[0].reload().await.unwrap();
    let mut held: Vec<&str> = known.rules.iter().map(|rule| rule.name.as_str()).collect();
    held.sort_unstable();
    assert_eq!(held, names);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rule_that_is_removed_drains() {
    let app = planning(&[]).await;
    let book = rulebook(app.store(), &[]);
    // One tenant is held and the interval is long: neither keeps jobs in a deleted rule.
    book.put(by_hand(2, |rule| _ = rule.weights.fixed.insert("held".to_owned(), Weight::HELD))).await.unwrap();
    stage(&app, &[("a", 150), ("b", 150), ("held", 150)]).await;
    for (tenant, priority) in [("a", 7), ("held", 7), ("held", -7)] {
        let options = json!({"priority": priority});
        let job = json!({"type": "t.job", "args": [], "meta": {"tenant_id": tenant}, "options": options});
        app.client.post("/v1/jobs/batch", json!({"jobs": vec![job; 20]})).await.expect(201);
    }
    assert_eq!(book.remove("r").await.unwrap(), Removed::Gone);
    work_off(&app.client, 510).await;
    eventually("nothing of it remains", async || app.redis.keys_with("plan:r").await.is_empty()).await;
    assert_eq!(app.redis.keys_with("fair:r:q:").await, Vec::<String>::new());
    let low: Vec<String> = app.redis.command(&["HKEYS", "fg:{default}:low_water"]).await;
    assert_eq!(low, Vec::<String>::new());
}

/// A round that ends after its rule was deleted must not leave parts of the rule behind.
#[tokio::test]
async fn the_last_round_of_a_deleted_rule_leaves_nothing() {
    let rule = by_hand(5, |_| {});
    let app = serving(&[]).await;
    let (store, book) = (app.store(), rulebook(app.store(), &[]));
    book.put(rule.clone()).await.unwrap();
    stage(&app, &[("a", 5)]).await;
    book.remove("r").await.unwrap();
    let begun = store.begin_round(&rule, "A", fairgate::store::Why::Run, None).await.unwrap();
    let fairgate::store::Begun::Round(round) = begun else { panic!("{begun:?}") };
    store.promote("r", &round.token, "q", 10).await.unwrap();
    book.reload().await.unwrap(); // anybody who reads the rules now clears what is drained
    assert!(!store.end_round("r", &round.token, round.number, &Default::default()).await.unwrap());
    assert_eq!(app.redis.keys_with("plan:r").await, Vec::<String>::new());
    work_off(&app.client, 5).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_changed_rule_survives_a_restart_and_the_files_is_a_start_value() {
    let redis = Arc::new(TestRedis::start());
    let of_file = [named("r", "t.*"), named("s", "s.*")];
    let first = serving_on(&redis, &of_file).await;
    let book = rulebook(&first.app.store, &of_file);
    assert_eq!(book.remove("s").await.unwrap(), Removed::InFile);
    let changed = Rule { batch: Batch::Jobs(77), ..of_file[0].clone() };
    book.put(changed.clone()).await.unwrap();
    book.put(named("added", "x.*")).await.unwrap();
    first.app.shut_down().await;

    let files = [of_file[0].clone(), Rule { batch: Batch::Jobs(99), ..of_file[1].clone() }];
    let second = serving_on(&redis, &files).await;
    let book = rulebook(&second.app.store, &files);
    let known = book.known().await.unwrap();
    assert_eq!(known.rules.get("r").map(|rule| rule.batch), Some(Batch::Jobs(77)), "changed at run time");
    assert_eq!(known.rules.get("s").map(|rule| rule.batch), Some(Batch::Jobs(99)), "changed in the file");
    assert_eq!((known.source("r"), known.source("s")), (Some(RuleSource::Api), Some(RuleSource::File)));
    assert!(known.rules.get("added").is_some());
    assert_eq!(book.remove("r").await.unwrap(), Removed::Restored);
    assert_eq!(book.reload().await.unwrap().rules.get("r").map(|rule| rule.batch), Some(Batch::Jobs(5)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rule_that_left_the_file_drains_after_the_restart() {
    let redis = Arc::new(TestRedis::start());
    let first = planning_on(&redis, &[by_hand(2, |_| {})]).await;
    stage(&first, &[("a", 30), ("b", 30)]).await;
    eventually("it has begun", async || depth(&first).await > 0).await;
    first.app.shut_down().await;
    let second = planning_on(&redis, &[]).await;
    work_off(&second.client, 60).await;
    eventually("nothing of it remains", async || redis.keys_with("plan:r").await.is_empty()).await;
}

/// A process that starts while Redis is down applies the rules of its file as soon as Redis is up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_files_rules_apply_although_redis_was_down_at_the_start() {
    let redis = Arc::new(TestRedis::start());
    let before = serving_on(&redis, &[by_hand(5, |_| {})]).await;
    let proxy = ChaosProxy::start(&redis).await;
    proxy.close();
    let rules = [by_hand(9, |_| {})];
    let late = TestApp::start_on(Arc::clone(&redis), Clock::System, |config| {
        config.plan = rules.to_vec();
        config.store.url = Some(StoreUrl::parse(&proxy.url()).unwrap());
    })
    .await;
    proxy.open();
    let book = rulebook(&before.app.store, &[by_hand(5, |_| {})]);
    eventually("the new rule holds", async || {
        book.reload().await.unwrap().rules.get("r").is_some_and(|rule| rule.batch == Batch::Jobs(9))
    })
    .await;
    drop(late);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_planner_learns_of_rules_while_it_runs() {
    let redis = Arc::new(TestRedis::start());
    let (planner, other) = (planning_on(&redis, &[]).await, serving_on(&redis, &[]).await);
    let book = rulebook(&other.app.store, &[]);
    book.put(rule(|_| {})).await.unwrap();
    stage(&other, &[("a", 20)]).await;
    work_off(&planner.client, 20).await;
}
