//! The simulated main queue: first in, first out.

use std::collections::VecDeque;

/// An attempt of a job that waits for a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Waiting {
    pub tenant: u32,
    /// Number of the attempt, from 1.
    pub attempt: u8,
    /// Time since which it waits, in staging or here.
    pub since_us: u64,
    /// Time since which it is in the main queue.
    pub runnable_us: u64,
}

/// Jobs in the order in which workers take them. Alike jobs that follow each other are stored once.
#[derive(Clone, Debug, Default)]
pub(super) struct MainQueue {
    runs: VecDeque<(Waiting, u64)>,
    depth: u64,
}

impl MainQueue {
    pub(super) fn push(&mut self, waiting: Waiting, jobs: u64) {
        if jobs == 0 {
            return;
        }
        self.depth += jobs;
        match self.runs.back_mut() {
            Some((last, count)) if *last == waiting => *count += jobs,
            _ => self.runs.push_back((waiting, jobs)),
        }
    }

    pub(super) fn pop(&mut self) -> Option<Waiting> {
        let (waiting, count) = self.runs.front_mut()?;
        let first = *waiting;
        *count -= 1;
        if *count == 0 {
            self.runs.pop_front();
        }
        self.depth -= 1;
        Some(first)
    }

    pub(super) fn depth(&self) -> u64 {
        self.depth
    }

    /// Returns the time since which the oldest job is here.
    pub(super) fn oldest_us(&self) -> Option<u64> {
        self.runs.front().map(|(waiting, _)| waiting.runnable_us)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alike_jobs_are_stored_once_and_leave_one_by_one() {
        let mut queue = MainQueue::default();
        let job = |tenant, since_us| Waiting { tenant, attempt: 1, since_us, runnable_us: since_us };
        queue.push(job(1, 5), 2);
        queue.push(job(1, 5), 1);
        queue.push(job(2, 5), 1);
        queue.push(job(2, 5), 0);
        assert_eq!((queue.runs.len(), queue.depth(), queue.oldest_us()), (2, 4, Some(5)));
        let tenants: Vec<u32> = std::iter::from_fn(|| queue.pop()).map(|waiting| waiting.tenant).collect();
        assert_eq!((tenants, queue.depth(), queue.oldest_us()), (vec![1, 1, 1, 2], 0, None));
    }
}
