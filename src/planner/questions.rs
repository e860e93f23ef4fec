//! Questions to a rule's weights webhook that are under way.

use crate::store::{Lately, StagedTenant};
use crate::weights::{self, Ask, Source};
use futures_util::future::select_all;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;

/// Questions of one kind that are under way at the same time.
const MOST_ASKING: usize = 8;
/// How often a round that waits for an answer looks whether there is something to do instead.
const GLANCE: Duration = Duration::from_millis(20);

/// A question about tenants of one main queue.
pub(super) struct Question {
    pub queue: String,
    /// Tenants of unknown weight that it is about; none in one about tenants that are served meanwhile.
    pub unknown: Vec<StagedTenant>,
    answer: JoinHandle<weights::Answer>,
}

/// All questions that are under way: of each kind at most one about a main queue.
#[derive(Default)]
pub(super) struct Questions(Vec<Question>);

impl Questions {
    /// True if every question was answered.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// True if another question about a main queue may be asked.
    pub fn may_ask(&self, queue: &str, about_unknown: bool) -> bool {
        let is_alike = |question: &&Question| question.unknown.is_empty() != about_unknown;
        let alike = || self.0.iter().filter(is_alike);
        alike().count() < MOST_ASKING && alike().all(|question| question.queue != queue)
    }

    /// Asks the webhook; `unknown` are those of the tenants that are not promoted before the answer.
    pub fn send(&mut self, source: Arc<Source>, ask: Ask, unknown: Vec<StagedTenant>) {
        let queue = ask.queue.clone();
        let answer = tokio::spawn(async move { source.ask(ask).await });
        self.0.push(Question { queue, unknown, answer });
    }

    /// A question that has been answered, within a glance if the caller has time; no answer in it if the process stops.
    pub async fn next_answer(&mut self, has_time: bool) -> Option<(Question, Option<weights::Answer>)> {
        if self.is_empty() {
            return None;
        }
        let patience = if has_time { GLANCE } else { Duration::ZERO };
        let answers = self.0.iter_mut().map(|question| &mut question.answer);
        let (answer, place, _) = tokio::time::timeout(patience, select_all(answers)).await.ok()?;
        Some((self.0.remove(place), answer.ok()))
    }
}

/// Work that is done for a tenant.
#[derive(Clone, Copy, Default)]
pub(super) struct Working {
    pub active: Option<u64>,
    /// Within the last minute.
    pub lately: Option<Lately>,
}

/// A tenant as a question describes it.
pub(super) fn describe(
    tenant: &StagedTenant,
    working: Working,
    now: i64,
    promoted: &HashMap<&str, u64>,
) -> weights::Tenant {
    let age = |since: i64| u64::try_from(now - since).unwrap_or(0);
    weights::Tenant {
        pending: Some(tenant.staged),
        oldest_age_ms: tenant.oldest.map(age),
        active: working.active,
        processed_1m: working.lately.map(|lately| lately.ended),
        avg_runtime_ms: working.lately.and_then(|lately| lately.runtime_ms),
        promoted_1m: Some(promoted.get(tenant.name.as_str()).copied().unwrap_or(0)),
        weight: (!tenant.is_unknown).then_some(tenant.weight),
        ..weights::Tenant::named(&tenant.name)
    }
}
