//! Verbs on jobs as such: enqueue, read, cancel, activate.

use super::batch::Verb;
use super::reply::{self, Outcome};
use super::script::{ACTIVATE, ADMIT, CANCEL, ENQUEUE, READ, STAGE, Script};
use super::{Core, Error, Store};
use crate::job::escape::{escape, unescape};
use crate::job::{NewJob, OnLimit, Record};
use redis::{Cmd, Value};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// What became of a request to enqueue.
#[derive(Clone, Debug)]
pub enum Enqueued {
    /// All its jobs are stored, in the order of the request.
    Stored(Vec<Record>),
    /// One of its ids is taken, and nothing was stored.
    Duplicate { index: usize, id: String },
    /// A plan rule has as many jobs staged as it may, and nothing was stored.
    Full { rule: String, most: u64, staged: u64 },
    /// A job would exceed what its tenant may enqueue, and nothing was stored.
    Limited(Box<Exceeded>),
    /// Other plan rules hold than those it was prepared under: the jobs again, not stored.
    Stale(Vec<NewJob>),
}

/// A tenant's limit, and by which job of a request it would be exceeded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exceeded {
    pub index: usize,
    pub tenant: String,
    /// The limit's name in the configuration.
    pub limit: String,
    pub current: u64,
    pub maximum: u64,
    /// When there may be room.
    pub retry_after: Duration,
}

/// Jobs that are stored together or not at all.
pub(super) struct Request {
    jobs: Vec<NewJob>,
    /// Tells a resend from another client's use of the same id.
    op: String,
    /// Version of the plan rules under which the jobs were prepared.
    rules: Arc<str>,
}

pub(super) struct Enqueue {
    core: Arc<Core>,
    /// The form of the script that knew enough when last asked: 0 for the shortest.
    form: AtomicUsize,
    /// Calls of the longest form that a shorter one may have been enough for.
    long_calls: AtomicUsize,
}

/// After so many calls of the longest form the one before is tried again: lanes do not wait for limits for ever.
const LONG_CALLS: usize = 64;

impl Enqueue {
    pub(super) fn new(core: Arc<Core>) -> Self {
        Enqueue { core, form: AtomicUsize::new(0), long_calls: AtomicUsize::new(0) }
    }

    /// Calls the shortest form of the script that knows all that the jobs ask for; one that knows too little says so.
    async fn call(&self, requests: &[Request]) -> Result<Value, Error> {
        let asks_more = |job: &NewJob| job.plan.is_some() || job.rate_limit.is_some() || job.shared;
        let fill = |command: &mut Cmd, again: bool| push_requests(&self.core, command, requests, again);
        if !requests.iter().flat_map(|request| &request.jobs).any(asks_more) {
            let mut form = self.form.load(Ordering::Relaxed);
            if form > 1 && self.long_calls.fetch_add(1, Ordering::Relaxed) % LONG_CALLS == LONG_CALLS - 1 {
                form = 1;
            }
            for (script, place) in [(&ENQUEUE, 0), (&ADMIT, 1)].into_iter().skip(form) {
                let answer = script.call(&self.core.link, fill).await?;
                let is_enough = !matches!(&answer, Value::BulkString(word) if word == b"rich");
                self.form.store(if is_enough { place } else { place + 1 }, Ordering::Relaxed);
                if is_enough {
                    return Ok(answer);
                }
            }
        }
        STAGE.call(&self.core.link, fill).await
    }
}

impl Verb for Enqueue {
    type Request = Request;
    type Reply = Result<Enqueued, Error>;

    // Producers often come alone, unlike workers, whose fetches and acks keep Redis busy in turn.
    const IN_FLIGHT: usize = 2;

    fn weight(request: &Request) -> (usize, usize) {
        (request.jobs.len(), request.jobs.iter().map(|job| job.envelope.len()).sum())
    }

    async fn run(&self, requests: Vec<Request>) -> Result<Vec<Self::Reply>, Error> {
        self.core.metrics.group("enqueue", requests.len());
        let answers = reply::array(self.call(&requests).await?, "enqueue")?;
        Ok(answers.into_iter().zip(requests).map(|(answer, request)| self.enqueued(answer, request)).collect())
    }
}

fn push_requests(core: &Core, command: &mut Cmd, requests: &[Request], again: bool) {
    let names_tenant = requests.iter().flat_map(|request| &request.jobs).any(|job| job.owner().is_some());
    core.begin(command).arg(u8::from(names_tenant)).arg(requests.len());
    requests.iter().for_each(|request| push_request(command, request, again));
}

fn push_request(command: &mut Cmd, request: &Request, again: bool) {
    let may_exist = again || !request.op.is_empty();
    command.arg(&request.op).arg(request.jobs.len()).arg(u8::from(may_exist)).arg(&*request.rules);
    for job in &request.jobs {
        command.arg(&job.id).arg(&*job.home()).arg(&job.kind);
        command.arg(lane(job)).arg(job.priority).arg(further_fields(job)).arg(&job.envelope);
    }
}

/// What a job has beyond the default, as `name US value US …`; nothing for most jobs.
fn further_fields(job: &NewJob) -> String {
    let mut packed = String::new();
    let mut push = |name: &str, value: &str| packed.extend([name, "\u{1f}", value, "\u{1f}"]);
    if let Some(plan) = &job.plan {
        push("rule", &plan.rule);
        push("tenant", &escape(&plan.tenant));
    } else if let Some(tenant) = &job.tenant {
        push("tenant", &escape(tenant));
    }
    if let Some(limit) = job.rate_limit.as_ref().filter(|limit| !limit.quota.is_empty()) {
        push("quota", &limit.quota.packed());
    }
    if job.pending {
        push("pending", "1");
    }
    if job.priority != 0 {
        push("priority", &job.priority.to_string());
    }
    for (name, time) in [("due", job.scheduled), ("expires", job.expires), ("ttl", job.ttl), ("total", job.total)] {
        time.into_iter().for_each(|at| push(name, &at.argument()));
    }
    job.fields.iter().for_each(|(name, value)| push(name, value));
    packed
}

/// The lane in which a job waits inside its queue, as far as the job itself says: `lane.lua` has the names.
fn lane(job: &NewJob) -> String {
    let mut lane = format!("p{}", job.priority);
    let mut push = |name: &str, value: &str| lane.extend([";", name, "=", value]);
    let limit = job.rate_limit.as_ref();
    let own_queue = format!("queue:{}", job.home());
    if let Some(key) = limit.and_then(|limit| limit.key.as_deref()).filter(|key| *key != own_queue) {
        push("k", key);
    }
    if let Some(key) = &job.type_limit {
        push("y", key);
    }
    match limit.map(|limit| limit.on_limit) {
        Some(OnLimit::Reschedule) => push("o", "r"),
        Some(OnLimit::Drop) => push("o", "d"),
        Some(OnLimit::Wait) | None => {}
    }
    if let Some(tenant) = job.tenant.as_deref().filter(|_| job.apart && job.plan.is_none()) {
        push("b", &escape(tenant));
    }
    lane
}

impl Enqueue {
    fn enqueued(&self, answer: Value, request: Request) -> Result<Enqueued, Error> {
        let answer = reply::text(answer);
        let mut parts = answer.split('\u{1f}');
        let mut next = || parts.next().ok_or_else(|| Error::unreadable("enqueue"));
        match next()? {
            "ok" => {
                let created = next()?;
                let mut store = |job| Ok(Record::stored(job, next()?, created, next()?));
                let records = request.jobs.into_iter().map(&mut store).collect::<Result<_, Error>>()?;
                while let (Ok(tenant), Ok(limit)) = (next(), next()) {
                    self.core.metrics.tenants.exceeded(&unescape(tenant), limit, "accepted");
                }
                Ok(Enqueued::Stored(records))
            }
            "limited" => {
                let number = |text: &str| text.parse::<u64>().unwrap_or(0);
                let index = number(next()?) as usize;
                let (tenant, limit) = (unescape(next()?), next()?.to_owned());
                self.core.metrics.tenants.exceeded(&tenant, &limit, "rejected");
                let (current, maximum) = (number(next()?), number(next()?));
                let retry_after = Duration::from_millis(number(next()?));
                Ok(Enqueued::Limited(Box::new(Exceeded { index, tenant, limit, current, maximum, retry_after })))
            }
            "duplicate" => Ok(Enqueued::Duplicate { index: next()?.parse().unwrap_or(0), id: next()?.to_owned() }),
            "full" => {
                let rule = next()?.to_owned();
                let mut number = || Ok::<u64, Error>(next()?.parse().unwrap_or(0));
                Ok(Enqueued::Full { rule, most: number()?, staged: number()? })
            }
            "stale" => Ok(Enqueued::Stale(request.jobs)),
            _ => Err(Error::Backend(next()?.to_owned())),
        }
    }
}

impl Store {
    /// Stores jobs that were prepared under a version of the plan rules: all of them or none.
    pub async fn enqueue(&self, jobs: Vec<NewJob>, rules: Arc<str>) -> Result<Enqueued, Error> {
        let own_ids = jobs.iter().any(|job| job.own_id);
        let op = if own_ids { crate::job::id::generate() } else { String::new() };
        self.enqueue.submit(Request { jobs, op, rules }).await?
    }

    /// The words of the call that enqueues a single job, for measuring Redis without us in between.
    pub fn enqueue_words(&self, job: NewJob) -> Vec<Vec<u8>> {
        let mut command = redis::cmd("EVALSHA");
        command.arg(ENQUEUE.sha());
        push_requests(
            &self.core,
            &mut command,
            &[Request { jobs: vec![job], op: String::new(), rules: "".into() }],
            false,
        );
        let word = |word: redis::Arg<&[u8]>| match word {
            redis::Arg::Simple(bytes) => Some(bytes.to_vec()),
            _ => None, // cursors, which scripts do not have
        };
        command.args_iter().filter_map(word).collect()
    }

    /// A job as it is now.
    pub async fn job(&self, id: &str) -> Result<Option<Record>, Error> {
        Ok(self.jobs(&[id.to_owned()]).await?.pop())
    }

    /// Jobs as they are, all of one moment; ids that do not exist are left out.
    pub async fn jobs(&self, ids: &[String]) -> Result<Vec<Record>, Error> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let views = READ.call(&self.core.link, |command, _| _ = self.core.begin(command).arg(ids)).await?;
        reply::records(views, "read")
    }

    /// Ends a job that has not ended.
    pub async fn cancel(&self, id: &str) -> Result<Outcome, Error> {
        self.change(&CANCEL, id).await
    }

    /// Makes a pending job available.
    pub async fn activate(&self, id: &str) -> Result<Outcome, Error> {
        self.change(&ACTIVATE, id).await
    }

    /// Runs a script that takes one job id and answers with its outcome.
    pub(super) async fn change(&self, script: &Script, id: &str) -> Result<Outcome, Error> {
        let op = crate::job::id::generate();
        let answer = script.call(&self.core.link, |command, _| _ = self.core.begin(command).arg(id).arg(&op)).await?;
        reply::outcome(answer, script.name)
    }
}
