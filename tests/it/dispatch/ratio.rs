//! The minimum ratio: whatever a strategy prefers, each queue with jobs gets its part of every window.

use super::{Ground, of_pool};
use crate::support::json;
use proptest::prelude::*;
use proptest::test_runner::{RngSeed, TestRunner};
use serde_json::Value;

const NAMES: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];
const CALLERS: usize = 16;

fn pool(strategy: &str, queues: usize, ratio: f64) -> Value {
    let weights: Value = NAMES[..queues]
        .iter()
        .enumerate()
        .map(|(place, name)| ((*name).to_owned(), json!(1000 >> (2 * place).min(9))))
        .collect();
    json!({"queues": NAMES[..queues], "strategy": strategy, "weights": weights,
        "starvation_prevention": {"enabled": true, "min_dispatch_ratio": ratio, "rotation_interval": "PT24H"}})
}

/// In every window of n dispatches every queue got at least ratio·n − 2, as long as it had jobs.
fn check(order: &str, queues: usize, ratio: f64, jobs: usize) {
    for name in &NAMES[..queues] {
        // The furthest ahead of its ratio that it was so far: a window begins there.
        let (mut got, mut furthest) = (0, 0.0f64);
        for (place, queue) in order.chars().enumerate() {
            got += usize::from(name.starts_with(queue));
            let ahead = got as f64 - ratio * (place + 1) as f64;
            furthest = furthest.max(ahead);
            assert!(furthest - ahead <= 2.0 + 1e-9, "{name} of {queues} by {ratio} at {place}: {order}");
            if got == jobs {
                break; // empty from here on
            }
        }
    }
}

async fn one_by_one(strategy: &str, queues: usize, ratio: f64, counts: &[usize]) {
    let ground = Ground::open(json!({})).await;
    ground.put_pool("p", pool(strategy, queues, ratio)).await;
    for name in &NAMES[..queues] {
        ground.push(name, 300).await;
    }
    let mut order = String::new();
    for count in counts {
        order += &ground.order(of_pool("p", "", *count)).await;
    }
    check(&order, queues, ratio, 300);
}

/// The order of dispatches is the order of the events that tell of starts.
async fn all_at_once(strategy: &'static str, queues: usize, ratio: f64, counts: &[usize]) {
    let ground = Ground::open(json!({})).await;
    ground.put_pool("p", pool(strategy, queues, ratio)).await;
    for name in &NAMES[..queues] {
        ground.push(name, 150).await;
    }
    let callers = (0..CALLERS).map(|caller| {
        let (store, counts) = (ground.store().clone(), counts.to_vec());
        tokio::spawn(async move {
            for count in counts {
                let count = 1 + (count + caller * 7) % 50;
                store.fetch(of_pool("p", &format!("w{caller}"), count)).await.unwrap().deliver();
            }
        })
    });
    for caller in callers.collect::<Vec<_>>() {
        caller.await.unwrap();
    }
    let filter = fairgate::store::EventFilter { types: vec!["job.started".to_owned()], ..Default::default() };
    let page = ground.store().events(&filter, None, 10_000).await.unwrap().unwrap();
    let order: String = page.events.iter().map(|event| event.queue.as_str()).collect();
    assert!(order.len() > queues * 50, "{}", order.len());
    check(&order, queues, ratio, 150);
}

fn run<F: Future<Output = ()>>(cases: u32, test: impl Fn(&'static str, usize, f64, Vec<usize>) -> F) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let config = ProptestConfig { cases, rng_seed: RngSeed::Fixed(3), failure_persistence: None, ..Default::default() };
    let case = (
        prop_oneof![Just("strict"), Just("weighted")],
        2usize..=8,
        1u32..=1000,
        prop::collection::vec(1usize..=50, 5..15),
    );
    let outcome = TestRunner::new(config).run(&case, |(strategy, queues, part, counts)| {
        let ratio = (f64::from(part) / 1000.0 / queues as f64 * 1e6).floor() / 1e6;
        runtime.block_on(test(strategy, queues, ratio, counts));
        Ok(())
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn each_queue_gets_its_ratio_of_every_window() {
    run(4, |strategy, queues, ratio, counts| async move {
        one_by_one(strategy, queues, ratio, &counts).await;
        one_by_one(strategy, queues, ratio, &[1; 60]).await;
    });
}

#[test]
fn each_queue_gets_its_ratio_however_many_ask_at_once() {
    run(4, |strategy, queues, ratio, counts| async move { all_at_once(strategy, queues, ratio, &counts).await });
}

#[tokio::test]
async fn the_rest_is_the_strategy_s() {
    let ground = Ground::open(json!({})).await;
    ground.put_pool("p", pool("strict", 3, 0.1)).await;
    for name in &NAMES[..3] {
        ground.push(name, 200).await;
    }
    let mut order = String::new();
    for _ in 0..10 {
        order += &ground.order(of_pool("p", "", 10)).await;
    }
    let got = |name: char| order.matches(name).count();
    assert!((9..=11).contains(&got('b')) && (9..=11).contains(&got('c')), "{order}");
    // All of it, where three thirds are promised.
    ground.put_pool("p", pool("strict", 3, 0.333_333)).await;
    let mut order = String::new();
    for _ in 0..90 {
        order += &ground.order(of_pool("p", "", 1)).await;
    }
    assert!(NAMES[..3].iter().all(|name| order.matches(name).count() >= 28), "{order}");
}

/// Credit is counted in whole numbers: kept as fractions, queues with the same credit were served by which had been rounded up.
#[tokio::test]
async fn the_order_is_the_same_however_it_is_cut_into_calls() {
    let mut orders = Vec::new();
    for counts in [vec![1; 96], vec![32; 3], vec![7, 1, 40, 2, 5, 30, 11]] {
        let ground = Ground::open(json!({})).await;
        ground.put_pool("p", pool("strict", 8, 0.1)).await;
        for name in NAMES {
            ground.push(name, 100).await;
        }
        let mut order = String::new();
        for count in counts {
            order += &ground.order(of_pool("p", "", count)).await;
        }
        orders.push(order);
    }
    let expected = format!("aaaaaaaa{}aaabcdef", "aaabcdefgh".repeat(8));
    assert_eq!(orders, [(); 3].map(|()| expected.clone()));
}
