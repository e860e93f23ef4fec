//! The explanation of one job: the facts from the store, the rule and its main queue, and the
//! checks that follow from them.

use super::RunnerRegistry;
use super::stats::is_stalled;
use crate::domain::explain::{
    Explanation, JobFacts, Life, LockFacts, MainQueueFacts, PlannerFacts, PromotionRate, Stage, WebhookFacts, explain,
    stages,
};
use crate::domain::job::Record;
use crate::domain::plan::Rule;
use crate::domain::time::parse_rfc3339;
use crate::store::{Error, ExplainedJob, Observation, RuleStatus, Store};
use crate::weights::Fallback;
use serde_json::Value;
use std::sync::Arc;

/// Number of recorded rounds from which the rate of promotions is computed.
const LAST_ROUNDS: usize = 10;
/// Age of the oldest round that counts, in milliseconds.
const OLDEST_ROUND_MS: i64 = 600_000;

/// The caller that an explanation is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Viewer {
    /// May see names of processes and errors of other systems.
    Operator,
    /// Is bound to a tenant.
    Tenant,
}

/// The explanation of a job.
pub struct JobExplanation {
    pub id: String,
    pub facts: JobFacts,
    /// Its plan rule, if this process knows it.
    pub rule: Option<Arc<Rule>>,
    pub answered: Answered,
}

/// The part that depends on the state of the job.
pub enum Answered {
    Waiting(Box<Explanation>),
    /// The job runs or has ended.
    Past {
        stages: Vec<Stage>,
        total_ms: u64,
        promoted_to: Option<String>,
    },
}

impl JobExplanation {
    /// Explains a job that the store's handle can see. Returns `None` if there is none.
    pub async fn read(
        registry: &RunnerRegistry,
        store: &Store,
        id: &str,
        viewer: Viewer,
    ) -> Result<Option<JobExplanation>, Error> {
        let Some(ExplainedJob { facts, stored_queue }) = store.explain(id).await? else { return Ok(None) };
        let known = registry.rules().known().await?;
        let rule = facts.rule.as_deref().and_then(|name| known.find(name));
        let explanation = match (&rule, facts.is_staged) {
            (Some(rule), true) => {
                let read = ReadRule::read(registry, rule, &stored_queue).await?;
                explain(&facts, Some(&read.facts(rule, &stored_queue, viewer)))
            }
            _ => explain(&facts, None),
        };
        let answered = match explanation {
            Some(explanation) => Answered::Waiting(Box::new(explanation)),
            None => match store.job(id).await? {
                Some(record) => past(&record, &facts),
                None => return Ok(None), // removed meanwhile
            },
        };
        Ok(Some(JobExplanation { id: id.to_owned(), facts, rule, answered }))
    }

    /// Returns true if the job waits.
    pub fn is_waiting(&self) -> bool {
        matches!(self.answered, Answered::Waiting(_))
    }
}

fn past(record: &Record, facts: &JobFacts) -> Answered {
    let life = Life::of(record, facts.rule.is_some(), facts.now);
    let total_ms = u64::try_from(life.end - life.created).unwrap_or(0);
    Answered::Past { stages: stages(&life), total_ms, promoted_to: record.promoted_to().map(str::to_owned) }
}

/// The state of a rule as it was read.
struct ReadRule {
    status: RuleStatus,
    undelivered: u64,
    /// The last recorded rounds, the newest first.
    rounds: Vec<Value>,
}

impl ReadRule {
    async fn read(registry: &RunnerRegistry, rule: &Rule, queue: &str) -> Result<ReadRule, Error> {
        let status = registry.status_with(rule, Some(queue)).await?;
        let recorded = registry.store().recorded_rounds(&rule.name, None, LAST_ROUNDS).await?;
        let rounds = recorded.iter().filter_map(|round| serde_json::from_str(&round.document).ok()).collect();
        let undelivered = match registry.main_queues().get(&rule.main_queue) {
            Some(queue) => queue.undelivered(&rule.name).await?,
            None => 0,
        };
        Ok(ReadRule { status, undelivered, rounds })
    }

    fn facts<'a>(&self, rule: &'a Rule, queue: &str, viewer: Viewer) -> PlannerFacts<'a> {
        let status = &self.status;
        let shown = |text: &String| Some(text.clone()).filter(|_| viewer == Viewer::Operator);
        let lock = status.lock.as_ref().map(|lock| LockFacts {
            holder: shown(&lock.holder),
            left_ms: lock.left_ms,
            is_busy: lock.is_busy,
        });
        let main_queue = |seen: &Observation| MainQueueFacts {
            depth: seen.depth,
            oldest: seen.oldest,
            active: seen.active,
            aim: seen.aim,
            idle_ms: seen.idle_ms.filter(|_| seen.is_wanted()),
            processes: seen.processes,
            hindrance: seen.hindrance,
        };
        PlannerFacts {
            rule,
            is_paused: status.paused,
            is_stalled: is_stalled(rule, status),
            lock,
            due: status.due,
            staged_at: status.staged_at,
            queue: status.queues.iter().find(|seen| seen.queue == queue).map(main_queue),
            trouble: status.trouble.as_ref().and_then(shown),
            undelivered: self.undelivered,
            webhook: rule.weights.webhook.is_some().then(|| self.webhook(viewer)),
            promoted: self.promoted(),
        }
    }

    fn webhook(&self, viewer: Viewer) -> WebhookFacts {
        let webhook = self.rounds.first().map_or(&Value::Null, |round| &round["weights_webhook"]);
        let error = webhook["last_error"].as_str().filter(|_| viewer == Viewer::Operator);
        WebhookFacts {
            failing_since: time(&webhook["failing_since"]),
            last_error: error.map(str::to_owned),
            holds_all: webhook["fallback"] == Fallback::Hold.name(),
            next_attempt_at: time(&webhook["next_attempt_at"]),
        }
    }

    /// Returns the promotions since the oldest round that counts.
    fn promoted(&self) -> Option<PromotionRate> {
        let now = self.status.now;
        let recent = self.rounds.iter().filter_map(|round| {
            let at = time(&round["at"]).filter(|at| now - at <= OLDEST_ROUND_MS)?;
            Some((at, round["promoted"].as_u64().unwrap_or(0)))
        });
        let recent: Vec<(i64, u64)> = recent.collect();
        let (oldest, newer) = recent.split_last()?;
        let rate = PromotionRate { jobs: newer.iter().map(|(_, jobs)| jobs).sum(), period_ms: now - oldest.0 };
        (rate.jobs > 0).then_some(rate)
    }
}

fn time(value: &Value) -> Option<i64> {
    value.as_str().and_then(parse_rfc3339)
}
