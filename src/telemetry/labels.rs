//! Bounds on the number of label values. Clients choose the names of queues and types, and each new
//! name would create a new time series.

use std::collections::{HashMap, HashSet};
use std::sync::RwLock;

/// Label of all values beyond the bound.
pub const OTHER: &str = "_other";

/// Values that have a label of their own: the first ones, unless others are preferred.
#[derive(Debug)]
pub struct Labels {
    known: RwLock<Known>,
    most: usize,
}

#[derive(Debug, Default)]
struct Known {
    /// Each value with the number of the `prefer` call that last named it; 0 for none.
    values: HashMap<String, u64>,
    calls: u64,
}

impl Labels {
    /// Creates a set of at most `most` values.
    pub fn new(most: usize) -> Self {
        Labels { known: RwLock::default(), most }
    }

    /// Returns the label of a value: the value itself, or `_other`.
    pub fn of<'a>(&self, value: &'a str) -> &'a str {
        // A poisoned lock means that another thread panicked while holding it; the set is
        // consistent nevertheless.
        let is_known = self.known.read().unwrap_or_else(|poisoned| poisoned.into_inner()).values.contains_key(value);
        if is_known {
            return value;
        }
        let mut known = self.known.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        if known.values.len() < self.most || known.values.contains_key(value) {
            known.values.insert(value.to_owned(), 0);
            return value;
        }
        OTHER
    }

    /// Gives labels to these values, most important first. If there are too many, the values that
    /// were not named for the longest time lose their labels; they are returned, so that their
    /// series can be removed.
    pub fn prefer<'a>(&self, values: impl IntoIterator<Item = &'a str>) -> Vec<String> {
        let mut known = self.known.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        known.calls += 1;
        let call = known.calls;
        for value in values.into_iter().take(self.most) {
            match known.values.get_mut(value) {
                Some(last) => *last = call,
                None => _ = known.values.insert(value.to_owned(), call),
            }
        }
        let surplus = known.values.len().saturating_sub(self.most);
        if surplus == 0 {
            return Vec::new();
        }
        let mut by_age: Vec<(u64, String)> = known.values.iter().map(|(value, last)| (*last, value.clone())).collect();
        by_age.sort();
        let gone: Vec<String> = by_age.into_iter().take(surplus).map(|(_, value)| value).collect();
        gone.iter().for_each(|value| _ = known.values.remove(value));
        gone
    }
}

/// Pairs of values that have a series of their own: the first ones. Bounding each label alone would
/// allow all combinations.
#[derive(Debug)]
pub struct LabelPairs {
    known: RwLock<KnownPairs>,
    most: usize,
}

#[derive(Debug, Default)]
struct KnownPairs {
    by_first: HashMap<String, HashSet<String>>,
    size: usize,
}

impl KnownPairs {
    fn has(&self, first: &str, second: &str) -> bool {
        self.by_first.get(first).is_some_and(|seconds| seconds.contains(second))
    }
}

impl LabelPairs {
    /// Creates a set of at most `most` pairs, in addition to those with `_other`.
    pub fn new(most: usize) -> Self {
        LabelPairs { known: RwLock::default(), most }
    }

    /// Returns the label of the second value: the value itself, or `_other`. The first value is a
    /// label already.
    pub fn of<'a>(&self, first: &str, second: &'a str) -> &'a str {
        // A poisoned lock means that another thread panicked while holding it; the set is
        // consistent nevertheless.
        if self.known.read().unwrap_or_else(|poisoned| poisoned.into_inner()).has(first, second) {
            return second;
        }
        let mut known = self.known.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        if known.has(first, second) {
            return second;
        }
        if known.size >= self.most {
            return OTHER;
        }
        known.size += 1;
        known.by_first.entry(first.to_owned()).or_default().insert(second.to_owned());
        second
    }

    /// Removes all pairs of a first value, and returns their second values.
    pub fn remove(&self, first: &str) -> HashSet<String> {
        let mut known = self.known.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        let removed = known.by_first.remove(first).unwrap_or_default();
        known.size -= removed.len();
        removed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_values_keep_their_names() {
        let labels = Labels::new(2);
        assert_eq!(["a", "b", "c", "a", "d"].map(|value| labels.of(value)), ["a", "b", OTHER, "a", OTHER]);
    }

    #[test]
    fn pairs_are_bounded_as_such() {
        let pairs = LabelPairs::new(3);
        assert_eq!(
            [("a", "x"), ("a", "y"), ("b", "x")].map(|(first, second)| pairs.of(first, second)),
            ["x", "y", "x"]
        );
        assert_eq!(
            [("b", "y"), ("c", "x"), ("a", "y")].map(|(first, second)| pairs.of(first, second)),
            [OTHER, OTHER, "y"]
        );
        assert_eq!(pairs.remove("a").len(), 2);
        assert_eq!(
            [("b", "y"), ("c", "x"), ("a", "y")].map(|(first, second)| pairs.of(first, second)),
            ["y", "x", OTHER]
        );
    }

    #[test]
    fn those_that_are_preferred_have_labels_at_the_cost_of_others() {
        let labels = Labels::new(3);
        assert_eq!(["a", "b", "c", "d"].map(|value| labels.of(value)), ["a", "b", "c", OTHER]);
        assert_eq!(labels.prefer(["d", "a"]), ["b"]);
        assert_eq!(["a", "b", "c", "d"].map(|value| labels.of(value)), ["a", OTHER, "c", "d"]);
        // Of too many values, the first ones count, and those named before are removed last.
        assert_eq!(labels.prefer(["e", "f", "d", "x"]), ["c", "a"]);
        assert_eq!(["d", "e", "f", "x", "a"].map(|value| labels.of(value)), ["d", "e", "f", OTHER, OTHER]);
        assert!(labels.prefer([]).is_empty());
    }
}
