//! The one way in for new jobs: each is put under its plan rule before it is stored.

use super::rulebook::{Known, Rulebook};
use crate::fair::{Isolation, LimitRule, OnMissingTenant, Tenancy};
use crate::job::invalid::{Invalid, Kind};
use crate::job::{NewJob, Planned, RateLimit};
use crate::store::{self, Enqueued, Store};
use std::sync::Arc;

/// Attempts to store jobs while the rules change under them.
const ATTEMPTS: usize = 8;

/// Why jobs were not even offered to the store.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    #[error("{0}")]
    Invalid(Invalid),
    #[error(transparent)]
    Store(#[from] store::Error),
}

/// Stores new jobs; clones share it.
#[derive(Clone)]
pub struct Intake {
    store: Store,
    rules: Rulebook,
    tenancy: Arc<Tenancy>,
}

impl Intake {
    /// The way into a store under the rules of a book.
    pub fn new(store: Store, rules: Rulebook, tenancy: Arc<Tenancy>) -> Self {
        Intake { store, rules, tenancy }
    }

    /// Names of the headers in which rules look for a tenant, so that a request keeps no others.
    pub fn headers(&self) -> Vec<String> {
        let known = self.rules.now();
        known.rules.iter().filter_map(|rule| rule.tenant_key.header().map(str::to_owned)).collect()
    }

    /// The key of the limit that a stored job is told about: its own, else that of its type, else the file's on its queue.
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
        for _ in 0..ATTEMPTS {
            let known = self.rules.known().await?;
            for (index, job) in jobs.iter_mut().enumerate() {
                plan(&known, &self.tenancy, job, header).map_err(|problem| match is_batch {
                    true => Refusal::Invalid(problem.in_job(index)),
                    false => Refusal::Invalid(problem),
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
}

type Header<'a> = &'a dyn Fn(&str) -> Option<String>;

fn plan(known: &Known, tenancy: &Tenancy, job: &mut NewJob, header: Header<'_>) -> Result<(), Invalid> {
    if job.tenant.is_none() {
        job.tenant = tenancy.named_default().filter(|_| !tenancy.require_tenant).map(str::to_owned);
    }
    assign(known, tenancy, job, header)?;
    if tenancy.require_tenant && job.owner().is_none() {
        let expected = "the tenant that owns the job, there or in the header X-OJS-Tenant";
        return Err(Invalid::missing("meta.tenant_id", expected).of_kind(Kind::Tenant));
    }
    job.apart = tenancy.isolation == Isolation::Sharded;
    job.namespace = job.owner().filter(|_| tenancy.isolation == Isolation::Namespace).map(str::to_owned);
    let policy = &known.dispatch.policy;
    job.type_limit = policy.type_limit(&job.kind).map(LimitRule::key);
    job.shared = job.type_limit.is_some() || policy.fairness_of(&job.queue).is_some();
    Ok(())
}

fn assign(known: &Known, tenancy: &Tenancy, job: &mut NewJob, header: Header<'_>) -> Result<(), Invalid> {
    let Some(rule) = known.rules.of_type(&job.kind) else {
        job.assign(None, None);
        return Ok(());
    };
    let tenant = match rule.tenant_key.tenant(job.args(), job.meta(), header) {
        Some(tenant) => tenant,
        None if rule.tenant_key.is_in_args() && rule.on_missing_tenant == OnMissingTenant::Reject => {
            let expected =
                format!("the tenant's id as a string or number, because plan rule {:?} looks for it there", rule.name);
            return Err(Invalid::missing(rule.tenant_key.to_string(), expected).of_kind(Kind::Tenant));
        }
        None => tenancy.default_tenant.clone(),
    };
    job.assign(Some(Planned { rule: rule.name.clone(), tenant }), rule.queue.as_deref());
    Ok(())
}
