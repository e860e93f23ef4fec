//! Handing back jobs that never reached a worker: the client is gone, or the reply to a fetch was
//! lost.

use super::Core;
use super::error::Error;
use super::script::{RECALL, RELEASE, Script};
use crate::domain::job::id;
use serde::Serialize;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How long handing back is retried. Redis keeps the jobs of a fetch as long
/// (`lua/commands/fetch.lua`).
const PATIENCE: Duration = Duration::from_secs(3600);
const PAUSE: Duration = Duration::from_millis(500);

/// A lease that is handed back.
#[derive(Serialize)]
pub(super) struct Lease {
    /// The job.
    pub(super) id: String,
    pub(super) attempt: u32,
    /// Start time in milliseconds. Distinguishes the lease from a later one of the same attempt,
    /// because handing back does not count the attempt.
    pub(super) started: i64,
}

#[derive(Serialize)]
struct Release<'a> {
    jobs: &'a [Lease],
}

#[derive(Serialize)]
struct Recall<'a> {
    slot: &'a str,
    number: u64,
    replayable: Vec<bool>,
}

/// One call of a fetch. Redis keeps the jobs that the last call of each slot leased, so that the
/// call can be repeated or taken back.
#[derive(Clone, Debug)]
pub(super) struct FetchCall {
    pub(super) slot: Arc<str>,
    pub(super) number: u64,
}

/// The numbering of a process' fetch calls.
pub(super) struct FetchCalls(Mutex<FetchCall>);

impl FetchCalls {
    pub(super) fn new() -> Self {
        FetchCalls(Mutex::new(Self::fresh_slot()))
    }

    fn fresh_slot() -> FetchCall {
        FetchCall { slot: id::generate().into(), number: 0 }
    }

    /// Returns the next call of the current slot.
    pub(super) fn next(&self) -> FetchCall {
        let mut last = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        last.number += 1;
        last.clone()
    }

    /// Starts a new slot, so that the record of the last call's jobs stays until they are taken
    /// back.
    pub(super) fn retire_slot(&self) {
        *self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Self::fresh_slot();
    }
}

impl Core {
    /// Hands back jobs under the given leases.
    pub(super) async fn release(&self, jobs: &[Lease]) {
        if let Err(error) = self.persist(&RELEASE, &Release { jobs }).await {
            tracing::warn!(%error, jobs = jobs.len(), "cannot hand back jobs of a disconnected client; their leases will expire");
        }
    }

    /// Hands back the jobs of a fetch whose reply was lost, and prevents the call from leasing jobs
    /// if it still arrives. `replayable` has for each request whether its client can repeat it;
    /// jobs of those requests are left to it.
    pub(super) async fn recall(&self, call: FetchCall, replayable: Vec<bool>) {
        let args = Recall { slot: &call.slot, number: call.number, replayable };
        match self.persist(&RECALL, &args).await {
            Ok(0) => {}
            Ok(jobs) => tracing::info!(jobs, "handed back jobs of a fetch whose reply was lost"),
            Err(error) => {
                tracing::warn!(%error, "cannot hand back jobs of a fetch whose reply was lost; their leases will expire");
            }
        }
    }

    /// Repeats a call until Redis carries it out, the store closes, or [`PATIENCE`] has passed.
    /// Returns the number of jobs that it handed back.
    async fn persist(&self, script: &Script, args: &impl Serialize) -> Result<u64, Error> {
        let started = Instant::now();
        loop {
            let may_repeat = started.elapsed() < PATIENCE && !self.stop.is_cancelled();
            match script.call_packed(self, args).await {
                Err(Error::Unavailable(_) | Error::Timeout(_)) if may_repeat => {}
                outcome => return outcome,
            }
            tokio::select! {
                () = tokio::time::sleep(PAUSE) => {}
                () = self.stop.cancelled() => {}
            }
        }
    }
}
