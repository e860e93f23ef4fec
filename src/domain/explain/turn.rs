//! The number of jobs of other tenants that come before a job in fair order.
//!
//! A job is served in the order of deadlines: that of a tenant's nth job is `start + n/weight`. So
//! the jobs before it are those with an earlier deadline, as far as the tenants have jobs. The
//! estimate is exact up to about one job per tenant; jobs that arrive later, and tenants that run
//! out of jobs, are not foreseen.

use super::facts::{Turn, TurnRival};

/// Cost of one job in virtual time at a weight of one thousandth.
const JOB: f64 = 1000.0;

/// Weights of a tenant of which one can be assumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AssumedWeight {
    /// The weight under which the tenant takes its turns.
    Present,
    /// The weight that it would have without its throttle.
    WithoutThrottle,
}

/// Estimates the number of jobs of other tenants before the job that is preceded by `of_tenant`
/// jobs of its own tenant. `None` if the tenant takes no turns.
pub(super) fn others_before(turn: &Turn, of_tenant: u64, weight: AssumedWeight) -> Option<u64> {
    let start = turn.start?;
    let present = f64::from(turn.weight.filter(|weight| *weight > 0)?);
    let assumed = match weight {
        AssumedWeight::Present => present,
        AssumedWeight::WithoutThrottle => turn.full.map_or(present, f64::from),
    };
    // A change of weight keeps the tenant's lag.
    let start = turn.clock - (turn.clock - start) * present / assumed;
    let deadline = start + (of_tenant + 1) as f64 * JOB / assumed;
    let known: f64 = turn.rivals.iter().map(|rival| before(rival, deadline)).sum();
    let read: u64 = turn.rivals.iter().map(|rival| u64::from(rival.weight)).sum();
    // Tenants that were not read are assumed to have enough jobs.
    let is_whole = turn.rivals.len() as u64 + 1 >= turn.waiting;
    let rest = if is_whole { 0 } else { turn.total.saturating_sub(read + present as u64) };
    let unread = (deadline - turn.clock).max(0.0) * rest as f64 / JOB;
    Some((known + unread).round() as u64)
}

/// Returns the number of jobs of a tenant with a deadline before `deadline`. A tie counts half,
/// because names decide it.
fn before(rival: &TurnRival, deadline: f64) -> f64 {
    let jobs = (deadline - rival.start) * f64::from(rival.weight) / JOB;
    let nearest = jobs.round();
    let earlier = if (jobs - nearest).abs() < 1e-6 { nearest - 0.5 } else { jobs.floor() };
    earlier.clamp(0.0, rival.jobs as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::fairness::FairQueue;
    use crate::domain::tenant::Weight;

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
    fn the_estimate_is_close_to_the_order_of_promotions() {
        for served in [0, 7, 40] {
            let mut queue = FairQueue::new();
            for (name, weight, jobs) in [("a", 1.0, 300), ("b", 3.0, 200), ("c", 0.5, 100), ("d", 1.0, 12)] {
                queue.arrive(name, Weight::of(weight).expect("a weight"), jobs);
            }
            (0..served).for_each(|_| _ = queue.pick());
            for (name, of_tenant) in [("a", 0), ("a", 30), ("b", 90), ("c", 5), ("c", 20)] {
                let estimate = others_before(&turn(&queue, name), of_tenant, AssumedWeight::Present).expect("a turn");
                let actual = counted(queue.clone(), name, of_tenant);
                assert!(estimate.abs_diff(actual) <= 3, "{name} {of_tenant}: {estimate} instead of {actual}");
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
    }

    #[test]
    fn a_throttle_costs_turns() {
        let rivals = vec![TurnRival { start: 0.0, weight: 1000, jobs: 100 }];
        let mut turn =
            Turn { total: 1100, waiting: 2, weight: Some(100), full: Some(1000), start: Some(0.0), rivals, ..Turn::default() };
        assert_eq!(others_before(&turn, 0, AssumedWeight::Present), Some(10));
        assert_eq!(others_before(&turn, 0, AssumedWeight::WithoutThrottle), Some(1));
        turn.start = None;
        assert_eq!(others_before(&turn, 0, AssumedWeight::Present), None, "a tenant without turns");
    }
}
