//! Imports jobs that clients of a Sidekiq push: what they leave in a queue that no worker reads, or in the keys of the gem
//! sidekiq-fairplay, is staged.
//!
//! Jobs cross from one Redis to another in steps that survive a crash between them: they are taken into an inbox over there,
//! under a sequence; a script here stages them and notes the sequence; what is noted is dropped over there. Several
//! processes may do this at once.

mod release;

use super::arrival::{Arrival, Entry, Fate};
use super::rulebook::{Known, Rulebook};
use super::staging_reporter::{Finding, StagingReporter};
use crate::config::FairplayClass;
use crate::job::{NewJob, id, sidekiq};
use crate::main_queue::{GEM_LOCK_LIFE, Sidekiq, Source};
use crate::store::{Error, Inbox, OutboxEntry, StagedByGem, Store, TakeOver, TakenIn};
use crate::telemetry::SidekiqMetrics;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// Jobs that are taken in at once.
const BATCH: usize = 64;
/// How often a source that was empty is looked at.
const POLL: Duration = Duration::from_millis(100);
const AFTER_FAILURE: Duration = Duration::from_millis(500);
/// How often the processes are asked whether one reads the staging queue: they report every 5 or 10 s.
const BETWEEN_CHECKS: Duration = Duration::from_secs(5);
/// How often a process registers that it takes jobs in.
const REGISTER: Duration = Duration::from_secs(2);

/// Stages what comes from one source, until it is stopped.
pub struct Importer {
    store: Store,
    rules: Rulebook,
    sidekiq: Arc<Sidekiq>,
    source: Source,
    /// Who owns jobs that name nobody.
    default_tenant: String,
    /// This process, as it registers.
    process: Arc<str>,
    /// When it last registered.
    registered: Option<Instant>,
    /// Names this store at the other one, and holds the gem's locks.
    origin: String,
    /// The sequence up to which the inbox has been taken in, once that is known.
    taken_in: Option<u64>,
    /// Whether nothing is left of a release that died, on its way back to the source.
    has_settled: bool,
    /// Whether no planner of the gem runs any more.
    gem_is_still: bool,
    /// Whether the gem's locks may be ours.
    holds: bool,
    /// Jobs that are staged at once: fewer where a rule has not room for all of them.
    portion: usize,
    reporter: StagingReporter,
    /// When the processes were last asked whether one reads the staging queue.
    checked: Option<Instant>,
    metrics: SidekiqMetrics,
}

impl Importer {
    /// An importer of one source of a Sidekiq; `process` names the process that it runs in.
    pub fn new(
        store: Store,
        rules: Rulebook,
        sidekiq: Arc<Sidekiq>,
        source: Source,
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

    /// The source that it drains.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// Imports until `stop`. The gem's locks are kept: the caller, which gets the importer back, returns them.
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
                        tracing::warn!(main_queue, %error, "cannot take jobs in: they wait where they are");
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

    /// Registers this process as one that takes jobs in. False while a release hands them back.
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
            // All processes share the gem's locks: whoever goes on needs them.
            Ok(others) => self.holds &= others == 0,
            Err(error) => tracing::debug!(main_queue, source, %error, "cannot deregister; the entry expires"),
        }
        self.registered = None;
    }

    /// Reports processes that read the staging queue. What fails here fails for the jobs as well, and is reported there.
    async fn check_readers(&mut self) {
        let Source::Queue(queue) = &self.source else { return };
        if self.checked.is_some_and(|at| at.elapsed() < BETWEEN_CHECKS) {
            return;
        }
        self.checked = Some(Instant::now());
        if let Ok(crew) = self.sidekiq.crew().await {
            self.reporter.report_readers(queue, &crew).await;
        }
    }

    /// Lets the gem go on where we leave off.
    pub async fn hand_back(&mut self) {
        let (Source::Fairplay(class), true) = (&self.source, self.holds) else { return };
        let (jid, now) = (sidekiq::jid(&id::generate()), self.store.clock().now_ms());
        if let Err(error) = self.sidekiq.redis().hand_back(class, &self.owner(), &jid, now).await {
            tracing::warn!(class = class.class, %error, "cannot free the gem's locks: they end by themselves");
        }
        (self.holds, self.gem_is_still) = (false, false);
    }

    /// Whether the gem's jobs are left to it, because the rule that they are under is in shadow.
    fn is_left_alone(&self, known: &Known) -> bool {
        let Source::Fairplay(class) = &self.source else { return false };
        known.rules.of_class(self.sidekiq.name(), &class.class).is_some_and(|rule| rule.shadow)
    }

    /// Who holds the gem's locks. Known once the store was asked for its origin.
    pub(super) fn owner(&self) -> String {
        format!("fairgate:{}", self.origin)
    }

    /// The inbox's name, which is its key at the other Redis too.
    fn inbox(&self) -> String {
        format!("fairgate:{}:{}:{}:inbox", self.origin, self.sidekiq.name(), self.source.name())
    }

    async fn identify(&mut self) -> Result<(), Error> {
        if self.origin.is_empty() {
            self.origin = self.store.origin().await?;
        }
        Ok(())
    }

    /// The sequence up to which the inbox has been taken in.
    async fn taken_in(&mut self, name: &str) -> Result<u64, Error> {
        let taken_in = match self.taken_in {
            Some(taken_in) => taken_in,
            None => self.store.taken_in(name).await?,
        };
        self.taken_in = Some(taken_in);
        Ok(taken_in)
    }

    /// Takes in what there is, up to a batch; how much there was.
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
        let is_ours = matches!(self.source, Source::Queue(_)) || self.gem_is_still;
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
            Some(TakenIn::Stored) => self.portion = (self.portion * 2).min(BATCH),
            Some(TakenIn::Before) => self.taken_in = None,
            Some(TakenIn::Stale) => _ = self.rules.reload().await?,
            Some(TakenIn::Released) => self.registered = None,
            Some(TakenIn::Full { .. }) if self.portion > 1 => self.portion /= 2,
            Some(TakenIn::Full { rule }) => {
                return Err(Error::Unavailable(format!("plan rule {rule} has as many jobs staged as it may")));
            }
        }
        Ok(found)
    }

    /// Stages entries of the inbox and sees to those that are not staged; none if there are none.
    async fn stage(
        &mut self,
        name: &str,
        before: u64,
        mut entries: Vec<Entry>,
        known: &Known,
        release: &str,
    ) -> Result<Option<TakenIn>, Error> {
        let Some(after) = entries.last().map(|entry| entry.sequence) else { return Ok(None) };
        let findings: Vec<_> = entries.iter_mut().flat_map(|entry| std::mem::take(&mut entry.findings)).collect();
        let jobs = self.dispose(name, entries).await?;
        let inbox = Inbox { main_queue: self.sidekiq.name(), name, before, after, release };
        let taken_in = self.store.take_in(&inbox, jobs, known.version.clone()).await?;
        if matches!(taken_in, TakenIn::Stored) {
            self.taken_in = Some(after);
            self.report(&findings).await;
        }
        Ok(Some(taken_in))
    }

    async fn report(&mut self, findings: &[(Finding, String)]) {
        for (finding, details) in findings {
            if let Finding::Unplanned { class, .. } = finding {
                self.metrics.unplanned(self.sidekiq.name(), class);
            }
            self.reporter.report(finding, details).await;
        }
    }

    /// The entries of the inbox, after as many jobs were taken off the source as it has room for within `most`.
    async fn read(&mut self, name: &str, before: u64, most: usize, known: &Known) -> Result<Vec<Entry>, Error> {
        match self.source.clone() {
            Source::Queue(queue) => {
                let claimed = self.sidekiq.redis().claim(&queue, name, before, most).await?;
                let arrival = self.arrival(known);
                Ok(claimed.iter().map(|one| arrival.of_payload(&queue, one)).collect())
            }
            Source::Fairplay(class) => {
                let jobs = self.take_over(&class, name, before, most).await?;
                let arrival = self.arrival(known);
                Ok(jobs.iter().map(|job| arrival.of_gem(&class, job)).collect())
            }
        }
    }

    fn arrival<'a>(&'a self, known: &'a Known) -> Arrival<'a> {
        let (main_queue, reporter, now) = (self.sidekiq.name(), &self.reporter, self.store.clock().now_ms());
        Arrival { main_queue, rules: &known.rules, default_tenant: &self.default_tenant, reporter, now }
    }

    /// Takes the gem's locks, or keeps them, and jobs from its keys if none of its planners runs.
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
        // While its locks were not ours a planner may have begun; one that outlived its lock still runs.
        self.gem_is_still = taken.is_ours && (self.gem_is_still || !redis.plans_by_gem(class).await?);
        Ok(taken.jobs)
    }

    /// Sees to what is not staged; the jobs that are. Harmless when repeated.
    async fn dispose(&self, name: &str, entries: Vec<Entry>) -> Result<Vec<NewJob>, Error> {
        let redis = self.sidekiq.redis();
        let mut jobs = Vec::new();
        for Entry { sequence, fate, .. } in entries {
            match fate {
                Fate::Stage(job) => jobs.push(*job),
                Fate::Bury(payload) => {
                    tracing::warn!(
                        main_queue = self.sidekiq.name(),
                        "a payload that no worker could run goes to the dead set"
                    );
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
