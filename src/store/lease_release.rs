//! Jobs that are handed back because they never reached a worker: the client is gone, or the answer to a fetch was lost for good.

use super::error::Error;
use super::script::{RECALL, RELEASE, Script};
use super::{Core, reply};
use crate::job::id;
use redis::{Cmd, Value};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How long a lease that cannot be handed back is retried. What a fetch leased is kept as long (`lua/dispatch/fetch.lua`).
const PATIENCE: Duration = Duration::from_secs(3600);
const PAUSE: Duration = Duration::from_millis(500);

/// A lease as RELEASE knows it: when it began, the attempt and the job. The start distinguishes it from a later lease, because
/// the attempt is taken back and would be the same.
pub(super) type Lease = (i64, u32, String);

/// One call of a fetch. Redis keeps what the last call of each slot leased, so that the call can be repeated or taken back.
#[derive(Clone, Debug)]
pub(super) struct FetchCall {
    pub(super) slot: Arc<str>,
    pub(super) number: u64,
}

/// Numbers the fetches of a process.
pub(super) struct FetchCalls(Mutex<FetchCall>);

impl FetchCalls {
    pub(super) fn new() -> Self {
        FetchCalls(Mutex::new(Self::fresh_slot()))
    }

    fn fresh_slot() -> FetchCall {
        FetchCall { slot: id::generate().into(), number: 0 }
    }

    /// The next call of the current slot.
    pub(super) fn next(&self) -> FetchCall {
        let mut last = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        last.number += 1;
        last.clone()
    }

    /// Begins another slot: what the last call leased is kept until it has been taken back.
    pub(super) fn retire_slot(&self) {
        *self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Self::fresh_slot();
    }
}

impl Core {
    /// Hands back jobs under their leases.
    pub(super) async fn release(&self, jobs: &[Lease]) {
        let fill = |command: &mut Cmd, _: bool| {
            self.begin(command).arg(jobs.len());
            jobs.iter().for_each(|(started, attempt, id)| _ = command.arg(id).arg(attempt).arg(started));
        };
        if let Err(error) = self.persist(&RELEASE, fill).await {
            tracing::warn!(%error, jobs = jobs.len(), "could not hand back jobs of a client that is gone; their leases will run out");
        }
    }

    /// Hands back what a fetch leased whose answer will never come, and keeps it from being carried out later. `replayable` says
    /// for each of its requests whether the client can ask for the same jobs again; those are left to it.
    pub(super) async fn recall(&self, call: FetchCall, replayable: Vec<bool>) {
        let fill = |command: &mut Cmd, _: bool| {
            self.begin(command).arg(&*call.slot).arg(call.number);
            replayable.iter().for_each(|replayable| _ = command.arg(u8::from(*replayable)));
        };
        match self.persist(&RECALL, fill).await.map(reply::number) {
            Ok(0) => {}
            Ok(jobs) => tracing::info!(jobs, "handed back jobs of a fetch whose answer was lost"),
            Err(error) => {
                tracing::warn!(%error, "could not hand back jobs of a fetch whose answer was lost; their leases will run out");
            }
        }
    }

    /// Repeats a call until Redis is there to carry it out, the store closes, or the leases it is about have long run out.
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
