//! The way in for jobs that clients of a Sidekiq push: what they leave in a queue that no worker reads, or in the keys of the gem
//! sidekiq-fairplay, is staged.
//!
//! Jobs cross from one Redis to another in steps that survive a crash between them: they are taken into an inbox over there,
//! under a sequence; a script here stages them and notes the sequence; what is noted is dropped over there. Several
//! processes may do this at once.

use super::rulebook::{Known, Rulebook};
use crate::config::FairplayClass;
use crate::fair::Rule;
use crate::job::sidekiq::{self, Payload};
use crate::job::{NewJob, Planned, id, json, tenant};
use crate::main_queue::Sidekiq;
use crate::store::{Error, Inbox, Parcel, Store, TakeOver, TakenIn};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Jobs that are taken in at once.
const BATCH: usize = 64;
/// How often a source that was empty is looked at.
const POLL: Duration = Duration::from_millis(100);
const AFTER_FAILURE: Duration = Duration::from_millis(500);
/// Life of the gem's locks in our hands, in seconds: how long after a crash the gem goes on by itself.
const LOCK_LIFE: u64 = 30;
/// Where a job goes of which nobody says anything else, as in Sidekiq.
const DEFAULT_QUEUE: &str = "default";

/// Where jobs come from.
pub enum Source {
    /// A queue that no worker reads.
    Queue(String),
    /// What the gem sidekiq-fairplay has staged.
    Fairplay(FairplayClass),
}

/// Stages what comes from one source, until it is stopped.
pub struct Drainer {
    store: Store,
    rules: Rulebook,
    sidekiq: Arc<Sidekiq>,
    source: Source,
    /// Who owns jobs that name nobody.
    default_tenant: String,
    /// Names this store at the other one, and holds the gem's locks.
    origin: String,
    /// The sequence up to which the inbox has been taken in, once that is known.
    taken_in: Option<u64>,
    /// Whether no planner of the gem runs any more.
    gem_is_still: bool,
    /// Whether the gem's locks may be ours.
    holds: bool,
    /// Jobs that are staged at once: fewer where a rule has not room for all of them.
    portion: usize,
}

/// A job of a source: its place in the inbox, and what becomes of it.
struct Entry {
    sequence: u64,
    fate: Fate,
}

enum Fate {
    Stage(Box<NewJob>),
    /// No rule plans its class: it goes where it wanted to go.
    Pass {
        queue: String,
        payload: String,
    },
    /// No worker could run it.
    Bury(String),
}

impl Drainer {
    /// A drainer of one source of a Sidekiq.
    pub fn new(
        store: Store,
        rules: Rulebook,
        sidekiq: Arc<Sidekiq>,
        source: Source,
        default_tenant: String,
    ) -> Drainer {
        Drainer {
            store,
            rules,
            sidekiq,
            source,
            default_tenant,
            origin: String::new(),
            taken_in: None,
            gem_is_still: false,
            holds: false,
            portion: BATCH,
        }
    }

    /// Drains until `stop`.
    pub async fn run(mut self, stop: CancellationToken) {
        let mut failing = false;
        while !stop.is_cancelled() {
            let outcome = self.drain().await;
            let pause = match &outcome {
                Ok(BATCH) => Duration::ZERO,
                Ok(_) => POLL,
                Err(error) => {
                    if !failing {
                        let main_queue = self.sidekiq.name();
                        tracing::warn!(main_queue, %error, "cannot take jobs in: they wait where they are");
                    }
                    self.taken_in = None;
                    AFTER_FAILURE
                }
            };
            failing = outcome.is_err();
            tokio::select! {
                () = stop.cancelled() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
        self.hand_back().await;
    }

    /// Lets the gem go on where we leave off.
    async fn hand_back(&mut self) {
        let (Source::Fairplay(class), true) = (&self.source, self.holds) else { return };
        let (jid, now) = (sidekiq::jid(&id::generate()), self.store.clock().now_ms());
        if let Err(error) = self.sidekiq.redis().hand_back(class, &self.owner(), &jid, now).await {
            tracing::warn!(class = class.class, %error, "cannot free the gem's locks: they end by themselves");
        }
        (self.holds, self.gem_is_still) = (false, false);
    }

    /// Whether the gem's jobs are left to it, because the rule that they are under is in shadow.
    fn is_left_alone(&self, known: &Known) -> bool {
        let Source::Fairplay(class) = &self.source else { return false };
        known.rules.of_class(self.sidekiq.name(), &class.class).is_some_and(|rule| rule.shadow)
    }

    fn owner(&self) -> String {
        format!("fairgate:{}", self.origin)
    }

    /// The inbox's name, which is its key at the other Redis too.
    fn inbox(&self) -> String {
        let source = match &self.source {
            Source::Queue(queue) => format!("queue:{queue}"),
            Source::Fairplay(class) => format!("fairplay:{}", class.key),
        };
        format!("fairgate:{}:{}:{source}:inbox", self.origin, self.sidekiq.name())
    }

    /// Takes in what there is, up to a batch; how much there was.
    async fn drain(&mut self) -> Result<usize, Error> {
        if self.origin.is_empty() {
            self.origin = self.store.origin().await?;
        }
        let known = self.rules.known().await?;
        if self.is_left_alone(&known) {
            self.hand_back().await;
            return Ok(0);
        }
        let name = self.inbox();
        let before = match self.taken_in {
            Some(taken_in) => taken_in,
            None => self.store.taken_in(&name).await?,
        };
        self.taken_in = Some(before);
        let mut entries = self.read(&name, before, &known).await?;
        let found = entries.len();
        entries.retain(|entry| entry.sequence > before);
        entries.truncate(self.portion);
        let Some(after) = entries.last().map(|entry| entry.sequence) else { return Ok(found) };
        let jobs = self.dispose(&name, entries).await?;
        match self.store.take_in(&Inbox { name: &name, before, after }, jobs, known.version.clone()).await? {
            TakenIn::Stored => (self.taken_in, self.portion) = (Some(after), (self.portion * 2).min(BATCH)),
            TakenIn::Before => self.taken_in = None,
            TakenIn::Stale => _ = self.rules.reload().await?,
            TakenIn::Full { .. } if self.portion > 1 => self.portion /= 2,
            TakenIn::Full { rule } => {
                return Err(Error::Unavailable(format!("plan rule {rule} has as many jobs staged as it may")));
            }
        }
        Ok(found)
    }

    async fn read(&mut self, name: &str, before: u64, known: &Known) -> Result<Vec<Entry>, Error> {
        let redis = self.sidekiq.redis();
        match &self.source {
            Source::Queue(queue) => {
                let claimed = redis.claim(queue, name, before, BATCH).await?;
                let entry =
                    |(sequence, payload): (u64, &str)| Entry { sequence, fate: self.judge(queue, payload, known) };
                Ok(claimed.iter().map(|one| (one.sequence, one.payload.as_str())).map(entry).collect())
            }
            Source::Fairplay(class) => {
                let owner = self.owner();
                let takes = self.gem_is_still;
                self.holds = true;
                let from = TakeOver {
                    class,
                    owner: &owner,
                    life: LOCK_LIFE,
                    inbox: name,
                    taken_in: before,
                    most: BATCH,
                    takes,
                };
                let taken = redis.take_over(&from).await?;
                // While its locks were not ours a planner may have begun; one that outlived its lock still runs.
                let is_still = taken.is_ours && (takes || !redis.plans_by_gem(class).await?);
                let now = self.store.clock().now_ms();
                let tenant = |named: &str| match tenant::is_id(named) {
                    true => named.to_owned(),
                    false => self.default_tenant.clone(),
                };
                let entries = taken.jobs.iter().map(|job| {
                    let fate = order(self.sidekiq.name(), known, &class.class, &tenant(&job.tenant), &job.args, now);
                    Entry { sequence: job.sequence, fate }
                });
                let entries = entries.collect();
                self.gem_is_still = is_still;
                Ok(entries)
            }
        }
    }

    /// What becomes of a payload of the staging queue.
    fn judge(&self, staging_queue: &str, text: &str, known: &Known) -> Fate {
        let Some(payload) = Payload::parse(text) else { return Fate::Bury(text.to_owned()) };
        let own_queue = payload.note().0.filter(|queue| queue != staging_queue);
        let Some(rule) = known.rules.of_class(self.sidekiq.name(), &payload.class) else {
            let queue = own_queue.unwrap_or_else(|| DEFAULT_QUEUE.to_owned());
            let payload = payload.into_queue(&queue, self.store.clock().now_ms());
            return Fate::Pass { queue, payload };
        };
        // A queue that no worker reads leads nowhere.
        let of_rule = rule.queue.clone().filter(|queue| queue != staging_queue);
        let queue = of_rule.or(own_queue).unwrap_or_else(|| DEFAULT_QUEUE.to_owned());
        if rule.shadow {
            let payload = payload.into_queue(&queue, self.store.clock().now_ms());
            return Fate::Pass { queue, payload };
        }
        let tenant = rule.tenant_key.owner(&payload).unwrap_or_else(|| self.default_tenant.clone());
        let job = NewJob::foreign(&payload.class, &queue, payload.args, payload.template(&queue));
        Fate::Stage(Box::new(planned(job, rule, tenant)))
    }

    /// Sees to what is not staged; the jobs that are. Harmless when repeated.
    async fn dispose(&self, name: &str, entries: Vec<Entry>) -> Result<Vec<NewJob>, Error> {
        let redis = self.sidekiq.redis();
        let mut jobs = Vec::new();
        for Entry { sequence, fate } in entries {
            match fate {
                Fate::Stage(job) => jobs.push(*job),
                Fate::Bury(payload) => {
                    tracing::warn!(
                        main_queue = self.sidekiq.name(),
                        "a payload that no worker could run goes to the dead set"
                    );
                    redis.bury(&payload, self.store.clock().now_ms()).await?;
                }
                Fate::Pass { queue, payload } => {
                    let parcel = Parcel { origin: self.origin.clone(), sequence, queue, payloads: vec![payload] };
                    redis.deliver(&format!("{name}:passed"), &parcel).await?;
                }
            }
        }
        Ok(jobs)
    }
}

/// What becomes of a job of the gem, of which nothing but tenant and arguments is left.
fn order(main_queue: &str, known: &Known, class: &str, tenant: &str, args: &str, now: i64) -> Fate {
    if json::elements(args).is_none() {
        return Fate::Bury(args.to_owned());
    }
    let rule = known.rules.of_class(main_queue, class);
    let queue = rule.and_then(|rule| rule.queue.clone()).unwrap_or_else(|| DEFAULT_QUEUE.to_owned());
    let template = sidekiq::fairplay_template(class, &queue, &sidekiq::jid(&id::generate()), now);
    let Some(rule) = rule else { return Fate::Pass { queue, payload: sidekiq::fill(&template, args, now) } };
    Fate::Stage(Box::new(planned(NewJob::foreign(class, &queue, args, template), rule, tenant.to_owned())))
}

fn planned(mut job: NewJob, rule: &Rule, tenant: String) -> NewJob {
    job.plan = Some(Planned { rule: rule.name.clone(), tenant });
    job
}
