//! The scripts and the Rust model take the same decisions under random changes of tenants.

use super::stored::{FairQueueEnv, StoredQueue};
use crate::support::TestRedis;
use fairgate::domain::tenant::Weight;
use proptest::prelude::*;
use proptest::test_runner::{RngSeed, TestRunner};
use std::ops::Range;

/// Weights distributed evenly over the orders of magnitude from 0.05 to 1,000.
const SPREAD: Range<usize> = 0..20;
/// Weight 1: ties, and a class with more tenants than one read returns.
const EQUAL: Range<usize> = 20..180;
/// Adjacent weights: departure times that lie closer together than one pick advances.
const NEAR: Range<usize> = 180..280;
/// Held from the start.
const HELD: Range<usize> = 280..290;

fn weight_of(tenant: usize) -> Weight {
    if SPREAD.contains(&tenant) {
        Weight::of(0.05 * 20_000f64.powf(tenant as f64 / 19.0)).unwrap()
    } else if NEAR.contains(&tenant) {
        Weight::from_thousandths(1_000_000 - (tenant - NEAR.start) as u32)
    } else if HELD.contains(&tenant) {
        Weight::HELD
    } else {
        Weight::ONE
    }
}

fn name(tenant: usize) -> String {
    format!("t{tenant}")
}

#[derive(Clone, Debug)]
enum Step {
    Arrive(usize, u64),
    /// Many tenants, with one job each.
    Crowd(Range<usize>),
    Promote(u64),
    Reweigh(Vec<(usize, Weight)>),
    Hold(usize),
    Release(usize),
    Cancel(usize, usize),
    Activate(usize, usize),
}

fn tenant() -> BoxedStrategy<usize> {
    // Few enough tenants to repeat.
    prop_oneof![6 => SPREAD, 2 => EQUAL.start..EQUAL.start + 10, 2 => NEAR.start..NEAR.start + 10, 1 => HELD].boxed()
}

fn weight() -> BoxedStrategy<Weight> {
    prop_oneof![
        2 => Just(Weight::ONE),
        1 => Just(Weight::HELD),
        3 => (-1.302f64..3.0).prop_map(|power| Weight::of(10f64.powf(power)).unwrap()),
        1 => Just(Weight::LEAST),
        1 => Just(Weight::MOST),
    ]
    .boxed()
}

fn part(of: Range<usize>) -> impl Strategy<Value = Step> {
    (of.clone(), 1usize..150).prop_map(move |(from, count)| Step::Crowd(from..of.end.min(from + count)))
}

fn step() -> BoxedStrategy<Step> {
    prop_oneof![
        10 => (tenant(), 1u64..8).prop_map(|(tenant, jobs)| Step::Arrive(tenant, jobs)),
        2 => (tenant(), 30u64..90).prop_map(|(tenant, jobs)| Step::Arrive(tenant, jobs)),
        1 => part(EQUAL),
        1 => part(NEAR),
        1 => part(SPREAD),
        12 => (1u64..=60).prop_map(Step::Promote),
        4 => (1u64..=3).prop_map(Step::Promote),
        3 => prop::collection::vec((tenant(), weight()), 1..5).prop_map(Step::Reweigh),
        2 => tenant().prop_map(Step::Hold),
        2 => tenant().prop_map(Step::Release),
        3 => (tenant(), 0usize..90).prop_map(|(tenant, place)| Step::Cancel(tenant, place)),
        2 => (tenant(), 0usize..90).prop_map(|(tenant, place)| Step::Activate(tenant, place)),
    ]
    .boxed()
}

async fn take(stored: &mut StoredQueue<'_>, step: &Step) {
    match step {
        Step::Arrive(tenant, jobs) => stored.arrive(&[(&name(*tenant), *jobs)]).await,
        Step::Crowd(tenants) => {
            let names: Vec<String> = tenants.clone().map(name).collect();
            stored.arrive(&names.iter().map(|name| (name.as_str(), 1)).collect::<Vec<_>>()).await;
        }
        Step::Promote(jobs) => drop(stored.promote(*jobs).await),
        Step::Reweigh(weights) => {
            let names: Vec<_> = weights.iter().map(|(tenant, weight)| (name(*tenant), *weight)).collect();
            stored.reweigh(&names.iter().map(|(name, weight)| (name.as_str(), *weight)).collect::<Vec<_>>()).await;
        }
        Step::Hold(tenant) => stored.reweigh(&[(&name(*tenant), Weight::HELD)]).await,
        Step::Release(tenant) => {
            let weight = if HELD.contains(tenant) { Weight::ONE } else { weight_of(*tenant) };
            stored.reweigh(&[(&name(*tenant), weight)]).await;
        }
        Step::Cancel(tenant, place) => stored.cancel(&name(*tenant), *place).await,
        Step::Activate(tenant, place) => stored.activate(&name(*tenant), *place).await,
    }
}

/// Runs the steps, then promotes everything.
async fn run(env: &FairQueueEnv, steps: &[Step]) {
    let mut stored = env.queue().await;
    for step in steps {
        take(&mut stored, step).await;
    }
    stored.drain().await;
    let held: Vec<String> = stored.model.queue.tenants().map(|(name, _)| name.to_string()).collect();
    stored.reweigh(&held.iter().map(|name| (name.as_str(), Weight::ONE)).collect::<Vec<_>>()).await;
    stored.drain().await;
    assert_eq!((stored.staged(), stored.keys().await), (0, Vec::<String>::new()), "nothing is left behind");
}

fn check(steps: impl Strategy<Value = Vec<Step>>, cases: u32) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let tenants = (0..HELD.end).map(|tenant| (name(tenant), weight_of(tenant)));
    let env = runtime.block_on(FairQueueEnv::open(tenants));
    // A fixed seed makes runs reproducible.
    let config =
        ProptestConfig { cases, rng_seed: RngSeed::Fixed(11), failure_persistence: None, ..Default::default() };
    let outcome = TestRunner::new(config).run(&steps, |steps| {
        runtime.block_on(run(&env, &steps));
        Ok(())
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn scripts_pick_like_the_model() {
    check(prop::collection::vec(step(), 1..60), 40);
}

/// More tenants leave at once than one pick removes, at more departure times than one read returns.
#[test]
fn scripts_and_model_agree_about_mass_departures() {
    let steps = prop::collection::vec(prop_oneof![3 => part(NEAR), 1 => part(EQUAL), 8 => step()], 1..40);
    check(
        steps.prop_map(|steps| [vec![Step::Arrive(0, 40), Step::Crowd(NEAR), Step::Promote(60)], steps].concat()),
        12,
    );
}

/// Departed tenants that are not removed yet because a pick removes a bounded number, and later events for them.
#[tokio::test]
async fn scripts_and_model_agree_about_due_departures() {
    let tenants = (0..HELD.end).map(|tenant| (name(tenant), weight_of(tenant)));
    let env = FairQueueEnv::open(tenants).await;
    let mut stored = env.queue().await;
    let light = name(SPREAD.start);
    stored.arrive(&[(&light, 40)]).await;
    // Two tenants with small weights, which leave last: one that will be held, and one that is held.
    let (returns, stays) = (name(HELD.start), name(HELD.start + 1));
    stored.arrive(&[(&returns, 1), (&stays, 3), ("z", 1)]).await;
    stored.reweigh(&[("z", Weight::MOST)]).await;
    stored.reweigh(&[(&returns, Weight::from_thousandths(999_930)), (&stays, Weight::from_thousandths(999_931))]).await;
    let crowd: Vec<String> = NEAR.map(name).collect();
    stored.arrive(&crowd.iter().map(|name| (name.as_str(), 1)).collect::<Vec<_>>()).await;
    let is_due = |stored: &StoredQueue<'_>, name: &str| {
        let queue = &stored.model.queue;
        queue.tenant(name).is_some_and(|tenant| tenant.is_leaving() && tenant.start < queue.clock())
    };
    let mut served = 0;
    while !is_due(&stored, &returns) || !is_due(&stored, &stays) {
        served += stored.promote(1).await.len();
        assert!(served < 110, "no tenant is due");
        if stored.model.queue.tenant(&stays).is_some_and(|tenant| tenant.jobs == 2 && !tenant.weight.is_held()) {
            stored.reweigh(&[(&stays, Weight::HELD)]).await;
        }
    }
    stored.arrive(&[(&returns, 1)]).await;
    stored.arrive(&[(&stays, 1)]).await;
    stored.cancel(&stays, 0).await;
    stored.promote(1).await;
    stored.reweigh(&[(&returns, Weight::ONE), (&stays, Weight::ONE)]).await;
    stored.drain().await;
    assert_eq!((stored.staged(), stored.keys().await), (0, Vec::<String>::new()));
}

/// Every weight has the same class on both sides; another class would mean another order.
#[tokio::test]
async fn scripts_and_model_agree_about_classes() {
    let source = include_str!("../../../src/store/lua/fairness/fair_queue.lua");
    let (before, after) = ("  class = memoize(1024, ", "\n  end),");
    let start = source.find(before).unwrap() + before.len();
    let function = &source[start..start + source[start..].find(after).unwrap()];
    let script = format!(
        "local LOG2 = math.log(2)
        local class_of = {function}
        end
        local last, changes = -1, {{}}
        for weight = ARGV[1] + 0, ARGV[2] + 0 do
          local class = class_of(weight)
          if class ~= last then changes[#changes + 1] = weight .. ' ' .. class end
          last = class
        end
        return changes"
    );
    let redis = TestRedis::start();
    let weights: Vec<u32> = (Weight::LEAST.thousandths()..=Weight::MOST.thousandths()).collect();
    // In portions that Redis handles quickly.
    for portion in weights.chunks(25_000) {
        let (first, last) = (portion[0].to_string(), portion[portion.len() - 1].to_string());
        let reported: Vec<String> = redis.command(&["EVAL", &script, "0", &first, &last]).await;
        let class = |weight: &u32| Weight::from_thousandths(*weight).class();
        let runs = portion.chunk_by(|one, next| class(one) == class(next));
        let changes: Vec<String> = runs.map(|run| format!("{} {}", run[0], class(&run[0]))).collect();
        assert_eq!(reported, changes);
    }
}
