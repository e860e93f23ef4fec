//! What tenants weigh: the rule's own numbers, or what the webhook says, brought to where promotion reads them.

use super::recent::Recent;
use super::webhook_trouble::WebhookTrouble;
use crate::fair::{Rule, Weight};
use crate::job::tenant::DEFAULT;
use crate::main_queue::MainQueue;
use crate::store::{Error, Lately, Observation, Round, Served, Store, Tenant};
use crate::weights::{self, Ask, Source, stale_weight};
use futures_util::future::select_all;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;

/// Tenants whose turn comes next, who are asked about in each round.
const CANDIDATES: usize = 200;
/// Tenants asked about besides, in rotation, so that each is asked about some time.
const IN_ROTATION: usize = 100;
/// Between scheduled rounds the webhook is not asked more often.
const SELDOM_MS: i64 = 1000;
/// Questions under way at the same time, and main queues whose questions are remembered; clients choose their names.
const MOST_ASKING: usize = 8;
const MOST_QUEUES: usize = 1000;
/// How often a round that waits for an answer looks whether there is something to do instead.
const GLANCE: Duration = Duration::from_millis(20);

/// Keeps the weights of one rule's tenants up to date.
pub struct Weighing {
    source: Option<Arc<Source>>,
    main_queue: MainQueue,
    /// Where the rotation through all tenants goes on, by main queue.
    cursors: HashMap<String, u64>,
    /// Main queues whose tenants have all been given the rule's own weights; only without a webhook.
    settled: HashSet<String>,
    /// Questions under way, by main queue.
    asking: HashMap<String, JoinHandle<weights::Answer>>,
    /// When the webhook was last asked, by main queue.
    asked_at: HashMap<String, i64>,
    /// Whether somebody may have changed what tenants weigh everywhere.
    changed: Arc<AtomicBool>,
    /// What was promoted in the last minute.
    recent: Recent,
    /// How long the last question kept a round waiting.
    waited_ms: f64,
    trouble: WebhookTrouble,
}

impl Weighing {
    /// The weights of a rule, with a source if it has a webhook.
    pub fn new(source: Option<Arc<Source>>, main_queue: MainQueue, changed: Arc<AtomicBool>) -> Self {
        Weighing {
            source,
            main_queue,
            changed,
            cursors: HashMap::new(),
            settled: HashSet::new(),
            asking: HashMap::new(),
            asked_at: HashMap::new(),
            recent: Recent::default(),
            waited_ms: 0.0,
            trouble: WebhookTrouble::default(),
        }
    }

    /// How old the webhook's last good answer is, and how often it failed; `now` is this machine's time.
    pub fn health(&self, now: i64) -> (Option<u64>, u64) {
        let Some(status) = self.status() else { return (None, 0) };
        let age = status.last_success_at.map(|at| u64::try_from(now - at).unwrap_or(0));
        (age, status.errors_total)
    }

    fn status(&self) -> Option<weights::Status> {
        self.source.as_ref().map(|source| source.status())
    }

    /// Which part of a round took so long.
    pub fn slow_part(&self, duration_ms: f64) -> &'static str {
        if self.waited_ms > duration_ms / 2.0 { "weights webhook" } else { "promotion" }
    }

    /// Brings weights up to date before a promotion. Answers of the webhook are waited for as long as workers have something
    /// to do; what is not there by then serves a later moment.
    pub async fn refresh(&mut self, store: &Store, rule: &Rule, round: &Round) -> Result<(), Error> {
        self.waited_ms = 0.0;
        if self.changed.swap(false, Ordering::Relaxed) {
            self.settled.clear();
            self.cursors.clear();
        }
        if self.settled.len().max(self.asked_at.len()) > MOST_QUEUES {
            self.settled.clear();
            self.asked_at.clear();
            self.cursors.clear();
        }
        for Observation { queue, .. } in &round.queues {
            if self.source.is_none() {
                self.apply_own(store, rule, round, queue).await?;
                continue;
            }
            let asked_at = self.asked_at.get(queue).copied();
            let is_time = round.scheduled || asked_at.is_none_or(|at| round.now - at >= SELDOM_MS);
            if is_time && !self.asking.contains_key(queue) && self.asking.len() < MOST_ASKING {
                self.ask(store, rule, round, queue).await?;
            }
        }
        let started = Instant::now();
        self.settle(store, rule, round).await?;
        self.waited_ms = started.elapsed().as_secs_f64() * 1e3;
        Ok(())
    }

    /// Takes over the answers that are there, and waits for the others while the round has nothing else to do: until a main
    /// queue for which somebody waits is down to half of what it holds now.
    pub async fn settle(&mut self, store: &Store, rule: &Rule, round: &Round) -> Result<(), Error> {
        let mut held: Option<HashMap<String, u64>> = None;
        loop {
            while let Some((queue, answer)) = self.next_answer(held.is_some()).await {
                self.apply(store, rule, &round.token, &queue, answer).await?;
            }
            if self.asking.is_empty() {
                return Ok(());
            }
            let status = store.rule_status(&rule.name, None).await?;
            let mut now = status.queues;
            self.main_queue.observe(&mut now, status.now).await?;
            let held = held.get_or_insert_with(|| now.iter().map(|at| (at.queue.clone(), at.depth)).collect());
            let runs_low = |at: &Observation| at.depth <= held.get(&at.queue).copied().unwrap_or(0) / 2;
            if now.iter().any(|at| at.waiting_tenants > 0 && runs_low(at)) {
                return Ok(());
            }
        }
    }

    /// A question that has been answered, within a glance if the caller has time; no answer in it if the process stops.
    async fn next_answer(&mut self, has_time: bool) -> Option<(String, Option<weights::Answer>)> {
        if self.asking.is_empty() {
            return None;
        }
        let patience = if has_time { GLANCE } else { Duration::ZERO };
        let asked: Vec<String> = self.asking.keys().cloned().collect();
        let (answer, place, _) = tokio::time::timeout(patience, select_all(self.asking.values_mut())).await.ok()?;
        let queue = asked.into_iter().nth(place)?;
        self.asking.remove(&queue);
        Some((queue, answer.ok()))
    }

    /// Takes an answer over; there is none if the process stops.
    async fn apply(
        &mut self,
        store: &Store,
        rule: &Rule,
        token: &str,
        queue: &str,
        answer: Option<weights::Answer>,
    ) -> Result<(), Error> {
        let Some(answer) = answer else { return Ok(()) };
        self.trouble.tell(store, &rule.name, &answer).await?;
        match answer {
            Ok(outcome) => store.reweigh(&rule.name, token, queue, true, &outcome.weights).await.map(drop),
            Err(_) => Ok(()),
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
        let promoted = self.recent.jobs(round.now);
        let working = self.working(store, &tenants).await?;
        let tenants = tenants.iter().zip(working);
        let tenants = tenants.map(|(tenant, working)| describe(tenant, working, round.now, &promoted)).collect();
        let ask = Ask { queue: queue.to_owned(), round: round.number, tenants };
        self.asked_at.insert(queue.to_owned(), round.now);
        self.asking.insert(queue.to_owned(), tokio::spawn(async move { source.ask(ask).await }));
        Ok(())
    }

    /// What workers do for each tenant, where that is known: not for the default tenant, nor in a main queue that is not ours.
    async fn working(&self, store: &Store, tenants: &[Tenant]) -> Result<Vec<Working>, Error> {
        let MainQueue::Builtin(_) = self.main_queue else { return Ok(vec![Working::default(); tenants.len()]) };
        let names: Vec<&str> = tenants.iter().map(|tenant| tenant.name.as_str()).collect();
        let (jobs, lately) = (store.tenant_jobs(&names).await?, store.tenants_lately(&names).await?);
        let one = |(place, name): (usize, &&str)| match *name {
            DEFAULT => Working::default(),
            _ => Working { active: Some(jobs[place].active), lately: lately.as_ref().map(|all| all[place]) },
        };
        Ok(names.iter().enumerate().map(one).collect())
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
        // The webhook's successes are told in this machine's time, all else in the store's.
        let last = status.last_success_at.map(|at| round.now - (store.clock().now_ms() - at));
        let stale = |tenant: &Tenant| {
            // What another process was told counts as well.
            let last = last.max((tenant.asked > 0).then_some(tenant.asked));
            let weight = stale_weight(rule, last, round.now, &tenant.name, tenant.everywhere)?;
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
            let weight = rule.own_weight(&tenant.name, tenant.everywhere);
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

    /// Remembers what a round promoted, for the next questions.
    pub fn note(&mut self, at: i64, served: &[Served]) {
        if self.source.is_some() {
            self.recent.note(at, served);
        }
    }
}

/// What workers do for a tenant.
#[derive(Clone, Copy, Default)]
struct Working {
    active: Option<u64>,
    /// Within the last minute.
    lately: Option<Lately>,
}

fn describe(tenant: &Tenant, working: Working, now: i64, promoted: &HashMap<&str, u64>) -> weights::Tenant {
    let age = |since: i64| u64::try_from(now - since).unwrap_or(0);
    weights::Tenant {
        pending: Some(tenant.staged),
        oldest_age_ms: tenant.oldest.map(age),
        active: working.active,
        processed_1m: working.lately.map(|lately| lately.ended),
        avg_runtime_ms: working.lately.and_then(|lately| lately.runtime_ms),
        promoted_1m: Some(promoted.get(tenant.name.as_str()).copied().unwrap_or(0)),
        weight: Some(tenant.weight),
        ..weights::Tenant::named(&tenant.name)
    }
}
