//! The number of jobs of other tenants that come before a job in fair order.
//!
//! If all tenants were read, the order is simulated, with the same arithmetic as in promotions. That
//! is exact but for ties, which names decide, until further jobs arrive. Otherwise the number is
//! estimated: the nth job of a tenant is served between `start + (n-1)/weight` and `start +
//! n/weight`, so about those jobs come before it that are due before the middle.

use super::facts::Turn;
use crate::domain::fairness::{FairQueue, TenantTime};
use crate::domain::tenant::Weight;

/// Cost of one job in virtual time at a weight of one thousandth.
const JOB: f64 = 1000.0;
/// Most jobs that are simulated.
const MOST_SIMULATED: u64 = 4096;
/// The name of the job's tenant in a simulation. Others have numbers.
const OWN: &str = "own";

/// Weights of a tenant of which one can be assumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AssumedWeight {
    /// The weight under which the tenant takes its turns.
    Present,
    /// The weight that it would have without its throttle.
    WithoutThrottle,
}

/// The turn of a tenant under an assumed weight.
struct Assumed<'a> {
    turn: &'a Turn,
    start: f64,
    weight: u32,
    /// Sum of the weights of all waiting tenants.
    total: u64,
}

/// Estimates the number of jobs of other tenants before the job that is preceded by `of_tenant`
/// jobs of its own tenant. `None` if the tenant takes no turns.
pub(super) fn others_before(turn: &Turn, of_tenant: u64, weight: AssumedWeight) -> Option<u64> {
    let start = turn.start?;
    let present = turn.weight.filter(|weight| *weight > 0)?;
    let weight = match weight {
        AssumedWeight::Present => present,
        AssumedWeight::WithoutThrottle => turn.full.unwrap_or(present).max(present),
    };
    // A change of weight keeps the tenant's lag.
    let start = turn.clock - (turn.clock - start) * f64::from(present) / f64::from(weight);
    let total = turn.total + u64::from(weight - present);
    let assumed = Assumed { turn, start, weight, total };
    let estimate = assumed.estimate(of_tenant);
    let is_whole = turn.rivals.len() as u64 + 1 >= turn.waiting;
    let is_short = estimate + of_tenant <= MOST_SIMULATED;
    Some(if is_whole && is_short { assumed.simulate(of_tenant).unwrap_or(estimate) } else { estimate })
}

impl Assumed<'_> {
    fn estimate(&self, of_tenant: u64) -> u64 {
        let due = self.start + (of_tenant as f64 + 0.5) * JOB / f64::from(self.weight);
        let jobs = |start: f64, weight: u64| ((due - start) * weight as f64 / JOB).max(0.0);
        let rivals = &self.turn.rivals;
        let known: f64 = rivals.iter().map(|rival| jobs(rival.start, rival.weight.into()).min(rival.jobs as f64)).sum();
        let read: u64 = rivals.iter().map(|rival| u64::from(rival.weight)).sum();
        // Tenants that were not read are assumed to have enough jobs.
        let is_whole = rivals.len() as u64 + 1 >= self.turn.waiting;
        let rest = if is_whole { 0 } else { self.total.saturating_sub(read + u64::from(self.weight)) };
        (known + jobs(self.turn.clock, rest)).round() as u64
    }

    fn simulate(&self, of_tenant: u64) -> Option<u64> {
        let tenant = |start: f64, weight: u32, jobs: u64| {
            let weight = Weight::from_thousandths(weight);
            TenantTime { start, weight, share: weight, jobs }
        };
        let rivals = self.turn.rivals.iter().enumerate();
        let rivals = rivals.map(|(number, rival)| (number.to_string(), tenant(rival.start, rival.weight, rival.jobs)));
        let own = (OWN.to_owned(), tenant(self.start, self.weight, of_tenant + 1));
        let mut queue = FairQueue::restore(self.turn.clock, self.total, rivals.chain([own]));
        let (mut own, mut others) = (0, 0);
        while others <= 2 * MOST_SIMULATED {
            match &*queue.pick()? {
                OWN if own == of_tenant => return Some(others),
                OWN => own += 1,
                _ => others += 1,
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::explain::TurnRival;

    fn turn(queue: &FairQueue, name: &str) -> Turn {
        let own = queue.tenant(name).expect("a tenant");
        let others = queue.tenants().filter(|(other, tenant)| &***other != name && tenant.jobs > 0);
        let rivals: Vec<TurnRival> = others
            .map(|(_, other)| TurnRival { start: other.start, weight: other.weight.thousandths(), jobs: other.jobs })
            .collect();
        Turn {
            clock: queue.clock(),
            total: queue.total(),
            waiting: queue.waiting() as u64,
            state: Some('w'),
            weight: Some(own.weight.thousandths()),
            full: None,
            start: Some(own.start),
            rivals,
        }
    }

    /// The number of picks of other tenants before the nth of a tenant.
    fn counted(mut queue: FairQueue, name: &str, of_tenant: u64) -> u64 {
        let (mut own, mut others) = (0, 0);
        loop {
            match queue.pick().expect("enough jobs") {
                picked if *picked == *name && own == of_tenant => return others,
                picked if *picked == *name => own += 1,
                _ => others += 1,
            }
        }
    }

    #[test]
    fn the_order_of_promotions_is_foreseen() {
        for served in [0, 7, 40] {
            let mut queue = FairQueue::new();
            for (name, weight, jobs) in [("a", 1.0, 300), ("b", 3.0, 200), ("c", 0.5, 100), ("d", 1.0, 12)] {
                queue.arrive(name, Weight::of(weight).expect("a weight"), jobs);
            }
            (0..served).for_each(|_| _ = queue.pick());
            for (name, of_tenant) in [("a", 0), ("a", 30), ("b", 90), ("c", 5), ("c", 20)] {
                let turn = turn(&queue, name);
                let actual = counted(queue.clone(), name, of_tenant);
                let simulated = others_before(&turn, of_tenant, AssumedWeight::Present).expect("a turn");
                assert!(simulated.abs_diff(actual) <= 2, "{name} {of_tenant}: {simulated} instead of {actual}");
                let (start, weight) = (turn.start.expect("a start"), turn.weight.expect("a weight"));
                let estimate = Assumed { turn: &turn, start, weight, total: turn.total }.estimate(of_tenant);
                assert!(estimate.abs_diff(actual) <= 4, "{name} {of_tenant}: {estimate} instead of {actual}");
            }
        }
    }

    #[test]
    fn tenants_that_were_not_read_count_by_their_weight() {
        let rival = TurnRival { start: 0.0, weight: 1000, jobs: 100 };
        let turn = Turn {
            total: 10_000,
            waiting: 10,
            state: Some('w'),
            weight: Some(1000),
            start: Some(0.0),
            rivals: vec![rival],
            ..Turn::default()
        };
        // Ten tenants of weight 1: before the 11th job of one, about ten of each other.
        let before = others_before(&turn, 10, AssumedWeight::Present).expect("a turn");
        assert!((90..=99).contains(&before), "{before}");
        let many = others_before(&turn, 1_000_000, AssumedWeight::Present).expect("a turn");
        assert!((8_000_000..=9_000_100).contains(&many), "it is not simulated: {many}");
    }

    #[test]
    fn a_throttle_costs_turns() {
        let rivals = vec![TurnRival { start: 0.0, weight: 1000, jobs: 100 }];
        let mut turn = Turn {
            total: 1100,
            waiting: 2,
            weight: Some(100),
            full: Some(1000),
            start: Some(0.0),
            rivals,
            ..Turn::default()
        };
        let before = |turn: &Turn, weight| others_before(turn, 1, weight).expect("a turn");
        assert!(before(&turn, AssumedWeight::Present) > before(&turn, AssumedWeight::WithoutThrottle));
        assert!(before(&turn, AssumedWeight::WithoutThrottle) <= 2);
        turn.start = None;
        assert_eq!(others_before(&turn, 0, AssumedWeight::Present), None, "a tenant without turns");
    }
}
