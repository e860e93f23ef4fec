//! How fast workers take jobs from a queue that keeps no count of it.

/// Jobs taken so far, by what was pushed and what is left.
#[derive(Clone, Debug, Default)]
pub struct Pace {
    depth: u64,
    pushed: u64,
    taken: u64,
}

impl Pace {
    /// Jobs were pushed.
    pub fn pushed(&mut self, jobs: u64) {
        self.pushed += jobs;
    }

    /// So many wait now; how many have been taken in all. What others push meanwhile makes it too few, never too many.
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
        let mut pace = Pace::default();
        assert_eq!(pace.observe(5), 0);
        pace.pushed(10);
        assert_eq!(pace.observe(3), 12);
        assert_eq!(pace.observe(9), 12, "others pushed");
        assert_eq!(pace.observe(0), 21);
    }
}
