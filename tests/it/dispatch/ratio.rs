//! The minimum ratio: with every strategy, each queue with jobs gets its share of every window.

use super::{DispatchEnv, of_pool};
use crate::support::json;
use fairgate::store::Fetch;
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

/// The denominator in which all ratios of the tests are integers.
const WHOLE: u64 = 1_000_000;

fn parts(ratio: f64) -> u64 {
    (ratio * WHOLE as f64).round() as u64
}

/// Checks that in every window of n dispatches each queue got at least ⌊ratio·n⌋ while it had jobs.
fn check(order: &str, queues: usize, ratio: f64, jobs: usize) {
    for name in &NAMES[..queues] {
        // The largest deficit of any window that ends here; a window misses its floor if the deficit reaches a whole
        // job.
        let (mut got, mut short) = (0, 0);
        for (place, queue) in order.chars().enumerate() {
            let served = name.starts_with(queue);
            got += usize::from(served);
            short = (short + parts(ratio)).saturating_sub(if served { WHOLE } else { 0 });
            assert!(short < WHOLE, "{name} of {queues} by {ratio} at {place}: {order}");
            if got == jobs {
                break; // empty from here on
            }
        }
    }
}

async fn one_by_one(strategy: &str, queues: usize, ratio: f64, counts: &[usize]) {
    let env = DispatchEnv::open(json!({})).await;
    env.put_pool("p", pool(strategy, queues, ratio)).await;
    for name in &NAMES[..queues] {
        env.push(name, 300).await;
    }
    let mut order = String::new();
    for count in counts {
        order += &env.order(of_pool("p", "", *count)).await;
    }
    check(&order, queues, ratio, 300);
}

/// The order of dispatches, from the events of job starts.
async fn all_at_once(strategy: &'static str, queues: usize, ratio: f64, counts: &[usize]) {
    let env = DispatchEnv::open(json!({})).await;
    env.put_pool("p", pool(strategy, queues, ratio)).await;
    for name in &NAMES[..queues] {
        env.push(name, 150).await;
    }
    let callers = (0..CALLERS).map(|caller| {
        let (store, counts) = (env.store().clone(), counts.to_vec());
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
    let page = env.store().events(&filter, None, 10_000).await.unwrap().unwrap();
    let order: String = page.events.iter().map(|event| event.queue.as_str()).collect();
    assert!(order.len() > queues * 50, "{}", order.len());
    check(&order, queues, ratio, 150);
}

fn run<F: Future<Output = ()>>(cases: u32, test: impl Fn(&'static str, usize, f64, Vec<usize>) -> F) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let config = ProptestConfig { cases, rng_seed: RngSeed::Fixed(3), failure_persistence: None, ..Default::default() };
    let case = (
        prop_oneof![Just("strict"), Just("weighted"), Just("least-loaded")],
        2usize..=8,
        prop_oneof![1u32..=1000, Just(1000)],
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
fn each_queue_gets_its_ratio_with_concurrent_fetches() {
    run(4, |strategy, queues, ratio, counts| async move { all_at_once(strategy, queues, ratio, &counts).await });
}

#[tokio::test]
async fn the_strategy_distributes_the_rest() {
    let env = DispatchEnv::open(json!({})).await;
    env.put_pool("p", pool("strict", 3, 0.1)).await;
    for name in &NAMES[..3] {
        env.push(name, 200).await;
    }
    let mut order = String::new();
    for _ in 0..10 {
        order += &env.order(of_pool("p", "", 10)).await;
    }
    let got = |name: char| order.matches(name).count();
    assert_eq!((got('a'), got('b'), got('c')), (80, 10, 10), "{order}");
    // Ratios of three thirds leave nothing to the strategy.
    env.put_pool("p", pool("strict", 3, 0.333_333)).await;
    let mut order = String::new();
    for _ in 0..90 {
        order += &env.order(of_pool("p", "", 1)).await;
    }
    assert!(NAMES[..3].iter().all(|name| order.matches(name).count() >= 28), "{order}");
}

/// Credit is an integer: with fractions, the order of queues with equal credit would depend on rounding.
#[tokio::test]
async fn the_order_does_not_depend_on_batch_sizes() {
    let mut orders = Vec::new();
    for counts in [vec![1; 96], vec![32; 3], vec![7, 1, 40, 2, 5, 30, 11]] {
        let env = DispatchEnv::open(json!({})).await;
        env.put_pool("p", pool("strict", 8, 0.1)).await;
        for name in NAMES {
            env.push(name, 100).await;
        }
        let mut order = String::new();
        for count in counts {
            order += &env.order(of_pool("p", "", count)).await;
        }
        orders.push(order);
    }
    let expected = format!("{}aaabcd", "aaabcdefgh".repeat(9));
    assert_eq!(orders, [(); 3].map(|()| expected.clone()));
}

/// A queue that gets its ratio in its regular turns has no further claim.
#[tokio::test]
async fn equal_turns_stay_equal() {
    for (queues, ratio) in [(3, 0.05), (3, 0.3), (3, 0.333_333), (8, 0.125)] {
        let env = DispatchEnv::open(json!({})).await;
        env.put_pool("p", pool("round-robin", queues, ratio)).await;
        for name in &NAMES[..queues] {
            env.push(name, 60).await;
        }
        let mut order = String::new();
        for count in [1, 7, 1, 40, 2, 50] {
            order += &env.order(of_pool("p", "", count)).await;
        }
        assert_eq!(order, NAMES[..queues].concat().repeat(60)[..101], "{queues} by {ratio}");
    }
}

/// Five of a hundred at 5 %, with every preference, even if half of the fetches name only the preferred queue.
#[tokio::test]
async fn five_of_a_hundred_are_five() {
    for others in [&["a", "b", "c"][..], &["a"], &["a", "b"]] {
        let env = DispatchEnv::open(json!({})).await;
        env.put_pool("p", pool("strict", 3, 0.05)).await;
        for name in &NAMES[..3] {
            env.push(name, 100).await;
        }
        let mut order = String::new();
        for _ in 0..50 {
            order += &env.order(of_pool("p", "", 1)).await;
            order += &env.order(Fetch { queues: names(others), ..of_pool("p", "", 1) }).await;
        }
        let got = |name: char| order.matches(name).count();
        assert!(order.len() == 100 && got('b') >= 5 && got('c') >= 5, "{others:?}: {order}");
        assert!(got('a') >= 88, "{others:?}: {order}");
    }
}

/// A queue that fetches leave out is served early enough to keep its floor through the next fetches that leave it out.
#[tokio::test]
async fn floors_hold_in_each_window_when_half_of_the_fetches_name_one_queue() {
    let env = DispatchEnv::open(json!({})).await;
    env.put_pool("p", pool("strict", 3, 0.05)).await;
    for name in &NAMES[..3] {
        env.push(name, 600).await;
    }
    let mut order = String::new();
    let mut fetch = async |queues: &[&str], count| {
        for _ in 0..count {
            order += &env.order(Fetch { queues: names(queues), ..of_pool("p", "", 1) }).await;
        }
    };
    // The longest series of fetches that leave queues out comes first. Two queues of 5 % keep their floor through
    // series of five, because headroom is half of a window at most.
    fetch(&["a"], 5).await;
    let mut random = 7u32;
    for _ in 0..60 {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        fetch(&["a"], (random >> 16) % 5).await;
        fetch(&["a", "b", "c"], 1 + (random >> 24) % 5).await;
    }
    check(&order[5..], 3, 0.05, 600);
    // Each of the others gets at most twice its share.
    let got = |name: char| order.matches(name).count();
    assert!(got('b') <= order.len() / 10 && got('c') <= order.len() / 10, "{order}");
    // Once all fetches name all queues, they get their share exactly.
    let (mut order, all) = (String::new(), of_pool("p", "", 50));
    while order.len() < 1500 {
        order += &env.order(all.clone()).await;
        if order.len() % 500 == 0 {
            env.push("a", 500).await;
        }
    }
    let last = &order[order.len() - 200..];
    assert_eq!((last.matches('b').count(), last.matches('c').count()), (10, 10), "{last}");
}

fn names(queues: &[&str]) -> Vec<String> {
    queues.iter().map(|queue| (*queue).to_owned()).collect()
}

/// A step in the life of a pool: jobs arrive in a queue, or a worker fetches from some of the queues.
#[derive(Clone, Debug)]
enum Step {
    Push { queue: usize, jobs: usize },
    Fetch { named: u8, count: usize },
}

fn steps() -> impl proptest::strategy::Strategy<Value = Vec<Step>> {
    let push = (0usize..8, 1usize..20).prop_map(|(queue, jobs)| Step::Push { queue, jobs });
    let named = prop_oneof![3 => Just(u8::MAX), 1 => any::<u8>()];
    let fetch = (named, 1usize..12).prop_map(|(named, count)| Step::Fetch { named, count });
    prop::collection::vec(prop_oneof![1 => push, 2 => fetch], 10..50)
}

/// The guarantee of one queue: see `Floors::dispatched`.
#[derive(Clone, Copy, Default)]
struct Floor {
    jobs: usize,
    /// The largest deficit of any window that ends here.
    short: u64,
    /// True if that window includes a fetch that did not name the queue.
    was_left_out: bool,
}

struct Floors {
    ratio: u64,
    of: Vec<Floor>,
}

impl Floors {
    /// Checks and records one dispatch. A queue that all fetches name keeps its floor. If fetches left a queue out and
    /// its floor broke, the next fetch that names it serves it first, unless another queue's floor would break.
    fn dispatched(&mut self, served: usize, named: &dyn Fn(usize) -> bool) -> Result<(), String> {
        let ready: Vec<usize> = (0..self.of.len()).filter(|place| self.of[*place].jobs > 0).collect();
        let is_due = self.of[served].short + ready.len() as u64 * self.ratio >= WHOLE;
        for place in ready {
            let floor = &mut self.of[place];
            if floor.short >= WHOLE && named(place) && !is_due {
                return Err(format!("{served} was served although {place} is owed {} parts", floor.short));
            }
            floor.was_left_out |= !named(place);
            floor.short += self.ratio;
            if place == served {
                floor.short = floor.short.saturating_sub(WHOLE);
                floor.jobs -= 1;
            }
            if floor.short == 0 || floor.jobs == 0 {
                *floor = Floor { jobs: floor.jobs, ..Floor::default() };
            } else if floor.short >= WHOLE && !floor.was_left_out {
                return Err(format!("{place} got less than its floor although every fetch named it"));
            }
        }
        Ok(())
    }
}

/// Runs steps on a pool with its own queues.
async fn live(env: &DispatchEnv, case: usize, pool: Value, ratio: f64, steps: &[Step]) -> Result<(), String> {
    let queues: Vec<String> = NAMES.map(|name| format!("{name}{case}")).into_iter().collect();
    let count = pool["queues"].as_array().unwrap().len();
    let queues = &queues[..count];
    let weights: Value = pool["weights"]
        .as_object()
        .unwrap()
        .values()
        .zip(queues)
        .map(|(weight, queue)| (queue.clone(), weight.clone()))
        .collect();
    let mut pool = pool;
    (pool["queues"], pool["weights"]) = (json!(queues), weights);
    let name = format!("p{case}");
    env.put_pool(&name, pool).await;
    let mut floors = Floors { ratio: parts(ratio), of: vec![Floor::default(); count] };
    for step in steps {
        match step {
            Step::Push { queue, jobs } => {
                let place = queue % count;
                env.push(&queues[place], *jobs).await;
                floors.of[place].jobs += jobs;
            }
            Step::Fetch { named, count } => {
                let is_named = |place: usize| *named == u8::MAX || named & 1 << place != 0;
                let asked: Vec<String> = queues
                    .iter()
                    .enumerate()
                    .filter(|(place, _)| is_named(*place))
                    .map(|(_, queue)| queue.clone())
                    .collect();
                if asked.is_empty() {
                    continue;
                }
                for record in env.fetch(Fetch { queues: asked, ..of_pool(&name, "", *count) }).await {
                    let served = queues.iter().position(|queue| *queue == record.queue).expect("a queue of the pool");
                    floors.dispatched(served, &is_named)?;
                }
            }
        }
    }
    Ok(())
}

#[test]
fn floors_hold_with_arrivals_and_fetches_of_some_queues() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let env = runtime.block_on(DispatchEnv::open(json!({})));
    let config =
        ProptestConfig { cases: 40, rng_seed: RngSeed::Fixed(5), failure_persistence: None, ..Default::default() };
    let strategies = prop_oneof![Just("strict"), Just("round-robin"), Just("weighted"), Just("least-loaded")];
    let case = (strategies, 2usize..=8, prop_oneof![1u32..=1000, Just(1000)], steps());
    let number = std::sync::atomic::AtomicUsize::new(0);
    let outcome = TestRunner::new(config).run(&case, |(strategy, queues, part, steps)| {
        let ratio = (f64::from(part) / 1000.0 / queues as f64 * 1e6).floor() / 1e6;
        let number = number.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let lived = runtime.block_on(live(&env, number, pool(strategy, queues, ratio), ratio, &steps));
        lived.map_err(TestCaseError::fail)
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
}
