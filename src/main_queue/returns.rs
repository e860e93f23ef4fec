//! The return path: staged jobs of a Sidekiq are handed back to their source.
//!
//! Like a promotion, this is one script if the Sidekiq uses our Redis. Otherwise jobs go through an
//! outbox of their source, under a sequence number, and the target refuses sequence numbers that it
//! has seen.

use super::sidekiq::Sidekiq;
use super::source::ImportSource;
use crate::store::{DeliveryRoute, Error, ReleaseTarget, Restored, Unstaged};

/// Lifetime in seconds of the locks of the gem sidekiq-fairplay. After a crash, the gem continues
/// when they expire.
pub const GEM_LOCK_LIFE: u64 = 30;

impl Sidekiq {
    /// Takes jobs out of staging, the newest first, and hands them back or puts them into the
    /// outbox of their source. `owner` holds the gem's locks.
    pub async fn hand_back(
        &self,
        source: &ImportSource,
        owner: &str,
        token: &str,
        jobs: &[Restored],
    ) -> Result<Unstaged, Error> {
        let route = &self.destination().await?.route;
        self.store.unstage(self.name(), token, route, &self.target(source, owner), jobs).await
    }

    /// Moves the jobs in the outbox of a source back to it, for example after a crash. Returns
    /// false if `owner` does not hold the gem's locks.
    pub async fn settle_returns(&self, source: &ImportSource, owner: &str) -> Result<bool, Error> {
        if !self.has_outbox().await? {
            return Ok(true);
        }
        let target = self.target(source, owner);
        loop {
            let entries = self.store.outbox(&target.name).await?;
            let Some(last) = entries.last() else { return Ok(true) };
            for entry in &entries {
                let marker = format!("fairgate:{}:{}:returned", entry.origin, target.name);
                let given = self.redis.give_back(&marker, entry, &target).await.map_err(|error| self.named(error))?;
                if !given {
                    return Ok(false);
                }
            }
            self.store.confirm_outbox(&target.name, last.sequence).await?;
        }
    }

    /// Returns true if jobs are on their way back to a source.
    pub async fn has_returns(&self, source: &ImportSource) -> Result<bool, Error> {
        Ok(self.has_outbox().await? && !self.store.outbox(&self.source_name(source)).await?.is_empty())
    }

    async fn has_outbox(&self) -> Result<bool, Error> {
        Ok(matches!(self.destination().await?.route, DeliveryRoute::Outbox { .. }))
    }

    fn source_name(&self, source: &ImportSource) -> String {
        format!("{}:{}", self.name(), source.name())
    }

    fn target(&self, source: &ImportSource, owner: &str) -> ReleaseTarget {
        let name = self.source_name(source);
        match source {
            ImportSource::Queue(queue) => self.redis.queue_target(name, queue),
            ImportSource::Fairplay(class) => self.redis.fairplay_target(name, class, owner, GEM_LOCK_LIFE),
        }
    }
}
