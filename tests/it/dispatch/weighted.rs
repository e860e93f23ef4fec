//! The weighted strategy: deterministic, smooth, and without starvation.

use super::{DispatchEnv, by, of_pool};
use crate::support::json;
use fairgate::domain::pool::Strategy;
use proptest::prelude::*;
use proptest::test_runner::{RngSeed, TestRunner};

const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

/// The textbook smooth weighted round-robin.
fn smooth(weights: &[u32], picks: usize) -> String {
    let (mut current, sum) = (vec![0i64; weights.len()], weights.iter().map(|weight| i64::from(*weight)).sum::<i64>());
    let mut order = String::new();
    for _ in 0..picks {
        current.iter_mut().zip(weights).for_each(|(has, weight)| *has += i64::from(*weight));
        let best = (0..weights.len()).rev().max_by_key(|place| current[*place]).unwrap();
        current[best] -= sum;
        order += NAMES[best];
    }
    order
}

async fn weighted(weights: &[f64]) -> DispatchEnv {
    let queues: Vec<&str> = NAMES[..weights.len()].to_vec();
    let weights: serde_json::Map<_, _> =
        queues.iter().zip(weights).map(|(queue, weight)| ((*queue).to_owned(), json!(weight))).collect();
    let pool = json!({"name": "p", "queues": queues, "strategy": "weighted", "weights": weights});
    DispatchEnv::open(json!({"pool": [pool]})).await
}

#[tokio::test]
async fn five_three_one_interleave() {
    let env = weighted(&[5.0, 3.0, 1.0]).await;
    for queue in ["a", "b", "c"] {
        env.push(queue, 40).await;
    }
    let mut order = env.order(of_pool("p", "", 9)).await;
    assert_eq!(order, "abacababa");
    for (caller, count) in [1, 1, 1, 7, 2, 1, 5, 9].into_iter().enumerate() {
        order += &env.order(of_pool("p", &format!("w{caller}"), count)).await;
    }
    assert_eq!(order, smooth(&[5, 3, 1], 36));
}

#[tokio::test]
async fn weights_may_be_fractions() {
    let env = weighted(&[1.0, 0.5]).await;
    env.push("a", 10).await;
    env.push("b", 10).await;
    let mut order = String::new();
    for _ in 0..9 {
        order += &env.order(of_pool("p", "", 1)).await;
    }
    assert_eq!(order, "abaabaaba");
    env.push("x", 10).await;
    env.push("y", 10).await;
    let own = by(Strategy::Weighted, &[("x", 0.05), ("y", 0.1)], 3);
    assert_eq!(env.order(own).await, "yxy");
}

/// The state between calls is not rounded, although these weights have many digits.
#[tokio::test]
async fn weights_next_to_each_other_take_turns_exactly() {
    let env = weighted(&[999.999, 999.999, 999.959, 0.05]).await;
    for queue in ["a", "b", "c", "d"] {
        env.push(queue, 40).await;
    }
    let mut order = String::new();
    for _ in 0..60 {
        order += &env.order(of_pool("p", "", 1)).await;
    }
    assert_eq!(order, smooth(&[999_999, 999_999, 999_959, 50], 60));
}

#[test]
fn any_weights_give_their_proportions_in_every_window() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let config =
        ProptestConfig { cases: 6, rng_seed: RngSeed::Fixed(5), failure_persistence: None, ..Default::default() };
    let cases = (prop::collection::vec(50u32..5000, 2..=6), prop::collection::vec(1usize..20, 12..20));
    let outcome = TestRunner::new(config).run(&cases, |(weights, counts)| {
        runtime.block_on(async {
            let env = weighted(&weights.iter().map(|weight| f64::from(*weight) / 1000.0).collect::<Vec<_>>()).await;
            for queue in &NAMES[..weights.len()] {
                env.push(queue, 250).await;
            }
            let mut order = String::new();
            for count in counts {
                order += &env.order(of_pool("p", "", count)).await;
            }
            assert_eq!(order, smooth(&weights, order.len()));
            let sum: u32 = weights.iter().sum();
            for (place, weight) in weights.iter().enumerate() {
                let (mut got, mut least, mut most) = (0.0, 0.0f64, 0.0f64);
                for (picks, queue) in order.chars().enumerate() {
                    got += f64::from(u8::from(NAMES[place].starts_with(queue)));
                    let ahead = got - (picks + 1) as f64 * f64::from(*weight) / f64::from(sum);
                    (least, most) = (least.min(ahead), most.max(ahead));
                    assert!(ahead.abs() <= 1.0, "{ahead} after {order} by {weights:?}");
                }
                // Any window is the difference of two windows that begin with the first dispatch.
                assert!(most - least < 2.0, "{}", most - least);
            }
        });
        Ok(())
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
}

/// Jobs that a queue gets beyond its weight to prevent starvation are not charged to it forever.
#[tokio::test]
async fn a_queue_that_was_served_out_of_turn_gets_its_share_again_soon() {
    let env = weighted(&[10.0, 1.0]).await;
    let pool = |prevention| json!({"queues": ["a", "b"], "strategy": "weighted", "weights": {"a": 10, "b": 1}, "starvation_prevention": prevention});
    env.put_pool("p", pool(json!({"enabled": true, "min_dispatch_ratio": 0.5}))).await;
    for queue in ["a", "b"] {
        env.push(queue, 600).await;
    }
    let order = env.order(of_pool("p", "", 1000)).await;
    assert!(order.matches('b').count() >= 498, "{}", order.matches('b').count());
    env.put_pool("p", pool(json!({"enabled": false}))).await;
    let order = env.order(of_pool("p", "", 44)).await;
    assert!(order.matches('b').count() >= 2, "{order}");
}
