//! An index of tenants by start.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Tenants by start; equal starts are ordered by the bytes of the names, as in a sorted set of
/// Redis.
#[derive(Clone, Debug, Default)]
pub(super) struct StartIndex {
    places: BTreeSet<StartEntry>,
}

impl StartIndex {
    pub(super) fn insert(&mut self, start: f64, name: Arc<str>) {
        self.places.insert(StartEntry { start, name });
    }

    pub(super) fn remove(&mut self, start: f64, name: &Arc<str>) {
        self.places.remove(&StartEntry { start, name: name.clone() });
    }

    /// Returns the lowest start and its tenant.
    pub(super) fn head(&self) -> Option<(f64, &Arc<str>)> {
        self.places.first().map(|place| (place.start, &place.name))
    }

    pub(super) fn pop(&mut self) -> Option<Arc<str>> {
        self.places.pop_first().map(|place| place.name)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }
}

#[derive(Clone, Debug)]
struct StartEntry {
    start: f64,
    name: Arc<str>,
}

impl Ord for StartEntry {
    fn cmp(&self, other: &Self) -> Ordering {
        self.start.total_cmp(&other.start).then_with(|| self.name.cmp(&other.name))
    }
}

impl PartialOrd for StartEntry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for StartEntry {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for StartEntry {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_start_then_by_bytes() {
        let mut line = StartIndex::default();
        for (start, name) in [(1.0, "b"), (1.0, "a"), (1.0, "B"), (-2.5, "z"), (10.0, "a0"), (1.0, "é")] {
            line.insert(start, name.into());
        }
        line.remove(10.0, &"a0".into());
        let order: Vec<_> = std::iter::from_fn(|| line.pop()).collect();
        assert_eq!(order.iter().map(|name| &**name).collect::<Vec<_>>(), ["z", "B", "a", "b", "é"]);
    }
}
