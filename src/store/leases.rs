//! Verbs on leases: fetch, and the release of what never reached its worker. How workers answer is in `answers`.

use super::batch::{MOST_JOBS, Verb};
use super::lease_release::{FetchCall, FetchCalls, Lease};
use super::reply;
use super::script::FETCH;
use super::{Core, Error, Store, or_empty};
use crate::fairness::{Strategy, Weight};
use crate::job::escape::escape;
use crate::job::scope::own_worker;
use crate::job::{Record, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Portions of due jobs that one fetch waits for.
const MOST_PORTIONS_DUE: usize = 8;
/// From so many queues on, fewer jobs are leased by one call: each may come from another queue, and opening one costs more than
/// leasing a job.
const MANY_QUEUES: usize = 64;
const MOST_JOBS_OF_MANY_QUEUES: usize = MOST_JOBS / 4;
/// Calls that one fetch makes because limits had to be looked at first.
const MOST_CALLS: usize = 32;

/// A worker's request for jobs.
#[derive(Clone, Debug, Default)]
pub struct Fetch {
    pub worker: Option<String>,
    /// In the order of preference.
    pub queues: Vec<String>,
    pub count: usize,
    pub visibility_ms: Option<u64>,
    /// The pool that the worker is of; its queues are then the pool's, of those that are named here.
    pub pool: Option<String>,
    /// Whether `queues` are simply all of the pool's, which need not be sent.
    pub whole_pool: bool,
    /// The tenant whose jobs alone are wanted, in queues that tenants share.
    pub tenant: Option<String>,
    /// How to choose among the queues, where no pool says it.
    pub choice: Option<Choice>,
    /// The client's own name for this request: a repeat within a minute gets the same jobs.
    pub fetch_id: Option<String>,
}

/// How a request chooses among its queues.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    pub strategy: Strategy,
    /// In the order of the queues.
    pub weights: Vec<Weight>,
}

impl Choice {
    /// The choice as scripts read it: `strategy weights…`.
    fn word(&self) -> String {
        let weights: String = self.weights.iter().map(|weight| format!(" {}", weight.thousandths())).collect();
        format!("{}{weights}", self.strategy.name())
    }
}

impl Fetch {
    /// How many jobs one call may lease for it.
    fn most_jobs(&self) -> usize {
        if self.queues.len() > MANY_QUEUES { MOST_JOBS_OF_MANY_QUEUES } else { MOST_JOBS }
    }

    /// Whether it wants the same as another request, so that only its worker need be told. One with a name of its own is like no other.
    fn is_like(&self, other: &Fetch) -> bool {
        let Fetch { worker: _, queues, count, visibility_ms, pool, whole_pool, tenant, choice, fetch_id } = self;
        (count, visibility_ms, whole_pool) == (&other.count, &other.visibility_ms, &other.whole_pool)
            && (pool, choice, queues) == (&other.pool, &other.choice, &other.queues)
            && [fetch_id, &other.fetch_id, tenant, &other.tenant].iter().all(|name| name.is_none())
    }
}

/// The rest of a limit that a fetch met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitUsage {
    /// What the limit allows.
    pub limit: u64,
    /// Jobs that may start now.
    pub remaining: u64,
    /// From when on there may be more, in milliseconds since the epoch.
    pub free_at: i64,
}

impl LimitUsage {
    fn read(text: &str) -> Option<LimitUsage> {
        let mut words = text.split(' ');
        let mut number = || words.next()?.parse::<i64>().ok();
        let (limit, remaining, free_at) = (number()?, number()?, number()?);
        Some(LimitUsage { limit: limit.max(0) as u64, remaining: remaining.max(0) as u64, free_at })
    }
}

/// Jobs under a lease on their way to a worker. If they are dropped before [`Leased::deliver`], because the client is
/// gone, they are handed back at once: old place, attempt not counted. Those of a request with a `fetch_id` are not: its
/// client asks again.
pub struct Leased {
    records: Vec<Record>,
    /// The limit that a job of these is under, or that left the request without one.
    limit: Option<LimitUsage>,
    /// The client can ask for the same jobs again, so that it is not gone for good.
    replayable: bool,
    core: Arc<Core>,
}

impl Leased {
    /// Whether there was nothing to lease.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// What is left of the limit that the request met, if it met one.
    pub fn limit(&self) -> Option<LimitUsage> {
        self.limit
    }

    /// The jobs; from here on the leases are the worker's.
    pub fn deliver(mut self) -> Vec<Record> {
        std::mem::take(&mut self.records)
    }
}

impl Drop for Leased {
    fn drop(&mut self) {
        if self.records.is_empty() || self.replayable {
            return;
        }
        let lease = |record: Record| (record.started().unwrap_or(0), record.attempt, record.id);
        let jobs: Vec<Lease> = self.records.drain(..).map(lease).collect();
        let core = Arc::clone(&self.core);
        // Outside a runtime everything is shutting down, and the leases run out by themselves.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            core.tasks.clone().spawn_on(async move { core.release(&jobs).await }, &runtime);
        }
    }
}

pub(super) struct FetchVerb {
    core: Arc<Core>,
    calls: FetchCalls,
}

impl FetchVerb {
    pub(super) fn new(core: Arc<Core>) -> Self {
        FetchVerb { core, calls: FetchCalls::new() }
    }
}

impl Verb for FetchVerb {
    type Request = Fetch;
    type Reply = Result<Leased, Error>;

    fn weight(request: &Fetch) -> (usize, usize) {
        // One that wants a single tenant's jobs goes alone: it takes them out of turn, of which others would know nothing.
        let jobs = if request.tenant.is_some() { MOST_JOBS } else { request.count * MOST_JOBS / request.most_jobs() };
        (jobs, request.queues.iter().map(String::len).sum())
    }

    async fn run(&self, requests: Vec<Fetch>) -> Result<Vec<Self::Reply>, Error> {
        self.core.metrics.group("fetch", requests.len());
        let replayable = requests.iter().map(|request| request.fetch_id.is_some());
        let mut replies: Vec<Self::Reply> = replayable.map(|replayable| Ok(self.leased(replayable))).collect();
        let mut open: Vec<(usize, Fetch)> = requests.into_iter().enumerate().collect();
        for _ in 0..MOST_CALLS {
            let (answers, unfinished, met) = self.call_when_nothing_is_due(&open).await?;
            for ((place, _), text) in open.iter().zip(&met) {
                replies[*place].iter_mut().for_each(|leased| leased.limit = LimitUsage::read(text));
            }
            for ((place, request), answer) in open.iter_mut().zip(answers) {
                match (self.records(answer), &mut replies[*place]) {
                    (Ok(records), Ok(leased)) => {
                        request.count -= records.len().min(request.count);
                        leased.records.extend(records);
                    }
                    (Err(error), reply) => {
                        request.count = 0;
                        *reply = Err(error);
                    }
                    (Ok(_), Err(_)) => {}
                }
            }
            // One that has something takes it along; a repeat of its id replays one call.
            open.retain(|(place, request)| {
                request.count > 0 && replies[*place].as_ref().is_ok_and(|leased| leased.records.is_empty())
            });
            if !unfinished || open.is_empty() {
                break;
            }
        }
        Ok(replies)
    }
}

/// Whether a script answered with a word instead of results.
fn says(answer: &redis::Value, word: &str) -> bool {
    matches!(answer, redis::Value::BulkString(tag) if tag == word.as_bytes())
}

impl FetchVerb {
    /// What is due belongs in front of what is fetched. If more comes due than we can handle, fetching goes first.
    async fn call_when_nothing_is_due(
        &self,
        requests: &[(usize, Fetch)],
    ) -> Result<(Vec<redis::Value>, bool, Vec<String>), Error> {
        let mut answer = self.call(requests, true).await?;
        for portion in (0..MOST_PORTIONS_DUE).rev() {
            if !says(&answer, "due") {
                break;
            }
            self.core.tick(false).await?;
            answer = self.call(requests, portion > 0).await?;
        }
        let [answers, unfinished, notes, met] = reply::parts(answer, "fetch")?;
        self.core.apply_notes(notes)?;
        Ok((reply::array(answers, "fetch")?, reply::number(unfinished) == 1, reply::texts(met, "fetch")?))
    }

    /// One call of the script, which may answer that something is due first if it is asked to look. If it fails after it was
    /// sent, nobody knows whether jobs were leased: they are handed back as soon as Redis is there.
    async fn call(&self, requests: &[(usize, Fetch)], looks_for_due: bool) -> Result<redis::Value, Error> {
        let (call, was_sent) = (self.calls.next(), AtomicBool::new(false));
        let outcome = self.send(&call, requests, looks_for_due, &was_sent).await;
        if outcome.is_err() && was_sent.into_inner() {
            self.calls.retire_slot();
            let replayable = requests.iter().map(|(_, request)| request.fetch_id.is_some()).collect();
            let core = Arc::clone(&self.core);
            self.core.tasks.spawn(async move { core.recall(call, replayable).await });
        }
        outcome
    }

    async fn send(
        &self,
        call: &FetchCall,
        requests: &[(usize, Fetch)],
        looks_for_due: bool,
        was_sent: &AtomicBool,
    ) -> Result<redis::Value, Error> {
        let count = requests.len() as i64;
        FETCH
            .call(&self.core.connection, |command, again| {
                was_sent.store(true, Ordering::Relaxed);
                self.core.begin(command).arg(&*call.slot).arg(call.number).arg(u8::from(again));
                command.arg(if looks_for_due { count } else { -count });
                let mut before: Option<&Fetch> = None;
                for (_, request) in requests {
                    command.arg(request.worker.as_deref().map(escape).unwrap_or_default());
                    let own_name = request.worker.as_deref().map(own_worker);
                    command.arg(own_name.map_or_else(|| "null".to_owned(), json::quoted));
                    if before.replace(request).is_some_and(|before| request.is_like(before)) {
                        command.arg("");
                        continue;
                    }
                    command.arg(request.count).arg(or_empty(request.visibility_ms));
                    command.arg(request.fetch_id.as_deref().map(escape).unwrap_or_default());
                    command.arg(request.pool.as_deref().unwrap_or_default());
                    command.arg(request.choice.as_ref().map(Choice::word).unwrap_or_default());
                    command.arg(request.tenant.as_deref().map(escape).unwrap_or_default());
                    let named: &[String] = if request.whole_pool { &[] } else { &request.queues };
                    command.arg(named.len()).arg(named);
                }
            })
            .await
    }

    fn leased(&self, replayable: bool) -> Leased {
        Leased { records: Vec::new(), limit: None, replayable, core: Arc::clone(&self.core) }
    }

    fn records(&self, answer: redis::Value) -> Result<Vec<Record>, Error> {
        let mut views = match answer {
            view @ redis::Value::BulkString(_) => vec![view],
            views => reply::array(views, "fetch")?,
        };
        if let [tag, text] = &mut views[..] {
            let mut text = || reply::text(std::mem::replace(text, redis::Value::Nil));
            match tag {
                tag if says(tag, "error") => return Err(Error::Backend(text())),
                tag if says(tag, "pool") => return Err(Error::OtherPool(text())),
                _ => {}
            }
        }
        let readable = |view| {
            reply::record(view, "fetch").inspect_err(|error| tracing::error!(%error, "a job cannot be read")).ok()
        };
        Ok(views.into_iter().filter_map(readable).collect())
    }
}

impl Store {
    /// Leases up to `count` jobs. More than one call can hold are leased in several, until there are enough or no more.
    pub async fn fetch(&self, mut request: Fetch) -> Result<Leased, Error> {
        if let Some(tenant) = self.scope.tenant() {
            // Queues of its own hold no others.
            request.tenant = Some(tenant.to_owned()).filter(|_| !self.scope.owns_queues());
            // A name is its tenant's own, as a worker's and as that of a request which may be repeated.
            for name in [&mut request.worker, &mut request.fetch_id].into_iter().flatten() {
                *name = self.scope.worker(name);
            }
        }
        let (wanted, most) = (request.count, request.most_jobs());
        if wanted <= most {
            return self.fetch.submit(request).await?;
        }
        request.count = most;
        let mut leased = self.fetch.submit(request.clone()).await??;
        // A request with its own id is answered by one call, because a repeat replays one call.
        while leased.records.len() < wanted && leased.records.len() % most == 0 && !leased.records.is_empty() {
            if request.fetch_id.is_some() {
                break;
            }
            request.count = (wanted - leased.records.len()).min(most);
            let mut more = self.fetch.submit(request.clone()).await??;
            if more.records.is_empty() {
                break;
            }
            leased.records.append(&mut more.records);
            leased.limit = more.limit;
        }
        Ok(leased)
    }
}
