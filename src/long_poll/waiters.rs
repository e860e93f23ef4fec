//! The fetches that wait in this process. They are woken when a job is available, and do not query
//! Redis until then.

use super::wait_queues::{Seen, Ticket, WaitQueues};
use crate::store::Signal;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;
use tokio::sync::broadcast::{Receiver, error::RecvError};
use tokio_util::sync::CancellationToken;

/// Maximum number of waiting fetches in a process; further ones are answered at once.
const MOST: usize = 20_000;

/// All waiting fetches of this process; clones share them.
#[derive(Clone, Default)]
pub struct Waiters {
    shared: Arc<Mutex<Shared>>,
}

#[derive(Default)]
struct Shared {
    lines: WaitQueues,
    bells: HashMap<Ticket, Arc<Notify>>,
}

impl Shared {
    fn wake(&self, woken: impl IntoIterator<Item = Ticket>) {
        woken.into_iter().filter_map(|ticket| self.bells.get(&ticket)).for_each(|bell| bell.notify_one());
    }
}

impl Waiters {
    /// Joins the lines of some queues. The caller must call this before its first check, because a
    /// signal between both would be lost. Returns `None` if too many fetches wait.
    pub(super) fn enter(&self, queues: &[String]) -> Option<Waiter> {
        let mut shared = self.lock();
        if shared.lines.len() >= MOST {
            return None;
        }
        let (ticket, bell) = (shared.lines.enter(queues), Arc::new(Notify::new()));
        shared.bells.insert(ticket, Arc::clone(&bell));
        drop(shared);
        Some(Waiter { waiters: self.clone(), ticket, bell })
    }

    /// Passes signals on until `stop`.
    pub async fn follow(self, mut signals: Receiver<Signal>, stop: CancellationToken) {
        loop {
            let signal = tokio::select! {
                () = stop.cancelled() => return,
                signal = signals.recv() => signal,
            };
            let mut shared = self.lock();
            let woken = match signal {
                Ok(Signal::Ready { queue }) => shared.lines.signal(&queue).into_iter().collect(),
                Ok(Signal::Missed) | Err(RecvError::Lagged(_)) => shared.lines.signal_all(),
                Ok(_) => continue,
                Err(RecvError::Closed) => return,
            };
            shared.wake(woken);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A waiting fetch. When it is dropped, because it got jobs or its client disconnected, its turn
/// passes to the next one.
pub(super) struct Waiter {
    waiters: Waiters,
    ticket: Ticket,
    bell: Arc<Notify>,
}

impl Waiter {
    /// Returns to waiting after a check that found nothing; see [`WaitQueues::rest`].
    pub(super) fn rest(&self, seen: Seen) {
        let mut shared = self.waiters.lock();
        let woken = shared.lines.rest(self.ticket, seen);
        shared.wake(woken);
    }

    /// Waits for the turn of this fetch to check.
    pub(super) async fn turn(&self) {
        self.bell.notified().await;
    }

    /// Returns the queues whose offers this fetch holds.
    pub(super) fn held(&self) -> Vec<String> {
        self.waiters.lock().lines.held(self.ticket)
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let mut shared = self.waiters.lock();
        shared.bells.remove(&self.ticket);
        let woken = shared.lines.leave(self.ticket);
        shared.wake(woken);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_do_not_wait_and_none_is_left_behind() {
        let (waiters, queues) = (Waiters::default(), ["q".to_owned()]);
        let mut entered: Vec<Waiter> = (0..MOST).filter_map(|_| waiters.enter(&queues)).collect();
        assert!(entered.len() == MOST && waiters.enter(&queues).is_none());
        entered.pop();
        assert!(waiters.enter(&queues).is_some());
        drop(entered);
        let shared = waiters.lock();
        assert_eq!((shared.lines.len(), shared.bells.len()), (0, 0));
    }
}
