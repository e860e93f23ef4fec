//! Operations on jobs: enqueue, read, cancel, activate.

use super::batch::BatchCommand;
use super::codec::job::{further_fields, lane};
use super::codec::wire;
use super::reply::{self, JobOutcome, JobReply};
use super::script::{ACTIVATE, CANCEL, ENQUEUE, READ};
use super::{Core, Error, Store};
use crate::domain::escape::unescape;
use crate::domain::job::{NewJob, Record, State};
use crate::domain::limit::Overflow;
use redis::Cmd;
use serde::Serialize;
use std::sync::Arc;
use std::time::Duration;

/// The outcome of an enqueue request.
#[derive(Clone, Debug)]
pub enum Enqueued {
    /// All jobs are stored, in the order of the request.
    Stored(Vec<Record>),
    /// A job's id is taken. Nothing was stored.
    Duplicate { index: usize, id: String },
    /// A unique job exists already. Nothing was stored.
    Exists { index: usize, id: String, state: State, key: String },
    /// A plan rule has reached its limit of staged jobs. Nothing was stored.
    Full { rule: String, most: u64, staged: u64 },
    /// A queue has reached its bound. Nothing was stored.
    Bounded { queue: String, depth: u64, most: u64, overflow: Overflow },
    /// A job would exceed its tenant's enqueue limit. Nothing was stored.
    Limited(Box<Exceeded>),
    /// The plan rules have changed since the jobs were prepared. Nothing was stored; the jobs are
    /// returned.
    Stale(Vec<NewJob>),
}

/// A tenant's enqueue limit that a request would exceed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exceeded {
    pub index: usize,
    pub tenant: String,
    /// The limit's name in the configuration.
    pub limit: String,
    pub current: u64,
    pub maximum: u64,
    /// Time until there may be room.
    pub retry_after: Duration,
}

impl Exceeded {
    /// Parses the words after `limited` in a script's reply.
    pub(super) fn read<'t>(mut words: impl Iterator<Item = &'t str>) -> Option<Exceeded> {
        let index = words.next()?.parse().ok()?;
        let (tenant, limit) = (unescape(words.next()?), words.next()?.to_owned());
        let mut number = || words.next()?.parse::<u64>().ok();
        let (current, maximum) = (number()?, number()?);
        let retry_after = Duration::from_millis(number()?);
        Some(Exceeded { index, tenant, limit, current, maximum, retry_after })
    }
}

/// Jobs that are stored together or not at all, as one request of a group.
pub(in crate::store) struct EnqueueRequest {
    pub(super) jobs: Vec<NewJob>,
    /// Distinguishes a resend from another client's use of the same job id; empty if no job has an
    /// id of its client.
    op: String,
    /// Version of the plan rules that the jobs were prepared under.
    rules: Arc<str>,
}

impl EnqueueRequest {
    /// Creates a request for jobs that were prepared under a version of the plan rules.
    pub(super) fn new(jobs: Vec<NewJob>, rules: Arc<str>) -> EnqueueRequest {
        let own_ids = jobs.iter().any(|job| job.own_id);
        EnqueueRequest { jobs, op: if own_ids { crate::domain::job::id::generate() } else { String::new() }, rules }
    }

    /// Returns the version of the plan rules that the jobs were prepared under.
    pub(super) fn rules(&self) -> &str {
        &self.rules
    }

    /// Returns the first job.
    pub(super) fn first(&self) -> Option<&NewJob> {
        self.jobs.first()
    }
}

pub(in crate::store) struct EnqueueCommand {
    core: Arc<Core>,
}

impl EnqueueCommand {
    pub(in crate::store) fn new(core: Arc<Core>) -> Self {
        EnqueueCommand { core }
    }
}

impl BatchCommand for EnqueueCommand {
    type Request = EnqueueRequest;
    type Reply = Result<Enqueued, Error>;

    const COMMAND: &'static str = "enqueue";

    // Producers often run without workers, whose fetches and acks would keep Redis busy in between.
    const IN_FLIGHT: usize = 2;

    fn weight(request: &EnqueueRequest) -> (usize, usize) {
        (request.jobs.len(), request.jobs.iter().map(|job| job.envelope.len()).sum())
    }

    async fn run(&self, requests: Vec<EnqueueRequest>) -> Result<Vec<Self::Reply>, Error> {
        self.core.metrics.group(Self::COMMAND, requests.len());
        let fill = |command: &mut Cmd, again: bool| push_requests(&self.core, command, &requests, again);
        let answers = reply::array(ENQUEUE.call(&self.core.connection, fill).await?, "enqueue")?;
        let read = |(answer, request): (_, EnqueueRequest)| {
            enqueued(&self.core, Self::COMMAND, &reply::text(answer, Self::COMMAND)?, request.jobs)
        };
        Ok(answers.into_iter().zip(requests).map(read).collect())
    }
}

fn push_requests(core: &Core, command: &mut Cmd, requests: &[EnqueueRequest], again: bool) {
    core.begin(command).arg(requests.len());
    requests.iter().for_each(|request| push_request(command, request, again));
}

pub(super) fn push_request(command: &mut Cmd, request: &EnqueueRequest, again: bool) {
    let may_exist = again || !request.op.is_empty();
    command.arg(&request.op).arg(request.jobs.len()).arg(u8::from(may_exist)).arg(&*request.rules);
    request.jobs.iter().for_each(|job| push_job(command, job));
}

pub(super) fn push_job(command: &mut Cmd, job: &NewJob) {
    command.arg(&job.id).arg(&*job.home()).arg(&job.kind);
    command.arg(lane(job)).arg(job.priority).arg(further_fields(job)).arg(&job.envelope);
}

/// Returns the arguments of [`push_job`] as one string, for a job of a workflow that waits for
/// others.
pub(super) fn packed_words(job: &NewJob) -> String {
    let (lane, priority, more) = (lane(job), job.priority.to_string(), further_fields(job));
    wire::join_records([&job.id, &*job.home(), &job.kind, &lane, &priority, &more, &job.envelope])
}

/// Parses the reply to a command that stores jobs, for one request.
pub(super) fn enqueued(core: &Core, command: &str, answer: &str, jobs: Vec<NewJob>) -> Result<Enqueued, Error> {
    let mut parts = wire::values(answer);
    let mut next = || parts.next().ok_or_else(|| Error::unreadable(command));
    match next()? {
        "ok" => {
            let created = next()?;
            let mut store = |job| {
                let (state, due) = (next()?, next()?);
                Ok(match state.strip_prefix('=') {
                    Some(id) => Record::duplicate_of(id),
                    None => Record::stored(job, reply::state(state, command)?, created, due),
                })
            };
            let mut records: Vec<Record> = jobs.into_iter().map(&mut store).collect::<Result<_, Error>>()?;
            while let Some(word) = parts.next() {
                let mut next = || parts.next().unwrap_or_default();
                if word == "?" {
                    core.metrics.tenants.exceeded(&unescape(next()), next(), "accepted");
                } else {
                    let (queue, depth, most) = (next(), next(), next());
                    if let Some(record) = records.iter_mut().find(|record| record.queue == queue) {
                        record.pressure = depth.parse().ok().zip(most.parse().ok());
                    }
                }
            }
            Ok(Enqueued::Stored(records))
        }
        "duplicate" => Ok(Enqueued::Duplicate { index: reply::parse(next()?, command)?, id: next()?.to_owned() }),
        "exists" => {
            let (index, id) = (reply::parse(next()?, command)?, next()?.to_owned());
            let state = reply::state(next()?, command)?;
            Ok(Enqueued::Exists { index, id, state, key: next()?.to_owned() })
        }
        "full" => {
            let rule = next()?.to_owned();
            let mut number = || reply::parse::<u64>(next()?, command);
            Ok(Enqueued::Full { rule, most: number()?, staged: number()? })
        }
        "bound" => {
            let queue = next()?.to_owned();
            let mut number = || reply::parse::<u64>(next()?, command);
            let (depth, most) = (number()?, number()?);
            let overflow = Overflow::from_name(next()?).ok_or_else(|| Error::unreadable(command))?;
            Ok(Enqueued::Bounded { queue, depth, most, overflow })
        }
        "limited" => Ok(Enqueued::Limited(core.refused(parts, command)?)),
        "stale" => Ok(Enqueued::Stale(jobs)),
        _ => Err(Error::Backend(next()?.to_owned())),
    }
}

impl Core {
    /// Parses the words after `limited` in a script's reply, and counts the rejection.
    pub(super) fn refused<'t>(
        &self,
        words: impl Iterator<Item = &'t str>,
        command: &str,
    ) -> Result<Box<Exceeded>, Error> {
        let exceeded = Exceeded::read(words).ok_or_else(|| Error::unreadable(command))?;
        self.metrics.tenants.exceeded(&exceeded.tenant, &exceeded.limit, "rejected");
        Ok(Box::new(exceeded))
    }
}

#[derive(Serialize)]
struct Cancel<'a> {
    id: &'a str,
    op: String,
    tenant: String,
    spares_active: bool,
}

#[derive(Serialize)]
struct Activate<'a> {
    id: &'a str,
    op: String,
    tenant: String,
}

impl Store {
    /// Stores all of the jobs or none. `rules` is the version of the plan rules that they were
    /// prepared under.
    pub async fn enqueue(&self, jobs: Vec<NewJob>, rules: Arc<str>) -> Result<Enqueued, Error> {
        match self.enqueue.submit(EnqueueRequest::new(jobs, rules)).await?? {
            Enqueued::Stored(records) if records.iter().any(|record| record.existing) => {
                self.load_existing(records).await
            }
            done => Ok(done),
        }
    }

    /// Replaces jobs that were not stored because an equal unique job exists by that job.
    async fn load_existing(&self, mut records: Vec<Record>) -> Result<Enqueued, Error> {
        for record in records.iter_mut().filter(|record| record.existing) {
            // If that job is gone by now, a retry can store the new one.
            *record = self.job(&record.id).await?.ok_or(Error::Busy)?;
            record.existing = true;
        }
        Ok(Enqueued::Stored(records))
    }

    /// Returns a job in its current state.
    pub async fn job(&self, id: &str) -> Result<Option<Record>, Error> {
        Ok(self.jobs(&[id.to_owned()]).await?.pop())
    }

    /// Returns jobs in their current state, read at one moment. Omits ids that do not exist.
    pub async fn jobs(&self, ids: &[String]) -> Result<Vec<Record>, Error> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let views = READ.call(&self.core.connection, |command, _| _ = self.core.begin(command).arg(ids)).await?;
        let mut records = reply::records(views, "read")?;
        records.retain(|record| self.scope.admits(record.tenant.as_deref()));
        Ok(records)
    }

    /// Cancels a job that has not ended.
    pub async fn cancel(&self, id: &str) -> Result<JobOutcome, Error> {
        self.call_cancel(id, false).await
    }

    /// Cancels a waiting job; does not cancel an active one.
    pub async fn cancel_waiting(&self, id: &str) -> Result<JobOutcome, Error> {
        self.call_cancel(id, true).await
    }

    async fn call_cancel(&self, id: &str, spares_active: bool) -> Result<JobOutcome, Error> {
        let args = Cancel { id, op: crate::domain::job::id::generate(), tenant: self.scope.word(), spares_active };
        CANCEL.call_packed::<JobReply>(&self.core, &args).await?.outcome("cancel")
    }

    /// Makes a pending job available.
    pub async fn activate(&self, id: &str) -> Result<JobOutcome, Error> {
        let args = Activate { id, op: crate::domain::job::id::generate(), tenant: self.scope.word() };
        ACTIVATE.call_packed::<JobReply>(&self.core, &args).await?.outcome("activate")
    }
}
