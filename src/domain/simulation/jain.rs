//! Jain's index over windows of dispatches.

use super::contenders::Contenders;
use crate::domain::fairness::jain_index;
use crate::domain::tenant::Weight;

/// Number of jobs to which each tenant is entitled in a window, at least. With fewer, the index
/// would mostly measure that jobs are whole.
const JOBS_A_TENANT: u64 = 10;
/// Maximum number of dispatches in a window.
const LONGEST: u64 = 1_000_000;

/// The mean of Jain's index over windows. In each window, it covers the tenants that had jobs
/// waiting from its beginning to its end, as the index of the planner does over its last rounds, and
/// at its beginning enough of them to use their shares.
#[derive(Clone, Debug, Default)]
pub(super) struct JainWindows {
    window: Option<Window>,
    sum: f64,
    windows: u64,
}

#[derive(Clone, Debug)]
struct Window {
    /// The number of dispatches before it.
    from: u64,
    left: u64,
    /// Tenants with enough waiting jobs at its beginning, and their dispatches until then.
    tenants: Vec<(u32, u64)>,
}

/// A tenant as the windows see it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dispatches {
    pub weight: Weight,
    /// Number of its jobs that were dispatched.
    pub total: u64,
    /// Number of its jobs that wait.
    pub waiting: u64,
    /// The number of dispatches of all tenants when its last waiting job was dispatched.
    pub empty_at: Option<u64>,
}

impl JainWindows {
    /// Takes note that a job is about to be dispatched.
    pub(super) fn begin(&mut self, waiting: &Contenders, before: u64, of: impl Fn(u32) -> Dispatches) {
        if self.window.is_some() || waiting.len() < 2 {
            return;
        }
        let weights = || waiting.members().iter().map(|tenant| u64::from(of(*tenant).weight.thousandths()));
        let (total, least) = (weights().sum::<u64>(), weights().min().unwrap_or(1).max(1));
        let left = (JOBS_A_TENANT * total).div_ceil(least).clamp(1, LONGEST);
        // Without this, a tenant with one job would seem to get nothing while that job crosses the
        // main queue.
        let has_enough = |tenant: &u32| {
            let view = of(*tenant);
            view.waiting >= (JOBS_A_TENANT * u64::from(view.weight.thousandths())).div_ceil(least)
        };
        let enough = waiting.members().iter().filter(|tenant| has_enough(tenant));
        let tenants = enough.map(|tenant| (*tenant, of(*tenant).total)).collect();
        self.window = Some(Window { from: before, left, tenants });
    }

    /// Takes note that a job was dispatched.
    pub(super) fn end(&mut self, of: impl Fn(u32) -> Dispatches) {
        let Some(window) = &mut self.window else { return };
        window.left -= 1;
        if window.left > 0 {
            return;
        }
        let shares: Vec<f64> = window
            .tenants
            .iter()
            .map(|(tenant, before)| (of(*tenant), before))
            .filter(|(tenant, _)| tenant.empty_at.is_none_or(|at| at <= window.from))
            .map(|(tenant, before)| (tenant.total - before) as f64 / tenant.weight.as_f64())
            .collect();
        if shares.len() >= 2 {
            self.sum += jain_index(&shares);
            self.windows += 1;
        }
        self.window = None;
    }

    /// Returns the mean, or `None` if no two tenants ever had enough jobs for a whole window.
    pub(super) fn mean(&self) -> Option<f64> {
        (self.windows > 0).then(|| self.sum / self.windows as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Dispatches jobs of tenants 0 and 1, who wait all the time; tenant 1 has three times the
    /// weight.
    fn mean(turns: &[u32], empties: Option<u32>, jobs: [u64; 2]) -> Option<f64> {
        let mut waiting = Contenders::new(2);
        [0, 1].into_iter().for_each(|tenant| waiting.insert(tenant));
        let (mut windows, mut totals, mut empty_at) = (JainWindows::default(), [0, 0], [None, None]);
        for (before, turn) in turns.iter().cycle().take(400).enumerate() {
            let weights = [Weight::ONE, Weight::of(3.0).expect("a weight")];
            windows.begin(&waiting, before as u64, |tenant| Dispatches {
                weight: weights[tenant as usize],
                total: totals[tenant as usize],
                waiting: jobs[tenant as usize],
                empty_at: empty_at[tenant as usize],
            });
            totals[*turn as usize] += 1;
            if empties == Some(*turn) {
                empty_at[*turn as usize] = Some(before as u64 + 1);
            }
            windows.end(|tenant| Dispatches {
                weight: weights[tenant as usize],
                total: totals[tenant as usize],
                waiting: jobs[tenant as usize],
                empty_at: empty_at[tenant as usize],
            });
        }
        windows.mean()
    }

    #[test]
    fn shares_by_weight_have_index_1_and_one_tenant_alone_has_half() {
        assert_eq!(mean(&[0, 1, 1, 1], None, [10, 30]), Some(1.0));
        assert_eq!(mean(&[1], None, [10, 30]), Some(0.5));
        assert!(mean(&[0, 1], None, [10, 30]).is_some_and(|mean| (0.7..0.9).contains(&mean)));
    }

    #[test]
    fn tenants_that_stop_waiting_or_have_few_jobs_do_not_count() {
        assert_eq!(mean(&[0, 1, 1, 1], Some(0), [10, 30]), None);
        assert_eq!(mean(&[0, 1, 1, 1], None, [9, 30]), None);
        assert_eq!(mean(&[0, 1, 1, 1], None, [10, 29]), None);
    }
}
