//! The order in which tenants' jobs are picked: earliest eligible virtual deadline first.

use super::metrics::{JOB, wait_bound};
use super::start_index::StartIndex;
use super::tenant::TenantTime;
use crate::domain::tenant::Weight;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Maximum number of distinct departure times that one pick handles, so that its cost is bounded.
const MOMENTS_A_PICK: usize = 64;

/// Tenants and a virtual clock that determines whose job is next.
///
/// A Lua script does the same arithmetic in Redis. Both must pick the same tenants, so each formula
/// keeps its order of operations: a different order changes the last bit and thereby, at some
/// point, a tie.
#[derive(Clone, Debug, Default)]
pub struct FairQueue {
    clock: f64,
    /// The sum of the shares of waiting and leaving tenants, in thousandths. An integer, because a
    /// rounded sum would make the clock jump.
    total: u64,
    tenants: HashMap<Arc<str>, TenantTime>,
    /// Waiting tenants by weight class. Within a class the lowest start has nearly the earliest
    /// deadline, so a pick only needs to look at the heads.
    classes: BTreeMap<u32, StartIndex>,
    leaving: StartIndex,
    waiting: usize,
}

impl FairQueue {
    /// Creates an empty queue with its clock at 0.
    pub fn new() -> FairQueue {
        FairQueue::default()
    }

    /// Restores a queue from a snapshot. A snapshot may omit tenants (a preview reads only those
    /// that it may serve), so it contains the total, which cannot be computed from the tenants.
    pub fn restore<N: Into<Arc<str>>>(
        clock: f64,
        total: u64,
        tenants: impl IntoIterator<Item = (N, TenantTime)>,
    ) -> FairQueue {
        let mut queue = FairQueue { clock, ..FairQueue::default() };
        let mut sum = 0;
        for (name, tenant) in tenants {
            sum += u64::from(tenant.share.thousandths());
            queue.put(name.into(), tenant);
        }
        queue.total = total.max(sum);
        queue.rest_if_idle();
        queue
    }

    /// Adds jobs of a tenant. The weight is used only if the tenant had no jobs; later changes go
    /// through [`reweigh`](Self::reweigh).
    pub fn arrive(&mut self, name: &str, weight: Weight, jobs: u64) {
        if jobs == 0 {
            return;
        }
        let (name, mut tenant) = self.take(name).unwrap_or_else(|| {
            let nobody = TenantTime { start: self.clock, weight, share: Weight::HELD, jobs: 0 };
            (name.into(), nobody)
        });
        if tenant.jobs == 0 {
            self.weigh(&mut tenant, weight);
        }
        tenant.jobs += jobs;
        self.put(name, tenant);
        self.rest_if_idle();
    }

    /// Changes a tenant's weight; 0 holds it. A tenant without jobs is ignored: its debt counts at
    /// the weight under which it was served, and it brings its weight with its next job.
    pub fn reweigh(&mut self, name: &str, weight: Weight) {
        if self.tenant(name).is_none_or(|tenant| tenant.jobs == 0 || tenant.weight == weight) {
            return;
        }
        let Some((name, mut tenant)) = self.take(name) else { return };
        let waited = tenant.is_waiting();
        self.weigh(&mut tenant, weight);
        self.settle(name, tenant, waited);
    }

    /// Removes jobs in another way than by a pick (cancelled, activated by hand, expired). The
    /// tenant is not charged.
    pub fn remove(&mut self, name: &str, jobs: u64) {
        if jobs == 0 || self.tenant(name).is_none_or(|tenant| tenant.jobs == 0) {
            return;
        }
        let Some((name, mut tenant)) = self.take(name) else { return };
        let waited = tenant.is_waiting();
        tenant.jobs = tenant.jobs.saturating_sub(jobs);
        self.settle(name, tenant, waited);
    }

    /// Takes one job of the next tenant and returns the tenant's name.
    pub fn pick(&mut self) -> Option<Arc<str>> {
        let next = self.next()?;
        let (name, mut tenant) = self.take(&next)?;
        tenant.start = tenant.deadline();
        tenant.jobs -= 1;
        self.put(name, tenant);
        self.advance();
        self.rest_if_idle();
        Some(next)
    }

    /// Returns the virtual time: jobs served per unit of weight, as if the capacity were divided
    /// continuously.
    pub fn clock(&self) -> f64 {
        self.clock
    }

    /// Returns the sum of the weights of waiting and leaving tenants, in thousandths.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Returns the number of tenants that wait to be picked.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// Returns a tenant that waits, leaves or is held.
    pub fn tenant(&self, name: &str) -> Option<&TenantTime> {
        self.tenants.get(name)
    }

    /// Returns all tenants in arbitrary order, as [`restore`](Self::restore) takes them.
    pub fn tenants(&self) -> impl Iterator<Item = (&Arc<str>, &TenantTime)> {
        self.tenants.iter()
    }

    /// Returns the number of jobs by which a tenant is behind its fair share; negative if it is
    /// ahead.
    pub fn lag(&self, name: &str) -> Option<f64> {
        self.tenant(name).map(|tenant| tenant.lag(self.clock))
    }

    /// Returns the maximum number of picks until the next job of a waiting tenant, if no weight is
    /// added.
    pub fn wait_bound(&self, name: &str) -> Option<u64> {
        let tenant = self.tenant(name).filter(|tenant| tenant.is_waiting())?;
        wait_bound(self.total, tenant.share)
    }

    /// Returns the next tenant. Moves the clock to the lowest start if no tenant is eligible yet.
    fn next(&mut self) -> Option<Arc<str>> {
        let lowest = self.heads().map(|(start, _)| start).min_by(f64::total_cmp)?;
        if lowest > self.clock {
            self.clock = lowest;
        }
        self.heads()
            .filter(|(start, _)| *start <= self.clock)
            .map(|(_, name)| (self.tenants[name].deadline(), name))
            .min_by(|one, other| one.0.total_cmp(&other.0).then_with(|| one.1.cmp(other.1)))
            .map(|(_, name)| name.clone())
    }

    fn heads(&self) -> impl Iterator<Item = (f64, &Arc<str>)> {
        self.classes.values().filter_map(StartIndex::head)
    }

    /// Advances the clock by 1/W for one job, piecewise if leaving tenants' starts lie in between.
    fn advance(&mut self) {
        let mut rest = JOB;
        for _ in 0..MOMENTS_A_PICK {
            let Some((start, _)) = self.leaving.head() else { break };
            if start > self.clock + rest / self.total as f64 {
                break;
            }
            if start > self.clock {
                rest -= (start - self.clock) * self.total as f64;
                self.clock = start;
            }
            // All tenants with the same departure time leave in one step. A clock that waits for
            // each of them is unfair to those that stay, by 12 jobs with 100 leaving tenants.
            while self.leaving.head().is_some_and(|(other, _)| other == start) {
                self.release();
            }
            if self.total == 0 {
                return;
            }
        }
        self.clock += rest.max(0.0) / self.total as f64;
    }

    /// Removes the first leaving tenant from the total.
    fn release(&mut self) {
        let Some(name) = self.leaving.pop() else { return };
        let Some(tenant) = self.tenants.get_mut(&name) else { return };
        self.total -= u64::from(tenant.share.thousandths());
        tenant.share = Weight::HELD;
        if tenant.jobs == 0 {
            self.tenants.remove(&name);
        }
    }

    fn weigh(&mut self, tenant: &mut TenantTime, weight: Weight) {
        self.total -= u64::from(tenant.share.thousandths());
        tenant.weigh(weight, self.clock);
        self.total += u64::from(tenant.share.thousandths());
    }

    /// Puts a tenant back after a change that is not a pick. A tenant that waited and is not ahead
    /// leaves at once; one that was leaving already does so at its departure time, as part of a
    /// pick.
    fn settle(&mut self, name: Arc<str>, mut tenant: TenantTime, waited: bool) {
        if waited && tenant.is_leaving() && tenant.start <= self.clock {
            self.total -= u64::from(tenant.share.thousandths());
            tenant.share = Weight::HELD;
        }
        self.put(name, tenant);
        self.rest_if_idle();
    }

    fn take(&mut self, name: &str) -> Option<(Arc<str>, TenantTime)> {
        let (name, tenant) = self.tenants.remove_entry(name)?;
        if tenant.is_waiting() {
            self.waiting -= 1;
            let class = tenant.weight.class();
            if let Some(line) = self.classes.get_mut(&class) {
                line.remove(tenant.start, &name);
                if line.is_empty() {
                    self.classes.remove(&class);
                }
            }
        } else if tenant.is_leaving() {
            self.leaving.remove(tenant.start, &name);
        }
        Some((name, tenant))
    }

    fn put(&mut self, name: Arc<str>, tenant: TenantTime) {
        if tenant.is_waiting() {
            self.waiting += 1;
            self.classes.entry(tenant.weight.class()).or_default().insert(tenant.start, name.clone());
        } else if tenant.is_leaving() {
            self.leaving.insert(tenant.start, name.clone());
        } else if tenant.jobs == 0 {
            return;
        }
        self.tenants.insert(name, tenant);
    }

    /// Resets the clock if no tenant is waiting, which also keeps it precise.
    fn rest_if_idle(&mut self) {
        if self.waiting > 0 {
            return;
        }
        while !self.leaving.is_empty() {
            self.release();
        }
        (self.clock, self.total) = (0.0, 0);
    }
}
