//! A timer for work that comes due before the next tick.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// The earliest time known in this process at which something is due.
#[derive(Debug, Default)]
pub(super) struct DueTimer {
    at: Mutex<Option<Instant>>,
    moved: Notify,
}

impl DueTimer {
    /// Sets the timer to fire after `after`, unless it is set to an earlier time.
    pub(super) fn set(&self, after: Duration) {
        let new = Instant::now() + after;
        let mut at = self.at.lock().unwrap_or_else(PoisonError::into_inner);
        if at.is_none_or(|at| new < at) {
            *at = Some(new);
            self.moved.notify_one();
        }
    }

    /// Waits until the timer fires, and clears it.
    pub(super) async fn elapsed(&self) {
        loop {
            let at = *self.at.lock().unwrap_or_else(PoisonError::into_inner);
            let ringing = async {
                match at {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = ringing => {
                    *self.at.lock().unwrap_or_else(PoisonError::into_inner) = None;
                    return;
                }
                () = self.moved.notified() => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_earliest_time_counts_and_rings_once() {
        let due_timer = DueTimer::default();
        let hour = Duration::from_secs(3600);
        due_timer.set(hour);
        let earlier = async {
            tokio::task::yield_now().await;
            due_timer.set(Duration::ZERO);
            due_timer.set(hour);
        };
        let rings = async { tokio::join!(due_timer.elapsed(), earlier) };
        tokio::time::timeout(Duration::from_secs(30), rings).await.expect("it rings");
        assert!(tokio::time::timeout(Duration::from_millis(50), due_timer.elapsed()).await.is_err(), "and not again");
    }
}
