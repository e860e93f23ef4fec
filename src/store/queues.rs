//! Queues: which there are, and how many jobs of each state they hold.

use super::script::{OLDEST_JOB, QUEUE_BOUND, QUEUE_PAUSE};
use super::{Error, Store, reply};
use crate::job::{Bound, State, json};
use std::collections::BTreeMap;

/// A queue that has been used.
#[derive(Clone, Debug, PartialEq)]
pub struct Queue {
    pub name: String,
    pub created: i64,
}

/// Jobs of a queue by state, and its oldest waiting one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QueueStats {
    pub counts: BTreeMap<&'static str, i64>,
    /// When the oldest job that may run became available.
    pub oldest_available: Option<i64>,
}

impl QueueStats {
    /// Jobs in a state.
    pub fn count(&self, state: State) -> i64 {
        self.counts.get(state.name()).copied().unwrap_or(0)
    }
}

impl Store {
    /// All queues of the scope, by the name that it has for them.
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

    /// The number of all queues, and of paused ones, whoever asks.
    pub async fn queue_numbers(&self) -> Result<(u64, u64), Error> {
        let size = async |key: String| {
            let mut command = redis::cmd("HLEN");
            command.arg(key);
            Ok::<u64, Error>(reply::number(self.core.command("queues", command).await?).max(0) as u64)
        };
        Ok((size(self.core.keys.queues()).await?, size(self.core.keys.paused()).await?))
    }

    /// A queue by its name.
    pub async fn queue(&self, name: &str) -> Result<Option<Queue>, Error> {
        let mut command = redis::cmd("HGET");
        command.arg(self.core.keys.queues()).arg(&*self.scope.qualified(name));
        let created = reply::text(self.core.command("queue", command).await?);
        Ok(created.parse().ok().map(|created| Queue { name: name.to_owned(), created }))
    }

    /// Jobs of a queue by state.
    pub async fn queue_counts(&self, queue: &str) -> Result<BTreeMap<&'static str, i64>, Error> {
        let mut command = redis::cmd("HGETALL");
        command.arg(self.core.keys.counts(&self.scope.qualified(queue)));
        let stored = reply::pairs(self.core.command("counts", command).await?, "counts")?;
        let mut counts: BTreeMap<&'static str, i64> = State::ALL.into_iter().map(|state| (state.name(), 0)).collect();
        for (state, count) in stored {
            if let Some(state) = State::from_name(&state) {
                counts.insert(state.name(), count.parse().unwrap_or(0));
            }
        }
        Ok(counts)
    }

    /// Jobs of a queue by state, and its oldest waiting one.
    pub async fn queue_stats(&self, queue: &str) -> Result<QueueStats, Error> {
        let counts = self.queue_counts(queue).await?;
        Ok(QueueStats { counts, oldest_available: self.oldest_available(queue).await? })
    }

    /// Whether one of these queues holds a job that nothing blocks. They are named as in the store, as those of a [`Fetch`] are.
    ///
    /// [`Fetch`]: super::Fetch
    pub async fn have_runnable(&self, queues: &[String]) -> Result<bool, Error> {
        let mut command = redis::cmd("EXISTS");
        queues.iter().for_each(|queue| _ = command.arg(self.core.keys.ready(queue)));
        let found = self.core.command("runnable", command).await?;
        Ok(matches!(found, redis::Value::Int(found) if found > 0))
    }

    async fn oldest_available(&self, queue: &str) -> Result<Option<i64>, Error> {
        let queue = self.scope.qualified(queue);
        let answer =
            OLDEST_JOB.call(&self.core.connection, |command, _| _ = self.core.begin(command).arg(&*queue)).await?;
        Ok(reply::text(answer).parse().ok())
    }
}

/// Queues that may be paused, or bounded, at a time.
const MOST_SET: usize = 10_000;

impl Store {
    /// Pauses a queue, or lets it go on; when it was paused, if it is now. `None` if as many are paused as may be.
    pub async fn pause_queue(&self, queue: &str, pauses: bool, by: &str) -> Result<Option<Option<i64>>, Error> {
        let queue = self.scope.qualified(queue);
        let answer = QUEUE_PAUSE
            .call(&self.core.connection, |command, _| {
                self.core.begin(command).arg(&*queue).arg(u8::from(pauses)).arg(MOST_SET).arg(json::quoted(by));
            })
            .await?;
        match reply::text(answer).as_str() {
            "full" => Ok(None),
            since => Ok(Some(since.parse().ok())),
        }
    }

    /// Since when a queue is paused, if it is.
    pub async fn paused_since(&self, queue: &str) -> Result<Option<i64>, Error> {
        let mut command = redis::cmd("HGET");
        command.arg(self.core.keys.paused()).arg(&*self.scope.qualified(queue));
        Ok(reply::text(self.core.command("paused", command).await?).parse().ok())
    }

    /// Paused queues, by name.
    pub async fn paused_queues(&self) -> Result<BTreeMap<String, i64>, Error> {
        let mut command = redis::cmd("HGETALL");
        command.arg(self.core.keys.paused());
        let pairs = reply::pairs(self.core.command("paused", command).await?, "paused")?;
        let own = |(name, since): (String, String)| {
            Some((self.scope.unqualified(&name)?.to_owned(), since.parse().unwrap_or(0)))
        };
        Ok(pairs.into_iter().filter_map(own).collect())
    }

    /// Bounds a queue, or removes its bound; false if as many queues have one as may.
    pub async fn set_bound(&self, queue: &str, bound: Option<&Bound>) -> Result<bool, Error> {
        let packed = bound.map(Bound::packed).unwrap_or_default();
        let queue = self.scope.qualified(queue);
        let fill = |command: &mut redis::Cmd, _: bool| {
            self.core.begin(command).arg(&*queue).arg(&packed).arg(MOST_SET);
        };
        Ok(reply::number(QUEUE_BOUND.call(&self.core.connection, fill).await?) == 1)
    }

    /// A queue's bound, if it has one.
    pub async fn bound(&self, queue: &str) -> Result<Option<Bound>, Error> {
        let mut command = redis::cmd("HGET");
        command.arg(self.core.keys.bounds()).arg(&*self.scope.qualified(queue));
        Ok(Bound::from_packed(&reply::text(self.core.command("bound", command).await?)))
    }

    /// Jobs that ended in a state since a moment, as far as they are still kept.
    pub async fn ended_since(&self, state: State, since: i64) -> Result<u64, Error> {
        let mut command = redis::cmd("ZCOUNT");
        command.arg(self.core.keys.finished(state.name())).arg(since).arg("+inf");
        Ok(reply::number(self.core.command("ended", command).await?) as u64)
    }
}
