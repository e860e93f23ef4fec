//! Fetches that wait (long polls). A fetch is answered when a job is available, when its time is
//! over, or when the server stops.

use super::wait_queues::Seen;
use super::waiters::{Waiter, Waiters};
use crate::store::{Error, Fetch, Leased, Store};
use crate::telemetry::Waiting;
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Maximum wait of one fetch; longer waits are clamped.
pub const LONGEST_WAIT: Duration = Duration::from_secs(30);
/// Delay before a woken fetch tries again while Redis is unavailable.
const AFTER_FAILURE: Duration = Duration::from_millis(250);

/// Runs long polls; clones share the state.
#[derive(Clone)]
pub struct LongPolls {
    store: Store,
    waiters: Waiters,
    /// Counts the fetches that have checked once and are waiting.
    waiting: Waiting,
    /// Ends all waits when it is cancelled.
    draining: CancellationToken,
}

impl LongPolls {
    /// Creates long polls that end when `draining` is cancelled.
    pub fn new(store: Store, waiters: Waiters, waiting: Waiting, draining: CancellationToken) -> Self {
        LongPolls { store, waiters, waiting, draining }
    }

    /// Returns the long polls for a store with another scope.
    pub fn within(&self, store: &Store) -> Self {
        LongPolls { store: store.clone(), ..self.clone() }
    }

    /// Leases jobs; if there are none, waits for them up to `wait`. Also returns the time waited.
    pub async fn fetch(&self, request: Fetch, wait: Duration) -> Result<(Leased, Duration), Error> {
        let entered = if wait.is_zero() { None } else { self.waiters.enter(&request.queues) };
        let Some(waiter) = entered else {
            return Ok((self.store.fetch(request).await?, Duration::ZERO));
        };
        let deadline = Instant::now() + wait.min(LONGEST_WAIT);
        let mut leased = self.store.fetch(request.clone()).await?;
        let (mut counted, mut waited) = (None, Duration::ZERO);
        while leased.is_empty() {
            let seen = self.check_again(&waiter, &request, deadline, &mut leased).await?;
            if !leased.is_empty() {
                break;
            }
            waiter.rest(seen);
            counted.get_or_insert_with(|| self.waiting.one());
            let since = Instant::now();
            let is_turn = tokio::select! {
                biased;
                () = self.draining.cancelled() => false,
                () = waiter.turn() => true,
                () = tokio::time::sleep_until(deadline) => false,
            };
            waited += since.elapsed();
            if !is_turn {
                break;
            }
            match self.look(&request, deadline).await? {
                Some(found) => leased = found,
                None => break,
            }
        }
        Ok((leased, waited))
    }

    /// Fetches after a wake-up. An outage of Redis does not end the wait unless it lasts until the
    /// deadline. Returns `None` if the server stops meanwhile.
    async fn look(&self, request: &Fetch, deadline: Instant) -> Result<Option<Leased>, Error> {
        loop {
            let error = match self.store.fetch(request.clone()).await {
                Ok(leased) => return Ok(Some(leased)),
                Err(error @ (Error::Unavailable(_) | Error::Busy)) => error,
                Err(error) => return Err(error),
            };
            let next = Instant::now() + AFTER_FAILURE;
            if next >= deadline {
                return Err(error);
            }
            tokio::select! {
                () = self.draining.cancelled() => return Ok(None),
                () = tokio::time::sleep_until(next) => {}
            }
        }
    }

    /// Checks after an empty fetch if there are jobs for others, for example because the worker
    /// gets no work. Then others must not wait behind it. Fetches once more, because a job may have
    /// arrived since the last fetch.
    async fn check_again(
        &self,
        waiter: &Waiter,
        request: &Fetch,
        deadline: Instant,
        leased: &mut Leased,
    ) -> Result<Seen, Error> {
        let held = waiter.held();
        // On an error, assume that there is nothing: the next signal repeats the check.
        if held.is_empty() || !self.store.have_runnable(&held).await.unwrap_or(false) {
            return Ok(Seen::NoJobs);
        }
        if let Some(found) = self.look(request, deadline).await? {
            *leased = found;
        }
        Ok(if leased.is_empty() { Seen::JobsForOthers } else { Seen::NoJobs })
    }
}
