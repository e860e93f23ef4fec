//! A tenant in the virtual time of the fair queue.

use super::metrics::{self, JOB};
use crate::domain::tenant::Weight;

/// A tenant's position in virtual time. Snapshots contain the same fields.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TenantTime {
    /// Virtual time at which its next job becomes eligible.
    pub start: f64,
    /// The weight that was set last; 0 while it is held.
    pub weight: Weight,
    /// The weight that the total includes. It remains there if a tenant that is ahead of its share
    /// drains or is held.
    pub share: Weight,
    /// Number of waiting jobs, held or not.
    pub jobs: u64,
}

impl TenantTime {
    /// Returns true if it waits in a class to be picked.
    pub fn is_waiting(&self) -> bool {
        self.jobs > 0 && !self.weight.is_held()
    }

    /// Returns true if it no longer waits, but is ahead of its share and counts until the clock
    /// catches up.
    pub fn is_leaving(&self) -> bool {
        !self.is_waiting() && !self.share.is_held()
    }

    /// Returns the number of jobs by which it is behind its fair share; negative if it is ahead.
    pub fn lag(&self, clock: f64) -> f64 {
        metrics::lag(self.share, self.start, clock)
    }

    /// Returns the virtual time by which its next job should be picked.
    pub(super) fn deadline(&self) -> f64 {
        self.start + JOB / f64::from(self.share.thousandths())
    }

    /// Sets the weight. The lag in jobs stays the same, so that the change affects a backlog at
    /// once without giving anything away.
    pub(super) fn weigh(&mut self, weight: Weight, clock: f64) {
        if weight.is_held() {
            self.weight = weight;
            return;
        }
        // A tenant that has left, or is leaving and due already, has no claim to the time since
        // then.
        if self.share.is_held() || self.is_leaving() && self.start < clock {
            self.start = clock;
        }
        self.weight = weight;
        // An equal weight must change nothing, but the formula would round.
        if !self.share.is_held() && self.share != weight {
            let (from, to) = (f64::from(self.share.thousandths()), f64::from(weight.thousandths()));
            self.start = clock - (clock - self.start) * from / to;
        }
        self.share = weight;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(start: f64, thousandths: u32) -> TenantTime {
        let weight = Weight::from_thousandths(thousandths);
        TenantTime { start, weight, share: weight, jobs: 1 }
    }

    #[test]
    fn a_new_weight_keeps_the_lag() {
        for start in [3.0, 7.25] {
            let mut tenant = waiting(start, 2000);
            let lag = tenant.lag(5.0);
            tenant.weigh(Weight::from_thousandths(250), 5.0);
            assert_eq!(tenant.lag(5.0), lag);
        }
    }

    #[test]
    fn the_same_weight_again_changes_nothing() {
        let before = waiting(0.1, 3333);
        let mut tenant = before;
        tenant.weigh(tenant.weight, 0.7);
        assert_eq!(tenant, before);
    }

    #[test]
    fn who_left_starts_at_the_clock_and_who_is_leaving_where_it_was() {
        let left = TenantTime { start: 1.0, weight: Weight::HELD, share: Weight::HELD, jobs: 1 };
        for (mut tenant, start) in [
            (left, 5.0),
            (TenantTime { start: 6.0, share: Weight::ONE, ..left }, 6.0),
            (TenantTime { start: 4.0, share: Weight::ONE, ..left }, 5.0),
        ] {
            tenant.weigh(Weight::ONE, 5.0);
            assert_eq!((tenant.start, tenant.share), (start, Weight::ONE));
        }
    }
}
