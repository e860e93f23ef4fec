//! The number of jobs taken from a queue that does not count it.

/// Computes the number of taken jobs from pushed and remaining ones.
#[derive(Clone, Debug, Default)]
pub struct DrainPace {
    depth: u64,
    pushed: u64,
    taken: u64,
}

impl DrainPace {
    /// Records that jobs were pushed.
    pub fn pushed(&mut self, jobs: u64) {
        self.pushed += jobs;
    }

    /// Records the current depth and returns the total number of taken jobs. Jobs pushed by others
    /// make it too small, never too large.
    pub fn observe(&mut self, depth: u64) -> u64 {
        self.taken += (self.depth + self.pushed).saturating_sub(depth);
        (self.depth, self.pushed) = (depth, 0);
        self.taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_pushed_and_is_not_there_was_taken() {
        let mut pace = DrainPace::default();
        assert_eq!(pace.observe(5), 0);
        pace.pushed(10);
        assert_eq!(pace.observe(3), 12);
        assert_eq!(pace.observe(9), 12, "others pushed");
        assert_eq!(pace.observe(0), 21);
    }
}
