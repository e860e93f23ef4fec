//! Weights of the tenants of a rule in shadow, from the rule, the tenants' own settings or the
//! webhook. They are not stored.

use crate::domain::plan::Rule;
use crate::domain::shadow::{Shadow, SimulatedTenant};
use crate::domain::tenant::Weight;
use crate::planner::WebhookState;
use crate::rules::Rulebook;
use crate::store::Error;
use crate::weights::{self, Ask, Fallback, WebhookSource};
use std::collections::HashMap;
use std::sync::Arc;
use tokio::task::JoinHandle;

/// Maximum number of tenants in a webhook request.
const ASKED: usize = 300;
/// Maximum number of tenants whose weights are remembered.
const MOST: usize = 20_000;

/// The known weights.
pub(super) struct ShadowWeights {
    known: HashMap<String, Weight>,
    source: Option<Arc<WebhookSource>>,
    asking: Option<JoinHandle<weights::WebhookAnswer>>,
}

impl ShadowWeights {
    /// Creates an empty set of weights.
    pub(super) fn new(source: Option<Arc<WebhookSource>>) -> ShadowWeights {
        ShadowWeights { known: HashMap::new(), source, asking: None }
    }

    /// Returns the weight of a tenant, if it is known.
    pub(super) fn weight(&self, tenant: &str) -> Option<Weight> {
        self.known.get(tenant).copied()
    }

    /// Returns the current state of the webhook, if there is one.
    pub(super) fn webhook(&self, now: i64) -> Option<WebhookState> {
        let status = self.source.as_ref()?.status();
        let age_ms = status.last_success_at.map(|at| u64::try_from(now - at).unwrap_or(0));
        let fallback = status.failing_since.map(|_| fallback(age_ms));
        Some(WebhookState { status, age_ms, fallback })
    }

    /// Looks up the weights of tenants that are not known yet.
    pub(super) async fn look_up(
        &mut self,
        rules: &Rulebook,
        rule: &Rule,
        tenants: impl Iterator<Item = &str>,
    ) -> Result<(), Error> {
        if self.known.len() > MOST {
            self.known.clear();
        }
        let mut unknown: Vec<&str> = tenants.filter(|tenant| !self.known.contains_key(*tenant)).collect();
        unknown.sort_unstable();
        unknown.dedup();
        if unknown.is_empty() {
            return Ok(());
        }
        let terms = rules.served(&unknown).await?;
        for (tenant, served) in unknown.iter().zip(terms) {
            self.known.insert((*tenant).to_owned(), rule.own_weight(tenant, served.terms.weight));
        }
        Ok(())
    }

    /// Looks up the weights of waiting tenants again, because their global weights may have
    /// changed. With a webhook, its answers contain the changes.
    pub(super) async fn renew(
        &mut self,
        rules: &Rulebook,
        rule: &Rule,
        shadow: &Shadow,
    ) -> Result<Vec<(String, Weight)>, Error> {
        if self.source.is_some() {
            return Ok(Vec::new());
        }
        self.known.clear();
        let waiting: Vec<String> = shadow.waiting().map(|waiting| waiting.tenant.to_string()).collect();
        let mut weights = Vec::with_capacity(waiting.len());
        for portion in waiting.chunks(ASKED) {
            self.look_up(rules, rule, portion.iter().map(String::as_str)).await?;
            weights.extend(portion.iter().filter_map(|tenant| Some((tenant.clone(), self.weight(tenant)?))));
        }
        Ok(weights)
    }

    /// Sends a request about the tenants that have waited longest, if there is a webhook and no
    /// request is pending.
    pub(super) fn ask(&mut self, queue: &str, round: u64, shadow: &Shadow, now: i64) {
        let Some(source) = self.source.clone().filter(|_| self.asking.is_none()) else { return };
        let mut waiting: Vec<_> = shadow.waiting().collect();
        if waiting.is_empty() {
            return;
        }
        waiting.sort_by_key(|waiting| waiting.oldest);
        let tenant = |waiting: SimulatedTenant<'_>| weights::AskedTenant {
            pending: Some(waiting.jobs),
            oldest_age_ms: waiting.oldest.map(|since| u64::try_from(now - since).unwrap_or(0)),
            weight: Some(waiting.weight),
            ..weights::AskedTenant::named(waiting.tenant)
        };
        let tenants = waiting.into_iter().take(ASKED).map(tenant).collect();
        let ask = Ask { queue: queue.to_owned(), round, tenants };
        self.asking = Some(tokio::spawn(async move { source.ask(ask).await }));
    }

    /// Returns the webhook's answer, if one has arrived since the last call. While the webhook
    /// fails, the last good weights are kept.
    pub(super) async fn hear(&mut self) -> Option<weights::WebhookAnswer> {
        let answer = self.asking.take_if(|asked| asked.is_finished())?.await.ok()?;
        if let Ok(outcome) = &answer {
            self.known.extend(outcome.weights.iter().cloned());
        }
        Some(answer)
    }
}

/// Returns the weights that a rule in shadow uses while its webhook fails. Unlike promotion, a
/// shadow does not let them expire.
pub(super) fn fallback(age_ms: Option<u64>) -> Fallback {
    age_ms.map_or(Fallback::DefaultWeight, |age_ms| Fallback::LastWeights { age_ms })
}
