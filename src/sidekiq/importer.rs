//! Importer of jobs that clients of a Sidekiq push: it stages the jobs that they leave in a queue
//! that no worker reads, or in the keys of the gem sidekiq-fairplay.
//!
//! Jobs move from one Redis to another in steps that survive a crash between them:
//!
//! 1. They are moved into an inbox in the other Redis, with a sequence number.
//! 2. A script here stages them and stores the sequence number.
//! 3. Entries up to the stored number are deleted from the inbox.
//!
//! Several processes may do this at once.

mod release;

use super::arrival::{Arrival, Entry, Fate};
use super::{Finding, KeyMismatch, StagingReporter};
use crate::config::FairplayClass;
use crate::domain::job::{NewJob, id, sidekiq};
use crate::main_queue::{GEM_LOCK_LIFE, ImportSource, Sidekiq};
use crate::rules::{KnownRules, Rulebook};
use crate::store::{Error, ImportOutcome, Inbox, OutboxEntry, StagedByGem, Store, TakeOver};
use crate::telemetry::SidekiqMetrics;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// Maximum number of jobs that are imported at once.
const BATCH: usize = 64;
/// Interval at which an empty source is polled.
const POLL: Duration = Duration::from_millis(100);
const AFTER_FAILURE: Duration = Duration::from_millis(500);
/// Interval at which the Sidekiq processes are checked for readers of the staging queue. They
/// report every 5 or 10 s.
const BETWEEN_CHECKS: Duration = Duration::from_secs(5);
/// Interval at which a process registers as an importer.
const REGISTER: Duration = Duration::from_secs(2);

/// Imports the jobs of one source until it is stopped.
pub struct Importer {
    store: Store,
    rules: Rulebook,
    sidekiq: Arc<Sidekiq>,
    source: ImportSource,
    /// The owner of jobs that do not name a tenant.
    default_tenant: String,
    /// The name under which this process registers.
    process: Arc<str>,
    /// The time of the last registration.
    registered: Option<Instant>,
    /// The id of this store, which names its inbox in the other Redis and the holder of the gem's
    /// locks.
    origin: String,
    /// The sequence number up to which the inbox has been imported, once it is known.
    taken_in: Option<u64>,
    /// True once no jobs are left that a release was handing back when it died.
    has_settled: bool,
    /// True if no planner of the gem runs any more.
    gem_is_still: bool,
    /// True if this process may hold the gem's locks.
    holds: bool,
    /// Number of jobs to stage at once; reduced while a rule does not have room for all of them.
    portion: usize,
    reporter: StagingReporter,
    /// The time of the last check for readers of the staging queue.
    checked: Option<Instant>,
    metrics: SidekiqMetrics,
}

impl Importer {
    /// Creates an importer for one source of a Sidekiq; `process` is the name of this process.
    pub fn new(
        store: Store,
        rules: Rulebook,
        sidekiq: Arc<Sidekiq>,
        source: ImportSource,
        default_tenant: String,
        process: Arc<str>,
        metrics: SidekiqMetrics,
    ) -> Importer {
        let reporter = StagingReporter::new(store.clone(), sidekiq.name());
        Importer {
            store,
            rules,
            sidekiq,
            source,
            default_tenant,
            process,
            registered: None,
            origin: String::new(),
            taken_in: None,
            has_settled: false,
            gem_is_still: false,
            holds: false,
            portion: BATCH,
            reporter,
            checked: None,
            metrics,
        }
    }

    /// Returns the source that it imports.
    pub fn source(&self) -> &ImportSource {
        &self.source
    }

    /// Imports until `stop`. Keeps the gem's locks and returns the importer, so that the caller can
    /// hand them back.
    pub async fn run(mut self, stop: CancellationToken) -> Importer {
        let mut failing = false;
        while !stop.is_cancelled() {
            self.check_readers().await;
            let outcome = self.drain().await;
            let pause = match &outcome {
                Ok(BATCH) => Duration::ZERO,
                Ok(_) => POLL,
                Err(error) => {
                    if !failing {
                        let main_queue = self.sidekiq.name();
                        tracing::warn!(main_queue, %error, "cannot import jobs; they stay in the source");
                    }
                    self.taken_in = None;
                    AFTER_FAILURE
                }
            };
            failing = outcome.is_err();
            tokio::select! {
                () = stop.cancelled() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
        self.deregister().await;
        self
    }

    /// Registers this process as an importer. Returns false while a release hands jobs back.
    async fn register(&mut self) -> Result<bool, Error> {
        let now = Instant::now();
        if self.registered.is_some_and(|at| now - at < REGISTER) {
            return Ok(true);
        }
        let (main_queue, source) = (self.sidekiq.name(), self.source.name());
        let is_admitted = self.store.register_importer(main_queue, &self.process, &source).await?;
        self.registered = is_admitted.then_some(now);
        Ok(is_admitted)
    }

    async fn deregister(&mut self) {
        let (main_queue, source) = (self.sidekiq.name(), self.source.name());
        match self.store.deregister_importer(main_queue, &self.process, &source).await {
            // All processes share the gem's locks: the remaining ones need them.
            Ok(others) => self.holds &= others == 0,
            Err(error) => {
                tracing::debug!(main_queue, source, %error, "cannot deregister the importer; its entry expires")
            }
        }
        self.registered = None;
    }

    /// Reports processes that read the staging queue. Errors are ignored, because `drain` meets and
    /// reports them as well.
    async fn check_readers(&mut self) {
        let ImportSource::Queue(queue) = &self.source else { return };
        if self.checked.is_some_and(|at| at.elapsed() < BETWEEN_CHECKS) {
            return;
        }
        self.checked = Some(Instant::now());
        if let Ok(crew) = self.sidekiq.crew().await {
            self.reporter.report_readers(queue, &crew).await;
        }
    }

    /// Releases the gem's locks, so that its own planner continues.
    pub async fn hand_back(&mut self) {
        let (ImportSource::Fairplay(class), true) = (&self.source, self.holds) else { return };
        let (jid, now) = (sidekiq::jid(&id::generate()), self.store.clock().now_ms());
        if let Err(error) = self.sidekiq.redis().hand_back(class, &self.owner(), &jid, now).await {
            tracing::warn!(class = class.class, %error, "cannot release the gem's locks; they expire");
        }
        (self.holds, self.gem_is_still) = (false, false);
    }

    /// Returns true if jobs are left to the gem, because their rule is in shadow.
    fn is_left_alone(&self, known: &KnownRules) -> bool {
        let ImportSource::Fairplay(class) = &self.source else { return false };
        known.rules.of_class(self.sidekiq.name(), &class.class).is_some_and(|rule| rule.shadow)
    }

    /// Returns the holder name for the gem's locks; valid after `identify`.
    pub(super) fn owner(&self) -> String {
        format!("fairgate:{}", self.origin)
    }

    /// Returns the name of the inbox, which is also its key in the other Redis.
    fn inbox(&self) -> String {
        format!("fairgate:{}:{}:{}:inbox", self.origin, self.sidekiq.name(), self.source.name())
    }

    async fn identify(&mut self) -> Result<(), Error> {
        if self.origin.is_empty() {
            self.origin = self.store.origin().await?;
        }
        Ok(())
    }

    /// Returns the sequence number up to which the inbox has been imported.
    async fn taken_in(&mut self, name: &str) -> Result<u64, Error> {
        let taken_in = match self.taken_in {
            Some(taken_in) => taken_in,
            None => self.store.imported_up_to(name).await?,
        };
        self.taken_in = Some(taken_in);
        Ok(taken_in)
    }

    /// Imports up to a batch of jobs. Returns the number of entries found.
    async fn drain(&mut self) -> Result<usize, Error> {
        self.identify().await?;
        let known = self.rules.known().await?;
        if self.is_left_alone(&known) {
            self.hand_back().await;
            return Ok(0);
        }
        if !self.register().await? {
            return Ok(0);
        }
        let is_ours = matches!(self.source, ImportSource::Queue(_)) || self.gem_is_still;
        if !self.has_settled && is_ours {
            self.has_settled = self.sidekiq.settle_returns(&self.source, &self.owner()).await?;
        }
        let name = self.inbox();
        let before = self.taken_in(&name).await?;
        let mut entries = self.read(&name, before, BATCH, &known).await?;
        let found = entries.len();
        entries.retain(|entry| entry.sequence > before);
        entries.truncate(self.portion);
        match self.stage(&name, before, entries, &known, "").await? {
            None => {}
            Some(ImportOutcome::Stored) => self.portion = (self.portion * 2).min(BATCH),
            Some(ImportOutcome::AlreadyImported) => self.taken_in = None,
            Some(ImportOutcome::Stale) => _ = self.rules.reload().await?,
            Some(ImportOutcome::Released) => self.registered = None,
            Some(ImportOutcome::Full { .. }) if self.portion > 1 => self.portion /= 2,
            Some(ImportOutcome::Full { rule }) => {
                return Err(Error::Unavailable(format!("plan rule {rule:?} has reached max_staged")));
            }
        }
        Ok(found)
    }

    /// Stages entries of the inbox and handles those that are not to be staged. Returns `None` if
    /// there are no entries.
    async fn stage(
        &mut self,
        name: &str,
        before: u64,
        mut entries: Vec<Entry>,
        known: &KnownRules,
        release: &str,
    ) -> Result<Option<ImportOutcome>, Error> {
        let Some(after) = entries.last().map(|entry| entry.sequence) else { return Ok(None) };
        let findings: Vec<_> = entries.iter_mut().flat_map(|entry| std::mem::take(&mut entry.findings)).collect();
        let jobs = self.dispose(name, entries).await?;
        let inbox = Inbox { main_queue: self.sidekiq.name(), name, before, after, release };
        let taken_in = self.store.import_inbox(&inbox, jobs, known.version.clone()).await?;
        if matches!(taken_in, ImportOutcome::Stored) {
            self.taken_in = Some(after);
            self.report(&findings).await;
        }
        Ok(Some(taken_in))
    }

    async fn report(&mut self, findings: &[(Finding, Option<KeyMismatch>)]) {
        for (finding, mismatch) in findings {
            if let Finding::Unplanned { class, .. } = finding {
                self.metrics.unplanned(self.sidekiq.name(), class);
            }
            self.reporter.report(finding, mismatch.as_ref()).await;
        }
    }

    /// Reads the entries of the inbox, after moving jobs of the source into it until it holds
    /// `most`.
    async fn read(&mut self, name: &str, before: u64, most: usize, known: &KnownRules) -> Result<Vec<Entry>, Error> {
        match self.source.clone() {
            ImportSource::Queue(queue) => {
                let claimed = self.sidekiq.redis().claim(&queue, name, before, most).await?;
                let arrival = self.arrival(known);
                Ok(claimed.iter().map(|one| arrival.of_payload(&queue, one)).collect())
            }
            ImportSource::Fairplay(class) => {
                let jobs = self.take_over(&class, name, before, most).await?;
                let arrival = self.arrival(known);
                Ok(jobs.iter().map(|job| arrival.of_gem(&class, job)).collect())
            }
        }
    }

    fn arrival<'a>(&'a self, known: &'a KnownRules) -> Arrival<'a> {
        let (main_queue, reporter, now) = (self.sidekiq.name(), &self.reporter, self.store.clock().now_ms());
        Arrival { main_queue, rules: &known.rules, default_tenant: &self.default_tenant, reporter, now }
    }

    /// Acquires or renews the gem's locks. Takes jobs from its keys if none of its planners runs.
    async fn take_over(
        &mut self,
        class: &FairplayClass,
        name: &str,
        before: u64,
        most: usize,
    ) -> Result<Vec<StagedByGem>, Error> {
        let (redis, owner) = (self.sidekiq.redis(), self.owner());
        let takes = self.gem_is_still && self.has_settled;
        self.holds = true;
        let from = TakeOver { class, owner: &owner, life: GEM_LOCK_LIFE, inbox: name, taken_in: before, most, takes };
        let taken = redis.take_over(&from).await?;
        // A planner may have started while the locks were not ours; one that outlives its lock
        // still runs.
        self.gem_is_still = taken.is_ours && (self.gem_is_still || !redis.plans_by_gem(class).await?);
        Ok(taken.jobs)
    }

    /// Handles the entries that are not to be staged, and returns the jobs to stage. May be
    /// repeated.
    async fn dispose(&self, name: &str, entries: Vec<Entry>) -> Result<Vec<NewJob>, Error> {
        let redis = self.sidekiq.redis();
        let mut jobs = Vec::new();
        for Entry { sequence, fate, .. } in entries {
            match fate {
                Fate::Stage(job) => jobs.push(*job),
                Fate::Bury(payload) => {
                    tracing::warn!(main_queue = self.sidekiq.name(), "moving an unreadable payload to the dead set");
                    redis.bury(&payload, self.store.clock().now_ms()).await?;
                }
                Fate::Pass { queue, payload } => {
                    let entry = OutboxEntry { origin: self.origin.clone(), sequence, queue, payloads: vec![payload] };
                    redis.deliver(&format!("{name}:passed"), &entry).await?;
                }
            }
        }
        Ok(jobs)
    }
}
