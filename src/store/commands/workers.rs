//! Workers: heartbeats, directives and deregistration.

use super::codec::wire;
use super::reply;
use super::script::{DEREGISTER, HEARTBEAT, WORKER_DIRECTIVE};
use super::{Error, Store};
use crate::domain::escape::{escape, unescape};
use crate::domain::json;
use crate::domain::pool::{Directive, Strategy, WorkerState};
use crate::domain::tenant::{Scope, Weight};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A worker's heartbeat.
#[derive(Clone, Debug, Default)]
pub struct Heartbeat {
    pub worker: String,
    /// The state that the worker reports.
    pub state: Option<WorkerState>,
    pub visibility_ms: Option<u64>,
    /// Ids of jobs whose leases the heartbeat extends.
    pub jobs: Vec<String>,
    /// The worker's pool.
    pub pool: Option<String>,
    /// True if the worker registers, which may change its pool.
    pub registers: bool,
    /// The worker's default strategy, used if neither a pool nor a request has one.
    pub preference: Option<Preference>,
    /// Further fields of the worker's record, as JSON.
    pub fields: Vec<(&'static str, String)>,
}

/// A strategy that a worker registers, with weights of queues.
#[derive(Clone, Debug, PartialEq)]
pub struct Preference {
    pub strategy: Strategy,
    pub weights: Vec<(String, Weight)>,
}

impl Preference {
    /// Returns the preference as scripts read it: `strategy queue weight …`.
    fn word(&self, scope: &Scope) -> String {
        let weights = self.weights.iter();
        let weights = weights.map(|(queue, weight)| format!(" {} {}", scope.qualified(queue), weight.thousandths()));
        self.strategy.name().to_owned() + &weights.collect::<String>()
    }
}

/// The reply to a heartbeat.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub struct HeartbeatReply {
    pub directive: Directive,
    pub server_time: i64,
    pub extended: Vec<String>,
    /// Jobs named in the heartbeat that were cancelled meanwhile.
    pub cancelled: Vec<String>,
}

/// A worker's record.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Worker {
    pub id: String,
    /// Time of the last heartbeat, in milliseconds.
    pub seen: i64,
    /// The state that the worker last reported.
    pub state: WorkerState,
    pub directive: Directive,
    /// Time of the first heartbeat, in milliseconds.
    pub since: Option<i64>,
    /// Further fields that the worker has reported, as JSON.
    pub fields: BTreeMap<String, String>,
}

impl Worker {
    /// Returns the state that counts: the directive for the worker, or else the state that it
    /// reported.
    pub fn effective_state(&self) -> WorkerState {
        match self.directive {
            Directive::Running => self.state,
            Directive::Quiet => WorkerState::Quiet,
            Directive::Terminate => WorkerState::Terminate,
        }
    }
}

/// The outcome of setting a worker's directive.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum SetDirectiveOutcome {
    Done,
    Missing,
    /// The worker has the directive `terminate`, which cannot be taken back.
    Terminates,
}

/// Number of leases that one call extends; bounds how long the call occupies Redis.
const JOBS_A_BEAT: usize = 200;

/// Largest number of workers that a list reads.
const MOST_WORKERS: isize = 10_000;

#[derive(Serialize)]
struct SetDirective<'a> {
    worker: &'a str,
    directive: &'a str,
}

#[derive(Serialize)]
struct SentHeartbeat<'a> {
    worker: &'a str,
    state: Option<&'a str>,
    visibility: Option<u64>,
    testing: bool,
    tenant: &'a str,
    registers: bool,
    how: Option<String>,
    fields: BTreeMap<&'a str, String>,
    jobs: &'a [String],
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum HeartbeatOutcome {
    OtherPool(String),
    Accepted(HeartbeatReply),
}

#[derive(Serialize)]
struct Deregister<'a> {
    worker: &'a str,
}

#[derive(Deserialize)]
struct Deregistered {
    known: bool,
    handed_back: usize,
    more: bool,
}

impl Store {
    /// Returns a worker by its name.
    pub async fn worker(&self, id: &str) -> Result<Option<Worker>, Error> {
        let mut command = redis::cmd("HGETALL");
        command.arg(self.core.keys.worker(&escape(&self.scope.worker(id))));
        let mut fields: BTreeMap<String, String> =
            reply::pairs(self.core.command("worker", command).await?, "worker")?.into_iter().collect();
        let Some(seen) = fields.remove("seen").and_then(|seen| seen.parse().ok()) else { return Ok(None) };
        let mut take = |name: &str| fields.remove(name);
        take("how");
        let unreadable = || Error::unreadable("worker");
        let state = take("state").map_or(Some(WorkerState::Running), |name| WorkerState::from_name(&name));
        let directive = take("directive").map_or(Some(Directive::Running), |name| Directive::from_name(&name));
        let (state, directive) = (state.ok_or_else(unreadable)?, directive.ok_or_else(unreadable)?);
        let since = take("since").and_then(|since| since.parse().ok());
        if let Some(pool) = fields.get_mut("pool")
            && let Some(name) = json::text(pool)
        {
            *pool = json::quoted(self.scope.unqualified(&name).unwrap_or(&name));
        }
        Ok(Some(Worker { id: id.to_owned(), seen, state, directive, since, fields }))
    }

    /// Returns all workers with a recent heartbeat, sorted by name.
    pub async fn workers(&self) -> Result<Vec<Worker>, Error> {
        let mut command = redis::cmd("ZREVRANGE");
        command.arg(self.core.keys.workers()).arg(0).arg(MOST_WORKERS - 1);
        let names = reply::texts(self.core.command("workers", command).await?, "workers")?;
        let mut workers = Vec::new();
        for name in names {
            if let Some(own) = self.scope.known_worker(&unescape(&name)) {
                workers.extend(self.worker(own).await?);
            }
        }
        workers.sort_by(|left, right| left.id.cmp(&right.id));
        Ok(workers)
    }

    /// Returns the ids of at most 100 jobs that a worker holds.
    pub async fn leased_by(&self, worker: &str) -> Result<Vec<String>, Error> {
        let name = escape(&self.scope.worker(worker));
        let mut command = redis::cmd("ZRANGEBYLEX");
        // The range ends before a space, the character after the separator.
        command.arg(self.core.keys.leased()).arg(format!("[{name}{}", wire::UNIT)).arg(format!("({name} "));
        command.arg("LIMIT").arg(0).arg(100);
        let members = reply::texts(self.core.command("worker_jobs", command).await?, "worker_jobs")?;
        let ids = members.iter().filter_map(|member| wire::values(member).nth(1)).map(str::to_owned);
        match self.scope.tenant() {
            None => Ok(ids.collect()),
            // A shared worker may hold jobs of other tenants too.
            Some(_) => Ok(self.jobs(&ids.collect::<Vec<_>>()).await?.into_iter().map(|record| record.id).collect()),
        }
    }

    /// Sets a worker's directive: run, fetch no more jobs, or terminate.
    pub async fn set_directive(&self, worker: &str, directive: Directive) -> Result<SetDirectiveOutcome, Error> {
        let worker = escape(&self.scope.worker(worker));
        let args = SetDirective { worker: &worker, directive: directive.name() };
        WORKER_DIRECTIVE.call_packed(&self.core, &args).await
    }

    /// Records a heartbeat and extends the leases of its jobs, in portions.
    pub async fn heartbeat(&self, beat: &Heartbeat) -> Result<HeartbeatReply, Error> {
        let (first, rest) = beat.jobs.split_at(beat.jobs.len().min(JOBS_A_BEAT));
        let mut answer = self.send_heartbeat(beat, first, beat.registers).await?;
        for jobs in rest.chunks(JOBS_A_BEAT) {
            let more = self.send_heartbeat(beat, jobs, false).await?;
            answer.extended.extend(more.extended);
            answer.cancelled.extend(more.cancelled);
            answer.directive = answer.directive.max(more.directive);
        }
        Ok(answer)
    }

    async fn send_heartbeat(
        &self,
        beat: &Heartbeat,
        jobs: &[String],
        registers: bool,
    ) -> Result<HeartbeatReply, Error> {
        let pool = beat.pool.as_deref().map(|pool| json::quoted(&self.scope.qualified(pool)));
        let field = |(name, value): &(&'static str, String)| match &pool {
            Some(pool) if *name == "pool" => (*name, pool.clone()),
            _ => (*name, value.clone()),
        };
        let args = SentHeartbeat {
            worker: &escape(&self.scope.worker(&beat.worker)),
            state: beat.state.map(WorkerState::name),
            visibility: beat.visibility_ms,
            testing: self.core.settings.test_directives,
            tenant: &self.scope.word(),
            registers,
            how: beat.preference.as_ref().map(|preference| preference.word(&self.scope)),
            fields: beat.fields.iter().map(field).collect(),
            jobs,
        };
        match HEARTBEAT.call_packed(&self.core, &args).await? {
            HeartbeatOutcome::OtherPool(pool) => Err(Error::OtherPool(pool)),
            HeartbeatOutcome::Accepted(reply) => Ok(reply),
        }
    }

    /// Removes a worker and makes its jobs available again. Returns the number of those jobs, or
    /// `None` if the worker is unknown.
    pub async fn deregister(&self, worker: &str) -> Result<Option<usize>, Error> {
        let worker = escape(&self.scope.worker(worker));
        let (mut known, mut handed_back) = (false, 0);
        loop {
            let done: Deregistered = DEREGISTER.call_packed(&self.core, &Deregister { worker: &worker }).await?;
            known |= done.known || done.handed_back > 0;
            handed_back += done.handed_back;
            if !done.more {
                return Ok(known.then_some(handed_back));
            }
        }
    }

    /// Returns the number of workers with a recent heartbeat.
    pub async fn worker_count(&self) -> Result<u64, Error> {
        let mut command = redis::cmd("ZCARD");
        command.arg(self.core.keys.workers());
        Ok(reply::number(self.core.command("workers", command).await?, "workers")? as u64)
    }
}
