//! Validation of pools: names are unique, and a queue of an isolated pool is in no other pool.

use super::{Pool, Starvation};
use std::collections::{HashMap, HashSet};

/// A conflict of a pool with the pools before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolConflict {
    /// The configuration key that causes the conflict.
    pub key: &'static str,
    /// Description of the conflict.
    pub message: String,
    /// Suggested fix.
    pub help: String,
}

/// Checks pools one by one against those before.
#[derive(Debug, Default)]
pub struct PoolValidator {
    /// Default for pools without their own setting.
    starvation: Starvation,
    names: HashSet<String>,
    /// By queue, the pool to report in a conflict and if it is isolated: the isolated pool, else
    /// the first.
    holders: HashMap<String, (String, bool)>,
}

impl PoolValidator {
    /// Maximum number of pools.
    pub const MOST_POOLS: usize = 1000;

    /// Creates a validator without pools.
    pub fn new(starvation: &Starvation) -> PoolValidator {
        PoolValidator { starvation: *starvation, ..PoolValidator::default() }
    }

    /// Adds a pool and returns all its conflicts with those before it.
    pub fn add(&mut self, pool: &Pool) -> Vec<PoolConflict> {
        let mut conflicts = Vec::new();
        if !self.names.insert(pool.name.clone()) {
            let message = format!("expected a name that no other pool has, found \"{}\"", pool.name);
            conflicts.push(PoolConflict { key: "name", message, help: "give each pool a unique name".to_owned() });
        } else if self.names.len() > Self::MOST_POOLS {
            let message = format!("expected at most {} pools, found more", Self::MOST_POOLS);
            conflicts.push(PoolConflict { key: "name", message, help: "serve more queues with each pool".to_owned() });
        }
        conflicts.extend(self.overlap(pool));
        if pool.starvation.is_none() {
            conflicts.extend(too_large(&self.starvation, pool));
        }
        for place in &pool.queues {
            let holder = self.holders.entry(place.queue.clone()).or_insert_with(|| (pool.name.clone(), pool.isolated));
            if pool.isolated && !holder.1 {
                *holder = (pool.name.clone(), true);
            }
        }
        conflicts
    }

    fn overlap(&self, pool: &Pool) -> Option<PoolConflict> {
        pool.queues.iter().find_map(|place| {
            let (other, isolated) = self.holders.get(&place.queue)?;
            let queue = &place.queue;
            let (key, message) = match (isolated, pool.isolated) {
                (true, _) => ("queues", format!("queue \"{queue}\" belongs to the isolated pool \"{other}\" alone")),
                (_, true) => ("isolated", format!("queue \"{queue}\" is also in pool \"{other}\"")),
                _ => return None,
            };
            let help = format!("take \"{queue}\" out of one of the two pools, or set isolated = false");
            Some(PoolConflict { key, message, help })
        })
    }
}

/// Returns the conflict of a pool whose number of queues is too large for `min_dispatch_ratio`.
fn too_large(starvation: &Starvation, pool: &Pool) -> Option<PoolConflict> {
    let queues = pool.queues.len();
    let message = || {
        format!(
            "min_dispatch_ratio of [starvation_prevention] is {}, which {queues} queues cannot each have",
            starvation.min_dispatch_ratio
        )
    };
    let help = || format!("set min_dispatch_ratio to {} at most", Starvation::largest_ratio(queues));
    (!starvation.fits(queues)).then(|| PoolConflict { key: "queues", message: message(), help: help() })
}

#[cfg(test)]
mod tests {
    use super::super::PoolQueue;
    use super::*;
    use crate::domain::tenant::Weight;

    fn pool(name: &str, queues: &[&str], isolated: bool) -> Pool {
        let place = |queue: &&str| PoolQueue { queue: (*queue).to_owned(), weight: Weight::ONE };
        Pool { name: name.to_owned(), queues: queues.iter().map(place).collect(), isolated, ..Pool::default() }
    }

    fn add(pools: &[Pool]) -> Vec<(&'static str, String)> {
        let mut validator =
            PoolValidator::new(&Starvation { enabled: true, min_dispatch_ratio: 0.4, ..Starvation::default() });
        let conflicts = pools.iter().flat_map(|pool| validator.add(pool));
        conflicts.map(|conflict| (conflict.key, format!("{} ({})", conflict.message, conflict.help))).collect()
    }

    #[test]
    fn an_isolated_queue_is_in_no_other_pool() {
        assert_eq!(add(&[pool("a", &["x", "y"], false), pool("b", &["y"], false), pool("c", &["z"], true)]), []);
        let advice = "(take \"y\" out of one of the two pools, or set isolated = false)";
        for (pools, key, message) in [
            (
                [pool("a", &["x", "y"], true), pool("b", &["y"], false)],
                "queues",
                "belongs to the isolated pool \"a\" alone",
            ),
            (
                [pool("a", &["x", "y"], true), pool("b", &["y"], true)],
                "queues",
                "belongs to the isolated pool \"a\" alone",
            ),
            ([pool("a", &["x", "y"], false), pool("b", &["y"], true)], "isolated", "is also in pool \"a\""),
        ] {
            assert_eq!(add(&pools), [(key, format!("queue \"y\" {message} {advice}"))]);
        }
        // The isolated pool is reported, regardless of the order.
        let conflicts = add(&[pool("a", &["y"], false), pool("b", &["y"], true), pool("c", &["y"], false)]);
        assert!(conflicts[1].1.contains("isolated pool \"b\""), "{conflicts:?}");
    }

    #[test]
    fn names_are_unique_and_few_enough() {
        assert_eq!(add(&[pool("a", &["x"], false), pool("a", &["x"], false)])[0].0, "name");
        let pools: Vec<_> = (0..1001).map(|index| pool(&index.to_string(), &["x"], false)).collect();
        assert_eq!(add(&pools[..1000]), []);
        assert!(add(&pools)[0].1.starts_with("expected at most 1000 pools"));
    }

    #[test]
    fn a_ratio_for_all_must_fit_each_pool_without_its_own() {
        let mut large = pool("a", &["x", "y", "z"], false);
        let said = "min_dispatch_ratio of [starvation_prevention] is 0.4, which 3 queues cannot each have \
            (set min_dispatch_ratio to 0.3333 at most)";
        assert_eq!(add(std::slice::from_ref(&large)), [("queues", said.to_owned())]);
        large.starvation = Some(Starvation::default());
        assert_eq!(add(&[large]), []);
    }
}
