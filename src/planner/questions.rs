//! Pending requests to a rule's weights webhook.

use crate::store::{RecentAttempts, StagedTenant};
use crate::weights::{self, Ask, WebhookSource};
use futures_util::future::select_all;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;

/// Maximum number of pending requests of one kind.
const MOST_ASKING: usize = 8;
/// Time for which a round waits for an answer before it checks for other work.
pub(super) const GLANCE: Duration = Duration::from_millis(20);

/// The kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QuestionKind {
    /// About tenants that continue to be served.
    Known,
    /// About tenants of unknown weight, which wait for the answer.
    Unknown,
}

/// A request about tenants of one main queue.
pub(super) struct Question {
    pub queue: String,
    /// The tenants of unknown weight that it is about. Empty if it is about tenants that continue
    /// to be served.
    pub unknown: Vec<StagedTenant>,
    answer: JoinHandle<weights::WebhookAnswer>,
}

impl Question {
    fn kind(&self) -> QuestionKind {
        if self.unknown.is_empty() { QuestionKind::Known } else { QuestionKind::Unknown }
    }
}

/// All pending requests: at most one of each kind per main queue.
#[derive(Default)]
pub(super) struct Questions(Vec<Question>);

impl Questions {
    /// Returns true if no request is pending.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns true if another request of this kind may be sent for a main queue.
    pub fn may_ask(&self, queue: &str, kind: QuestionKind) -> bool {
        let is_alike = |question: &&Question| question.kind() == kind;
        let alike = || self.0.iter().filter(is_alike);
        alike().count() < MOST_ASKING && alike().all(|question| question.queue != queue)
    }

    /// Sends a request to the webhook; `unknown` are the tenants that are not promoted before the
    /// answer.
    pub fn send(&mut self, source: Arc<WebhookSource>, ask: Ask, unknown: Vec<StagedTenant>) {
        let queue = ask.queue.clone();
        let answer = tokio::spawn(async move { source.ask(ask).await });
        self.0.push(Question { queue, unknown, answer });
    }

    /// Returns a finished request, waiting for one at most `patience`. It has no answer if the
    /// process stops.
    pub async fn next_answer(&mut self, patience: Duration) -> Option<(Question, Option<weights::WebhookAnswer>)> {
        if self.is_empty() {
            return None;
        }
        let answers = self.0.iter_mut().map(|question| &mut question.answer);
        let (answer, place, _) = tokio::time::timeout(patience, select_all(answers)).await.ok()?;
        Some((self.0.remove(place), answer.ok()))
    }
}

/// Work in progress and recent work for a tenant.
#[derive(Clone, Copy, Default)]
pub(super) struct Working {
    pub active: Option<u64>,
    /// Finished work of the last minute.
    pub lately: Option<RecentAttempts>,
}

/// Returns the description of a tenant in a webhook request.
pub(super) fn describe(
    tenant: &StagedTenant,
    working: Working,
    now: i64,
    promoted: &HashMap<&str, u64>,
) -> weights::AskedTenant {
    let age = |since: i64| u64::try_from(now - since).unwrap_or(0);
    weights::AskedTenant {
        pending: Some(tenant.staged),
        oldest_age_ms: tenant.oldest.map(age),
        active: working.active,
        processed_1m: working.lately.map(|lately| lately.ended),
        avg_runtime_ms: working.lately.and_then(|lately| lately.runtime_ms),
        promoted_1m: Some(promoted.get(tenant.name.as_str()).copied().unwrap_or(0)),
        weight: (!tenant.is_unknown).then_some(tenant.weight),
        ..weights::AskedTenant::named(&tenant.name)
    }
}
