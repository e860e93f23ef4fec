//! Guarantees for any mixture of weights, arrivals, drains, holds and removals.

use super::model::Model;
use super::{AHEAD, BEHIND};
use fairgate::domain::tenant::Weight;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

const TENANTS: usize = 24;

#[derive(Clone, Debug)]
enum Step {
    Arrive(usize, u64),
    Pick(usize),
    Hold(usize),
    Release(usize),
    Remove(usize, u64),
    Reweigh(usize, Weight),
    Reload,
}

fn weight() -> impl Strategy<Value = Weight> {
    prop_oneof![
        2 => Just(Weight::ONE),
        // Evenly distributed over the orders of magnitude.
        3 => (-1.302f64..3.0).prop_map(|power| Weight::of(10f64.powf(power)).unwrap()),
        1 => Just(Weight::LEAST),
        1 => Just(Weight::MOST),
    ]
}

fn step() -> BoxedStrategy<Step> {
    let tenant = 0..TENANTS;
    prop_oneof![
        6 => (tenant.clone(), 1u64..6).prop_map(|(tenant, jobs)| Step::Arrive(tenant, jobs)),
        2 => (tenant.clone(), 40u64..60).prop_map(|(tenant, jobs)| Step::Arrive(tenant, jobs)),
        12 => (1usize..5).prop_map(Step::Pick),
        2 => tenant.clone().prop_map(Step::Hold),
        2 => tenant.clone().prop_map(Step::Release),
        2 => (tenant, 1u64..80).prop_map(|(tenant, jobs)| Step::Remove(tenant, jobs)),
        1 => Just(Step::Reload),
    ]
    .boxed()
}

fn reweigh() -> BoxedStrategy<Step> {
    prop_oneof![12 => step(), 1 => (0..TENANTS, weight()).prop_map(|(tenant, weight)| Step::Reweigh(tenant, weight))]
        .boxed()
}

/// Runs the steps, then drains the queue.
fn run(weights: &mut [Weight], steps: &[Step]) -> Model {
    let mut model = Model::default();
    let name = |tenant: usize| format!("t{tenant}");
    for step in steps {
        match *step {
            Step::Arrive(tenant, jobs) => model.arrive(&name(tenant), weights[tenant], jobs),
            Step::Pick(times) => (0..times).for_each(|_| drop(model.pick())),
            Step::Hold(tenant) => model.reweigh(&name(tenant), Weight::HELD),
            Step::Release(tenant) => model.reweigh(&name(tenant), weights[tenant]),
            Step::Remove(tenant, jobs) => model.remove(&name(tenant), jobs),
            Step::Reweigh(tenant, weight) => {
                weights[tenant] = weight;
                model.reweigh(&name(tenant), weight);
            }
            Step::Reload => model.reload(),
        }
    }
    model.drain();
    model
}

/// A fixed seed makes runs reproducible.
fn config() -> ProptestConfig {
    ProptestConfig { cases: 256, rng_seed: RngSeed::Fixed(7), failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn no_tenant_is_far_from_its_share_while_weights_stay(
        mut weights in prop::collection::vec(weight(), TENANTS),
        steps in prop::collection::vec(step(), 1..250),
    ) {
        let model = run(&mut weights, &steps);
        prop_assert!(model.ahead <= AHEAD && model.behind <= BEHIND, "{} ahead, {} behind", model.ahead, model.behind);
    }

    /// The deficit has no such bound for any algorithm: see `the_last_tenant_pays_for_changes_of_weight`.
    #[test]
    fn no_tenant_is_ahead_when_weights_change(
        mut weights in prop::collection::vec(weight(), TENANTS),
        steps in prop::collection::vec(reweigh(), 1..250),
    ) {
        let model = run(&mut weights, &steps);
        prop_assert!(model.ahead <= AHEAD && model.behind <= 2.0, "{} ahead, {} behind", model.ahead, model.behind);
    }

    /// A round of 100 equals 100 rounds of one: there is no state besides the one between two picks.
    #[test]
    fn the_size_of_a_batch_changes_no_order(
        tenants in prop::collection::vec((weight(), 1u64..30), 1..TENANTS),
        size in 1usize..20,
    ) {
        let mut models = [Model::default(), Model::default()];
        for model in &mut models {
            for (number, (weight, jobs)) in tenants.iter().enumerate() {
                model.arrive(&format!("t{number}"), *weight, *jobs);
            }
        }
        let [whole, split] = &mut models;
        for number in 0.. {
            if number % size == 0 {
                split.reload();
            }
            let next = whole.pick();
            prop_assert_eq!(&next, &split.pick());
            if next.is_none() {
                break;
            }
        }
    }
}
