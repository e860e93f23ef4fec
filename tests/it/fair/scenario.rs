//! How far tenants come from their shares in mixtures that were seen to break simpler rules.

use super::bench::Bench;
use super::{AHEAD, BEHIND};
use fairgate::fairness::Weight;

/// Numbers that look random and are the same in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }

    /// Even over the orders of magnitude from 0.05 to 1,000.
    fn weight(&mut self) -> Weight {
        Weight::of(10f64.powf(-1.3 + 4.3 * self.below(10_000) as f64 / 10_000.0)).unwrap()
    }
}

/// Tenants that always have jobs, others that come with a few, and changes of weight.
struct Scenario {
    steady: Vec<(String, Weight)>,
    /// New tenants a hundred picks, and their weight; random if there is none.
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
        let mut dice = Dice(1);
        let mut bench = Bench::default();
        for (name, weight) in &self.steady {
            bench.arrive(name, *weight, self.picks * 2);
        }
        for number in 0..self.picks {
            if dice.below(100) < self.churn {
                // A tenant's number decides its weight, so that it comes back with the one it had.
                let name = dice.below(4000);
                let weight = self.churn_weight.unwrap_or_else(|| Dice(name).weight());
                bench.arrive(&format!("c{name}"), weight, [1, 1, 1, 2, 5][dice.below(5) as usize]);
            }
            if self.reweigh_every.is_some_and(|every| number % every == 0) {
                let (name, _) = &self.steady[dice.below(self.steady.len() as u64) as usize];
                bench.reweigh(name, dice.weight());
            }
            bench.pick();
        }
        let Bench { ahead, behind, .. } = bench;
        assert!(ahead <= AHEAD && behind <= BEHIND, "{label}: {ahead} ahead, {behind} behind");
    }
}

fn skewed(light: usize) -> Vec<(String, Weight)> {
    let lights = (0..light).map(|number| (format!("light{number}"), Weight::ONE));
    lights.chain([("heavy".to_owned(), Weight::of(100.0).unwrap())]).collect()
}

fn mixed() -> Vec<(String, Weight)> {
    let mut dice = Dice(9);
    (0..60).map(|number| (format!("t{number}"), dice.weight())).collect()
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

/// No rule can do better: whoever is served loses its weight, so that those who wait share its part, and the last of n
/// is owed 1/n + 1/(n−1) + … before its turn comes. A bound on being behind needs weights that stay for a while.
#[test]
fn whoever_is_last_pays_for_changes_of_weight() {
    let mut bench = Bench::default();
    for number in 0..10 {
        bench.arrive(&format!("t{number}"), Weight::MOST, 100);
    }
    for _ in 0..9 {
        let served = bench.pick().unwrap();
        bench.reweigh(&served, Weight::LEAST);
    }
    let owed: f64 = (2..=10).map(|left| 1.0 / f64::from(left)).sum();
    assert!((bench.behind - owed).abs() < 0.01, "{} behind", bench.behind);
    assert!(bench.ahead <= AHEAD);
}

/// A clock that took leavers off a few a pick would be slow while they still count, and a heavy tenant would get no more
/// than a light one: 12 jobs behind with 100 of them.
#[test]
fn many_who_leave_at_once_do_not_slow_the_clock() {
    for burst in [4, 100, 400] {
        let mut bench = Bench::default();
        for (name, weight) in skewed(100) {
            bench.arrive(&name, weight, 1000);
        }
        for number in 0..burst {
            bench.arrive(&format!("burst{number}"), Weight::MOST, 1);
        }
        (0..burst + 300).for_each(|_| drop(bench.pick()));
        assert!(bench.ahead <= AHEAD && bench.behind <= BEHIND, "{burst}: {} behind", bench.behind);
    }
}
