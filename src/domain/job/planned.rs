//! Assignment of jobs to plan rules and tenants.

use super::NewJob;
use super::request::{ENVELOPE_START, QUEUE_START, TYPE_START};
use crate::domain::escape::escape;
use crate::domain::tenant_id;
use std::borrow::Cow;
use std::ops::Range;

/// Assignment of a job to a plan rule and a tenant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned {
    pub rule: String,
    pub tenant: String,
}

/// Returns the name of a tenant's own queue in the store. Clients cannot name it, because names of
/// queues contain no slash.
pub fn queue_of(tenant: &str, queue: &str) -> String {
    format!("{}/{queue}", escape(tenant))
}

impl NewJob {
    /// Returns the tenant that owns the job; `None` for the default tenant.
    pub fn owner(&self) -> Option<&str> {
        let owner = self.plan.as_ref().map(|plan| plan.tenant.as_str()).or(self.tenant.as_deref());
        owner.filter(|owner| *owner != tenant_id::DEFAULT)
    }

    /// Returns the queue in which the job waits.
    pub fn home(&self) -> Cow<'_, str> {
        match &self.namespace {
            Some(tenant) => Cow::Owned(queue_of(tenant, &self.queue)),
            None => Cow::Borrowed(&self.queue),
        }
    }

    /// Returns the place of `args` in the envelope.
    pub fn args_range(&self) -> Range<usize> {
        self.args.clone()
    }

    /// Returns the text of `args`.
    pub fn args(&self) -> &str {
        &self.envelope[self.args.clone()]
    }

    /// Returns the text of `meta`.
    pub fn meta(&self) -> &str {
        &self.envelope[self.meta.clone()]
    }

    /// Assigns the job to a plan rule, which may redirect it to another queue, or to none. Reverts
    /// an earlier assignment.
    pub fn assign(&mut self, plan: Option<Planned>, queue: Option<&str>) {
        if let Some(own) = self.own_queue.take() {
            self.redirect(&own);
        }
        if let Some(queue) = queue.filter(|queue| *queue != self.queue) {
            self.own_queue = Some(self.queue.clone());
            self.redirect(queue);
        }
        (self.plan, self.outward) = (plan, None);
    }

    fn redirect(&mut self, queue: &str) {
        // The envelope begins with known text up to the queue's name, and neither type nor queue
        // contain escapes.
        let start = ENVELOPE_START.len() + self.id.len() + TYPE_START.len() + self.kind.len() + QUEUE_START.len();
        self.envelope.replace_range(start..start + self.queue.len(), queue);
        let moved = |at: usize| at + queue.len() - self.queue.len();
        self.args = moved(self.args.start)..moved(self.args.end);
        self.meta = moved(self.meta.start)..moved(self.meta.end);
        self.queue = queue.to_owned();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::job::RequestLimits;
    use crate::domain::job::request::{Context, parse};

    #[test]
    fn a_job_that_is_sent_elsewhere_keeps_the_rest_to_the_byte_and_can_be_sent_back() {
        let text = r#"{"type":"a.b","queue":"q","args":[1.0, {"queue":"q"}],"meta":{"x": 1}}"#;
        let limits =
            RequestLimits { max_envelope: 1000, max_meta: 1000, max_result: 1000, max_batch: 1, max_nesting: 9 };
        let mut job = parse(text, &limits, &Context::default()).expect("a job");
        let own = job.envelope.clone();
        let plan = Planned { rule: "r".to_owned(), tenant: "t".to_owned() };
        for queue in ["elsewhere", "x", "q"] {
            job.assign(Some(plan.clone()), Some(queue));
            assert_eq!(job.envelope, own.replacen(r#""queue":"q","args"#, &format!(r#""queue":"{queue}","args"#), 1));
            assert_eq!((job.args(), job.meta(), job.queue.as_str()), (r#"[1.0, {"queue":"q"}]"#, r#"{"x": 1}"#, queue));
        }
        job.assign(None, None);
        assert_eq!((job.envelope, job.queue, job.plan), (own, "q".to_owned(), None));
    }
}
