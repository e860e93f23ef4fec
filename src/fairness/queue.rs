//! The order in which tenants' jobs go: earliest eligible virtual deadline first.

use super::Weight;
use super::metrics::{JOB, wait_bound};
use super::start_index::StartIndex;
use super::tenant::Tenant;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// At how many moments leavers go during one pick, so that a pick has a bound.
const MOMENTS_A_PICK: usize = 64;

/// Tenants and a virtual clock that says whose job is next.
///
/// A script does the same arithmetic on Redis. Both must pick alike, so each formula here keeps its order of
/// operations: a reordering changes the last bit, and with it, some day, a tie.
#[derive(Clone, Debug, Default)]
pub struct FairQueue {
    clock: f64,
    /// The shares of all who wait or leave, in thousandths: an integer, because a rounded sum would make the clock jump.
    total: u64,
    tenants: HashMap<Arc<str>, Tenant>,
    /// Waiting tenants by weight class. Within a class the lowest start is nearly the earliest deadline, so that
    /// the heads are all that a pick need see.
    classes: BTreeMap<u32, StartIndex>,
    leaving: StartIndex,
    waiting: usize,
}

impl FairQueue {
    /// An empty queue, its clock at 0.
    pub fn new() -> FairQueue {
        FairQueue::default()
    }

    /// A queue as a snapshot tells it. The snapshot may leave tenants out (a preview reads only those that it may
    /// serve), so the total is told and not summed up.
    pub fn restore<N: Into<Arc<str>>>(
        clock: f64,
        total: u64,
        tenants: impl IntoIterator<Item = (N, Tenant)>,
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

    /// Jobs of a tenant come in. The weight counts only if the tenant had none: later changes are told by
    /// [`reweigh`](Self::reweigh).
    pub fn arrive(&mut self, name: &str, weight: Weight, jobs: u64) {
        if jobs == 0 {
            return;
        }
        let (name, mut tenant) = self.take(name).unwrap_or_else(|| {
            let nobody = Tenant { start: self.clock, weight, share: Weight::HELD, jobs: 0 };
            (name.into(), nobody)
        });
        if tenant.jobs == 0 {
            self.weigh(&mut tenant, weight);
        }
        tenant.jobs += jobs;
        self.put(name, tenant);
        self.rest_if_idle();
    }

    /// A tenant's weight changes; 0 holds it. Nothing happens to a tenant without jobs: what it owes it owes at the weight
    /// under which it was served, and it tells its weight when it comes back.
    pub fn reweigh(&mut self, name: &str, weight: Weight) {
        if self.tenant(name).is_none_or(|tenant| tenant.jobs == 0 || tenant.weight == weight) {
            return;
        }
        let Some((name, mut tenant)) = self.take(name) else { return };
        let waited = tenant.is_waiting();
        self.weigh(&mut tenant, weight);
        self.settle(name, tenant, waited);
    }

    /// Jobs go in another way than by a pick: cancelled, activated by hand, expired. The tenant is not charged.
    pub fn remove(&mut self, name: &str, jobs: u64) {
        if jobs == 0 || self.tenant(name).is_none_or(|tenant| tenant.jobs == 0) {
            return;
        }
        let Some((name, mut tenant)) = self.take(name) else { return };
        let waited = tenant.is_waiting();
        tenant.jobs = tenant.jobs.saturating_sub(jobs);
        self.settle(name, tenant, waited);
    }

    /// Takes one job of the tenant whose turn it is, and says whose.
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

    /// Virtual time: jobs served per unit of weight, as fluid sharing would have it.
    pub fn clock(&self) -> f64 {
        self.clock
    }

    /// The weights of all who wait or leave, in thousandths.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// How many tenants wait to be picked.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// A tenant that waits, leaves or is held.
    pub fn tenant(&self, name: &str) -> Option<&Tenant> {
        self.tenants.get(name)
    }

    /// All tenants, in no order: what [`restore`](Self::restore) takes.
    pub fn tenants(&self) -> impl Iterator<Item = (&Arc<str>, &Tenant)> {
        self.tenants.iter()
    }

    /// Jobs by which a tenant is behind its fair share; negative when it is ahead.
    pub fn lag(&self, name: &str) -> Option<f64> {
        self.tenant(name).map(|tenant| tenant.lag(self.clock))
    }

    /// How many picks may pass at most until a waiting tenant's next job goes, if no weight joins.
    pub fn wait_bound(&self, name: &str) -> Option<u64> {
        let tenant = self.tenant(name).filter(|tenant| tenant.is_waiting())?;
        wait_bound(self.total, tenant.share)
    }

    /// Whose turn it is. Moves the clock to the lowest start if nobody may go yet.
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

    /// One job moves the clock by 1/W, piecewise where the starts of leavers lie on the way.
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
            // All who leave at one moment are one step, however many they are: a clock that waits for them is unfair to those
            // who stay, by 12 jobs with 100 of them.
            while self.leaving.head().is_some_and(|(other, _)| other == start) {
                self.release();
            }
            if self.total == 0 {
                return;
            }
        }
        self.clock += rest.max(0.0) / self.total as f64;
    }

    /// The first of the leavers counts no more.
    fn release(&mut self) {
        let Some(name) = self.leaving.pop() else { return };
        let Some(tenant) = self.tenants.get_mut(&name) else { return };
        self.total -= u64::from(tenant.share.thousandths());
        tenant.share = Weight::HELD;
        if tenant.jobs == 0 {
            self.tenants.remove(&name);
        }
    }

    fn weigh(&mut self, tenant: &mut Tenant, weight: Weight) {
        self.total -= u64::from(tenant.share.thousandths());
        tenant.weigh(weight, self.clock);
        self.total += u64::from(tenant.share.thousandths());
    }

    /// Puts a tenant where it belongs after a change that is not a pick. Who waited and is not ahead leaves at once; who was
    /// leaving before goes at its moment, as part of a pick.
    fn settle(&mut self, name: Arc<str>, mut tenant: Tenant, waited: bool) {
        if waited && tenant.is_leaving() && tenant.start <= self.clock {
            self.total -= u64::from(tenant.share.thousandths());
            tenant.share = Weight::HELD;
        }
        self.put(name, tenant);
        self.rest_if_idle();
    }

    fn take(&mut self, name: &str) -> Option<(Arc<str>, Tenant)> {
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

    fn put(&mut self, name: Arc<str>, tenant: Tenant) {
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

    /// With nobody waiting there is nobody to be fair to: the clock starts anew, which also keeps it precise.
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
