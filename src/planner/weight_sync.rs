//! Synchronization of tenants' weights: writes those of the rule or of the webhook to the store,
//! where promotion reads them.

use super::promotion_window::PromotionWindow;
use super::questions::{GLANCE, Question, QuestionKind, Questions, Working, describe};
use super::{WebhookReporter, WebhookState};
use crate::domain::plan::Rule;
use crate::domain::tenant::Weight;
use crate::domain::tenant_id::DEFAULT;
use crate::main_queue::MainQueue;
use crate::store::{Error, Observation, PromotedTenant, Round, StagedTenant, Store, WeightOrigin};
use crate::weights::{self, Ask, Fallback, WebhookSource, stale_weight};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// Number of tenants next in turn that each request is about.
const CANDIDATES: usize = 200;
/// Number of further tenants per request, in rotation, so that each tenant is asked about at some
/// point.
const IN_ROTATION: usize = 100;
/// Minimum time between requests outside of scheduled rounds, in milliseconds.
const SELDOM_MS: i64 = 1000;
/// Maximum number of main queues whose requests are remembered; clients choose their names.
const MOST_QUEUES: usize = 1000;

/// The state of a main queue that ends a wait for answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WaitEnd {
    /// It has drained to half its depth.
    HalfDrained,
    /// It has drained, or has more waiting tenants: the round cannot promote into it as it is.
    Change,
}

/// Keeps the weights of one rule's tenants up to date.
pub struct WeightSync {
    source: Option<Arc<WebhookSource>>,
    main_queue: MainQueue,
    /// Cursor of the rotation through all tenants, by main queue.
    cursors: HashMap<String, u64>,
    /// Main queues in which all tenants have the rule's own weights; used without a webhook.
    settled: HashSet<String>,
    asking: Questions,
    /// The time of the last request, by main queue.
    asked_at: HashMap<String, i64>,
    /// True if tenants' global weights may have changed.
    changed: Arc<AtomicBool>,
    /// Promotions of the last minute.
    recent: PromotionWindow,
    /// Cancelled when the process stops, so that no round waits for an answer.
    stopping: CancellationToken,
    /// Time for which requests made the last round wait, in milliseconds.
    waited_ms: f64,
    /// The store's time at which the webhook last answered any process for one of the tenants read.
    last_told: Option<i64>,
    reporter: WebhookReporter,
}

impl WeightSync {
    /// Creates the weight sync of a rule, with a source if the rule has a webhook.
    pub fn new(
        source: Option<Arc<WebhookSource>>,
        main_queue: MainQueue,
        changed: Arc<AtomicBool>,
        stopping: CancellationToken,
    ) -> Self {
        WeightSync {
            source,
            main_queue,
            changed,
            stopping,
            cursors: HashMap::new(),
            settled: HashSet::new(),
            asking: Questions::default(),
            asked_at: HashMap::new(),
            recent: PromotionWindow::default(),
            waited_ms: 0.0,
            last_told: None,
            reporter: WebhookReporter::default(),
        }
    }

    /// Returns the current state of the webhook, if there is one; `now` is the store's time.
    pub fn webhook(&self, store: &Store, rule: &Rule, now: i64) -> Option<WebhookState> {
        let (status, age_ms) = (self.status()?, self.age_ms(store, now));
        let fallback = status.failing_since.map(|_| Fallback::of(rule, age_ms));
        Some(WebhookState { status, age_ms, fallback })
    }

    /// Returns the age of the webhook's last usable answer to any process.
    fn age_ms(&self, store: &Store, now: i64) -> Option<u64> {
        // Answers to this process have local timestamps, all others have the store's.
        let own = self.status().and_then(|status| status.last_success_at).map(|at| store.clock().now_ms() - at);
        let of_all = self.last_told.map(|at| now - at);
        let age = own.into_iter().chain(of_all).min()?;
        Some(u64::try_from(age).unwrap_or(0))
    }

    fn status(&self) -> Option<weights::WebhookStatus> {
        self.source.as_ref().map(|source| source.status())
    }

    /// Returns the name of the part that took most of a round's time.
    pub fn slow_part(&self, duration_ms: f64) -> &'static str {
        if self.waited_ms > duration_ms / 2.0 { "weights webhook" } else { "promotion" }
    }

    /// Updates weights before a promotion. Waits for answers of the webhook as
    /// [`settle`](Self::settle) does; later answers are applied later.
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
        for Observation { queue, unknown_tenants, .. } in &round.queues {
            if *unknown_tenants > 0 {
                self.ask_first(store, rule, round, queue).await?;
            }
            if self.source.is_none() {
                self.apply_own(store, rule, round, queue).await?;
                continue;
            }
            let asked_at = self.asked_at.get(queue).copied();
            let is_time = round.scheduled || asked_at.is_none_or(|at| round.now - at >= SELDOM_MS);
            if is_time && self.asking.may_ask(queue, QuestionKind::Known) {
                self.ask(store, rule, round, queue).await?;
            }
        }
        let started = Instant::now();
        self.settle(store, rule, round).await?;
        self.waited_ms = started.elapsed().as_secs_f64() * 1e3;
        Ok(())
    }

    /// Adds tenants whose weight was unknown when the round began, after all others have been
    /// promoted. Returns the current main queues, or `None` if no tenant of unknown weight is left.
    /// If the previous promotion promoted nothing, only a change ends the wait for the webhook.
    pub async fn refresh_unknown(
        &mut self,
        store: &Store,
        rule: &Rule,
        round: &Round,
        promoted_before: u64,
    ) -> Result<Option<(i64, Vec<Observation>)>, Error> {
        let (_, queues) = self.look(store, rule).await?;
        let mut is_needed = false;
        for Observation { queue, .. } in queues.iter().filter(|queue| queue.unknown_tenants > 0) {
            self.ask_first(store, rule, round, queue).await?;
            is_needed = true;
        }
        if !is_needed || self.stopping.is_cancelled() {
            return Ok(None);
        }
        let until = if promoted_before == 0 { WaitEnd::Change } else { WaitEnd::HalfDrained };
        self.wait_for_answers(store, rule, round, until).await?;
        self.look(store, rule).await.map(Some)
    }

    /// Reads the store's time and the rule's main queues.
    async fn look(&self, store: &Store, rule: &Rule) -> Result<(i64, Vec<Observation>), Error> {
        let status = store.rule_status(&rule.name, None).await?;
        let mut queues = status.queues;
        self.main_queue.observe(&mut queues, status.now).await?;
        Ok((status.now, queues))
    }

    /// Applies the available answers. Waits for the others while the round has nothing else to do,
    /// which is until a main queue with a waiting tenant of known weight has drained to half its
    /// depth.
    pub async fn settle(&mut self, store: &Store, rule: &Rule, round: &Round) -> Result<(), Error> {
        self.wait_for_answers(store, rule, round, WaitEnd::HalfDrained).await
    }

    async fn wait_for_answers(
        &mut self,
        store: &Store,
        rule: &Rule,
        round: &Round,
        until: WaitEnd,
    ) -> Result<(), Error> {
        let mut before: Option<HashMap<String, (u64, u64)>> = None;
        loop {
            let patience = if before.is_some() { GLANCE } else { Duration::ZERO };
            while let Some((question, answer)) = self.asking.next_answer(patience).await {
                self.apply(store, rule, round, question, answer).await?;
            }
            if self.asking.is_empty() || self.stopping.is_cancelled() {
                return Ok(());
            }
            let (_, now) = self.look(store, rule).await?;
            let sizes = |at: &Observation| (at.queue.clone(), (at.depth, at.waiting_tenants));
            let before = before.get_or_insert_with(|| now.iter().map(sizes).collect());
            let needs_jobs = |at: &Observation| {
                let (depth, waiting) = before.get(&at.queue).copied().unwrap_or_default();
                match until {
                    WaitEnd::HalfDrained => at.depth <= depth / 2,
                    WaitEnd::Change => at.depth < depth || at.waiting_tenants > waiting,
                }
            };
            if now.iter().any(|at| at.waiting_tenants > 0 && needs_jobs(at)) {
                return Ok(());
            }
        }
    }

    /// Applies an answer. There is none if the process stops.
    async fn apply(
        &mut self,
        store: &Store,
        rule: &Rule,
        round: &Round,
        question: Question,
        answer: Option<weights::WebhookAnswer>,
    ) -> Result<(), Error> {
        let Some(answer) = answer else { return Ok(()) };
        let fallback = Fallback::of(rule, self.age_ms(store, round.now));
        self.reporter.report(store, rule, &answer, fallback).await?;
        let reweigh = async |origin, weights: &[(String, Weight)]| {
            store.reweigh(&rule.name, &round.token, &question.queue, origin, weights).await.map(drop)
        };
        match answer {
            Ok(outcome) if outcome.is_usable() => {
                // Tenants that the answer leaves out count as answered, too.
                let named: HashSet<&str> = outcome.weights.iter().map(|(tenant, _)| tenant.as_str()).collect();
                let left_out = question.unknown.iter().filter(|tenant| !named.contains(tenant.name.as_str()));
                let own =
                    |tenant: &StagedTenant| (tenant.name.clone(), rule.own_weight(&tenant.name, tenant.everywhere));
                let left_out: Vec<(String, Weight)> = left_out.map(own).collect();
                reweigh(WeightOrigin::Webhook, &[outcome.weights, left_out].concat()).await
            }
            _ if question.unknown.is_empty() => Ok(()),
            _ => {
                let weight = |tenant: &StagedTenant| rule.unanswered_weight(&tenant.name, tenant.everywhere);
                let weigh = |tenant: &StagedTenant| (tenant.name.clone(), weight(tenant));
                reweigh(WeightOrigin::Rule, &question.unknown.iter().map(weigh).collect::<Vec<_>>()).await
            }
        }
    }

    /// Sends a request about tenants of unknown weight, which are not promoted before the answer.
    /// Without a webhook, or if the rule does not wait for it, they get the rule's own weights.
    async fn ask_first(&mut self, store: &Store, rule: &Rule, round: &Round, queue: &str) -> Result<(), Error> {
        let source = self.source.clone().filter(|_| rule.weights.asks_first());
        if source.is_some() && !self.asking.may_ask(queue, QuestionKind::Unknown) {
            return Ok(());
        }
        let unknown = store.unknown_tenants(&rule.name, queue, CANDIDATES).await?;
        if unknown.is_empty() {
            return Ok(());
        }
        if let Some(source) = source {
            return self.send(store, source, round, queue, &unknown.clone(), unknown).await;
        }
        let own = |tenant: &StagedTenant| (tenant.name.clone(), rule.own_weight(&tenant.name, tenant.everywhere));
        let own: Vec<(String, Weight)> = unknown.iter().map(own).collect();
        store.reweigh(&rule.name, &round.token, queue, WeightOrigin::Rule, &own).await.map(drop)
    }

    /// Sends a request about the tenants next in turn, those in rotation and those that are held.
    async fn ask(&mut self, store: &Store, rule: &Rule, round: &Round, queue: &str) -> Result<(), Error> {
        let Some(source) = self.source.clone() else { return Ok(()) };
        let survey = store.next_tenants_with_ages(&rule.name, queue, CANDIDATES).await?;
        let mut tenants = survey.into_tenants();
        let mut names = self.rotate(store, rule, queue).await?;
        names.extend(store.held_tenants(&rule.name, queue, IN_ROTATION).await?);
        let known: HashSet<&str> = tenants.iter().map(|tenant| tenant.name.as_str()).collect();
        let more: HashSet<String> = names.into_iter().filter(|name| !known.contains(name.as_str())).collect();
        tenants.extend(store.tenants(&rule.name, queue, &more.into_iter().collect::<Vec<_>>()).await?);
        tenants.retain(|tenant| !tenant.is_unknown);
        if tenants.is_empty() {
            return Ok(());
        }
        let told = tenants.iter().map(|tenant| tenant.asked).max().filter(|at| *at > 0);
        self.last_told = self.last_told.max(told);
        self.apply_stale(store, rule, round, queue, &tenants).await?;
        self.asked_at.insert(queue.to_owned(), round.now);
        self.send(store, source, round, queue, &tenants, Vec::new()).await
    }

    /// Sends a request about tenants; `unknown` are those of them that are not promoted before the
    /// answer.
    async fn send(
        &mut self,
        store: &Store,
        source: Arc<WebhookSource>,
        round: &Round,
        queue: &str,
        tenants: &[StagedTenant],
        unknown: Vec<StagedTenant>,
    ) -> Result<(), Error> {
        let promoted = self.recent.jobs(round.now);
        let working = self.working(store, tenants).await?;
        let tenants = tenants.iter().zip(working);
        let tenants = tenants.map(|(tenant, working)| describe(tenant, working, round.now, &promoted)).collect();
        let ask = Ask { queue: queue.to_owned(), round: round.number, tenants };
        self.asking.send(source, ask, unknown);
        Ok(())
    }

    /// Returns the work in progress for each tenant. Unknown for the default tenant and for main
    /// queues of other systems.
    async fn working(&self, store: &Store, tenants: &[StagedTenant]) -> Result<Vec<Working>, Error> {
        let MainQueue::Builtin(_) = self.main_queue else { return Ok(vec![Working::default(); tenants.len()]) };
        let names: Vec<&str> = tenants.iter().map(|tenant| tenant.name.as_str()).collect();
        let (jobs, lately) = (store.tenant_jobs(&names).await?, store.recent_attempts(&names).await?);
        let one = |(place, name): (usize, &&str)| match *name {
            DEFAULT => Working::default(),
            _ => Working { active: Some(jobs[place].active), lately: lately.as_ref().map(|all| all[place]) },
        };
        Ok(names.iter().enumerate().map(one).collect())
    }

    /// Returns the next tenants of the rotation.
    async fn rotate(&mut self, store: &Store, rule: &Rule, queue: &str) -> Result<Vec<String>, Error> {
        let cursor = self.cursors.get(queue).copied().unwrap_or(0);
        let (next, names) = store.tenant_names(&rule.name, queue, cursor, IN_ROTATION).await?;
        self.cursors.insert(queue.to_owned(), next);
        Ok(names)
    }

    /// Replaces weights that the webhook has not confirmed for too long by those of the rule.
    async fn apply_stale(
        &self,
        store: &Store,
        rule: &Rule,
        round: &Round,
        queue: &str,
        tenants: &[StagedTenant],
    ) -> Result<(), Error> {
        let Some(status) = self.status() else { return Ok(()) };
        // The webhook's successes have local timestamps, all else has the store's.
        let last = status.last_success_at.map(|at| round.now - (store.clock().now_ms() - at));
        let stale = |tenant: &StagedTenant| {
            // Answers to other processes count as well.
            let last = last.max((tenant.asked > 0).then_some(tenant.asked));
            let weight = stale_weight(rule, last, round.now, &tenant.name, tenant.everywhere)?;
            (weight != tenant.weight).then(|| (tenant.name.clone(), weight))
        };
        let stale: Vec<(String, Weight)> = tenants.iter().filter_map(stale).collect();
        if stale.is_empty() {
            return Ok(());
        }
        store.reweigh(&rule.name, &round.token, queue, WeightOrigin::Rule, &stale).await.map(drop)
    }

    /// Applies the rule's own weights. Without a webhook they change only with the rule, so each
    /// tenant is checked once.
    async fn apply_own(&mut self, store: &Store, rule: &Rule, round: &Round, queue: &str) -> Result<(), Error> {
        if self.settled.contains(queue) {
            return Ok(());
        }
        let mut tenants = match self.cursors.contains_key(queue) {
            true => Vec::new(),
            false => store.next_tenants(&rule.name, queue, CANDIDATES).await?.into_tenants(),
        };
        let names = self.rotate(store, rule, queue).await?;
        tenants.extend(store.tenants(&rule.name, queue, &names).await?);
        let changed = |tenant: &StagedTenant| {
            let weight = rule.own_weight(&tenant.name, tenant.everywhere);
            (weight != tenant.weight).then(|| (tenant.name.clone(), weight))
        };
        let changed: Vec<(String, Weight)> = tenants.iter().filter_map(changed).collect();
        if !changed.is_empty() {
            store.reweigh(&rule.name, &round.token, queue, WeightOrigin::Rule, &changed).await?;
        }
        if self.cursors.get(queue) == Some(&0) {
            self.settled.insert(queue.to_owned());
        }
        Ok(())
    }

    /// Records what a round promoted, for the next requests.
    pub fn note(&mut self, at: i64, served: &[PromotedTenant]) {
        if self.source.is_some() {
            self.recent.note(at, served);
        }
    }
}
