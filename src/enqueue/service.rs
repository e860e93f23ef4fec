//! The path of every new job: assign it to its plan rule, then store it.

use super::ancestors::find_among;
use crate::domain::cron::CronSkip;
use crate::domain::invalid::{Invalid, Kind};
use crate::domain::job::{EnqueueKind, NewJob, Planned, Record};
use crate::domain::limit::{LimitKey, RateLimit};
use crate::domain::plan::OnMissingTenant;
use crate::domain::pool::LimitRule;
use crate::domain::tenant::{Foreign, Isolation, Scope, Tenancy};
use crate::main_queue::{MainQueue, MainQueues};
use crate::rules::{KnownRules, Rulebook};
use crate::store::{self, Enqueued, FireCronOutcome, Firing, PreparedCronJob, Store};
use std::sync::Arc;

/// Maximum number of attempts to store jobs while the rules change concurrently.
pub(super) const ATTEMPTS: usize = 8;

/// The reason for which jobs were refused before they reached the store.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    #[error("{0}")]
    Invalid(Invalid),
    /// A job would belong to another tenant than the caller; in a batch, with its index.
    #[error("the job belongs to a different tenant than the caller")]
    Foreign(Foreign, Option<usize>),
    /// No plan rule covers its type, and this deployment does not store such jobs.
    #[error("no plan rule covers the type of the job")]
    Unplanned,
    #[error(transparent)]
    Store(#[from] store::Error),
}

type Headers<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Stores new jobs; clones share the state.
#[derive(Clone)]
pub struct EnqueueService {
    pub(super) store: Store,
    pub(super) rules: Rulebook,
    main_queues: MainQueues,
    pub(super) tenancy: Arc<Tenancy>,
    /// True if jobs that no rule covers are stored here.
    keeps_unplanned: bool,
}

impl EnqueueService {
    /// Creates a service for a store and a rulebook.
    pub fn new(store: Store, rules: Rulebook, main_queues: MainQueues, tenancy: Arc<Tenancy>) -> Self {
        EnqueueService { store, rules, main_queues, tenancy, keeps_unplanned: true }
    }

    /// Returns the service for deployments that forward jobs without a plan rule to another server.
    pub fn of_planned(self) -> Self {
        EnqueueService { keeps_unplanned: false, ..self }
    }

    /// Returns true if a rule covers a job type.
    pub async fn plans(&self, kind: &str) -> Result<bool, store::Error> {
        Ok(self.rules.known().await?.rules.of_type(kind).is_some())
    }

    /// Returns the service for a caller who is restricted to the scope of `store`: all jobs belong
    /// to the caller's tenant.
    pub fn within(&self, store: &Store) -> Self {
        EnqueueService { store: store.clone(), ..self.clone() }
    }

    /// Returns the names of the headers in which rules look for a tenant, so that a request keeps
    /// no others.
    pub fn headers(&self) -> Vec<String> {
        let known = self.rules.now();
        known.rules.iter().filter_map(|rule| rule.tenant_key.header().map(str::to_owned)).collect()
    }

    /// Returns the key of the limit to report for a stored job, in the client's terms: the job's
    /// own, else that of its type, else that of its queue.
    pub fn limit_of(&self, own: Option<&RateLimit>, record: &Record) -> Option<LimitKey> {
        let (queue, kind) = (record.queue.as_str(), record.kind.as_str());
        let by_server = || {
            let known = self.rules.now();
            let policy = &known.dispatch.policy;
            policy.type_limit(kind).or_else(|| policy.queue_limit(queue)).map(LimitRule::key)
        };
        // Keys are divided by the queue's plain name, without a tenant's namespace.
        let plain = queue.rsplit('/').next().unwrap_or(queue);
        own.map(|limit| match limit.key {
            Some(_) => limit.key_of(record.tenant.as_deref(), plain, kind),
            None => limit.key_in(queue),
        })
        .or_else(by_server)
    }

    /// Stores new jobs, in staging if a rule plans them. In a batch, a refusal contains the index
    /// of the job. `header` returns a request header by its lower-case name.
    pub async fn enqueue(
        &self,
        mut jobs: Vec<NewJob>,
        kind: EnqueueKind,
        header: &(dyn Fn(&str) -> Option<String> + Sync),
    ) -> Result<Enqueued, Refusal> {
        let scope = self.store.scope();
        for (index, job) in jobs.iter_mut().enumerate() {
            scope.claim(job).map_err(|foreign| Refusal::Foreign(foreign, kind.index(index)))?;
        }
        self.find_ancestors(jobs.iter_mut()).await?;
        for _ in 0..ATTEMPTS {
            let (known, now) = (self.rules.known().await?, self.store.clock().now_ms());
            for index in 0..jobs.len() {
                let (earlier, rest) = jobs.split_at_mut(index);
                let [job, ..] = rest else { break };
                find_among(earlier, job);
                self.plan(&known, job, header, now).map_err(|problem| match problem {
                    Refusal::Invalid(problem) if kind == EnqueueKind::Batch => Refusal::Invalid(problem.in_job(index)),
                    Refusal::Foreign(foreign, _) => Refusal::Foreign(foreign, kind.index(index)),
                    other => other,
                })?;
            }
            // Rules may have changed since the caller checked.
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

    /// Fires a cron: its job takes the path of all new jobs. A job that is refused is reported as
    /// skipped.
    pub async fn fire(
        &self,
        firing: &Firing<'_>,
        job: Result<NewJob, Invalid>,
    ) -> Result<FireCronOutcome, store::Error> {
        let mut job = job;
        self.find_ancestors(job.iter_mut()).await?;
        for _ in 0..ATTEMPTS {
            let (known, now) = (self.rules.known().await?, self.store.clock().now_ms());
            let plan = |mut job| self.plan(&known, &mut job, &|_| None, now).map(|()| job);
            let planned = job.clone().map_err(Refusal::Invalid).and_then(plan);
            let prepared = match planned {
                Ok(job) => PreparedCronJob::Job { job: Box::new(job), rules: known.version.clone() },
                Err(problem) => {
                    tracing::warn!(cron = firing.cron.name, %problem, "the job of a cron was refused");
                    PreparedCronJob::Skip(CronSkip::JobRefused)
                }
            };
            match self.store.fire_cron(firing, prepared).await? {
                FireCronOutcome::Stale => self.rules.reload().await?,
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

    /// Assigns a job to its rule, and to the namespace and limits of its tenant.
    pub(super) fn plan(
        &self,
        known: &KnownRules,
        job: &mut NewJob,
        header: Headers<'_>,
        now: i64,
    ) -> Result<(), Refusal> {
        let tenancy = &*self.tenancy;
        job.inherit_tenant(&tenancy.default_tenant);
        if job.tenant.is_none() {
            job.tenant = tenancy.named_default().filter(|_| !tenancy.require_tenant).map(str::to_owned);
        }
        self.assign(known, job, header, now)?;
        if tenancy.require_tenant && job.owner().is_none() {
            let expected = "the id of the tenant that owns the job, there or in the header X-OJS-Tenant";
            return Err(Refusal::Invalid(Invalid::missing("meta.tenant_id", expected).of_kind(Kind::Tenant)));
        }
        self.check_ancestors(job)?;
        job.apart = tenancy.isolation == Isolation::Sharded;
        // Namespaces do not apply to queues of another system.
        let has_own_queues = tenancy.isolation == Isolation::Namespace && job.outward.is_none();
        job.namespace = job.owner().filter(|_| has_own_queues).map(str::to_owned);
        if let Some(namespace) = &job.namespace {
            Scope::named(namespace).in_namespace().claim_limit(job);
        }
        job.type_limit = known.dispatch.policy.type_limit(&job.kind).map(LimitRule::key);
        Ok(())
    }

    fn assign(&self, known: &KnownRules, job: &mut NewJob, header: Headers<'_>, now: i64) -> Result<(), Refusal> {
        let scope = self.store.scope();
        let Some(rule) = known.rules.of_type(&job.kind) else {
            job.assign(None, None);
            return Ok(());
        };
        if rule.shadow {
            let expected = format!(
                "a type whose plan rule is not in shadow; rule {:?} only watches and accepts no jobs",
                rule.name
            );
            return Err(Refusal::Invalid(Invalid::field("type", expected, &job.kind)));
        }
        let tenant = match rule.tenant_key.tenant(job.args(), job.meta(), header) {
            Some(tenant) if scope.admits(Some(&tenant)) => tenant,
            Some(_) => return Err(Refusal::Foreign(scope.foreign(&rule.tenant_key.to_string()), None)),
            None if scope.tenant().is_some() => scope.tenant().unwrap_or_default().to_owned(),
            None if rule.tenant_key.is_in_args() && rule.on_missing_tenant == OnMissingTenant::Reject => {
                let expected =
                    format!("the tenant id as a string or number, because plan rule {:?} reads it there", rule.name);
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
                    "a type whose plan rule has a class; rule {:?} promotes into main queue {:?} and has no class for \
                     jobs that arrive over HTTP",
                    rule.name, rule.main_queue
                );
                return Err(Refusal::Invalid(Invalid::field("type", expected, &job.kind)));
            }
        }
        Ok(())
    }
}
