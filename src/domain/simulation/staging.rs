//! Simulated staging: the jobs of each tenant, and the fair queue that picks the next tenant.

use super::main_queue::Waiting;
use crate::domain::fairness::FairQueue;
use crate::domain::tenant::Weight;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// Staged jobs.
#[derive(Clone, Debug)]
pub(super) struct Staging {
    fair: FairQueue,
    lanes: Vec<Lane>,
    numbers: HashMap<Arc<str>, u32>,
    jobs: u64,
}

#[derive(Clone, Debug)]
struct Lane {
    name: Arc<str>,
    weight: Weight,
    /// Attempts in the order of their arrival: number of the attempt, time, number of jobs.
    jobs: VecDeque<Staged>,
}

/// Alike attempts of a tenant that arrived at the same moment.
#[derive(Clone, Copy, Debug)]
struct Staged {
    attempt: u8,
    since_us: u64,
    jobs: u64,
}

impl Staging {
    /// Creates empty staging for these tenants, whose numbers are their places.
    pub(super) fn new(tenants: impl Iterator<Item = (Arc<str>, Weight)>) -> Staging {
        let lanes: Vec<Lane> = tenants.map(|(name, weight)| Lane { name, weight, jobs: VecDeque::new() }).collect();
        let numbers = lanes.iter().zip(0..).map(|(lane, number)| (Arc::clone(&lane.name), number)).collect();
        Staging { fair: FairQueue::new(), lanes, numbers, jobs: 0 }
    }

    /// Stages attempts of a tenant's jobs.
    pub(super) fn push(&mut self, tenant: u32, attempt: u8, since_us: u64, jobs: u64) {
        let lane = &mut self.lanes[tenant as usize];
        self.fair.arrive(&lane.name, lane.weight, jobs);
        self.jobs += jobs;
        match lane.jobs.back_mut() {
            Some(last) if (last.attempt, last.since_us) == (attempt, since_us) => last.jobs += jobs,
            _ => lane.jobs.push_back(Staged { attempt, since_us, jobs }),
        }
    }

    /// Changes the weight of a tenant.
    pub(super) fn reweigh(&mut self, tenant: u32, weight: Weight) {
        let lane = &mut self.lanes[tenant as usize];
        if lane.weight != weight {
            lane.weight = weight;
            self.fair.reweigh(&lane.name, weight);
        }
    }

    /// Takes the next job in fair order.
    pub(super) fn pick(&mut self, now_us: u64) -> Option<Waiting> {
        let tenant = *self.numbers.get(&self.fair.pick()?)?;
        let lane = &mut self.lanes[tenant as usize];
        let first = lane.jobs.front_mut()?;
        let waiting = Waiting { tenant, attempt: first.attempt, since_us: first.since_us, runnable_us: now_us };
        first.jobs -= 1;
        if first.jobs == 0 {
            lane.jobs.pop_front();
        }
        self.jobs -= 1;
        Some(waiting)
    }

    /// Returns the number of jobs, including those of held tenants.
    pub(super) fn jobs(&self) -> u64 {
        self.jobs
    }

    /// Returns true if a tenant waits that is not held.
    pub(super) fn is_waiting(&self) -> bool {
        self.waiting() > 0
    }

    /// Returns the number of tenants that wait and are not held.
    pub(super) fn waiting(&self) -> usize {
        self.fair.waiting()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tenants_take_turns_and_their_jobs_keep_their_order() {
        let weights = [("a", 1.0), ("b", 2.0), ("held", 0.0)];
        let tenants = weights.map(|(name, weight)| (Arc::from(name), Weight::of(weight).expect("a weight")));
        let mut staging = Staging::new(tenants.into_iter());
        staging.push(0, 1, 10, 2);
        staging.push(1, 1, 11, 3);
        staging.push(1, 2, 12, 1);
        staging.push(2, 1, 13, 1);
        assert_eq!(staging.jobs(), 7);
        let picked: Vec<(u32, u8, u64)> = std::iter::from_fn(|| staging.pick(99))
            .map(|waiting| (waiting.tenant, waiting.attempt, waiting.since_us))
            .collect();
        assert_eq!(picked, [(1, 1, 11), (0, 1, 10), (1, 1, 11), (1, 1, 11), (0, 1, 10), (1, 2, 12)]);
        assert_eq!((staging.jobs(), staging.is_waiting()), (1, false), "the held tenant's job is left");
    }
}
