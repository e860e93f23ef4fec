//! A bound on label values: clients choose queue and type names, and every new one would be a new time series.

use std::collections::{HashMap, HashSet};
use std::sync::RwLock;

/// What a value is counted under once the set is full.
pub const OTHER: &str = "_other";

/// The values that have a label of their own: the first ones that came, unless others are preferred.
#[derive(Debug)]
pub struct Labels {
    known: RwLock<Known>,
    most: usize,
}

#[derive(Debug, Default)]
struct Known {
    /// Values by the call of `prefer` that last named them; 0 for none.
    values: HashMap<String, u64>,
    calls: u64,
}

impl Labels {
    /// At most `most` values.
    pub fn new(most: usize) -> Self {
        Labels { known: RwLock::default(), most }
    }

    /// The label for a value: itself, or `_other`.
    pub fn of<'a>(&self, value: &'a str) -> &'a str {
        // A poisoned lock means that some thread panicked while it held it; the set is whole all the same.
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

    /// Gives labels to these, the most important first, at the cost of those that were not named for longest. Those that lose theirs,
    /// whose series are to be removed.
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

/// Pairs of values that have a series of their own: the first ones that came. Bounding each label alone would leave their product.
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
    /// At most `most` pairs, beside those with `_other`.
    pub fn new(most: usize) -> Self {
        LabelPairs { known: RwLock::default(), most }
    }

    /// The label for the second value beside the first, which has its label already: itself, or `_other`.
    pub fn of<'a>(&self, first: &str, second: &'a str) -> &'a str {
        // A poisoned lock means that some thread panicked while it held it; the set is whole all the same.
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

    /// Removes all pairs of a first value; the second ones of those.
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
        // Of more than fit, the first count; who was named before goes last.
        assert_eq!(labels.prefer(["e", "f", "d", "x"]), ["c", "a"]);
        assert_eq!(["d", "e", "f", "x", "a"].map(|value| labels.of(value)), ["d", "e", "f", OTHER, OTHER]);
        assert!(labels.prefer([]).is_empty());
    }
}
