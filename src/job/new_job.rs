//! A job that was checked and not yet stored.

use super::time::At;
use super::{Ancestor, Outward, Planned, RateLimit, Unique};
use std::ops::Range;

/// A checked job, not yet stored.
#[derive(Clone, Debug)]
pub struct NewJob {
    pub id: String,
    /// Whether the client chose the id, so that it may be taken.
    pub own_id: bool,
    pub kind: String,
    pub queue: String,
    pub priority: i8,
    pub pending: bool,
    pub scheduled: Option<At>,
    pub expires: Option<At>,
    pub ttl: Option<At>,
    pub total: Option<At>,
    /// The envelope's text, kept to the byte, as an object without its closing brace: answers only add to it.
    pub envelope: String,
    /// Where `args` and `meta` stand in the envelope.
    pub(super) args: Range<usize>,
    pub(super) meta: Range<usize>,
    /// The tenant that the request or `meta.tenant_id` names.
    pub tenant: Option<String>,
    /// The workflows and jobs that it says it comes from.
    pub ancestors: Vec<Ancestor>,
    /// Whether it waits among its tenant's own, where no plan rule says in which order jobs go.
    pub apart: bool,
    /// The tenant in whose own queues it waits, where tenants share none.
    pub namespace: Option<String>,
    /// The limit that it brings along.
    pub rate_limit: Option<RateLimit>,
    /// Which jobs count as the same as this one, if it is to be the only one.
    pub unique: Option<Unique>,
    /// Key of the limit of its type, if the server sets one.
    pub type_limit: Option<String>,
    /// The plan rule that it falls under.
    pub plan: Option<Planned>,
    /// The queue that its client asked for, where a plan rule sends it elsewhere.
    pub(super) own_queue: Option<String>,
    /// What is pushed elsewhere when it is promoted, where its rule's main queue is not ours.
    pub outward: Option<Outward>,
    /// Further fields of the store's record: name and value, only where they differ from the default.
    pub fields: Vec<(&'static str, String)>,
}

impl NewJob {
    /// A job that asks for nothing but its type and queue; of its envelope, the text and where `args` and `meta` stand in it.
    pub(super) fn bare(
        id: String,
        kind: String,
        queue: String,
        (envelope, args, meta): (String, Range<usize>, Range<usize>),
    ) -> NewJob {
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
            plan: None,
            own_queue: None,
            outward: None,
            fields: Vec::new(),
        }
    }
}
