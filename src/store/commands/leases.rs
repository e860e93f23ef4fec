//! Fetching jobs under a lease, and the release of jobs that never reached their worker. Acks and
//! nacks are in `ack`.

use super::batch::{BatchCommand, MOST_JOBS};
use super::codec::tenant::own_worker;
use super::lease_release::{FetchCall, FetchCalls, Lease};
use super::reply;
use super::script::FETCH;
use super::{Core, Error, Store, or_empty};
use crate::domain::escape::escape;
use crate::domain::job::Record;
use crate::domain::json;
use crate::domain::pool::Strategy;
use crate::domain::tenant::Weight;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Largest number of ticks that one fetch runs before it fetches.
const MOST_PORTIONS_DUE: usize = 8;
/// Number of queues from which on one call leases fewer jobs: each job may come from another queue,
/// and opening a queue costs more than leasing a job.
const MANY_QUEUES: usize = 64;
const MOST_JOBS_OF_MANY_QUEUES: usize = MOST_JOBS / 4;
/// Largest number of calls that one fetch makes because the previous one ended early to check
/// limits.
const MOST_CALLS: usize = 32;

/// A worker's request for jobs.
#[derive(Clone, Debug, Default)]
pub struct Fetch {
    pub worker: Option<String>,
    /// Queues in the order of preference.
    pub queues: Vec<String>,
    pub count: usize,
    pub visibility_ms: Option<u64>,
    /// The worker's pool; the fetch reads those of the pool's queues that are in `queues`.
    pub pool: Option<String>,
    /// True if `queues` are all queues of the pool; then they are not sent.
    pub whole_pool: bool,
    /// Restricts the fetch to this tenant's jobs, in queues that tenants share.
    pub tenant: Option<String>,
    /// The strategy for choosing among the queues, if there is no pool with one.
    pub choice: Option<QueueChoice>,
    /// The client's id for this request. A repeat within a minute gets the same jobs.
    pub fetch_id: Option<String>,
}

/// The strategy by which a request chooses among its queues.
#[derive(Clone, Debug, PartialEq)]
pub struct QueueChoice {
    pub strategy: Strategy,
    /// Weights in the order of the queues.
    pub weights: Vec<Weight>,
}

impl QueueChoice {
    /// Returns the choice as scripts read it: `strategy weights…`.
    fn word(&self) -> String {
        let weights: String = self.weights.iter().map(|weight| format!(" {}", weight.thousandths())).collect();
        format!("{}{weights}", self.strategy.name())
    }
}

impl Fetch {
    /// Returns the number of jobs that one call may lease for this request.
    fn most_jobs(&self) -> usize {
        if self.queues.len() > MANY_QUEUES { MOST_JOBS_OF_MANY_QUEUES } else { MOST_JOBS }
    }

    /// Returns true if the request differs from `other` only in its worker, so that only the worker
    /// is sent. A request with an id or a tenant is never like another.
    fn is_like(&self, other: &Fetch) -> bool {
        let Fetch { worker: _, queues, count, visibility_ms, pool, whole_pool, tenant, choice, fetch_id } = self;
        (count, visibility_ms, whole_pool) == (&other.count, &other.visibility_ms, &other.whole_pool)
            && (pool, choice, queues) == (&other.pool, &other.choice, &other.queues)
            && [fetch_id, &other.fetch_id, tenant, &other.tenant].iter().all(|name| name.is_none())
    }
}

/// Usage of a limit that applied to a fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitUsage {
    /// The limit's value.
    pub limit: u64,
    /// Number of jobs that may start now.
    pub remaining: u64,
    /// Time at which more jobs may start, in milliseconds since the epoch.
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

/// Jobs under a lease on their way to a worker. If they are dropped before [`Leased::deliver`]
/// because the client is gone, they are handed back at once, to their former place and without
/// counting the attempt. Jobs of a request with a `fetch_id` stay leased, because its client can
/// repeat the request.
pub struct Leased {
    records: Vec<Record>,
    /// The limit that applies to one of the jobs, or that left the request without jobs.
    limit: Option<LimitUsage>,
    /// True if the client can repeat the request and get the same jobs.
    replayable: bool,
    core: Arc<Core>,
}

impl Leased {
    /// Returns true if there was nothing to lease.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Returns the usage of the limit that applied to the request, if any.
    pub fn limit(&self) -> Option<LimitUsage> {
        self.limit
    }

    /// Returns the jobs. From now on the worker is responsible for the leases.
    pub fn deliver(mut self) -> Vec<Record> {
        std::mem::take(&mut self.records)
    }
}

impl Drop for Leased {
    fn drop(&mut self) {
        if self.records.is_empty() || self.replayable {
            return;
        }
        let lease =
            |record: Record| Lease { attempt: record.attempt, started: record.started().unwrap_or(0), id: record.id };
        let jobs: Vec<Lease> = self.records.drain(..).map(lease).collect();
        let core = Arc::clone(&self.core);
        // Without a runtime the process is shutting down, and the leases expire.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            core.tasks.clone().spawn_on(async move { core.release(&jobs).await }, &runtime);
        }
    }
}

pub(in crate::store) struct FetchCommand {
    core: Arc<Core>,
    calls: FetchCalls,
}

impl FetchCommand {
    pub(in crate::store) fn new(core: Arc<Core>) -> Self {
        FetchCommand { core, calls: FetchCalls::new() }
    }
}

impl BatchCommand for FetchCommand {
    type Request = Fetch;
    type Reply = Result<Leased, Error>;

    const COMMAND: &'static str = "fetch";

    fn weight(request: &Fetch) -> (usize, usize) {
        // A fetch for a single tenant needs a call of its own: it takes jobs out of turn, which the
        // other requests of a group could not take into account.
        let jobs = if request.tenant.is_some() { MOST_JOBS } else { request.count * MOST_JOBS / request.most_jobs() };
        (jobs, request.queues.iter().map(String::len).sum())
    }

    async fn run(&self, requests: Vec<Fetch>) -> Result<Vec<Self::Reply>, Error> {
        self.core.metrics.group(Self::COMMAND, requests.len());
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
            // A request that has jobs is finished, because a repeat of its id replays a single
            // call.
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

/// Appends a request as `lua/commands/fetch.lua` reads it, given the request before.
fn push_request(command: &mut redis::Cmd, request: &Fetch, before: Option<&Fetch>) {
    command.arg(request.worker.as_deref().map(escape).unwrap_or_default());
    let own_name = request.worker.as_deref().map(own_worker);
    command.arg(own_name.map_or_else(|| "null".to_owned(), json::quoted));
    if before.is_some_and(|before| request.is_like(before)) {
        command.arg("");
        return;
    }
    command.arg(request.count).arg(or_empty(request.visibility_ms));
    command.arg(request.fetch_id.as_deref().map(escape).unwrap_or_default());
    command.arg(request.pool.as_deref().unwrap_or_default());
    command.arg(request.choice.as_ref().map(QueueChoice::word).unwrap_or_default());
    command.arg(request.tenant.as_deref().map(escape).unwrap_or_default());
    let named: &[String] = if request.whole_pool { &[] } else { &request.queues };
    command.arg(named.len()).arg(named);
}

/// Returns true if the reply is the given word.
fn says(answer: &redis::Value, word: &str) -> bool {
    matches!(answer, redis::Value::BulkString(tag) if tag == word.as_bytes())
}

impl FetchCommand {
    /// Handles due jobs before fetching, because they may be first in their queue. After
    /// [`MOST_PORTIONS_DUE`] ticks the fetch goes ahead although more is due.
    async fn call_when_nothing_is_due(
        &self,
        requests: &[(usize, Fetch)],
    ) -> Result<(Vec<redis::Value>, bool, Vec<String>), Error> {
        let mut answer = self.call(requests, true).await?;
        for portion in (0..MOST_PORTIONS_DUE).rev() {
            if !says(&answer, "due") {
                break;
            }
            self.core.tick().await?;
            answer = self.call(requests, portion > 0).await?;
        }
        let [answers, unfinished, notes, met] = reply::parts(answer, "fetch")?;
        self.core.apply_notes(&reply::texts(notes, "fetch")?);
        Ok((reply::array(answers, "fetch")?, reply::number(unfinished, "fetch")? == 1, reply::texts(met, "fetch")?))
    }

    /// Calls the script once. With `looks_for_due` it replies `due` if something is due. If the
    /// call fails after it was sent, it may have leased jobs; they are handed back once Redis is
    /// reachable.
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
                requests.iter().for_each(|(_, request)| push_request(command, request, before.replace(request)));
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
            let mut text = || reply::text(std::mem::replace(text, redis::Value::Nil), "fetch");
            match tag {
                tag if says(tag, "error") => return Err(Error::Backend(text()?)),
                tag if says(tag, "pool") => return Err(Error::OtherPool(text()?)),
                _ => {}
            }
        }
        let readable = |view| {
            reply::record(view, "fetch")
                .inspect_err(|error| tracing::error!(%error, "cannot parse a fetched job; skipping it"))
                .ok()
        };
        Ok(views.into_iter().filter_map(readable).collect())
    }
}

impl Store {
    /// Leases up to `count` jobs, in several calls if one cannot lease that many.
    pub async fn fetch(&self, mut request: Fetch) -> Result<Leased, Error> {
        if let Some(tenant) = self.scope.tenant() {
            // A tenant's own queues contain only its jobs.
            request.tenant = Some(tenant.to_owned()).filter(|_| !self.scope.owns_queues());
            // Names of workers and fetch ids belong to their tenant's namespace.
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
        // A repeat of a fetch id replays a single call, so one call must answer it.
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
