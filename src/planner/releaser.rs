//! The release of what is staged from a Sidekiq: each job goes back to the source that it came from, before newer ones and in its old
//! order.
//!
//! A release holds a lock in the store that keeps importers out, or they would take the same jobs in again. It goes from the newest job to
//! the oldest, so that whatever ends it, what is in the source is in order. Each job leaves staging in the script that hands it back, or
//! that puts it into the outbox of its source; a release that died is completed by the next one, or by the next importer.

use super::importer::Importer;
use super::rulebook::Rulebook;
use super::stock::{Inventory, Listed, Stock, portion};
use crate::job::{id, json, sidekiq};
use crate::main_queue::{Sidekiq, Source};
use crate::store::{Error, Hold, Restored, StagedText, Store, Unstaged};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How often the lock is renewed.
const RENEW: Duration = Duration::from_secs(3);
/// How long a planner of the gem sidekiq-fairplay is waited for, and how often it is looked at.
const PATIENCE_WITH_GEM: Duration = Duration::from_secs(30);
const LOOK_AT_GEM: Duration = Duration::from_millis(100);

/// Callback with the number of jobs that were handed back, and of all that are to be.
pub type Progress<'a> = &'a (dyn Fn(u64, u64) + Sync);

/// A release that did not begin, or ended early.
#[derive(Debug, thiserror::Error)]
pub enum ReleaseError {
    #[error(
        "process {process} takes jobs in from {from} of main queue {main_queue} and would take them in again; stop it first. \
         It was last seen {ago_ms} ms ago: if it is gone, try again in 10 s"
    )]
    Drained { main_queue: String, process: String, from: String, ago_ms: u64 },
    #[error("another release of main queue {0} is under way; if its process is gone, try again in 15 s")]
    Taken(String),
    #[error(
        "the release of main queue {0} stood still for too long, and another process may take jobs in; run it again"
    )]
    Lost(String),
    #[error("a planner of sidekiq-fairplay runs for class {0}, so its jobs stay staged; try again when it has ended")]
    GemBusy(String),
    #[error(transparent)]
    Store(#[from] Error),
}

/// Hands back what is staged from one Sidekiq.
pub struct Releaser {
    store: Store,
    rules: Rulebook,
    sidekiq: Arc<Sidekiq>,
    /// One for each source that jobs may go back to.
    importers: Vec<Importer>,
    inventory: Inventory,
}

impl Releaser {
    /// A releaser for a Sidekiq and its sources, none of which is drained by this process any more.
    pub fn new(store: Store, rules: Rulebook, sidekiq: Arc<Sidekiq>, importers: Vec<Importer>) -> Releaser {
        Releaser { store, rules, sidekiq, importers, inventory: Inventory::default() }
    }

    /// Jobs that were handed back, and that are still staged, by rule.
    pub fn stocks(&self) -> &[Stock] {
        &self.inventory.stocks
    }

    /// Counts what a release would hand back, and jobs that were being taken in from each source. Changes nothing.
    pub async fn count(&mut self) -> Result<Vec<(Source, u64)>, Error> {
        self.list().await?;
        let mut pending = Vec::new();
        for importer in &mut self.importers {
            pending.push((importer.source().clone(), importer.pending().await?));
        }
        Ok(pending)
    }

    /// Hands back all jobs that came from the Sidekiq, as many as it can until `deadline`. `stocks` counts them, even after an error.
    pub async fn release(&mut self, deadline: Option<Instant>, progress: Progress<'_>) -> Result<(), ReleaseError> {
        let (store, main_queue, token) = (self.store.clone(), self.sidekiq.name().to_owned(), id::generate());
        held(&main_queue, store.hold_release(&main_queue, &token).await?)?;
        let renewal = async {
            loop {
                tokio::time::sleep(RENEW).await;
                // A lock that was not renewed expires, and `unstage` notices it.
                let Ok(hold) = store.hold_release(&main_queue, &token).await else { continue };
                if let Err(error) = held(&main_queue, hold) {
                    return error;
                }
            }
        };
        let outcome = tokio::select! {
            outcome = self.release_all(&token, deadline, progress) => outcome,
            error = renewal => Err(error),
        };
        self.free_locks().await;
        if let Err(error) = store.end_release(&main_queue, &token).await {
            tracing::debug!(main_queue, %error, "cannot end the release; its lock expires");
        }
        self.announce().await;
        outcome
    }

    /// Lets the gem sidekiq-fairplay go on with the classes whose locks are ours.
    pub async fn free_locks(&mut self) {
        for importer in &mut self.importers {
            importer.hand_back().await;
        }
    }

    async fn release_all(
        &mut self,
        token: &str,
        deadline: Option<Instant>,
        progress: Progress<'_>,
    ) -> Result<(), ReleaseError> {
        for rule in self.rule_names().await? {
            self.sidekiq.settle(&rule).await?;
        }
        for place in 0..self.importers.len() {
            if self.sidekiq.has_returns(self.importers[place].source()).await? {
                self.settle(place, deadline).await?;
            }
            if !self.importers[place].empty_inbox(token).await? {
                return Err(self.lost());
            }
        }
        loop {
            let (listed, before) = (self.list().await?, self.inventory.released());
            let mut outcome = Ok(());
            for (place, jobs) in listed.into_iter().enumerate() {
                match self.release_from(place, &jobs, token, deadline, progress).await {
                    // Other sources are not held up.
                    Err(busy @ ReleaseError::GemBusy(_)) => outcome = Err(busy),
                    other => other?,
                }
            }
            // What was missed, because it moved while it was listed, is found by the next list.
            if outcome.is_err() || is_past(deadline) || self.inventory.released() == before {
                return outcome;
            }
        }
    }

    /// Hands back jobs of one source, newest first.
    async fn release_from(
        &mut self,
        place: usize,
        jobs: &[Listed],
        token: &str,
        deadline: Option<Instant>,
        progress: Progress<'_>,
    ) -> Result<(), ReleaseError> {
        if jobs.is_empty() || is_past(deadline) {
            return Ok(());
        }
        self.hold(place, deadline).await?;
        let source = self.importers[place].source().clone();
        let mut rest = jobs;
        while !rest.is_empty() && !is_past(deadline) {
            let jobs;
            (jobs, rest) = rest.split_at(portion(rest));
            let ids: Vec<&str> = jobs.iter().map(|job| job.id.as_str()).collect();
            let texts = self.store.read_staged(&ids).await?;
            let staged = jobs.iter().zip(texts).filter_map(|(job, text)| Some((job, text?)));
            let (jobs, restored): (Vec<&Listed>, Vec<Restored>) =
                staged.map(|(job, text)| (job, restored(&source, &job.id, &text))).unzip();
            let missing = loop {
                match self.sidekiq.hand_back(&source, &self.importers[place].owner(), token, &restored).await? {
                    Unstaged::Done { missing } => break missing,
                    Unstaged::Locked => self.hold(place, deadline).await?,
                    Unstaged::Lost => return Err(self.lost()),
                }
            };
            for job in jobs.into_iter().filter(|job| !missing.contains(&job.id)) {
                let stock = &mut self.inventory.stocks[job.stock];
                (stock.released, stock.left) = (stock.released + 1, stock.left.saturating_sub(1));
            }
            self.settle(place, deadline).await?;
            progress(self.inventory.released(), self.inventory.released() + self.inventory.left());
        }
        Ok(())
    }

    /// Puts back what the outbox of a source holds.
    async fn settle(&mut self, place: usize, deadline: Option<Instant>) -> Result<(), ReleaseError> {
        let importer = &self.importers[place];
        let mut is_settled = self.sidekiq.settle_returns(importer.source(), &importer.owner()).await?;
        while !is_settled {
            self.hold(place, deadline).await?;
            let importer = &self.importers[place];
            is_settled = self.sidekiq.settle_returns(importer.source(), &importer.owner()).await?;
        }
        Ok(())
    }

    /// Waits until nobody but us changes a source.
    async fn hold(&mut self, place: usize, deadline: Option<Instant>) -> Result<(), ReleaseError> {
        let patience = Instant::now() + PATIENCE_WITH_GEM;
        let until = deadline.map_or(patience, |deadline| deadline.min(patience));
        while !self.importers[place].hold_source().await? {
            if Instant::now() >= until {
                let Source::Fairplay(class) = self.importers[place].source() else { return Err(self.lost()) };
                return Err(ReleaseError::GemBusy(class.class.clone()));
            }
            tokio::time::sleep(LOOK_AT_GEM).await;
        }
        Ok(())
    }

    /// Lists what is staged for the Sidekiq: by source what goes back to it, newest first.
    async fn list(&mut self) -> Result<Vec<Vec<Listed>>, Error> {
        let sources: Vec<Source> = self.importers.iter().map(|importer| importer.source().clone()).collect();
        let rules = self.rule_names().await?;
        self.inventory.begin(sources.len());
        for rule in rules {
            for queue in self.store.staged_queues(&rule).await? {
                let inventory = &mut self.inventory;
                self.store.list_staged(&rule, &queue, |jobs| inventory.add(&rule, &sources, jobs)).await?;
            }
        }
        Ok(self.inventory.end())
    }

    /// Rules that promote into the Sidekiq, those included that are gone but have jobs staged.
    async fn rule_names(&self) -> Result<Vec<String>, Error> {
        let known = self.rules.reload().await?;
        let main_queue = self.sidekiq.name();
        let holding = known.rules.iter().map(|rule| (&rule.name, &rule.main_queue));
        let all = holding.chain(known.draining.iter().map(|(rule, of)| (rule, of)));
        Ok(all.filter(|(_, of)| *of == main_queue).map(|(rule, _)| rule.clone()).collect())
    }

    fn lost(&self) -> ReleaseError {
        ReleaseError::Lost(self.sidekiq.name().to_owned())
    }

    /// Adds an event for what was handed back of each rule.
    async fn announce(&self) {
        for stock in self.inventory.stocks.iter().filter(|stock| stock.released > 0) {
            let Some(home) = &stock.home else { continue };
            let (rule, to) = (json::quoted(&stock.rule), json::quoted(&home.to_string()));
            let data = format!("\"rule\":{rule},\"to\":{to},\"jobs\":{}", stock.released);
            if let Err(error) = self.store.announce("main_queue.released", self.sidekiq.name(), &data).await {
                tracing::debug!(%error, "cannot announce what was handed back");
            }
        }
    }
}

fn is_past(deadline: Option<Instant>) -> bool {
    deadline.is_some_and(|deadline| Instant::now() >= deadline)
}

fn held(main_queue: &str, hold: Hold) -> Result<(), ReleaseError> {
    let main_queue = main_queue.to_owned();
    match hold {
        Hold::Held => Ok(()),
        Hold::Taken => Err(ReleaseError::Taken(main_queue)),
        Hold::Drained { process, from, ago_ms } => Err(ReleaseError::Drained { main_queue, process, from, ago_ms }),
    }
}

/// A staged job in the form that its source has it.
fn restored(source: &Source, id: &str, staged: &StagedText) -> Restored {
    let StagedText { created, tenant, template, args } = staged;
    let (tenant, text) = match source {
        Source::Queue(queue) => (String::new(), sidekiq::pushed(template, args, queue, *created)),
        Source::Fairplay(_) => (tenant.clone(), args.clone()),
    };
    Restored { id: id.to_owned(), tenant, text }
}
