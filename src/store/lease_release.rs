//! Handing back jobs that never reached a worker: the client is gone, or the reply to a fetch was
//! lost.

use super::error::Error;
use super::script::{RECALL, RELEASE, Script};
use super::{Core, reply};
use crate::domain::job::id;
use redis::{Cmd, Value};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How long handing back is retried. Redis keeps the jobs of a fetch as long
/// (`lua/commands/fetch.lua`).
const PATIENCE: Duration = Duration::from_secs(3600);
const PAUSE: Duration = Duration::from_millis(500);

/// A lease as RELEASE takes it.
pub(super) struct Lease {
    pub(super) job_id: String,
    pub(super) attempt: u32,
    /// Start time in milliseconds. Distinguishes the lease from a later one of the same attempt,
    /// because handing back does not count the attempt.
    pub(super) started: i64,
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
        let fill = |command: &mut Cmd, _: bool| {
            self.begin(command).arg(jobs.len());
            jobs.iter().for_each(|lease| _ = command.arg(&lease.job_id).arg(lease.attempt).arg(lease.started));
        };
        if let Err(error) = self.persist(&RELEASE, fill).await {
            tracing::warn!(%error, jobs = jobs.len(), "cannot hand back jobs of a disconnected client; their leases will expire");
        }
    }

    /// Hands back the jobs of a fetch whose reply was lost, and prevents the call from leasing jobs
    /// if it still arrives. `replayable` has for each request whether its client can repeat it;
    /// jobs of those requests are left to it.
    pub(super) async fn recall(&self, call: FetchCall, replayable: Vec<bool>) {
        let fill = |command: &mut Cmd, _: bool| {
            self.begin(command).arg(&*call.slot).arg(call.number);
            replayable.iter().for_each(|replayable| _ = command.arg(u8::from(*replayable)));
        };
        match self.persist(&RECALL, fill).await.and_then(|reply| reply::number(reply, "recall")) {
            Ok(0) => {}
            Ok(jobs) => tracing::info!(jobs, "handed back jobs of a fetch whose reply was lost"),
            Err(error) => {
                tracing::warn!(%error, "cannot hand back jobs of a fetch whose reply was lost; their leases will expire");
            }
        }
    }

    /// Repeats a call until Redis carries it out, the store closes, or [`PATIENCE`] has passed.
    async fn persist(&self, script: &Script, fill: impl Fn(&mut Cmd, bool)) -> Result<Value, Error> {
        let started = Instant::now();
        loop {
            let may_repeat = started.elapsed() < PATIENCE && !self.stop.is_cancelled();
            match script.call(&self.connection, &fill).await {
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
