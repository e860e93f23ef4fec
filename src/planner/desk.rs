//! The pilots of this process, one for each rule; clones of the desk share them.

use super::pilot::{Flight, Pilot};
use super::rulebook::Rulebook;
use super::weighing::Weighing;
use crate::config::Secret;
use crate::fair::{Closed, Rule};
use crate::main_queue::{MainQueue, MainQueues};
use crate::store::{Error, RuleStatus, Store, Why};
use crate::telemetry::Metrics;
use crate::weights::{self, Source};
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::Mutex;

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
    pilots: Mutex<HashMap<String, Hired>>,
}

/// A pilot, and what can be known of it while it flies.
#[derive(Clone)]
struct Hired {
    rule: Arc<Rule>,
    pilot: Arc<Mutex<Pilot>>,
}

impl Desk {
    /// A desk of a process; `holder` is its name in locks.
    pub fn new(store: Store, rules: Rulebook, main_queues: MainQueues, metrics: Metrics, holder: &str) -> Desk {
        let (http, pilots) = (OnceLock::new(), Mutex::default());
        Desk { inner: Arc::new(Inner { store, rules, main_queues, metrics, holder: holder.into(), http, pilots }) }
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

    /// The pilot of a rule, as the rule is now.
    pub(super) async fn pilot(&self, name: &str) -> Result<Option<Arc<Mutex<Pilot>>>, Error> {
        let known = self.inner.rules.known().await?;
        let Some(rule) = known.find(name) else { return Ok(None) };
        let mut pilots = self.inner.pilots.lock().await;
        if let Some(hired) = pilots.get(name).filter(|hired| *hired.rule == *rule) {
            return Ok(Some(Arc::clone(&hired.pilot)));
        }
        let hired = self.hire(rule)?;
        pilots.insert(name.to_owned(), hired.clone());
        Ok(Some(hired.pilot))
    }

    /// A rule as it is now, and its main queue. One that cannot be reached is a closed gate.
    pub(super) async fn status(&self, rule: &Rule) -> Result<RuleStatus, Error> {
        let mut status = self.inner.store.rule_status(&rule.name, rule.queue.as_deref()).await?;
        let observed = match self.main_queue(rule) {
            Ok(main_queue) => main_queue.observe(&mut status.queues).await,
            Err(error) => Err(error),
        };
        if let Err(error) = observed {
            tracing::debug!(rule = rule.name, %error, "cannot look at the main queue");
            status.queues.iter_mut().for_each(|queue| queue.hindrance = Some(Closed::Unreachable));
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
    fn main_queue(&self, rule: &Rule) -> Result<MainQueue, Error> {
        let named = self.inner.main_queues.get(&rule.main_queue);
        named.ok_or_else(|| {
            Error::Backend(format!(
                "plan rule {:?} promotes into main queue {:?}, which this process does not know: add the [[main_queue]] \
                 of that name to its configuration; the rule's jobs stay in staging until then",
                rule.name, rule.main_queue
            ))
        })
    }

    fn hire(&self, rule: Arc<Rule>) -> Result<Hired, Error> {
        let inner = &self.inner;
        let secret_env = rule.weights.webhook.as_ref().and_then(|webhook| webhook.secret_env.as_deref());
        let secret = secret_env.and_then(|name| std::env::var(name).ok()).map(Secret::new);
        let source = match &rule.weights.webhook {
            Some(_) => {
                let (clock, metrics) = (inner.store.clock().clone(), inner.metrics.weights.clone());
                let source = Source::new(&rule, secret, self.http()?, clock, metrics);
                source.map_err(|error| Error::Backend(error.to_string()))?.map(Arc::new)
            }
            None => None,
        };
        let (store, holder) = (inner.store.clone(), Arc::clone(&inner.holder));
        let main_queue = self.main_queue(&rule)?;
        let weighing = Weighing::new(source, main_queue.clone());
        let metrics = inner.metrics.planner.clone();
        let pilot = Pilot::new(Arc::clone(&rule), store, main_queue, holder, weighing, metrics);
        let pilot = Arc::new(Mutex::new(pilot.map_err(Error::Backend)?));
        Ok(Hired { rule, pilot })
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

    /// Gives up every lock, so that other processes take over at once.
    pub async fn release(&self) {
        let pilots: Vec<_> = self.inner.pilots.lock().await.values().cloned().collect();
        for hired in pilots {
            hired.pilot.lock().await.release().await;
        }
    }
}
