//! The release of jobs that were imported from a Sidekiq: each staged job goes back to its source,
//! in front of newer ones and in the original order.
//!
//! A release holds a lock in the store that keeps importers out, because they would import the same
//! jobs again. It goes from the newest job to the oldest, so the source is in order whenever the
//! release ends. Each job leaves staging in the same script that hands it back or that puts it into
//! the outbox of its source. If a release dies, the next release or importer completes it.

use super::importer::Importer;
use super::stock::{Inventory, Listed, Stock, portion};
use crate::domain::job::{id, sidekiq};
use crate::domain::json;
use crate::main_queue::{ImportSource, Sidekiq};
use crate::rules::Rulebook;
use crate::store::{Error, Hold, Restored, StagedText, Store, Unstaged};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Interval at which the lock is renewed.
const RENEW: Duration = Duration::from_secs(3);
/// Maximum time to wait for a planner of the gem sidekiq-fairplay, and interval at which it is
/// checked.
const PATIENCE_WITH_GEM: Duration = Duration::from_secs(30);
const LOOK_AT_GEM: Duration = Duration::from_millis(100);

/// Callback with the number of jobs handed back so far and the total.
pub type ReleaseProgress<'a> = &'a (dyn Fn(u64, u64) + Sync);

/// The reason for which a release did not start or ended early.
#[derive(Debug, thiserror::Error)]
pub enum ReleaseError {
    #[error(
        "cannot release main queue {main_queue}: process {process} imports jobs from {from} and would import them again \
         (last seen {ago_ms} ms ago); stop it first, or try again in 10 s if it is gone"
    )]
    Drained { main_queue: String, process: String, from: String, ago_ms: u64 },
    #[error("another release of main queue {0} is in progress; if its process is gone, try again in 15 s")]
    Taken(String),
    #[error("the release of main queue {0} lost its lock, so other processes may import jobs again; run it again")]
    Lost(String),
    #[error(
        "a planner of sidekiq-fairplay is running for class {0}, so its jobs stay staged; try again when it has ended"
    )]
    GemBusy(String),
    #[error(transparent)]
    Store(#[from] Error),
}

/// Hands the staged jobs of one Sidekiq back.
pub struct Releaser {
    store: Store,
    rules: Rulebook,
    sidekiq: Arc<Sidekiq>,
    /// One importer per source that jobs may go back to.
    importers: Vec<Importer>,
    inventory: Inventory,
}

impl Releaser {
    /// Creates a releaser for a Sidekiq and its sources. This process must no longer import from
    /// them.
    pub fn new(store: Store, rules: Rulebook, sidekiq: Arc<Sidekiq>, importers: Vec<Importer>) -> Releaser {
        Releaser { store, rules, sidekiq, importers, inventory: Inventory::default() }
    }

    /// Returns the numbers of released and of still staged jobs, by rule.
    pub fn stocks(&self) -> &[Stock] {
        &self.inventory.stocks
    }

    /// Counts the jobs that a release would hand back, and the jobs of each source that are being
    /// imported. Changes nothing.
    pub async fn count(&mut self) -> Result<Vec<(ImportSource, u64)>, Error> {
        self.list().await?;
        let mut pending = Vec::new();
        for importer in &mut self.importers {
            pending.push((importer.source().clone(), importer.pending().await?));
        }
        Ok(pending)
    }

    /// Hands back all jobs of the Sidekiq, or as many as possible until `deadline`. `stocks` has
    /// the numbers, even after an error.
    pub async fn release(
        &mut self,
        deadline: Option<Instant>,
        progress: ReleaseProgress<'_>,
    ) -> Result<(), ReleaseError> {
        let (store, main_queue, token) = (self.store.clone(), self.sidekiq.name().to_owned(), id::generate());
        held(&main_queue, store.hold_release(&main_queue, &token).await?)?;
        let renewal = async {
            loop {
                tokio::time::sleep(RENEW).await;
                // If the lock expires because it could not be renewed, `unstage` notices it.
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

    /// Releases the gem's locks that this process holds, so that its own planner continues.
    pub async fn free_locks(&mut self) {
        for importer in &mut self.importers {
            importer.hand_back().await;
        }
    }

    async fn release_all(
        &mut self,
        token: &str,
        deadline: Option<Instant>,
        progress: ReleaseProgress<'_>,
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
                    // Continue with the other sources.
                    Err(busy @ ReleaseError::GemBusy(_)) => outcome = Err(busy),
                    other => other?,
                }
            }
            // The next listing finds jobs that were missed because they moved during this one.
            if outcome.is_err() || is_past(deadline) || self.inventory.released() == before {
                return outcome;
            }
        }
    }

    /// Hands back jobs of one source, the newest first.
    async fn release_from(
        &mut self,
        place: usize,
        jobs: &[Listed],
        token: &str,
        deadline: Option<Instant>,
        progress: ReleaseProgress<'_>,
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

    /// Moves the jobs in the outbox of a source back to it.
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

    /// Waits until only this process changes a source.
    async fn hold(&mut self, place: usize, deadline: Option<Instant>) -> Result<(), ReleaseError> {
        let patience = Instant::now() + PATIENCE_WITH_GEM;
        let until = deadline.map_or(patience, |deadline| deadline.min(patience));
        while !self.importers[place].hold_source().await? {
            if Instant::now() >= until {
                let ImportSource::Fairplay(class) = self.importers[place].source() else { return Err(self.lost()) };
                return Err(ReleaseError::GemBusy(class.class.clone()));
            }
            tokio::time::sleep(LOOK_AT_GEM).await;
        }
        Ok(())
    }

    /// Lists the jobs staged for the Sidekiq by source, the newest first.
    async fn list(&mut self) -> Result<Vec<Vec<Listed>>, Error> {
        let sources: Vec<ImportSource> = self.importers.iter().map(|importer| importer.source().clone()).collect();
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

    /// Returns the rules that promote into the Sidekiq, including removed rules with staged jobs.
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

    /// Emits an event for each rule of which jobs were handed back.
    async fn announce(&self) {
        for stock in self.inventory.stocks.iter().filter(|stock| stock.released > 0) {
            let Some(home) = &stock.home else { continue };
            let (rule, to) = (json::quoted(&stock.rule), json::quoted(&home.to_string()));
            let data = format!("\"rule\":{rule},\"to\":{to},\"jobs\":{}", stock.released);
            if let Err(error) = self.store.announce("main_queue.released", self.sidekiq.name(), &data).await {
                tracing::debug!(%error, "cannot store an event about released jobs");
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

/// Converts a staged job to the format of its source.
fn restored(source: &ImportSource, id: &str, staged: &StagedText) -> Restored {
    let StagedText { created, tenant, template, args } = staged;
    let (tenant, text) = match source {
        ImportSource::Queue(queue) => (String::new(), sidekiq::pushed(template, args, queue, *created)),
        ImportSource::Fairplay(_) => (tenant.clone(), args.clone()),
    };
    Restored { id: id.to_owned(), tenant, text }
}
