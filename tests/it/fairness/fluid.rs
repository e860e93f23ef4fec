//! Exact fluid sharing, the reference for the fair queue: all tenants are served at the same time, in proportion to
//! their weights.
//!
//! It keeps only job counts and no virtual clock, so that an error in the clock cannot affect both.

use fairgate::domain::tenant::Weight;
use std::collections::BTreeMap;

/// Differences below this are rounding errors.
const NOTHING: f64 = 1e-9;

/// The deviation of each tenant from its fluid share.
#[derive(Default)]
pub struct Fluid {
    tenants: BTreeMap<String, Flow>,
}

struct Flow {
    weight: f64,
    held: bool,
    /// Waiting jobs.
    jobs: f64,
    /// Dispatched jobs minus its fluid share.
    ahead: f64,
}

impl Flow {
    /// The jobs it may claim now: none if it is held.
    fn claim(&self) -> f64 {
        if self.held { 0.0 } else { self.jobs }
    }

    /// The fluid service still due. It exceeds the claim for a tenant that is ahead, which counts, even if drained or
    /// held, until the fluid has caught up.
    fn due(&self) -> f64 {
        self.claim() + self.ahead
    }

    /// Limits the deficit to the claim: fluid service for jobs that were removed is void.
    fn clamp(&mut self) {
        self.ahead = self.ahead.max(-self.claim());
    }
}

impl Fluid {
    pub fn arrive(&mut self, name: &str, weight: Weight, jobs: u64) {
        let flow =
            self.tenants.entry(name.to_owned()).or_insert(Flow { weight: 0.0, held: true, jobs: 0.0, ahead: 0.0 });
        if flow.jobs == 0.0 {
            flow.held = weight.is_held();
            if !flow.held {
                flow.weight = weight.as_f64();
            }
        }
        flow.jobs += jobs as f64;
    }

    pub fn reweigh(&mut self, name: &str, weight: Weight) {
        let Some(flow) = self.tenants.get_mut(name) else { return };
        flow.held = weight.is_held();
        if !flow.held {
            flow.weight = weight.as_f64();
        }
        flow.clamp();
        self.tidy();
    }

    pub fn remove(&mut self, name: &str, jobs: u64) {
        let Some(flow) = self.tenants.get_mut(name) else { return };
        flow.jobs = (flow.jobs - jobs as f64).max(0.0);
        flow.clamp();
        self.tidy();
    }

    /// Dispatches one job of a tenant, and serves one job in the fluid.
    pub fn pick(&mut self, name: &str) {
        self.share_what_is_void();
        let flow = self.tenants.get_mut(name).expect("a tenant that has jobs");
        assert!(flow.claim() >= 1.0, "{name} was picked without a job");
        flow.jobs -= 1.0;
        flow.ahead += 1.0;
        self.pour(1.0);
        self.tidy();
    }

    /// The largest lead and the largest deficit of any tenant, in jobs.
    pub fn extremes(&self) -> (f64, f64) {
        self.tenants
            .values()
            .fold((0.0, 0.0), |(ahead, behind), flow| (f64::max(ahead, flow.ahead), f64::max(behind, -flow.ahead)))
    }

    /// Serves a number of jobs to all tenants at once; a tenant that has received its due drops out.
    fn pour(&mut self, mut rest: f64) {
        while rest > 1e-12 {
            let active = || self.tenants.values().filter(|flow| flow.due() > NOTHING);
            let total: f64 = active().map(|flow| flow.weight).sum();
            let Some(first) = active().map(|flow| flow.due() / flow.weight).min_by(f64::total_cmp) else { return };
            let step = rest.min(first * total);
            rest -= step;
            for flow in self.tenants.values_mut().filter(|flow| flow.due() > NOTHING) {
                flow.ahead -= step * flow.weight / total;
            }
        }
    }

    /// If jobs that the fluid had partly served were removed or held, the other tenants may be ahead. That surplus
    /// harms no tenant: once all waiting tenants are ahead, it is distributed.
    fn share_what_is_void(&mut self) {
        loop {
            let lowest = self.tenants.values().filter(|flow| flow.claim() > 0.0).map(|flow| flow.ahead / flow.weight);
            let Some(lowest) = lowest.min_by(f64::total_cmp).filter(|lowest| *lowest > NOTHING) else { return };
            let active = || self.tenants.values().filter(|flow| flow.due() > NOTHING);
            let first = active().map(|flow| flow.due() / flow.weight).min_by(f64::total_cmp).unwrap_or(lowest);
            let total: f64 = active().map(|flow| flow.weight).sum();
            self.pour(lowest.min(first) * total);
        }
    }

    /// Removes finished tenants. When no tenant waits, all accounts are reset.
    fn tidy(&mut self) {
        let idle = self.tenants.values().all(|flow| flow.claim() == 0.0);
        self.tenants.retain(|_, flow| {
            if idle || (flow.claim() == 0.0 && flow.ahead.abs() < NOTHING) {
                flow.ahead = 0.0;
            }
            flow.jobs > 0.0 || flow.ahead > 0.0
        });
    }
}
