//! Exact fluid sharing, against which the fair queue is measured: everybody is served at once, by weight.
//!
//! It keeps counts of jobs only and knows nothing of a virtual clock, so that a mistake in the clock cannot hide here.

use fairgate::fairness::Weight;
use std::collections::BTreeMap;

/// Less than this is rounding.
const NOTHING: f64 = 1e-9;

/// How far each tenant is from what fluid sharing would have given it.
#[derive(Default)]
pub struct Fluid {
    tenants: BTreeMap<String, Flow>,
}

struct Flow {
    weight: f64,
    held: bool,
    /// Jobs that really wait.
    jobs: f64,
    /// Jobs it really got less those that the fluid gave it.
    ahead: f64,
}

impl Flow {
    /// What it may claim now. A held tenant claims nothing.
    fn claim(&self) -> f64 {
        if self.held { 0.0 } else { self.jobs }
    }

    /// What the fluid has yet to give. Above the claim for a tenant that is ahead: it counts, drained or held, until
    /// the fluid has caught up.
    fn due(&self) -> f64 {
        self.claim() + self.ahead
    }

    /// Nobody is behind by more than it claims: what the fluid gave to jobs that were taken away is void.
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

    /// One job of a tenant really goes, and the fluid serves one.
    pub fn pick(&mut self, name: &str) {
        self.share_what_is_void();
        let flow = self.tenants.get_mut(name).expect("a tenant that has jobs");
        assert!(flow.claim() >= 1.0, "{name} was picked without a job");
        flow.jobs -= 1.0;
        flow.ahead += 1.0;
        self.pour(1.0);
        self.tidy();
    }

    /// By how many jobs the tenant furthest ahead is ahead, and the one furthest behind is behind.
    pub fn extremes(&self) -> (f64, f64) {
        self.tenants
            .values()
            .fold((0.0, 0.0), |(ahead, behind), flow| (f64::max(ahead, flow.ahead), f64::max(behind, -flow.ahead)))
    }

    /// Serves so many jobs, to all at once; a tenant whose due is paid drops out on the way.
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

    /// Where jobs were taken away (or held) that the fluid had partly served, everybody else may be ahead for it. That
    /// surplus is nobody's loss: once all who wait are ahead, it is shared out.
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

    /// Forgets who is done. When nobody waits, all accounts are closed.
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
