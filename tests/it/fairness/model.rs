//! The fair queue together with its fluid reference, and the invariants after every step.

use super::fluid::Fluid;
use fairgate::domain::fairness::{FairQueue, TenantTime};
use fairgate::domain::tenant::Weight;
use std::collections::HashMap;

/// A fair queue and its fluid reference, which get the same input.
#[derive(Default)]
pub struct Model {
    pub queue: FairQueue,
    /// The largest lead of any tenant over its fluid share, in jobs.
    pub ahead: f64,
    pub behind: f64,
    fluid: Fluid,
    picks: u64,
    /// Jobs that arrived and were neither picked nor removed.
    jobs: HashMap<String, u64>,
    waits: HashMap<String, Wait>,
}

/// A tenant's wait for its first job.
struct Wait {
    since: u64,
    weight: Weight,
    largest_total: u64,
}

impl Model {
    pub fn arrive(&mut self, name: &str, weight: Weight, jobs: u64) {
        let known = self.queue.tenant(name).copied();
        if known.is_none() && !weight.is_held() {
            self.waits.insert(name.to_owned(), Wait { since: self.picks, weight, largest_total: 0 });
        }
        let clock = self.queue.clock();
        self.queue.arrive(name, weight, jobs);
        self.fluid.arrive(name, weight, jobs);
        *self.jobs.entry(name.to_owned()).or_default() += jobs;
        if known.is_none_or(|tenant| tenant.jobs == 0 && tenant.weight == weight) {
            assert!(self.queue.tenant(name).unwrap().start >= clock, "{name} has credit for the time it was idle");
        }
        self.check();
    }

    pub fn reweigh(&mut self, name: &str, weight: Weight) {
        self.queue.reweigh(name, weight);
        if self.jobs.get(name).is_some_and(|jobs| *jobs > 0) {
            self.fluid.reweigh(name, weight);
        }
        self.waits.remove(name);
        self.check();
    }

    pub fn remove(&mut self, name: &str, jobs: u64) {
        self.queue.remove(name, jobs);
        self.fluid.remove(name, jobs);
        self.jobs.entry(name.to_owned()).and_modify(|left| *left = left.saturating_sub(jobs));
        self.waits.remove(name);
        self.check();
    }

    /// Picks a tenant and checks all guarantees.
    pub fn pick(&mut self) -> Option<String> {
        let total = self.queue.total();
        self.waits.values_mut().for_each(|wait| wait.largest_total = wait.largest_total.max(total));
        let Some(name) = self.queue.pick() else {
            assert_eq!(self.queue.waiting(), 0);
            return None;
        };
        self.picks += 1;
        self.fluid.pick(&name);
        let left = self.jobs.get_mut(&*name).expect("a tenant with jobs");
        *left = left.checked_sub(1).expect("no job goes twice");
        if let Some(wait) = self.waits.remove(&*name) {
            let bound = wait.largest_total.div_ceil(u64::from(wait.weight.thousandths())) + 1;
            let waited = self.picks - wait.since;
            assert!(waited <= bound, "the first job of {name} waited for {waited} picks, more than {bound}");
        }
        self.check();
        Some(name.to_string())
    }

    /// Picks until no tenant waits; the remaining jobs must be held.
    pub fn drain(&mut self) {
        while self.pick().is_some() {}
        let held = |name: &str| self.queue.tenant(name).is_some_and(|tenant| tenant.weight.is_held());
        assert!(self.jobs.iter().all(|(name, jobs)| *jobs == 0 || held(name)), "every job goes");
        assert_eq!((self.queue.clock(), self.queue.total()), (0.0, 0));
    }

    /// Restores the queue from a snapshot.
    pub fn reload(&mut self) {
        let tenants: Vec<_> = self.queue.tenants().map(|(name, tenant)| (name.clone(), *tenant)).collect();
        self.queue = FairQueue::restore(self.queue.clock(), self.queue.total(), tenants);
    }

    fn check(&mut self) {
        let share = |tenant: &TenantTime| u64::from(tenant.share.thousandths());
        let shares: u64 = self.queue.tenants().map(|(_, tenant)| share(tenant)).sum();
        assert_eq!(self.queue.total(), shares, "the total is exact");
        let waiting = self.queue.tenants().filter(|(_, tenant)| tenant.is_waiting()).count();
        assert_eq!(self.queue.waiting(), waiting);
        for (name, tenant) in self.queue.tenants() {
            assert_eq!(tenant.jobs, self.jobs[&**name], "{name}");
        }
        let (ahead, behind) = self.fluid.extremes();
        (self.ahead, self.behind) = (self.ahead.max(ahead), self.behind.max(behind));
    }
}
