//! What tenants did, from buckets that expire by themselves.

use super::script::{ACTIVITY_RECENT, TENANT_STATISTICS};
use super::{Error, Store, reply};
use crate::job::escape::escape;

/// Minutes over which throughput is told.
const WINDOW: u64 = 5;

/// What a tenant did within some time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deeds {
    pub enqueued: u64,
    /// Requests that brought those.
    pub pushes: u64,
    /// Attempts that succeeded.
    pub completed: u64,
    /// Attempts that failed.
    pub failed: u64,
    /// For how long workers had its jobs.
    pub worker_ms: u64,
}

impl Deeds {
    pub(super) fn read(text: &str) -> Deeds {
        let mut words = text.split(' ').map(|word| word.parse().unwrap_or(0));
        let mut next = || words.next().unwrap_or(0);
        Deeds { enqueued: next(), pushes: next(), completed: next(), failed: next(), worker_ms: next() }
    }

    pub(super) fn text(&self) -> String {
        let Deeds { enqueued, pushes, completed, failed, worker_ms } = self;
        format!("{enqueued} {pushes} {completed} {failed} {worker_ms}")
    }

    pub(super) fn add(&mut self, other: &Deeds) {
        self.enqueued += other.enqueued;
        self.pushes += other.pushes;
        self.completed += other.completed;
        self.failed += other.failed;
        self.worker_ms += other.worker_ms;
    }

    /// How busy a tenant was: a job counts one, and so does a second of a worker's.
    pub(super) fn busyness(&self) -> u64 {
        self.enqueued + self.completed + self.failed + self.worker_ms / 1000
    }
}

/// What workers did for a tenant within a minute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lately {
    /// Attempts that succeeded or failed.
    pub ended: u64,
    /// For how long workers had one of them on average, if there was one.
    pub runtime_ms: Option<u64>,
}

/// What a tenant did within 24 hours, and does.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TenantStatistics {
    /// Whether what tenants do is counted: everything is nothing otherwise.
    pub counted: bool,
    /// Of the last 24 hours, to the hour: of the first of them, the part that is within is estimated.
    pub day: Deeds,
    pub processed_per_minute: f64,
    pub enqueued_per_minute: f64,
    /// Its part of the time that workers spent within the last minutes, 0 to 1.
    pub worker_share: f64,
}

impl Store {
    /// What workers did for tenants within the last minute; nothing where that is not counted.
    pub async fn tenants_lately(&self, ids: &[&str]) -> Result<Option<Vec<Lately>>, Error> {
        self.fold_activity().await?;
        let fill = |command: &mut redis::Cmd, _: bool| {
            let command = self.core.begin(command);
            ids.iter().for_each(|id| _ = command.arg(escape(id)));
        };
        let answer = reply::array(ACTIVITY_RECENT.call(&self.core.connection, fill).await?, "activity_recent")?;
        let read = |one| {
            let text = reply::text(one);
            let (ended, ms) = text.split_once(' ').unwrap_or_default();
            Lately { ended: ended.parse().unwrap_or(0), runtime_ms: ms.parse().ok() }
        };
        Ok((answer.len() == ids.len()).then(|| answer.into_iter().map(read).collect()))
    }

    /// A tenant's activity; all zero for one that nobody has seen for a day.
    pub async fn tenant_statistics(&self, id: &str) -> Result<TenantStatistics, Error> {
        if !self.scope.admits(Some(id)) {
            return Ok(TenantStatistics::default());
        }
        self.fold_activity().await?;
        let fill = |command: &mut redis::Cmd, _: bool| _ = self.core.begin(command).arg(escape(id)).arg(WINDOW);
        let answer = TENANT_STATISTICS.call(&self.core.connection, fill).await?;
        let [day, lately, all, span, counted] = reply::parts(answer, "statistics")?.map(reply::text);
        let (lately, all) = (Deeds::read(&lately), Deeds::read(&all));
        let minutes = span.parse::<f64>().unwrap_or(0.0).max(1.0) / 60_000.0;
        Ok(TenantStatistics {
            counted: counted == "1",
            day: Deeds::read(&day),
            processed_per_minute: (lately.completed + lately.failed) as f64 / minutes,
            enqueued_per_minute: lately.enqueued as f64 / minutes,
            worker_share: if all.worker_ms == 0 { 0.0 } else { lately.worker_ms as f64 / all.worker_ms as f64 },
        })
    }
}
