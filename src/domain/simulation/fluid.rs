//! Exact fluid sharing, the reference for expected shares: all tenants with jobs are served at the
//! same time, in proportion to their weights.
//!
//! For each job that the simulation serves, the fluid serves one job's worth. A tenant whose jobs
//! are served in the fluid drops out, whether or not they are served in the simulation.

use crate::domain::tenant::Weight;
use std::collections::BTreeSet;

/// The fluid shares of all tenants. Tenants are numbers.
#[derive(Clone, Debug)]
pub(super) struct Fluid {
    /// Jobs served per thousandth of weight.
    clock: f64,
    /// The same, but only for counted jobs.
    counted: f64,
    /// The sum of the weights of tenants with jobs, in thousandths.
    total: u64,
    flows: Vec<Flow>,
    /// Tenants with jobs by the clock at which their last job is served.
    ends: BTreeSet<End>,
}

#[derive(Clone, Copy, Debug)]
struct Flow {
    weight: Weight,
    /// The clock at which its last job is served, if it has jobs.
    end: Option<f64>,
    /// `counted` when it last got its first job.
    counted_from: f64,
    /// Jobs that were served and counted before.
    served: f64,
}

/// The bits of a clock, which are ordered like the clock because it is not negative, and a tenant.
type End = (u64, u32);

impl Fluid {
    /// Creates a fluid without jobs for tenants with these weights.
    pub(super) fn new(weights: impl IntoIterator<Item = Weight>) -> Fluid {
        let flow = |weight| Flow { weight, end: None, counted_from: 0.0, served: 0.0 };
        let flows = weights.into_iter().map(flow).collect();
        Fluid { clock: 0.0, counted: 0.0, total: 0, flows, ends: BTreeSet::new() }
    }

    /// Adds jobs of a tenant. A held tenant has no share.
    pub(super) fn arrive(&mut self, tenant: u32, jobs: u64) {
        let flow = &mut self.flows[tenant as usize];
        if flow.weight.is_held() || jobs == 0 {
            return;
        }
        let start = match flow.end {
            Some(end) => {
                self.ends.remove(&(end.to_bits(), tenant));
                end
            }
            None => {
                self.total += u64::from(flow.weight.thousandths());
                flow.counted_from = self.counted;
                self.clock
            }
        };
        let end = start + jobs as f64 / f64::from(flow.weight.thousandths());
        flow.end = Some(end);
        self.ends.insert((end.to_bits(), tenant));
    }

    /// Serves one job's worth, which is added to the counted service if `is_counted`.
    pub(super) fn serve(&mut self, is_counted: bool) {
        let mut rest = 1.0;
        while let Some(&(bits, tenant)) = self.ends.first() {
            let total = self.total as f64;
            let step = (f64::from_bits(bits) - self.clock).max(0.0);
            let is_end = step * total <= rest;
            let step = if is_end { step } else { rest / total };
            self.clock += step;
            self.counted += if is_counted { step } else { 0.0 };
            if !is_end {
                return;
            }
            rest -= step * total;
            self.end(tenant);
        }
        // Keeps the clock precise.
        self.clock = 0.0;
    }

    fn end(&mut self, tenant: u32) {
        self.ends.pop_first();
        let flow = &mut self.flows[tenant as usize];
        flow.end = None;
        flow.served += (self.counted - flow.counted_from) * f64::from(flow.weight.thousandths());
        self.total -= u64::from(flow.weight.thousandths());
    }

    /// Returns the number of a tenant's jobs that the fluid has not served.
    pub(super) fn left(&self, tenant: u32) -> f64 {
        let flow = &self.flows[tenant as usize];
        flow.end.map_or(0.0, |end| (end - self.clock).max(0.0) * f64::from(flow.weight.thousandths()))
    }

    /// Returns the counted service of a tenant, in jobs.
    pub(super) fn served(&self, tenant: u32) -> f64 {
        let flow = &self.flows[tenant as usize];
        let current = flow.end.map_or(0.0, |_| self.counted - flow.counted_from);
        flow.served + current * f64::from(flow.weight.thousandths())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fluid<const N: usize>(weights: [f64; N]) -> Fluid {
        Fluid::new(weights.map(|weight| Weight::of(weight).expect("a weight")))
    }

    fn near(actual: f64, expected: f64) {
        assert!((actual - expected).abs() < 1e-9, "{actual}, expected {expected}");
    }

    #[test]
    fn tenants_with_jobs_share_by_weight_and_the_rest_goes_to_those_that_have_more() {
        let mut fluid = fluid([3.0, 1.0, 1.0]);
        fluid.arrive(0, 30);
        fluid.arrive(1, 100);
        (0..20).for_each(|_| fluid.serve(true));
        near(fluid.left(0), 15.0);
        near(fluid.left(1), 95.0);
        fluid.arrive(2, 1);
        (0..25).for_each(|_| fluid.serve(true));
        // The job of tenant 2 ends after 5 further jobs, those of tenant 0 after 16.
        near(fluid.left(2), 0.0);
        near(fluid.served(2), 1.0);
        near(fluid.left(0), 0.0);
        near(fluid.served(1), 45.0 - 30.0 - 1.0);
        near(fluid.left(1), 86.0);
    }

    #[test]
    fn only_counted_service_counts() {
        let mut fluid = fluid([1.0, 1.0]);
        fluid.arrive(0, 10);
        (0..4).for_each(|_| fluid.serve(false));
        fluid.arrive(1, 10);
        (0..4).for_each(|_| fluid.serve(true));
        fluid.serve(false);
        near(fluid.served(0), 2.0);
        near(fluid.served(1), 2.0);
        near(fluid.left(0), 3.5);
    }

    #[test]
    fn held_tenants_have_no_share_and_an_empty_fluid_serves_nothing() {
        let mut fluid = fluid([0.0, 1.0]);
        fluid.arrive(0, 5);
        fluid.serve(true);
        near(fluid.left(0), 0.0);
        fluid.arrive(1, 1);
        (0..3).for_each(|_| fluid.serve(true));
        near(fluid.served(1), 1.0);
        assert_eq!((fluid.total, fluid.clock), (0, 0.0));
    }
}
