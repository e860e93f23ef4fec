//! The part of an importer that a release uses: it empties the inbox and holds the source.

use super::Importer;
use crate::main_queue::ImportSource;
use crate::store::{Error, ImportOutcome};

impl Importer {
    /// Returns the number of jobs that were taken from the source and are not staged yet.
    pub(in crate::sidekiq) async fn pending(&mut self) -> Result<u64, Error> {
        self.identify().await?;
        let name = self.inbox();
        let taken_in = self.store.imported_up_to(&name).await?;
        self.taken_in = Some(taken_in);
        self.sidekiq.redis().pending(&name, taken_in).await
    }

    /// Stages all jobs of the inbox, so that the release hands them back with the other jobs.
    /// Returns false if the release has ended.
    pub(in crate::sidekiq) async fn empty_inbox(&mut self, release: &str) -> Result<bool, Error> {
        while self.pending().await? > 0 {
            let known = self.rules.reload().await?;
            let name = self.inbox();
            let before = self.taken_in(&name).await?;
            let mut entries = self.read(&name, before, 0, &known).await?;
            entries.retain(|entry| entry.sequence > before);
            match self.stage(&name, before, entries, &known, release).await? {
                Some(ImportOutcome::Released) => return Ok(false),
                Some(ImportOutcome::Full { rule }) => {
                    return Err(Error::Backend(format!("plan rule {rule:?} has reached max_staged")));
                }
                None | Some(ImportOutcome::Stored | ImportOutcome::AlreadyImported | ImportOutcome::Stale) => {}
            }
        }
        Ok(true)
    }

    /// Acquires or renews the gem's locks. Returns true if no planner of the gem runs, so that only
    /// this process changes the source.
    pub(in crate::sidekiq) async fn hold_source(&mut self) -> Result<bool, Error> {
        self.identify().await?;
        let ImportSource::Fairplay(class) = self.source.clone() else { return Ok(true) };
        let name = self.inbox();
        self.gem_is_still = false;
        self.take_over(&class, &name, 0, 0).await?;
        Ok(self.gem_is_still)
    }
}
