//! The pilots of this process, one for each rule; clones of the desk share them.

use super::pilot::{Flight, Pilot};
use super::rulebook::Rulebook;
use super::weighing::Weighing;
use crate::config::Secret;
use crate::fair::{Closed, Rule};
use crate::main_queue::{MainQueue, MainQueues};
use crate::store::{Error, RuleStatus, Store, Why};
use crate::telemetry::{Metrics, ShadowMetrics};
use crate::weights::{self, Source};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

/// How long a round that was asked for waits for one that runs in another process.
const PATIENCE: Duration = Duration::from_secs(5);
const BETWEEN: Duration = Duration::from_millis(10);

/// Where rounds are carried out.
#[derive(Clone)]
pub struct Desk {
    inner: Arc<Inner>,
}

struct Inner {
    store: Store,
    rules: Rulebook,
    main_queues: MainQueues,
    metrics: Metrics,
    holder: Arc<str>,
    /// Made for the first rule that needs it: most have no webhook, and its certificates take memory.
    http: OnceLock<weights::Client>,
    /// Cancelled when the process stops.
    stopping: CancellationToken,
    pilots: Mutex<HashMap<String, Hired>>,
}

/// A pilot, and what can be known of it while it flies.
#[derive(Clone)]
struct Hired {
    rule: Arc<Rule>,
    /// The version under which the weights that tenants have everywhere were last known, and whether they may have changed.
    version: Arc<str>,
    changed: Arc<AtomicBool>,
    pilot: Arc<Mutex<Pilot>>,
}

impl Desk {
    /// A desk of a process; `holder` is its name in locks.
    pub fn new(store: Store, rules: Rulebook, main_queues: MainQueues, metrics: Metrics, holder: &str) -> Desk {
        let (holder, http, stopping, pilots) =
            (holder.into(), OnceLock::new(), CancellationToken::new(), Mutex::default());
        Desk { inner: Arc::new(Inner { store, rules, main_queues, metrics, holder, http, stopping, pilots }) }
    }

    /// The rules that are planned.
    pub fn rules(&self) -> &Rulebook {
        &self.inner.rules
    }

    /// The store that is planned.
    pub fn store(&self) -> &Store {
        &self.inner.store
    }

    /// The main queues that rules can name.
    pub fn main_queues(&self) -> &MainQueues {
        &self.inner.main_queues
    }

    /// This process, as locks name it.
    pub(super) fn holder(&self) -> &str {
        &self.inner.holder
    }

    /// Where rules in shadow tell what they see.
    pub(super) fn shadow_metrics(&self) -> &ShadowMetrics {
        &self.inner.metrics.shadow
    }

    /// The pilot of a rule, as the rule is now.
    pub(super) async fn pilot(&self, name: &str) -> Result<Option<Arc<Mutex<Pilot>>>, Error> {
        let known = self.inner.rules.known().await?;
        let Some(rule) = known.find(name) else { return Ok(None) };
        let mut pilots = self.inner.pilots.lock().await;
        if let Some(hired) = pilots.get_mut(name).filter(|hired| *hired.rule == *rule) {
            if hired.version != known.version {
                hired.version = Arc::clone(&known.version);
                hired.changed.store(true, Ordering::Relaxed);
            }
            return Ok(Some(Arc::clone(&hired.pilot)));
        }
        let hired = self.hire(rule, Arc::clone(&known.version))?;
        pilots.insert(name.to_owned(), hired.clone());
        Ok(Some(hired.pilot))
    }

    /// A rule as it is now, and its main queue. One that cannot be reached is a closed gate.
    pub(super) async fn status(&self, rule: &Rule) -> Result<RuleStatus, Error> {
        let mut status = self.inner.store.rule_status(&rule.name, rule.queue.as_deref()).await?;
        let observed = match self.main_queue(rule) {
            Ok(main_queue) => main_queue.observe(&mut status.queues, status.now).await,
            Err(error) => Err(error),
        };
        if let Err(error) = observed {
            tracing::debug!(rule = rule.name, %error, "cannot look at the main queue");
            status.queues.iter_mut().for_each(|queue| queue.hindrance = Some(Closed::Unreachable));
            status.trouble = Some(error.reason());
        }
        Ok(status)
    }

    fn http(&self) -> Result<weights::Client, Error> {
        if let Some(http) = self.inner.http.get() {
            return Ok(http.clone());
        }
        let http = weights::client_builder().build().map_err(|error| Error::Backend(error.to_string()))?;
        Ok(self.inner.http.get_or_init(|| http).clone())
    }

    /// Where the jobs of a rule are promoted into.
    pub(super) fn main_queue(&self, rule: &Rule) -> Result<MainQueue, Error> {
        let named = self.inner.main_queues.get(&rule.main_queue);
        named.ok_or_else(|| {
            Error::Backend(format!(
                "plan rule {:?} promotes into main queue {:?}, which this process does not know: add the [[main_queue]] \
                 of that name to its configuration; the rule's jobs stay in staging until then",
                rule.name, rule.main_queue
            ))
        })
    }

    /// Whom to ask for the weights of a rule, if it has a webhook.
    pub(super) fn source(&self, rule: &Rule) -> Result<Option<Arc<Source>>, Error> {
        let Some(webhook) = &rule.weights.webhook else { return Ok(None) };
        let secret = webhook.secret_env.as_deref().and_then(|name| std::env::var(name).ok()).map(Secret::new);
        let (clock, metrics) = (self.inner.store.clock().clone(), self.inner.metrics.weights.clone());
        let source = Source::new(rule, secret, self.http()?, clock, metrics);
        Ok(source.map_err(|error| Error::Backend(error.to_string()))?.map(Arc::new))
    }

    fn hire(&self, rule: Arc<Rule>, version: Arc<str>) -> Result<Hired, Error> {
        let (inner, source) = (&self.inner, self.source(&rule)?);
        let (store, holder) = (inner.store.clone(), Arc::clone(&inner.holder));
        let (main_queue, changed) = (self.main_queue(&rule)?, Arc::default());
        let weighing = Weighing::new(source, main_queue.clone(), Arc::clone(&changed), inner.stopping.clone());
        let metrics = inner.metrics.planner.clone();
        let pilot = Pilot::new(Arc::clone(&rule), store, main_queue, holder, weighing, metrics);
        let pilot = Arc::new(Mutex::new(pilot.map_err(Error::Backend)?));
        Ok(Hired { rule, version, changed, pilot })
    }

    /// Runs one whole round now, whatever the interval; `None` if there is no such rule.
    pub async fn run(&self, name: &str) -> Result<Option<Flight>, Error> {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            let Some(pilot) = self.pilot(name).await? else { return Ok(None) };
            let mut pilot = pilot.lock().await;
            let flight = pilot.round(Why::Run).await?;
            // Who asks for a round is often not who plans the rule; whoever does takes the lock again at once.
            if let Flight::Ran { .. } = flight {
                pilot.release().await;
            }
            drop(pilot);
            match flight {
                _ if tokio::time::Instant::now() >= deadline => return Ok(Some(flight)),
                Flight::Elsewhere { .. } => {}
                // What is asked for is early only where the schedule is not the one that this process knows, or where its time
                // passed while it was asked.
                Flight::Early { .. } => _ = self.inner.rules.reload().await?,
                flight => return Ok(Some(flight)),
            }
            tokio::time::sleep(BETWEEN).await;
        }
    }

    /// Ends waits for weights webhooks, because the process stops.
    pub(super) fn stop(&self) {
        self.inner.stopping.cancel();
    }

    /// Gives up every lock, so that other processes take over at once.
    pub async fn release(&self) {
        let pilots: Vec<_> = self.inner.pilots.lock().await.values().cloned().collect();
        for hired in pilots {
            hired.pilot.lock().await.release().await;
        }
    }
}
