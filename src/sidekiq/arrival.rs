//! Jobs that arrive from a source of a Sidekiq: the decision about each and what is odd about it.

use super::{Finding, KeyMismatch, StagingReporter};
use crate::config::FairplayClass;
use crate::domain::job::sidekiq::{self, Payload};
use crate::domain::job::{NewJob, Planned, id};
use crate::domain::plan::{Rule, Rules};
use crate::domain::{json, tenant_id};
use crate::store::{Claimed, StagedByGem};

/// The queue of jobs that name none, as in Sidekiq.
const DEFAULT_QUEUE: &str = "default";

/// A job of a source: its sequence number in the inbox and the decision about it.
pub(super) struct Entry {
    pub(super) sequence: u64,
    pub(super) fate: Fate,
    /// Anomalies of the job, each with what a missing tenant was looked for in.
    pub(super) findings: Vec<(Finding, Option<KeyMismatch>)>,
}

/// The next step for a job.
pub(super) enum Fate {
    Stage(Box<NewJob>),
    /// No rule plans its class: it goes to its own queue.
    Pass {
        queue: String,
        payload: String,
    },
    /// No worker could run it, because its payload cannot be parsed.
    Bury(String),
}

/// The rules and settings for jobs of a Sidekiq.
pub(super) struct Arrival<'a> {
    pub(super) main_queue: &'a str,
    pub(super) rules: &'a Rules,
    /// The owner of jobs that do not name a tenant.
    pub(super) default_tenant: &'a str,
    pub(super) reporter: &'a StagingReporter,
    pub(super) now: i64,
}

impl Arrival<'_> {
    /// Decides about a payload of the staging queue.
    pub(super) fn of_payload(&self, staging_queue: &str, claimed: &Claimed) -> Entry {
        let (fate, findings) = self.judge(staging_queue, &claimed.payload);
        Entry { sequence: claimed.sequence, fate, findings }
    }

    fn judge(&self, staging_queue: &str, text: &str) -> (Fate, Vec<(Finding, Option<KeyMismatch>)>) {
        let Some(payload) = Payload::parse(text) else { return (Fate::Bury(text.to_owned()), Vec::new()) };
        let own_queue = payload.note().0.filter(|queue| queue != staging_queue);
        let Some(rule) = self.rules.of_class(self.main_queue, &payload.class) else {
            let queue = own_queue.unwrap_or_else(|| DEFAULT_QUEUE.to_owned());
            let findings = vec![unplanned(&payload.class, &queue)];
            let payload = payload.into_queue(&queue, self.now);
            return (Fate::Pass { queue, payload }, findings);
        };
        let mut findings = Vec::new();
        // The staging queue is no destination: no worker reads it.
        let of_rule = rule.queue.clone().filter(|queue| queue != staging_queue);
        let queue = of_rule.or(own_queue).unwrap_or_else(|| {
            let (rule, class) = (rule.name.clone(), payload.class.clone());
            findings.push((Finding::QueueUnknown { rule, class }, None));
            DEFAULT_QUEUE.to_owned()
        });
        if rule.shadow {
            let payload = payload.into_queue(&queue, self.now);
            return (Fate::Pass { queue, payload }, findings);
        }
        let tenant = rule.tenant_key.owner(&payload).unwrap_or_else(|| {
            findings.extend(self.reporter.tenant_missing(rule, &payload));
            self.default_tenant.to_owned()
        });
        let job = NewJob::foreign(&payload.class, &queue, payload.args, payload.template(&queue));
        (Fate::Stage(Box::new(planned(job, rule, tenant))), findings)
    }

    /// Decides about a job of the gem sidekiq-fairplay, which keeps only the tenant and the
    /// arguments.
    pub(super) fn of_gem(&self, class: &FairplayClass, staged: &StagedByGem) -> Entry {
        let fate = self.order(class, staged);
        let findings = match &fate {
            Fate::Pass { queue, .. } => vec![unplanned(&class.class, queue)],
            Fate::Stage(_) | Fate::Bury(_) => Vec::new(),
        };
        Entry { sequence: staged.sequence, fate, findings }
    }

    fn order(&self, of: &FairplayClass, staged: &StagedByGem) -> Fate {
        let (class, args) = (of.class.as_str(), &staged.args);
        if json::elements(args).is_none() {
            return Fate::Bury(args.to_owned());
        }
        let rule = self.rules.of_class(self.main_queue, class);
        let queue = rule.and_then(|rule| rule.queue.clone()).unwrap_or_else(|| DEFAULT_QUEUE.to_owned());
        let template = sidekiq::fairplay_template(class, &of.options, &queue, &sidekiq::jid(&id::generate()), self.now);
        let Some(rule) = rule else {
            return Fate::Pass { queue, payload: sidekiq::fill(&template, args, self.now) };
        };
        let tenant = if tenant_id::is_id(&staged.tenant) { &staged.tenant } else { self.default_tenant };
        let mut job = NewJob::foreign(class, &queue, args, template);
        // Needed to hand the job back.
        job.gem_tenant = Some(staged.tenant.clone());
        Fate::Stage(Box::new(planned(job, rule, tenant.to_owned())))
    }
}

fn unplanned(class: &str, queue: &str) -> (Finding, Option<KeyMismatch>) {
    (Finding::Unplanned { class: class.to_owned(), queue: queue.to_owned() }, None)
}

fn planned(mut job: NewJob, rule: &Rule, tenant: String) -> NewJob {
    job.plan = Some(Planned { rule: rule.name.clone(), tenant });
    job
}
