//! The part of an importer that serves a release: it empties the inbox and holds the source.

use super::Importer;
use crate::main_queue::Source;
use crate::store::{Error, TakenIn};

impl Importer {
    /// Jobs that were taken off the source and are not staged yet.
    pub(in crate::planner) async fn pending(&mut self) -> Result<u64, Error> {
        self.identify().await?;
        let name = self.inbox();
        let taken_in = self.store.taken_in(&name).await?;
        self.taken_in = Some(taken_in);
        self.sidekiq.redis().pending(&name, taken_in).await
    }

    /// Stages what was taken off the source, so that a release hands it back with all other jobs. False if the release holds no more.
    pub(in crate::planner) async fn empty_inbox(&mut self, release: &str) -> Result<bool, Error> {
        while self.pending().await? > 0 {
            let known = self.rules.reload().await?;
            let name = self.inbox();
            let before = self.taken_in(&name).await?;
            let mut entries = self.read(&name, before, 0, &known).await?;
            entries.retain(|entry| entry.sequence > before);
            match self.stage(&name, before, entries, &known, release).await? {
                Some(TakenIn::Released) => return Ok(false),
                Some(TakenIn::Full { rule }) => return Err(Error::Backend(format!("plan rule {rule} is full"))),
                None | Some(TakenIn::Stored | TakenIn::Before | TakenIn::Stale) => {}
            }
        }
        Ok(true)
    }

    /// Takes the gem's locks, or keeps them. Returns true if nobody but us changes the source from now on: no planner of the gem runs.
    pub(in crate::planner) async fn hold_source(&mut self) -> Result<bool, Error> {
        self.identify().await?;
        let Source::Fairplay(class) = self.source.clone() else { return Ok(true) };
        let name = self.inbox();
        self.gem_is_still = false;
        self.take_over(&class, &name, 0, 0).await?;
        Ok(self.gem_is_still)
    }
}
