//! Queues: their names, and the numbers of their jobs by state.

use super::script::{OLDEST_JOB, QUEUE_BOUND, QUEUE_PAUSE};
use super::{Error, Store, reply};
use crate::domain::job::State;
use crate::domain::json;
use crate::domain::limit::Bound;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A queue that has been used.
#[derive(Clone, Debug, PartialEq)]
pub struct Queue {
    pub name: String,
    pub created: i64,
}

/// Numbers of a queue's jobs by state, and its oldest waiting job.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QueueStats {
    pub counts: BTreeMap<State, i64>,
    /// Time at which the oldest runnable job became available, in milliseconds.
    pub oldest_available: Option<i64>,
}

impl QueueStats {
    /// Returns the number of jobs in a state.
    pub fn count(&self, state: State) -> i64 {
        self.counts.get(&state).copied().unwrap_or(0)
    }
}

impl Store {
    /// Returns all queues of the scope, sorted by name.
    pub async fn queues(&self) -> Result<Vec<Queue>, Error> {
        let mut command = redis::cmd("HGETALL");
        command.arg(self.core.keys.queues());
        let pairs = reply::pairs(self.core.command("queues", command).await?, "queues")?;
        let own = |(name, created): (String, String)| {
            let name = self.scope.unqualified(&name)?.to_owned();
            Some(Queue { name, created: created.parse().unwrap_or(0) })
        };
        let mut queues: Vec<Queue> = pairs.into_iter().filter_map(own).collect();
        queues.sort_by(|left, right| left.name.cmp(&right.name));
        Ok(queues)
    }

    /// Returns the numbers of all queues and of paused ones, regardless of the scope.
    pub async fn queue_numbers(&self) -> Result<(u64, u64), Error> {
        let size = async |key: String| {
            let mut command = redis::cmd("HLEN");
            command.arg(key);
            Ok::<u64, Error>(reply::number(self.core.command("queues", command).await?, "queues")?.max(0) as u64)
        };
        Ok((size(self.core.keys.queues()).await?, size(self.core.keys.paused()).await?))
    }

    /// Returns a queue by its name.
    pub async fn queue(&self, name: &str) -> Result<Option<Queue>, Error> {
        let mut command = redis::cmd("HGET");
        command.arg(self.core.keys.queues()).arg(&*self.scope.qualified(name));
        let created = reply::text(self.core.command("queue", command).await?, "queue")?;
        Ok(created.parse().ok().map(|created| Queue { name: name.to_owned(), created }))
    }

    /// Returns the numbers of a queue's jobs by state.
    pub async fn queue_counts(&self, queue: &str) -> Result<BTreeMap<State, i64>, Error> {
        let mut command = redis::cmd("HGETALL");
        command.arg(self.core.keys.counts(&self.scope.qualified(queue)));
        let stored = reply::pairs(self.core.command("counts", command).await?, "counts")?;
        let mut counts: BTreeMap<State, i64> = State::ALL.into_iter().map(|state| (state, 0)).collect();
        for (state, count) in stored {
            if let Some(state) = State::from_name(&state) {
                counts.insert(state, count.parse().unwrap_or(0));
            }
        }
        Ok(counts)
    }

    /// Returns the numbers of a queue's jobs by state, and its oldest waiting job.
    pub async fn queue_stats(&self, queue: &str) -> Result<QueueStats, Error> {
        let counts = self.queue_counts(queue).await?;
        Ok(QueueStats { counts, oldest_available: self.oldest_available(queue).await? })
    }

    /// Returns true if one of these queues has a runnable job. `queues` are names in the store, as
    /// in a [`Fetch`].
    ///
    /// [`Fetch`]: super::Fetch
    pub async fn have_runnable(&self, queues: &[String]) -> Result<bool, Error> {
        let mut command = redis::cmd("EXISTS");
        queues.iter().for_each(|queue| _ = command.arg(self.core.keys.ready(queue)));
        let found = self.core.command("runnable", command).await?;
        Ok(matches!(found, redis::Value::Int(found) if found > 0))
    }

    async fn oldest_available(&self, queue: &str) -> Result<Option<i64>, Error> {
        OLDEST_JOB.call_packed(&self.core, &OldestJob { queue: &self.scope.qualified(queue) }).await
    }
}

/// Largest number of queues that may be paused, and of those that may have a bound.
const MOST_SET: usize = 10_000;

#[derive(Serialize)]
struct OldestJob<'a> {
    queue: &'a str,
}

#[derive(Serialize)]
struct QueuePause<'a> {
    queue: &'a str,
    pauses: bool,
    most: usize,
    by: &'a str,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum QueuePaused {
    Paused(i64),
    Running,
    Full,
}

#[derive(Serialize)]
struct QueueBound<'a> {
    queue: &'a str,
    bound: Option<String>,
    most: usize,
}

impl Store {
    /// Pauses or resumes a queue. Returns the start of the pause if the queue is paused now; the
    /// outer `None` if the largest number of queues is paused already.
    pub async fn pause_queue(&self, queue: &str, paused: bool, by: &str) -> Result<Option<Option<i64>>, Error> {
        let (queue, by) = (&self.scope.qualified(queue), &json::quoted(by));
        let args = QueuePause { queue, pauses: paused, most: MOST_SET, by };
        Ok(match QUEUE_PAUSE.call_packed(&self.core, &args).await? {
            QueuePaused::Paused(since) => Some(Some(since)),
            QueuePaused::Running => Some(None),
            QueuePaused::Full => None,
        })
    }

    /// Returns the time at which a queue was paused, if it is.
    pub async fn paused_since(&self, queue: &str) -> Result<Option<i64>, Error> {
        let mut command = redis::cmd("HGET");
        command.arg(self.core.keys.paused()).arg(&*self.scope.qualified(queue));
        Ok(reply::text(self.core.command("paused", command).await?, "paused")?.parse().ok())
    }

    /// Returns the start of the pause by paused queue.
    pub async fn paused_queues(&self) -> Result<BTreeMap<String, i64>, Error> {
        let mut command = redis::cmd("HGETALL");
        command.arg(self.core.keys.paused());
        let pairs = reply::pairs(self.core.command("paused", command).await?, "paused")?;
        let own = |(name, since): (String, String)| {
            Some((self.scope.unqualified(&name)?.to_owned(), since.parse().unwrap_or(0)))
        };
        Ok(pairs.into_iter().filter_map(own).collect())
    }

    /// Sets or removes a queue's bound. Returns false if the largest number of queues has a bound
    /// already.
    pub async fn set_bound(&self, queue: &str, bound: Option<&Bound>) -> Result<bool, Error> {
        let (queue, bound) = (&self.scope.qualified(queue), bound.map(Bound::packed));
        QUEUE_BOUND.call_packed(&self.core, &QueueBound { queue, bound, most: MOST_SET }).await
    }

    /// Returns a queue's bound, if it has one.
    pub async fn bound(&self, queue: &str) -> Result<Option<Bound>, Error> {
        let mut command = redis::cmd("HGET");
        command.arg(self.core.keys.bounds()).arg(&*self.scope.qualified(queue));
        Ok(Bound::from_packed(&reply::text(self.core.command("bound", command).await?, "bound")?))
    }

    /// Returns the number of jobs that ended in a state since `since`. Jobs whose retention is over
    /// are not counted.
    pub async fn ended_since(&self, state: State, since: i64) -> Result<u64, Error> {
        let mut command = redis::cmd("ZCOUNT");
        command.arg(self.core.keys.finished(state.name())).arg(since).arg("+inf");
        Ok(reply::number(self.core.command("ended", command).await?, "ended")? as u64)
    }
}
