//! The tick and retention. Each call handles a portion; the caller repeats it until nothing is
//! left.

use super::script::{RETAIN, TICK};
use super::{Core, Error, Store, reply};
use serde::Serialize;

/// Number of jobs of each kind that one call handles; bounds how long the call occupies Redis.
pub(super) const PORTION: usize = 200;

#[derive(Serialize)]
struct Retain {
    limit: usize,
    max_finished: u64,
    max_dead: u64,
    max_events: u64,
    max_idle: u64,
}

impl Core {
    /// Handles what is due.
    pub(super) async fn tick(&self) -> Result<bool, Error> {
        self.run_tick(false).await
    }

    async fn run_tick(&self, resignals: bool) -> Result<bool, Error> {
        let fill = |command: &mut redis::Cmd, _: bool| _ = self.begin(command).arg(PORTION).arg(u8::from(resignals));
        let [more, notes] = reply::parts(TICK.call(&self.connection, fill).await?, "tick")?;
        self.apply_notes(&reply::texts(notes, "tick")?);
        Ok(reply::number(more, "tick")? == 1)
    }
}

impl Store {
    /// Handles what is due: schedules, retries, expiries, leases, dead workers, limits. Returns
    /// true if more is due now.
    pub async fn tick(&self) -> Result<bool, Error> {
        self.core.tick().await
    }

    /// Handles what is due, and signals again which queues have runnable jobs, because a signal may
    /// be lost. Returns true if more is due now.
    pub async fn tick_and_signal(&self) -> Result<bool, Error> {
        self.core.run_tick(true).await
    }

    /// Removes what has outlived its retention, and restores the schema version if Redis was
    /// emptied. Returns true if more is left.
    pub async fn retain(&self) -> Result<bool, Error> {
        // Tenant activity is stored with events, so sum it before they are removed.
        if let Err(error) = self.sum_activity().await {
            tracing::debug!(%error, "cannot sum tenant activity");
        }
        let s = &self.core.settings;
        let args = Retain {
            limit: PORTION,
            max_finished: s.max_finished,
            max_dead: s.max_dead_letters,
            max_events: s.max_events,
            max_idle: s.idle_queues,
        };
        let has_more = RETAIN.call_packed(&self.core, &args).await?;
        self.mark_schema().await?;
        Ok(has_more)
    }

    /// Checks before it writes, because a full Redis refuses even a write that changes nothing.
    async fn mark_schema(&self) -> Result<(), Error> {
        let key = self.core.keys.schema();
        let mut look = redis::cmd("EXISTS");
        look.arg(&key);
        if reply::number(self.core.command("schema", look).await?, "schema")? == 0 {
            let mut mark = redis::cmd("SETNX");
            mark.arg(&key).arg(super::SCHEMA);
            self.core.command("schema", mark).await?;
        }
        Ok(())
    }
}
