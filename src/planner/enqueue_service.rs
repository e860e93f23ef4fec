//! The path of every new job: it is put under its plan rule, then stored.

use super::ancestors::find_among;
use super::rulebook::{Known, Rulebook};
use crate::fairness::{Isolation, LimitRule, OnMissingTenant, Tenancy};
use crate::job::invalid::{Invalid, Kind};
use crate::job::scope::Foreign;
use crate::job::{LimitKey, NewJob, Planned, RateLimit, Record, Scope};
use crate::main_queue::{MainQueue, MainQueues};
use crate::store::{self, Enqueued, Fired, Firing, Store};
use std::sync::Arc;

/// Attempts to store jobs while the rules change under them.
pub(super) const ATTEMPTS: usize = 8;

/// Why jobs were not even offered to the store.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    #[error("{0}")]
    Invalid(Invalid),
    /// A job that would be another tenant's than the caller's; in a batch, its index.
    #[error("the job belongs to another tenant than the caller")]
    Foreign(Foreign, Option<usize>),
    /// No plan rule names its type, and no job is kept here that none names.
    #[error("no plan rule names the type of the job")]
    Unplanned,
    #[error(transparent)]
    Store(#[from] store::Error),
}

type Headers<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Stores new jobs; clones share it.
#[derive(Clone)]
pub struct EnqueueService {
    pub(super) store: Store,
    pub(super) rules: Rulebook,
    main_queues: MainQueues,
    pub(super) tenancy: Arc<Tenancy>,
    /// Whether jobs are kept here that no rule names.
    keeps_unplanned: bool,
}

impl EnqueueService {
    /// The way into a store under the rules of a book.
    pub fn new(store: Store, rules: Rulebook, main_queues: MainQueues, tenancy: Arc<Tenancy>) -> Self {
        EnqueueService { store, rules, main_queues, tenancy, keeps_unplanned: true }
    }

    /// The same, where jobs that no rule names go elsewhere.
    pub fn of_planned(self) -> Self {
        EnqueueService { keeps_unplanned: false, ..self }
    }

    /// Whether a rule names a type.
    pub async fn plans(&self, kind: &str) -> Result<bool, store::Error> {
        Ok(self.rules.known().await?.rules.of_type(kind).is_some())
    }

    /// The same way for a caller who sees no more than this store: all that comes in is its tenant's.
    pub fn within(&self, store: &Store) -> Self {
        EnqueueService { store: store.clone(), ..self.clone() }
    }

    /// Names of the headers in which rules look for a tenant, so that a request keeps no others.
    pub fn headers(&self) -> Vec<String> {
        let known = self.rules.now();
        known.rules.iter().filter_map(|rule| rule.tenant_key.header().map(str::to_owned)).collect()
    }

    /// The key of the limit that a stored job is told about, as its client knows it: its own, else that of its type, else the file's on its queue.
    pub fn limit_of(&self, own: Option<&RateLimit>, record: &Record) -> Option<LimitKey> {
        let (queue, kind) = (record.queue.as_str(), record.kind.as_str());
        let by_server = || {
            let known = self.rules.now();
            let policy = &known.dispatch.policy;
            policy.type_limit(kind).or_else(|| policy.queue_limit(queue)).map(LimitRule::key)
        };
        // A key is divided by the queue's own name, without a tenant's namespace.
        let plain = queue.rsplit('/').next().unwrap_or(queue);
        own.map(|limit| match limit.key {
            Some(_) => limit.key_of(record.tenant.as_deref(), plain, kind),
            None => limit.key_in(queue),
        })
        .or_else(by_server)
    }

    /// Stores jobs, staged where a rule plans them. Those of a batch are named by index where one is refused. `header` looks up the request's headers by lower-case name.
    pub async fn enqueue(
        &self,
        mut jobs: Vec<NewJob>,
        is_batch: bool,
        header: &(dyn Fn(&str) -> Option<String> + Sync),
    ) -> Result<Enqueued, Refusal> {
        let scope = self.store.scope();
        for (index, job) in jobs.iter_mut().enumerate() {
            scope.claim(job).map_err(|foreign| Refusal::Foreign(foreign, is_batch.then_some(index)))?;
        }
        self.find_ancestors(jobs.iter_mut()).await?;
        for _ in 0..ATTEMPTS {
            let (known, now) = (self.rules.known().await?, self.store.clock().now_ms());
            for index in 0..jobs.len() {
                let (earlier, rest) = jobs.split_at_mut(index);
                let [job, ..] = rest else { break };
                find_among(earlier, job);
                self.plan(&known, job, header, now).map_err(|problem| match problem {
                    Refusal::Invalid(problem) if is_batch => Refusal::Invalid(problem.in_job(index)),
                    Refusal::Foreign(foreign, _) => Refusal::Foreign(foreign, is_batch.then_some(index)),
                    other => other,
                })?;
            }
            // Rules may have changed since somebody looked.
            if !self.keeps_unplanned && jobs.iter().any(|job| job.plan.is_none()) {
                return Err(Refusal::Unplanned);
            }
            match self.store.enqueue(jobs, known.version.clone()).await? {
                Enqueued::Stale(again) => {
                    jobs = again;
                    self.rules.reload().await?;
                }
                done => return Ok(done),
            }
        }
        Err(Refusal::Store(store::Error::Busy))
    }

    /// Fires a cron: its job goes the way of all new jobs. One that its plan rule refuses is told of as skipped.
    pub async fn fire(&self, firing: &Firing<'_>, job: Result<NewJob, Invalid>) -> Result<Fired, store::Error> {
        let mut job = job;
        self.find_ancestors(job.iter_mut()).await?;
        for _ in 0..ATTEMPTS {
            let (known, now) = (self.rules.known().await?, self.store.clock().now_ms());
            let plan = |mut job| self.plan(&known, &mut job, &|_| None, now).map(|()| job);
            let planned = job.clone().map_err(Refusal::Invalid).and_then(plan);
            let made = match planned {
                Ok(job) => Ok((Box::new(job), known.version.clone())),
                Err(problem) => {
                    tracing::warn!(cron = firing.cron.name, %problem, "a cron's job is refused");
                    Err("job_refused")
                }
            };
            match self.store.fire(firing, made).await? {
                Fired::Stale => self.rules.reload().await?,
                done => return Ok(done),
            };
        }
        Err(store::Error::Busy)
    }

    /// Checks a job that is to be stored later, such as a cron's, as if it were stored now.
    pub async fn check(&self, mut job: NewJob) -> Result<(), Refusal> {
        self.store.scope().claim(&mut job).map_err(|foreign| Refusal::Foreign(foreign, None))?;
        self.find_ancestors(std::iter::once(&mut job)).await?;
        let known = self.rules.known().await?;
        self.plan(&known, &mut job, &|_| None, self.store.clock().now_ms())
    }

    /// Puts a job under the rules that hold, and where its tenant's jobs go.
    pub(super) fn plan(&self, known: &Known, job: &mut NewJob, header: Headers<'_>, now: i64) -> Result<(), Refusal> {
        let tenancy = &*self.tenancy;
        job.inherit_tenant(&tenancy.default_tenant);
        if job.tenant.is_none() {
            job.tenant = tenancy.named_default().filter(|_| !tenancy.require_tenant).map(str::to_owned);
        }
        self.assign(known, job, header, now)?;
        if tenancy.require_tenant && job.owner().is_none() {
            let expected = "the tenant that owns the job, there or in the header X-OJS-Tenant";
            return Err(Refusal::Invalid(Invalid::missing("meta.tenant_id", expected).of_kind(Kind::Tenant)));
        }
        self.check_ancestors(job)?;
        job.apart = tenancy.isolation == Isolation::Sharded;
        // Another system's queues are nobody's own.
        let has_own_queues = tenancy.isolation == Isolation::Namespace && job.outward.is_none();
        job.namespace = job.owner().filter(|_| has_own_queues).map(str::to_owned);
        if let Some(namespace) = &job.namespace {
            Scope::named(namespace).in_namespace().claim_limit(job);
        }
        job.type_limit = known.dispatch.policy.type_limit(&job.kind).map(|rule| rule.key().stored());
        Ok(())
    }

    fn assign(&self, known: &Known, job: &mut NewJob, header: Headers<'_>, now: i64) -> Result<(), Refusal> {
        let scope = self.store.scope();
        let Some(rule) = known.rules.of_type(&job.kind) else {
            job.assign(None, None);
            return Ok(());
        };
        if rule.shadow {
            let expected = format!(
                "a type whose plan rule is not in shadow: rule {:?} only watches, and takes no jobs",
                rule.name
            );
            return Err(Refusal::Invalid(Invalid::field("type", expected, &job.kind)));
        }
        let tenant = match rule.tenant_key.tenant(job.args(), job.meta(), header) {
            Some(tenant) if scope.admits(Some(&tenant)) => tenant,
            Some(_) => return Err(Refusal::Foreign(scope.foreign(&rule.tenant_key.to_string()), None)),
            None if scope.tenant().is_some() => scope.tenant().unwrap_or_default().to_owned(),
            None if rule.tenant_key.is_in_args() && rule.on_missing_tenant == OnMissingTenant::Reject => {
                let expected = format!(
                    "the tenant's id as a string or number, because plan rule {:?} looks for it there",
                    rule.name
                );
                let missing = Invalid::missing(rule.tenant_key.to_string(), expected).of_kind(Kind::Tenant);
                return Err(Refusal::Invalid(missing));
            }
            None => self.tenancy.default_tenant.clone(),
        };
        job.assign(Some(Planned { rule: rule.name.clone(), tenant }), rule.queue.as_deref());
        match &rule.class {
            _ if rule.is_builtin() => {}
            Some(class) => job.order(class, now),
            None if matches!(self.main_queues.get(&rule.main_queue), Some(MainQueue::Ojs(_))) => job.hand_on(now),
            None => {
                let expected = format!(
                    "a type whose plan rule names a class: rule {:?} promotes into main queue {:?} and has none for jobs that \
                     come over HTTP",
                    rule.name, rule.main_queue
                );
                return Err(Refusal::Invalid(Invalid::field("type", expected, &job.kind)));
            }
        }
        Ok(())
    }
}
