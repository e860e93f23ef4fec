//! Jobs that are validated but not stored yet.

use super::retry::RetryPolicy;
use super::{Ancestor, Outward, Planned, Unique};
use crate::domain::json::{self, Object};
use crate::domain::limit::{LimitKey, RateLimit};
use crate::domain::time::At;
use std::ops::Range;

/// A validated job that is not stored yet.
#[derive(Clone, Debug)]
pub struct NewJob {
    pub id: String,
    /// True if the client chose the id, which may then be taken already.
    pub own_id: bool,
    pub kind: String,
    pub queue: String,
    pub priority: i8,
    pub pending: bool,
    pub scheduled: Option<At>,
    pub expires: Option<At>,
    pub ttl: Option<At>,
    pub total: Option<At>,
    /// Text of the envelope, byte for byte, as an object without its closing brace, because answers
    /// append members to it.
    pub envelope: String,
    /// Byte ranges of `args` and `meta` in the envelope.
    pub(super) args: Range<usize>,
    pub(super) meta: Range<usize>,
    /// Tenant named by the request or by `meta.tenant_id`.
    pub tenant: Option<String>,
    /// Workflows and jobs that the job names as its origin.
    pub ancestors: Vec<Ancestor>,
    /// True if tenants have lanes of their own (isolation `sharded`). Has no effect on jobs under a
    /// plan rule, which determines the order itself.
    pub apart: bool,
    /// Tenant whose own queue the job waits in (isolation `namespace`).
    pub namespace: Option<String>,
    /// Rate limit that the client sent with the job.
    pub rate_limit: Option<RateLimit>,
    /// Uniqueness policy that the client sent with the job.
    pub unique: Option<Unique>,
    /// Key of the limit on the job's type, if the server's policy sets one.
    pub type_limit: Option<LimitKey>,
    /// Retry policy that the client sent with the job.
    pub retry: Option<RetryPolicy>,
    pub timeouts: Timeouts,
    /// Plan rule that the job falls under.
    pub plan: Option<Planned>,
    /// Queue that the client asked for, if a plan rule redirects the job.
    pub(super) own_queue: Option<String>,
    /// Payload that is pushed to another system on promotion, if the rule's main queue is not
    /// fairgate's own.
    pub outward: Option<Outward>,
    /// True if answers show the time at which the job is due as the store computes it; otherwise the
    /// envelope contains it, or there is none.
    pub shows_due: bool,
    /// The same for the time at which the job expires.
    pub shows_expires: bool,
    /// Id of the W3C trace that the job belongs to.
    pub trace: Option<String>,
    /// Directive for the worker that runs the job, in conformance tests.
    pub directive: Option<String>,
    /// Position in the workflow that the job is part of.
    pub position: Option<WorkflowPosition>,
    /// Tenant as the gem sidekiq-fairplay named it, if the job came from its keys.
    pub gem_tenant: Option<String>,
}

/// Time limits of a job in milliseconds; the server's defaults apply to absent ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timeouts {
    /// Duration of an attempt.
    pub attempt: Option<u64>,
    /// Time without a sign of life after which an attempt is given up.
    pub visibility: Option<u64>,
    /// Interval within which the worker must send heartbeats.
    pub heartbeat: Option<u64>,
    /// Time that the worker has to stop the job.
    pub grace: Option<u64>,
}

/// Position of a job in its workflow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkflowPosition {
    /// Id of the workflow.
    pub workflow: String,
    /// Number of the job's node.
    pub node: usize,
    /// True if the job receives the results of others, and so starts after them.
    pub takes_results: bool,
}

/// Text of an envelope, as an object without its closing brace.
pub(super) struct Envelope {
    pub(super) text: String,
    /// Byte ranges of the members `args` and `meta`.
    pub(super) args: Range<usize>,
    pub(super) meta: Range<usize>,
}

impl NewJob {
    /// Creates a job with only a type and a queue.
    pub(super) fn bare(id: String, kind: String, queue: String, envelope: Envelope) -> NewJob {
        let Envelope { text: envelope, args, meta } = envelope;
        NewJob {
            id,
            own_id: false,
            kind,
            queue,
            priority: 0,
            pending: false,
            scheduled: None,
            expires: None,
            ttl: None,
            total: None,
            envelope,
            args,
            meta,
            tenant: None,
            ancestors: Vec::new(),
            apart: false,
            namespace: None,
            rate_limit: None,
            unique: None,
            type_limit: None,
            retry: None,
            timeouts: Timeouts::default(),
            plan: None,
            own_queue: None,
            outward: None,
            shows_due: false,
            shows_expires: false,
            trace: None,
            directive: None,
            position: None,
            gem_tenant: None,
        }
    }

    /// Returns true if the job starts after others of its workflow, and receives their results.
    pub fn takes_results(&self) -> bool {
        self.position.as_ref().is_some_and(|position| position.takes_results)
    }

    /// Returns true if `meta` contains `tenant_id`, even with the value `null`. A second one must
    /// not be added, because readers use the last.
    pub fn names_tenant(&self) -> bool {
        Object::parse(self.meta()).map_or(true, |meta| meta.members().any(|member| member.name == "tenant_id"))
    }

    /// Inserts the tenant into a `meta` that names none.
    pub fn put_tenant(&mut self, tenant: &str) {
        let is_empty = Object::parse(self.meta()).is_ok_and(|meta| meta.is_empty());
        let mut member = String::from("\"tenant_id\":");
        json::push_text(&mut member, tenant);
        if !is_empty {
            member.push(',');
        }
        // Inserted after the opening brace of `meta`; all other bytes stay unchanged.
        self.envelope.insert_str(self.meta.start + 1, &member);
        self.meta.end += member.len();
        self.tenant = Some(tenant.to_owned());
    }
}
