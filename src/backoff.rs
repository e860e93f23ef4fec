//! Growing delays between the attempts of an operation.

use std::time::Duration;

/// Delays that double from the shortest to the longest.
#[derive(Clone, Debug)]
pub struct Backoff {
    shortest: Duration,
    longest: Duration,
    next: Duration,
}

impl Backoff {
    /// Creates delays that begin with the shortest one.
    pub const fn new(shortest: Duration, longest: Duration) -> Backoff {
        Backoff { shortest, longest, next: shortest }
    }

    /// Returns the delay before the next attempt; the one after it is twice as long.
    pub fn next_delay(&mut self) -> Duration {
        let delay = self.next;
        self.next = (delay * 2).min(self.longest);
        delay
    }

    /// Begins with the shortest delay again.
    pub fn reset(&mut self) {
        self.next = self.shortest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_longest_and_begin_anew_after_a_reset() {
        let mut backoff = Backoff::new(Duration::from_millis(20), Duration::from_millis(100));
        for _ in 0..2 {
            let delays: Vec<u128> = (0..5).map(|_| backoff.next_delay().as_millis()).collect();
            assert_eq!(delays, [20, 40, 80, 100, 100]);
            backoff.reset();
        }
    }
}
