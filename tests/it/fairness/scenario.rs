//! The deviation from fair shares in scenarios that break simpler algorithms.

use super::model::Model;
use super::{AHEAD, BEHIND};
use crate::support::Random;
use fairgate::domain::tenant::Weight;

/// Tenants that always have jobs, short-lived tenants with a few, and changes of weight.
struct Scenario {
    steady: Vec<(String, Weight)>,
    /// New tenants per hundred picks, and their weight; `None` for random weights.
    churn: u64,
    churn_weight: Option<Weight>,
    reweigh_every: Option<u64>,
    picks: u64,
}

impl Scenario {
    fn new(steady: Vec<(String, Weight)>) -> Scenario {
        Scenario { steady, churn: 0, churn_weight: None, reweigh_every: None, picks: 1500 }
    }

    fn churn(self, churn: u64, churn_weight: Option<Weight>) -> Scenario {
        Scenario { churn, churn_weight, ..self }
    }

    fn reweigh_every(self, picks: u64) -> Scenario {
        Scenario { reweigh_every: Some(picks), ..self }
    }

    #[track_caller]
    fn check(self, label: &str) {
        let mut random = Random(1);
        let mut model = Model::default();
        for (name, weight) in &self.steady {
            model.arrive(name, *weight, self.picks * 2);
        }
        for number in 0..self.picks {
            if (random.below(100) as u64) < self.churn {
                // A tenant's number determines its weight, so that it returns with the same one.
                let name = random.below(4000) as u64;
                let weight = self.churn_weight.unwrap_or_else(|| Random(name).weight());
                model.arrive(&format!("c{name}"), weight, [1, 1, 1, 2, 5][random.below(5)]);
            }
            if self.reweigh_every.is_some_and(|every| number % every == 0) {
                let (name, _) = &self.steady[random.below(self.steady.len())];
                model.reweigh(name, random.weight());
            }
            model.pick();
        }
        let Model { ahead, behind, .. } = model;
        assert!(ahead <= AHEAD && behind <= BEHIND, "{label}: {ahead} ahead, {behind} behind");
    }
}

fn skewed(light: usize) -> Vec<(String, Weight)> {
    let lights = (0..light).map(|number| (format!("light{number}"), Weight::ONE));
    lights.chain([("heavy".to_owned(), Weight::of(100.0).unwrap())]).collect()
}

fn mixed() -> Vec<(String, Weight)> {
    let mut random = Random(9);
    (0..60).map(|number| (format!("t{number}"), random.weight())).collect()
}

#[test]
fn skewed_weights() {
    let heavy = Weight::of(100.0);
    Scenario::new(skewed(30)).check("skewed, constant");
    Scenario::new(skewed(100)).check("100:1:…:1");
    Scenario::new(skewed(100)).churn(30, Some(Weight::ONE)).check("100:1:…:1, light tenants come and go");
    Scenario::new(skewed(100)).churn(30, heavy).check("100:1:…:1, heavy tenants come and go");
    Scenario::new(skewed(30)).churn(15, Some(Weight::ONE)).check("skewed, light tenants come and go");
    Scenario::new(skewed(30)).churn(40, heavy).check("skewed, heavy tenants come and go");
    Scenario::new(skewed(30)).churn(20, None).check("skewed, random tenants come and go");
}

#[test]
fn mixed_weights() {
    Scenario::new(mixed()).churn(30, None).check("mixed, tenants come and go");
    Scenario::new(mixed()).reweigh_every(20).check("mixed, weights change");
    Scenario::new(mixed()).churn(30, None).reweigh_every(20).check("mixed, both");
}

/// No algorithm can do better: a served tenant loses its weight, those who wait share its part, and the last of n is
/// owed 1/n + 1/(n−1) + … before its turn. A bound for being behind requires weights that stay for a while.
#[test]
fn the_last_tenant_pays_for_changes_of_weight() {
    let mut model = Model::default();
    for number in 0..10 {
        model.arrive(&format!("t{number}"), Weight::MOST, 100);
    }
    for _ in 0..9 {
        let served = model.pick().unwrap();
        model.reweigh(&served, Weight::LEAST);
    }
    let owed: f64 = (2..=10).map(|left| 1.0 / f64::from(left)).sum();
    assert!((model.behind - owed).abs() < 0.01, "{} behind", model.behind);
    assert!(model.ahead <= AHEAD);
}

/// If departed tenants were removed only a few per pick, the clock would be slow while they still count, and a heavy
/// tenant would get no more than a light one: 12 jobs behind with 100 of them.
#[test]
fn mass_departures_do_not_slow_the_clock() {
    for burst in [4, 100, 400] {
        let mut model = Model::default();
        for (name, weight) in skewed(100) {
            model.arrive(&name, weight, 1000);
        }
        for number in 0..burst {
            model.arrive(&format!("burst{number}"), Weight::MOST, 1);
        }
        (0..burst + 300).for_each(|_| drop(model.pick()));
        assert!(model.ahead <= AHEAD && model.behind <= BEHIND, "{burst}: {} behind", model.behind);
    }
}
