//! Recent promotions: webhook requests contain the number of jobs promoted for each tenant in the
//! last minute.

use crate::store::PromotedTenant;
use std::collections::{HashMap, VecDeque};

/// Length of the window, in milliseconds.
const SPAN_MS: i64 = 60_000;
/// Maximum number of rounds in the window.
const MOST_ROUNDS: usize = 1000;
/// Maximum number of entries for tenants in the window.
const MOST_NAMED: usize = 20_000;

/// The tenants served by the rounds of the last minute.
#[derive(Debug, Default)]
pub struct PromotionWindow {
    /// Time and served tenants of each round, the oldest first.
    rounds: VecDeque<(i64, Vec<PromotedTenant>)>,
}

impl PromotionWindow {
    /// Adds a round, and drops rounds that are too old or too many.
    pub fn note(&mut self, at: i64, served: &[PromotedTenant]) {
        if served.is_empty() {
            return;
        }
        self.rounds.push_back((at, served.to_vec()));
        while self.rounds.len() > MOST_ROUNDS
            || self.named() > MOST_NAMED
            || self.rounds.front().is_some_and(|(first, _)| at - first > SPAN_MS)
        {
            self.rounds.pop_front();
        }
    }

    fn named(&self) -> usize {
        self.rounds.iter().map(|(_, served)| served.len()).sum()
    }

    /// Returns the number of jobs promoted in the last minute, by tenant.
    pub fn jobs(&self, now: i64) -> HashMap<&str, u64> {
        let served = self.rounds.iter().filter(|(at, _)| now - at <= SPAN_MS).flat_map(|(_, served)| served);
        let mut jobs = HashMap::new();
        served.for_each(|served| *jobs.entry(served.tenant.as_str()).or_insert(0) += served.jobs);
        jobs
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::tenant::Weight;

    fn served(tenant: &str, jobs: u64) -> PromotedTenant {
        PromotedTenant { tenant: tenant.to_owned(), weight: Weight::ONE, jobs }
    }

    #[test]
    fn a_minute_is_summed_and_what_is_older_is_not() {
        let mut recent = PromotionWindow::default();
        recent.note(0, &[served("a", 1), served("b", 2)]);
        recent.note(30_000, &[served("a", 4)]);
        assert_eq!(recent.jobs(60_000), HashMap::from([("a", 5), ("b", 2)]));
        assert_eq!(recent.jobs(60_001), HashMap::from([("a", 4)]));
        recent.note(60_001, &[]);
        assert_eq!(recent.rounds.len(), 2, "a round that served no tenant is not recorded");
        recent.note(60_001, &[served("b", 1)]);
        assert_eq!(recent.rounds.len(), 2, "the first round is dropped");
    }

    #[test]
    fn rounds_and_tenants_beyond_the_bounds_are_forgotten() {
        let mut recent = PromotionWindow::default();
        (0..MOST_ROUNDS + 5).for_each(|_| recent.note(0, &[served("a", 1)]));
        assert_eq!(recent.jobs(0), HashMap::from([("a", MOST_ROUNDS as u64)]));
        let crowd: Vec<PromotedTenant> = (0..MOST_NAMED).map(|number| served(&format!("t{number}"), 1)).collect();
        recent.note(0, &crowd);
        assert_eq!((recent.rounds.len(), recent.named()), (1, MOST_NAMED));
    }
}
