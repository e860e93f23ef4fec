//! Waits of recent jobs, from enqueue to fetch.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Time for which a wait counts.
const WINDOW: Duration = Duration::from_secs(10);
/// The demo's workers fetch far fewer jobs than this within the window.
const MOST: usize = 100_000;

/// The tenants of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Group {
    Noisy,
    Quiet,
}

struct Wait {
    at: Instant,
    group: Group,
    ms: u64,
}

/// The waits of jobs that were fetched lately.
#[derive(Default)]
pub(super) struct Waits(Mutex<VecDeque<Wait>>);

/// The recent waits of a group.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Summary {
    pub(super) jobs: usize,
    /// `None` if there were no jobs.
    pub(super) p95_ms: Option<u64>,
}

impl Waits {
    pub(super) fn record(&self, at: Instant, group: Group, ms: u64) {
        let mut waits = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if waits.len() == MOST {
            waits.pop_front();
        }
        waits.push_back(Wait { at, group, ms });
    }

    /// Summarizes the waits of a group within the window that ends now.
    pub(super) fn summary(&self, now: Instant, group: Group) -> Summary {
        let mut waits = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        while waits.front().is_some_and(|wait| now.saturating_duration_since(wait.at) > WINDOW) {
            waits.pop_front();
        }
        let mut of_group: Vec<u64> = waits.iter().filter(|wait| wait.group == group).map(|wait| wait.ms).collect();
        of_group.sort_unstable();
        let p95_ms = of_group.get(of_group.len() * 95 / 100).copied();
        Summary { jobs: of_group.len(), p95_ms }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_recent_waits_of_the_group_count() {
        let (waits, start) = (Waits::default(), Instant::now());
        waits.record(start, Group::Quiet, 9000);
        let later = start + Duration::from_secs(8);
        (1..=100).for_each(|ms| waits.record(later, Group::Quiet, ms));
        waits.record(later, Group::Noisy, 50_000);
        let now = start + Duration::from_secs(11);
        assert_eq!(waits.summary(now, Group::Quiet), Summary { jobs: 100, p95_ms: Some(96) });
        assert_eq!(waits.summary(now, Group::Noisy), Summary { jobs: 1, p95_ms: Some(50_000) });
        assert_eq!(waits.summary(now + WINDOW, Group::Quiet), Summary::default());
    }
}
