//! A bound on label values: clients choose queue and type names, and every new one would be a new time series.

use std::collections::HashSet;
use std::sync::RwLock;

/// What a value is counted under once the set is full.
pub const OTHER: &str = "_other";

/// The values that have a label of their own: the first ones that came.
#[derive(Debug)]
pub struct Labels {
    known: RwLock<HashSet<String>>,
    most: usize,
}

impl Labels {
    /// At most `most` values.
    pub fn new(most: usize) -> Self {
        Labels { known: RwLock::default(), most }
    }

    /// The label for a value: itself, or `_other`.
    pub fn of<'a>(&self, value: &'a str) -> &'a str {
        // A poisoned lock means that some thread panicked while it held it; the set is whole all the same.
        let is_known = self.known.read().unwrap_or_else(|poisoned| poisoned.into_inner()).contains(value);
        if is_known {
            return value;
        }
        let mut known = self.known.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        if known.len() < self.most || known.contains(value) {
            known.insert(value.to_owned());
            return value;
        }
        OTHER
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
}
