//! An existing Sidekiq as the main queue: its workers remain unchanged and find jobs in its queues.

use super::pace::DrainPace;
use crate::domain::json;
use crate::domain::plan::Closed;
use crate::store::{
    self, DeliveryRoute, Destination, Error, Observation, OutboxEntry, Promoted, SidekiqProcess, Store,
};
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::OnceCell;

/// Interval at which queues are polled while jobs are staged for them.
pub const POLL: Duration = Duration::from_millis(100);
/// Shortest target latency of `auto` in milliseconds: jobs must last until the next reading, with a
/// margin.
pub const LEAST_LATENCY_MS: u64 = 300;
/// Time for which reports of processes are cached; processes report every 5 or 10 s.
const CREW_SERVES: Duration = Duration::from_secs(1);
/// Maximum number of queues that are remembered; clients choose their names.
const MOST_QUEUES: usize = 1000;

/// A Sidekiq that jobs are promoted into.
pub struct Sidekiq {
    name: String,
    pub(super) store: Store,
    pub(super) redis: store::Sidekiq,
    /// The location of its Redis relative to ours, according to the configuration.
    place: RedisLocation,
    /// The queue from which jobs are imported.
    staging_queue: Option<String>,
    destination: OnceCell<Destination>,
    crew: tokio::sync::Mutex<Option<(Instant, Arc<Vec<SidekiqProcess>>)>>,
    paces: Mutex<HashMap<String, DrainPace>>,
    unserved: Mutex<HashSet<String>>,
    /// Unsupported versions for which a warning was logged.
    untried: Mutex<HashSet<String>>,
}

/// The location of a Sidekiq's Redis relative to ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RedisLocation {
    Here,
    Database { theirs: u32, ours: u32 },
    Elsewhere,
}

impl Sidekiq {
    /// Creates the Sidekiq main queue of that name.
    pub fn new(
        name: &str,
        store: Store,
        redis: store::Sidekiq,
        place: RedisLocation,
        staging_queue: Option<String>,
    ) -> Sidekiq {
        Sidekiq {
            name: name.to_owned(),
            store,
            redis,
            place,
            staging_queue,
            destination: OnceCell::new(),
            crew: Default::default(),
            paces: Default::default(),
            unserved: Default::default(),
            untried: Default::default(),
        }
    }

    /// Returns the name that plan rules use.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the queue from which jobs are imported, if there is one.
    pub fn staging_queue(&self) -> Option<&str> {
        self.staging_queue.as_deref()
    }

    /// Returns the client of its Redis.
    pub fn redis(&self) -> &store::Sidekiq {
        &self.redis
    }

    /// Adds to the store's data about queues what Sidekiq's own keys contain.
    pub async fn observe(&self, queues: &mut [Observation]) -> Result<(), Error> {
        if queues.is_empty() {
            return Ok(());
        }
        let names: Vec<&str> = queues.iter().map(|queue| queue.queue.as_str()).collect();
        let seen = self.redis.queues(&names).await.map_err(|error| self.named(error))?;
        let crew = self.crew().await.map_err(|error| self.named(error))?;
        for (queue, seen) in queues.iter_mut().zip(seen) {
            let serving: Vec<&SidekiqProcess> = crew.iter().filter(|one| one.queues.contains(&queue.queue)).collect();
            self.warn_if_unserved(&queue.queue, serving.is_empty()).await;
            queue.processes = Some(serving.len() as u64);
            queue.slots = Some(serving.iter().map(|one| one.threads(&queue.queue)).sum());
            queue.active = serving.iter().map(|one| one.busy).sum();
            let awake = serving.iter().filter(|one| !one.quiet);
            queue.spare = awake.map(|one| one.spare(&queue.queue)).sum();
            (queue.depth, queue.oldest, queue.idle_ms) = (seen.depth, seen.oldest, None);
            queue.taken = self.pace(&queue.queue, |pace| pace.observe(seen.depth));
            // Processes that are stopping take no more jobs. Jobs for their successors wait in
            // staging, in fair order.
            let all_quiet = !serving.is_empty() && serving.iter().all(|one| one.quiet);
            queue.hindrance = match (seen.paused, all_quiet) {
                (true, _) => Some(Closed::QueuePaused),
                (false, true) => Some(Closed::Quiet),
                (false, false) => None,
            };
        }
        Ok(())
    }

    /// Promotes up to `jobs` staged jobs.
    pub async fn promote(&self, rule: &str, token: &str, queue: &str, jobs: u64) -> Result<Promoted, Error> {
        let destination = self.destination().await?;
        // Deliver first, so that the outbox holds at most one entry, apart from those of processes
        // that died. Otherwise entries would pile up while the Sidekiq's Redis is down.
        self.settle(rule).await?;
        let outcome = self.store.promote_external(rule, token, queue, jobs, destination).await?;
        if let Promoted::Jobs { promoted, .. } = &outcome {
            self.pace(queue, |pace| pace.pushed(*promoted));
            if let Err(error) = self.settle(rule).await {
                // The jobs are promoted and in the outbox. If delivery keeps failing, the next call
                // returns an error.
                tracing::warn!(rule, main_queue = self.name, %error, "cannot deliver promoted jobs yet; trying again");
            }
        }
        Ok(outcome)
    }

    /// Delivers jobs in the outbox. Safe to repeat and to run concurrently.
    pub async fn settle(&self, rule: &str) -> Result<(), Error> {
        if !matches!(self.destination().await?.route, DeliveryRoute::Outbox { .. }) {
            return Ok(());
        }
        loop {
            let entries = self.store.outbox(rule).await?;
            let Some(last) = entries.last() else { return Ok(()) };
            for entry in &entries {
                self.redis.deliver(&self.marker(rule, entry), entry).await.map_err(|error| self.named(error))?;
            }
            self.store.confirm_outbox(rule, last.sequence).await?;
        }
    }

    /// Returns the number of jobs in the first entries of a rule's outbox.
    pub async fn undelivered(&self, rule: &str) -> Result<u64, Error> {
        match self.place {
            RedisLocation::Here => Ok(0),
            _ => Ok(self.store.outbox(rule).await?.iter().map(|entry| entry.payloads.len() as u64).sum()),
        }
    }

    /// Returns the key in which the target stores how far a rule's outbox has been delivered.
    fn marker(&self, rule: &str, entry: &OutboxEntry) -> String {
        format!("fairgate:{}:{rule}:delivered", entry.origin)
    }

    pub(super) async fn destination(&self) -> Result<&Destination, Error> {
        let find = async || {
            let route = match self.place {
                RedisLocation::Here => DeliveryRoute::Here,
                RedisLocation::Database { theirs, ours } => match self.store.can_select(theirs).await {
                    Ok(()) => DeliveryRoute::Database { theirs, ours },
                    Err(Error::Backend(reason)) => {
                        let main_queue = &self.name;
                        tracing::warn!(
                            main_queue,
                            reason,
                            "scripts may not SELECT another database; delivering through an outbox"
                        );
                        DeliveryRoute::Outbox { origin: self.store.origin().await? }
                    }
                    Err(error) => return Err(error),
                },
                RedisLocation::Elsewhere => DeliveryRoute::Outbox { origin: self.store.origin().await? },
            };
            let (name, prefix) = (self.name.clone(), self.redis.prefix().to_owned());
            Ok(Destination { name, prefix, route })
        };
        self.destination.get_or_try_init(find).await
    }

    /// Returns its processes as they last reported, cached for at most a second.
    pub async fn crew(&self) -> Result<Arc<Vec<SidekiqProcess>>, Error> {
        let mut crew = self.crew.lock().await;
        if let Some((_, known)) = crew.as_ref().filter(|(at, _)| at.elapsed() < CREW_SERVES) {
            return Ok(Arc::clone(known));
        }
        let known = Arc::new(self.redis.processes().await?);
        self.warn_of_versions(&known).await;
        *crew = Some((Instant::now(), Arc::clone(&known)));
        Ok(known)
    }

    fn pace<T>(&self, queue: &str, act: impl FnOnce(&mut DrainPace) -> T) -> T {
        // A panic cannot leave it inconsistent: each closure only makes a few additions.
        let mut paces = self.paces.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if paces.len() >= MOST_QUEUES && !paces.contains_key(queue) {
            paces.clear();
        }
        act(paces.entry(queue.to_owned()).or_default())
    }

    /// Logs and emits an event once if no process serves a queue, and again after one has.
    async fn warn_if_unserved(&self, queue: &str, is_unserved: bool) {
        let is_news = {
            let mut unserved = self.unserved.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            match is_unserved {
                true => unserved.len() < MOST_QUEUES && unserved.insert(queue.to_owned()),
                false => unserved.remove(queue),
            }
        };
        match (is_news, is_unserved) {
            (false, _) => {}
            (true, true) => {
                tracing::warn!(main_queue = self.name, queue, "no Sidekiq process serves this queue");
                self.announce("main_queue.unserved", "queue", queue).await;
            }
            (true, false) => self.announce("main_queue.served", "queue", queue).await,
        }
    }

    /// Logs and emits an event once for each version that fairgate was not tested with.
    async fn warn_of_versions(&self, crew: &[SidekiqProcess]) {
        for version in crew.iter().filter_map(|process| process.version.as_deref()).filter(|version| !is_tried(version))
        {
            let is_news = {
                let mut untried = self.untried.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                untried.len() < MOST_QUEUES && untried.insert(version.to_owned())
            };
            if is_news {
                let main_queue = &self.name;
                tracing::warn!(main_queue, version, "untested Sidekiq version; fairgate is tested with 6.4, 7 and 8");
                self.announce("main_queue.untried_version", "version", version).await;
            }
        }
    }

    async fn announce(&self, event: &str, name: &str, value: &str) {
        let data = format!("\"{name}\":{}", json::quoted(value));
        if let Err(error) = self.store.announce(event, &self.name, &data).await {
            tracing::debug!(%error, "cannot store an event about the main queue");
        }
    }

    /// Returns the versions of its processes, as far as they report them: those before 7 do not.
    pub async fn versions(&self) -> Vec<String> {
        let crew = self.crew().await.unwrap_or_default();
        let mut versions: Vec<String> = crew.iter().filter_map(|process| process.version.clone()).collect();
        versions.sort();
        versions.dedup();
        versions
    }

    /// Adds the name of the main queue to an error, so that it is not mistaken for one of the
    /// store.
    pub(super) fn named(&self, error: Error) -> Error {
        match error {
            Error::Unavailable(reason) => Error::Unavailable(format!("main queue {}: {reason}", self.name)),
            Error::Backend(reason) => Error::Backend(format!("main queue {}: {reason}", self.name)),
            Error::Timeout(within) => {
                Error::Unavailable(format!("main queue {} did not answer within {within:?}", self.name))
            }
            Error::Schema(reason) => Error::Schema(format!("main queue {}: {reason}", self.name)),
            other => other,
        }
    }
}

/// Returns true if fairgate was tested with a version.
fn is_tried(version: &str) -> bool {
    let major = version.split('.').next().and_then(|major| major.parse::<u32>().ok());
    major.is_some_and(|major| (6..=8).contains(&major))
}
