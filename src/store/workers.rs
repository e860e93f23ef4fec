//! Workers: heartbeats, directives and deregistration.

use super::codec::wire;
use super::reply;
use super::script::{DEREGISTER, HEARTBEAT, WORKER_DIRECTIVE};
use super::{Error, Store, or_empty};
use crate::domain::escape::{escape, unescape};
use crate::domain::json;
use crate::domain::pool::{Directive, Strategy, WorkerState};
use crate::domain::tenant::{Scope, Weight};
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
#[derive(Clone, Debug, PartialEq)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
        let members = reply::texts(self.core.command("held", command).await?, "held")?;
        let ids = members.iter().filter_map(|member| wire::values(member).nth(1)).map(str::to_owned);
        match self.scope.tenant() {
            None => Ok(ids.collect()),
            // A shared worker may hold jobs of other tenants too.
            Some(_) => Ok(self.jobs(&ids.collect::<Vec<_>>()).await?.into_iter().map(|record| record.id).collect()),
        }
    }

    /// Sets a worker's directive: run, fetch no more jobs, or terminate.
    pub async fn set_directive(&self, worker: &str, directive: Directive) -> Result<SetDirectiveOutcome, Error> {
        let fill = |command: &mut redis::Cmd, _: bool| {
            self.core.begin(command).arg(escape(&self.scope.worker(worker))).arg(directive.name());
        };
        match reply::text(WORKER_DIRECTIVE.call(&self.core.connection, fill).await?, "worker_directive")?.as_str() {
            "ok" => Ok(SetDirectiveOutcome::Done),
            "missing" => Ok(SetDirectiveOutcome::Missing),
            "terminate" => Ok(SetDirectiveOutcome::Terminates),
            _ => Err(Error::unreadable("worker_directive")),
        }
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
        let answer = HEARTBEAT
            .call(&self.core.connection, |command, _| {
                let testing = self.core.settings.test_directives;
                self.core
                    .begin(command)
                    .arg(escape(&self.scope.worker(&beat.worker)))
                    .arg(beat.state.map_or("", WorkerState::name));
                command.arg(or_empty(beat.visibility_ms)).arg(u8::from(testing)).arg(self.scope.word());
                let preference = beat.preference.as_ref().map(|preference| ("how", preference.word(&self.scope)));
                let registers = registers.then(|| ("registers", "1".to_owned()));
                let added: Vec<(&str, String)> = [preference, registers].into_iter().flatten().collect();
                command.arg(beat.fields.len() + added.len());
                added.iter().for_each(|(name, value)| _ = command.arg(*name).arg(value));
                let pool = beat.pool.as_deref().map(|pool| json::quoted(&self.scope.qualified(pool)));
                for (name, value) in &beat.fields {
                    command.arg(*name).arg(pool.as_ref().filter(|_| *name == "pool").unwrap_or(value));
                }
                command.arg(jobs);
            })
            .await?;
        let mut parts = reply::array(answer, "heartbeat")?.into_iter();
        let mut next = || parts.next().ok_or_else(|| Error::unreadable("heartbeat"));
        let directive = reply::text(next()?, "heartbeat")?;
        if directive == "pool" {
            return Err(Error::OtherPool(reply::text(next()?, "heartbeat")?));
        }
        Ok(HeartbeatReply {
            directive: Directive::from_name(&directive).ok_or_else(|| Error::unreadable("heartbeat"))?,
            server_time: reply::number(next()?, "heartbeat")?,
            extended: reply::texts(next()?, "heartbeat")?,
            cancelled: reply::texts(next()?, "heartbeat")?,
        })
    }

    /// Removes a worker and makes its jobs available again. Returns the number of those jobs, or
    /// `None` if the worker is unknown.
    pub async fn deregister(&self, worker: &str) -> Result<Option<usize>, Error> {
        let (mut known, mut handed_back) = (false, 0);
        loop {
            let answer = DEREGISTER
                .call(&self.core.connection, |command, again| {
                    self.core.begin(command).arg(escape(&self.scope.worker(worker))).arg(u8::from(again));
                })
                .await?;
            let [was_known, jobs, more] = reply::parts(answer, "deregister")?;
            let number = |value| reply::number(value, "deregister");
            let (was_known, jobs, more) = (number(was_known)?, number(jobs)?, number(more)?);
            known |= was_known == 1 || jobs > 0;
            handed_back += jobs as usize;
            if more == 0 {
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
