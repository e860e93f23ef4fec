//! Stretches of recorded rounds in which a tenant counts as waiting.

use super::replay::RecordedRound;
use crate::domain::fairness::wait_bound;
use crate::domain::tenant::Weight;
use std::collections::{BTreeMap, HashSet};

/// Maximum number of rounds without a tenant within one stretch.
const LONGEST_GAP: usize = 20;

/// Jobs of a tenant that count as enqueued at a round.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stretch {
    pub tenant: u32,
    /// The first and the last round in which it was served.
    pub first: usize,
    pub last: usize,
    pub jobs: u64,
}

/// Returns the stretches of all tenants in rounds that are ordered by time.
pub(super) fn stretches(rounds: &[&RecordedRound], numbers: &BTreeMap<&str, u32>) -> Vec<Stretch> {
    let mut ended = Vec::new();
    let mut open: Vec<Option<Stretch>> = vec![None; numbers.len()];
    for (place, round) in rounds.iter().enumerate() {
        for served in &round.served {
            let tenant = numbers[served.tenant.as_str()];
            let current = &mut open[tenant as usize];
            match current {
                Some(stretch) if waits_between(rounds, stretch.last, place, served.weight) => {
                    (stretch.last, stretch.jobs) = (place, stretch.jobs + served.jobs);
                }
                _ => ended.extend(current.replace(Stretch { tenant, first: place, last: place, jobs: served.jobs })),
            }
        }
    }
    ended.extend(open.into_iter().flatten());
    ended
}

/// Returns true if a tenant that was served in two rounds may have waited for its turn in between.
fn waits_between(rounds: &[&RecordedRound], from: usize, to: usize, weight: Weight) -> bool {
    if to == from + 1 {
        return true;
    }
    if to - from > LONGEST_GAP {
        return false;
    }
    let (mut known, mut total) = (HashSet::new(), 0);
    for served in rounds[from..=to].iter().flat_map(|round| &round.served) {
        if known.insert(&served.tenant) {
            total += u64::from(served.weight.thousandths());
        }
    }
    let between: u64 = rounds[from + 1..to].iter().map(|round| round.promoted).sum();
    wait_bound(total, weight).is_some_and(|bound| between <= bound)
}
