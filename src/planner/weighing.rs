//! What tenants weigh: the rule's own numbers, or what the webhook says, brought to where promotion reads them.

use crate::fair::{Rule, Weight};
use crate::store::{Error, Observation, Round, Served, Store, Tenant};
use crate::weights::{self, Ask, Source, stale_weight};
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Instant;
use tokio::task::JoinHandle;

/// Tenants whose turn comes next, who are asked about in each round.
const CANDIDATES: usize = 200;
/// Tenants asked about besides, in rotation, so that each is asked about some time.
const IN_ROTATION: usize = 100;
/// Rounds that `promoted_1m` is summed from at most.
const MOST_NOTES: usize = 1000;

/// Keeps the weights of one rule's tenants up to date.
pub struct Weighing {
    source: Option<Arc<Source>>,
    /// Where the rotation through all tenants goes on, by main queue.
    cursors: HashMap<String, u64>,
    /// Main queues whose tenants have all been given the rule's own weights; only without a webhook.
    settled: HashSet<String>,
    /// Questions under way, by main queue.
    asking: HashMap<String, JoinHandle<weights::Answer>>,
    /// When the webhook was last asked, by main queue.
    asked_at: HashMap<String, i64>,
    /// What was promoted in the last minute.
    recent: VecDeque<(i64, Vec<Served>)>,
    /// How long the last question kept a round waiting.
    waited_ms: f64,
}

/// A question that a round did not wait for.
pub struct Open {
    queue: String,
}

impl Weighing {
    /// The weights of a rule, with a source if it has a webhook.
    pub fn new(source: Option<Arc<Source>>) -> Self {
        Weighing {
            source,
            cursors: HashMap::new(),
            settled: HashSet::new(),
            asking: HashMap::new(),
            asked_at: HashMap::new(),
            recent: VecDeque::new(),
            waited_ms: 0.0,
        }
    }

    /// Where the weights come from, as rounds record it.
    pub fn source(&self) -> &'static str {
        if self.source.is_some() { Source::NAME } else { "static" }
    }

    fn status(&self) -> Option<weights::Status> {
        self.source.as_ref().map(|source| source.status())
    }

    /// Which part of a round took so long.
    pub fn slow_part(&self, duration_ms: f64) -> &'static str {
        if self.waited_ms > duration_ms / 2.0 { "weights webhook" } else { "promotion" }
    }

    /// Brings the weights of a main queue's tenants up to date before a promotion. A webhook is waited for only while the
    /// main queue has work; else the open question is given back, to be settled afterwards.
    pub async fn refresh(
        &mut self,
        store: &Store,
        rule: &Rule,
        round: &Round,
        queue: &Observation,
    ) -> Result<Option<Open>, Error> {
        self.waited_ms = 0.0;
        if self.source.is_none() {
            self.apply_own(store, rule, round, &queue.queue).await?;
            return Ok(None);
        }
        self.apply_finished(store, rule, &round.token, &queue.queue).await?;
        let asked_at = self.asked_at.get(&queue.queue).copied();
        let is_time = round.scheduled || asked_at.is_none_or(|at| round.now - at >= 1000);
        if is_time && !self.asking.contains_key(&queue.queue) {
            self.ask(store, rule, round, &queue.queue).await?;
        }
        if !self.asking.contains_key(&queue.queue) {
            return Ok(None);
        }
        let open = Open { queue: queue.queue.clone() };
        if queue.depth == 0 {
            return Ok(Some(open));
        }
        let started = Instant::now();
        self.settle(store, rule, &round.token, Some(open)).await?;
        self.waited_ms = started.elapsed().as_secs_f64() * 1e3;
        Ok(None)
    }

    /// Takes over an answer if it is there, or waits for it while the round has nothing else to do.
    pub async fn settle(&mut self, store: &Store, rule: &Rule, token: &str, open: Option<Open>) -> Result<(), Error> {
        let Some(Open { queue }) = open else { return Ok(()) };
        let Some(task) = self.asking.remove(&queue) else { return Ok(()) };
        let Ok(answer) = task.await else { return Ok(()) }; // it panicked, or the process stops
        self.apply(store, rule, token, &queue, answer).await
    }

    async fn apply_finished(&mut self, store: &Store, rule: &Rule, token: &str, queue: &str) -> Result<(), Error> {
        match self.asking.get(queue) {
            Some(task) if task.is_finished() => {
                self.settle(store, rule, token, Some(Open { queue: queue.to_owned() })).await
            }
            _ => Ok(()),
        }
    }

    async fn apply(
        &self,
        store: &Store,
        rule: &Rule,
        token: &str,
        queue: &str,
        answer: weights::Answer,
    ) -> Result<(), Error> {
        match answer {
            Ok(outcome) => {
                for (tenant, reason) in &outcome.refused {
                    tracing::warn!(
                        rule = rule.name,
                        tenant,
                        reason,
                        "the weights webhook gave no weight: the last good one stays"
                    );
                }
                store.reweigh(&rule.name, token, queue, true, &outcome.weights).await.map(drop)
            }
            Err(error) => {
                tracing::warn!(
                    rule = rule.name,
                    kind = error.kind.as_str(),
                    error = error.text,
                    "the weights webhook failed: going on with the last good weights"
                );
                Ok(())
            }
        }
    }

    /// Starts a question about the tenants that may be served next, those in rotation and those that are held.
    async fn ask(&mut self, store: &Store, rule: &Rule, round: &Round, queue: &str) -> Result<(), Error> {
        let Some(source) = self.source.clone() else { return Ok(()) };
        let survey = store.next_tenants(&rule.name, queue, CANDIDATES, true).await?;
        let mut tenants = survey.tenants;
        let mut names = self.rotate(store, rule, queue).await?;
        names.extend(store.held_tenants(&rule.name, queue, IN_ROTATION).await?);
        let known: HashSet<&str> = tenants.iter().map(|tenant| tenant.name.as_str()).collect();
        let more: HashSet<String> = names.into_iter().filter(|name| !known.contains(name.as_str())).collect();
        tenants.extend(store.tenants(&rule.name, queue, &more.into_iter().collect::<Vec<_>>()).await?);
        if tenants.is_empty() {
            return Ok(());
        }
        self.apply_stale(store, rule, round, queue, &tenants).await?;
        let promoted = self.promoted_lately(round.now);
        let tenants = tenants.iter().map(|tenant| describe(tenant, round.now, &promoted)).collect();
        let ask = Ask { queue: queue.to_owned(), round: round.number, tenants };
        self.asked_at.insert(queue.to_owned(), round.now);
        self.asking.insert(queue.to_owned(), tokio::spawn(async move { source.ask(ask).await }));
        Ok(())
    }

    /// The next tenants of the rotation through all of them.
    async fn rotate(&mut self, store: &Store, rule: &Rule, queue: &str) -> Result<Vec<String>, Error> {
        let cursor = self.cursors.get(queue).copied().unwrap_or(0);
        let (next, names) = store.tenant_names(&rule.name, queue, cursor, IN_ROTATION).await?;
        self.cursors.insert(queue.to_owned(), next);
        Ok(names)
    }

    /// Weights that the webhook has not confirmed for too long give way to what the rule says.
    async fn apply_stale(
        &self,
        store: &Store,
        rule: &Rule,
        round: &Round,
        queue: &str,
        tenants: &[Tenant],
    ) -> Result<(), Error> {
        let Some(status) = self.status() else { return Ok(()) };
        let stale = |tenant: &Tenant| {
            let weight = stale_weight(rule, status.last_success_at, round.now, &tenant.name)?;
            (weight != tenant.weight).then(|| (tenant.name.clone(), weight))
        };
        let stale: Vec<(String, Weight)> = tenants.iter().filter_map(stale).collect();
        if stale.is_empty() {
            return Ok(());
        }
        store.reweigh(&rule.name, &round.token, queue, false, &stale).await.map(drop)
    }

    /// Without a webhook weights change only with the rule; then each tenant is looked at once.
    async fn apply_own(&mut self, store: &Store, rule: &Rule, round: &Round, queue: &str) -> Result<(), Error> {
        if self.settled.contains(queue) {
            return Ok(());
        }
        let mut tenants = match self.cursors.contains_key(queue) {
            true => Vec::new(),
            false => store.next_tenants(&rule.name, queue, CANDIDATES, false).await?.tenants,
        };
        let names = self.rotate(store, rule, queue).await?;
        tenants.extend(store.tenants(&rule.name, queue, &names).await?);
        let changed = |tenant: &Tenant| {
            let weight = rule.own_weight(&tenant.name);
            (weight != tenant.weight).then(|| (tenant.name.clone(), weight))
        };
        let changed: Vec<(String, Weight)> = tenants.iter().filter_map(changed).collect();
        if !changed.is_empty() {
            store.reweigh(&rule.name, &round.token, queue, false, &changed).await?;
        }
        if self.cursors.get(queue) == Some(&0) {
            self.settled.insert(queue.to_owned());
        }
        Ok(())
    }

    /// Jobs of each tenant promoted in the last minute.
    fn promoted_lately(&self, now: i64) -> HashMap<&str, u64> {
        let recent = self.recent.iter().filter(|(at, _)| now - at <= 60_000).flat_map(|(_, served)| served);
        let mut promoted = HashMap::new();
        recent.for_each(|served| *promoted.entry(served.tenant.as_str()).or_insert(0) += served.jobs);
        promoted
    }

    /// Remembers what a round promoted, for the next questions.
    pub fn note(&mut self, at: i64, served: &[Served]) {
        if self.source.is_none() || served.is_empty() {
            return;
        }
        self.recent.push_back((at, served.to_vec()));
        while self.recent.len() > MOST_NOTES || self.recent.front().is_some_and(|(first, _)| at - first > 60_000) {
            self.recent.pop_front();
        }
    }
}

fn describe(tenant: &Tenant, now: i64, promoted: &HashMap<&str, u64>) -> weights::Tenant {
    let age = |since: i64| u64::try_from(now - since).unwrap_or(0);
    weights::Tenant {
        pending: Some(tenant.staged),
        oldest_age_ms: tenant.oldest.map(age),
        promoted_1m: Some(promoted.get(tenant.name.as_str()).copied().unwrap_or(0)),
        weight: Some(tenant.weight),
        ..weights::Tenant::named(&tenant.name)
    }
}
