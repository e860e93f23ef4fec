//! The one way in for new jobs: each is put under its plan rule before it is stored.

use super::rulebook::{Known, Rulebook};
use crate::fair::{DEFAULT_TENANT, LimitRule, OnMissingTenant};
use crate::job::invalid::{Invalid, Kind};
use crate::job::scope::Foreign;
use crate::job::{NewJob, Planned, RateLimit, Scope};
use crate::store::{self, Enqueued, Fired, Firing, Store};

/// Attempts to store jobs while the rules change under them.
const ATTEMPTS: usize = 8;

/// Why jobs were not even offered to the store.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    #[error("{0}")]
    Invalid(Invalid),
    /// A job that would be another tenant's than the caller's; in a batch, its index.
    #[error("the job belongs to another tenant than the caller")]
    Foreign(Foreign, Option<usize>),
    #[error(transparent)]
    Store(#[from] store::Error),
}

/// Stores new jobs; clones share it.
#[derive(Clone)]
pub struct Intake {
    store: Store,
    rules: Rulebook,
}

impl Intake {
    /// The way into a store under the rules of a book.
    pub fn new(store: Store, rules: Rulebook) -> Self {
        Intake { store, rules }
    }

    /// The same way for a caller who sees no more than this store: all that comes in is its tenant's.
    pub fn within(&self, store: &Store) -> Self {
        Intake { store: store.clone(), rules: self.rules.clone() }
    }

    /// Names of the headers in which rules look for a tenant, so that a request keeps no others.
    pub fn headers(&self) -> Vec<String> {
        let known = self.rules.now();
        known.rules.iter().filter_map(|rule| rule.tenant_key.header().map(str::to_owned)).collect()
    }

    /// The key of the limit that a stored job is told about, as its client knows it: its own, else that of its type, else the file's on its queue.
    pub fn limit_of(&self, own: Option<&RateLimit>, queue: &str, kind: &str) -> Option<String> {
        let by_server = || {
            let known = self.rules.now();
            let policy = &known.dispatch.policy;
            policy.type_limit(kind).or_else(|| policy.queue_limit(queue)).map(LimitRule::key)
        };
        own.map(|limit| limit.key_in(queue).into_owned()).or_else(by_server)
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
        for _ in 0..ATTEMPTS {
            let (known, now) = (self.rules.known().await?, self.store.clock().now_ms());
            for (index, job) in jobs.iter_mut().enumerate() {
                plan(&known, job, header, scope, now).map_err(|problem| match problem {
                    Refusal::Invalid(problem) if is_batch => Refusal::Invalid(problem.in_job(index)),
                    Refusal::Foreign(foreign, _) => Refusal::Foreign(foreign, is_batch.then_some(index)),
                    other => other,
                })?;
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
        for _ in 0..ATTEMPTS {
            let (known, now) = (self.rules.known().await?, self.store.clock().now_ms());
            let plan = |mut job| plan(&known, &mut job, &|_| None, self.store.scope(), now).map(|()| job);
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
}

type Headers<'a> = &'a dyn Fn(&str) -> Option<String>;

fn plan(known: &Known, job: &mut NewJob, header: Headers<'_>, scope: &Scope, now: i64) -> Result<(), Refusal> {
    assign(known, job, header, scope, now)?;
    let policy = &known.dispatch.policy;
    job.type_limit = policy.type_limit(&job.kind).map(LimitRule::key);
    job.shared = job.type_limit.is_some() || policy.fairness_of(&job.queue).is_some();
    Ok(())
}

fn assign(known: &Known, job: &mut NewJob, header: Headers<'_>, scope: &Scope, now: i64) -> Result<(), Refusal> {
    let Some(rule) = known.rules.of_type(&job.kind) else {
        job.assign(None, None);
        return Ok(());
    };
    let tenant = match rule.tenant_key.tenant(job.args(), job.meta(), header) {
        Some(tenant) if scope.admits(Some(&tenant)) => tenant,
        Some(_) => return Err(Refusal::Foreign(scope.foreign(&rule.tenant_key.to_string()), None)),
        None if scope.tenant().is_some() => scope.tenant().unwrap_or_default().to_owned(),
        None if rule.tenant_key.is_in_args() && rule.on_missing_tenant == OnMissingTenant::Reject => {
            let expected =
                format!("the tenant's id as a string or number, because plan rule {:?} looks for it there", rule.name);
            let missing = Invalid::missing(rule.tenant_key.to_string(), expected).of_kind(Kind::Tenant);
            return Err(Refusal::Invalid(missing));
        }
        None => DEFAULT_TENANT.to_owned(),
    };
    job.assign(Some(Planned { rule: rule.name.clone(), tenant }), rule.queue.as_deref());
    match &rule.class {
        _ if rule.is_builtin() => {}
        Some(class) => job.order(class, now),
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
