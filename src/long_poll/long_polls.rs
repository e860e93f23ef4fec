//! A fetch that waits: answered when a job can go, when its time is over, or when the server stops.

use super::waiters::{Waiter, Waiters};
use crate::store::{Error, Fetch, Leased, Store};
use crate::telemetry::Waiting;
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How long one fetch may wait; more is clamped.
pub const LONGEST_WAIT: Duration = Duration::from_secs(30);
/// How soon a woken fetch tries again when Redis cannot be asked.
const AFTER_FAILURE: Duration = Duration::from_millis(250);

/// What long polls need; clones share it.
#[derive(Clone)]
pub struct LongPolls {
    store: Store,
    waiters: Waiters,
    /// Those who have looked once and wait.
    waiting: Waiting,
    /// Ends all waits.
    draining: CancellationToken,
}

impl LongPolls {
    /// Long polls that `draining` ends.
    pub fn new(store: Store, waiters: Waiters, waiting: Waiting, draining: CancellationToken) -> Self {
        LongPolls { store, waiters, waiting, draining }
    }

    /// The same for a store of another scope.
    pub fn within(&self, store: &Store) -> Self {
        LongPolls { store: store.clone(), ..self.clone() }
    }

    /// Leases jobs; where there are none, waits for them up to `wait`. Returns also how long it has waited.
    pub async fn fetch(&self, request: Fetch, wait: Duration) -> Result<(Leased, Duration), Error> {
        let entered = if wait.is_zero() { None } else { self.waiters.enter(&request.queues) };
        let Some(waiter) = entered else {
            return Ok((self.store.fetch(request).await?, Duration::ZERO));
        };
        let deadline = Instant::now() + wait.min(LONGEST_WAIT);
        let mut leased = self.store.fetch(request.clone()).await?;
        let (mut counted, mut waited) = (None, Duration::ZERO);
        while leased.is_empty() {
            let cannot_take = self.cannot_take(&waiter, &request, deadline, &mut leased).await?;
            if !leased.is_empty() {
                break;
            }
            waiter.rest(cannot_take);
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

    /// Fetches once it is this one's turn. An outage of Redis does not end the wait, unless it lasts until the end; `None` if
    /// the server stops meanwhile.
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

    /// Whether there is something that this one cannot have, though others may: its worker is to get no work, say. Then the
    /// others must not wait behind it. It looks once more before it says so, because a job may have come since it did.
    async fn cannot_take(
        &self,
        waiter: &Waiter,
        request: &Fetch,
        deadline: Instant,
        leased: &mut Leased,
    ) -> Result<bool, Error> {
        let held = waiter.held();
        // An error is as good as a no here: the next signal brings the question up again.
        if held.is_empty() || !self.store.have_runnable(&held).await.unwrap_or(false) {
            return Ok(false);
        }
        if let Some(found) = self.look(request, deadline).await? {
            *leased = found;
        }
        Ok(leased.is_empty())
    }
}
