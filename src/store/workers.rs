//! Verbs on workers: signs of life and goodbyes.

use super::codec::wire;
use super::reply;
use super::script::{DEREGISTER, HEARTBEAT, WORKER_DIRECTIVE};
use super::{Error, Store, or_empty};
use crate::fairness::{Strategy, Weight};
use crate::job::escape::{escape, unescape};
use crate::job::{Scope, json};
use std::collections::BTreeMap;

/// A sign of life.
#[derive(Clone, Debug, Default)]
pub struct Heartbeat {
    pub worker: String,
    /// What the worker says of itself.
    pub state: Option<String>,
    pub visibility_ms: Option<u64>,
    /// Jobs whose reservations it extends.
    pub jobs: Vec<String>,
    /// The pool that it is of.
    pub pool: Option<String>,
    /// Whether it registers, and may come to another pool.
    pub registers: bool,
    /// How it chooses among queues, where neither a pool nor a request says it.
    pub preference: Option<Preference>,
    /// What the worker tells about itself, kept with its record.
    pub fields: Vec<(&'static str, String)>,
}

/// A strategy that a worker registers, and the weights of queues.
#[derive(Clone, Debug, PartialEq)]
pub struct Preference {
    pub strategy: Strategy,
    pub weights: Vec<(String, Weight)>,
}

impl Preference {
    /// As scripts read it: `strategy queue weight …`.
    fn word(&self, scope: &Scope) -> String {
        let weights = self.weights.iter();
        let weights = weights.map(|(queue, weight)| format!(" {} {}", scope.qualified(queue), weight.thousandths()));
        self.strategy.name().to_owned() + &weights.collect::<String>()
    }
}

/// The answer to a sign of life.
#[derive(Clone, Debug, PartialEq)]
pub struct Beat {
    /// What the worker should do: `running`, `quiet` or `terminate`.
    pub directive: String,
    pub server_time: i64,
    pub extended: Vec<String>,
    /// Jobs it named that were cancelled meanwhile.
    pub cancelled: Vec<String>,
}

/// A worker as it told of itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Worker {
    pub id: String,
    /// When it was last heard of.
    pub seen: i64,
    /// What it says of itself.
    pub state: String,
    /// What it was told to do.
    pub directive: String,
    /// When it was first heard of.
    pub since: Option<i64>,
    /// What it told about itself, as JSON.
    pub told: BTreeMap<String, String>,
}

/// What became of an order to a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Directed {
    Done,
    Missing,
    /// It was told to terminate, and does not go back.
    Terminates,
}

/// Reservations that one call extends, which bounds how long Redis is busy with it.
const JOBS_A_BEAT: usize = 200;

/// Workers that a list looks at.
const MOST_WORKERS: isize = 10_000;

impl Store {
    /// A worker by its name.
    pub async fn worker(&self, id: &str) -> Result<Option<Worker>, Error> {
        let mut command = redis::cmd("HGETALL");
        command.arg(self.core.keys.worker(&escape(&self.scope.worker(id))));
        let mut told: BTreeMap<String, String> =
            reply::pairs(self.core.command("worker", command).await?, "worker")?.into_iter().collect();
        let Some(seen) = told.remove("seen").and_then(|seen| seen.parse().ok()) else { return Ok(None) };
        let mut take = |name: &str| told.remove(name);
        take("how");
        let (state, directive) = (take("state").unwrap_or_default(), take("directive").unwrap_or_default());
        let since = take("since").and_then(|since| since.parse().ok());
        if let Some(pool) = told.get_mut("pool")
            && let Some(name) = json::text(pool)
        {
            *pool = json::quoted(self.scope.unqualified(&name).unwrap_or(&name));
        }
        Ok(Some(Worker { id: id.to_owned(), seen, state, directive, since, told }))
    }

    /// All workers that were heard of lately, by name.
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

    /// Ids of up to a hundred jobs that a worker holds.
    pub async fn held_by(&self, worker: &str) -> Result<Vec<String>, Error> {
        let name = escape(&self.scope.worker(worker));
        let mut command = redis::cmd("ZRANGEBYLEX");
        // The range ends before the character that follows the separator, a space.
        command.arg(self.core.keys.leased()).arg(format!("[{name}{}", wire::UNIT)).arg(format!("({name} "));
        command.arg("LIMIT").arg(0).arg(100);
        let members = reply::texts(self.core.command("held", command).await?, "held")?;
        let ids = members.iter().filter_map(|member| wire::values(member).nth(1)).map(str::to_owned);
        match self.scope.tenant() {
            None => Ok(ids.collect()),
            // A worker that tenants share holds jobs of others, too.
            Some(_) => Ok(self.jobs(&ids.collect::<Vec<_>>()).await?.into_iter().map(|record| record.id).collect()),
        }
    }

    /// Tells a worker to go on, to take no more jobs, or to end.
    pub async fn direct(&self, worker: &str, directive: &str) -> Result<Directed, Error> {
        let fill = |command: &mut redis::Cmd, _: bool| {
            self.core.begin(command).arg(escape(&self.scope.worker(worker))).arg(directive);
        };
        match reply::text(WORKER_DIRECTIVE.call(&self.core.connection, fill).await?).as_str() {
            "ok" => Ok(Directed::Done),
            "missing" => Ok(Directed::Missing),
            "terminate" => Ok(Directed::Terminates),
            _ => Err(Error::unreadable("direct")),
        }
    }

    /// Records a sign of life and extends the reservations that it names, in portions.
    pub async fn heartbeat(&self, beat: &Heartbeat) -> Result<Beat, Error> {
        let (first, rest) = beat.jobs.split_at(beat.jobs.len().min(JOBS_A_BEAT));
        let mut answer = self.beat(beat, first, beat.registers).await?;
        for jobs in rest.chunks(JOBS_A_BEAT) {
            let more = self.beat(beat, jobs, false).await?;
            answer.extended.extend(more.extended);
            answer.cancelled.extend(more.cancelled);
            if severity(&more.directive) > severity(&answer.directive) {
                answer.directive = more.directive;
            }
        }
        Ok(answer)
    }

    async fn beat(&self, beat: &Heartbeat, jobs: &[String], registers: bool) -> Result<Beat, Error> {
        let answer = HEARTBEAT
            .call(&self.core.connection, |command, _| {
                let testing = self.core.settings.test_directives;
                self.core
                    .begin(command)
                    .arg(escape(&self.scope.worker(&beat.worker)))
                    .arg(beat.state.as_deref().unwrap_or(""));
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
        let directive = reply::text(next()?);
        if directive == "pool" {
            return Err(Error::OtherPool(reply::text(next()?)));
        }
        Ok(Beat {
            directive,
            server_time: reply::number(next()?),
            extended: reply::texts(next()?, "heartbeat")?,
            cancelled: reply::texts(next()?, "heartbeat")?,
        })
    }

    /// Removes a worker; what it still held is available again. How many jobs that were, or `None` if it is unknown.
    pub async fn deregister(&self, worker: &str) -> Result<Option<usize>, Error> {
        let (mut known, mut handed_back) = (false, 0);
        loop {
            let answer = DEREGISTER
                .call(&self.core.connection, |command, again| {
                    self.core.begin(command).arg(escape(&self.scope.worker(worker))).arg(u8::from(again));
                })
                .await?;
            let numbers: Vec<i64> = reply::array(answer, "deregister")?.into_iter().map(reply::number).collect();
            let [was_known, jobs, more] = numbers[..] else { return Err(Error::unreadable("deregister")) };
            known |= was_known == 1 || jobs > 0;
            handed_back += jobs as usize;
            if more == 0 {
                return Ok(known.then_some(handed_back));
            }
        }
    }

    /// How many workers have been heard of lately.
    pub async fn worker_count(&self) -> Result<u64, Error> {
        let mut command = redis::cmd("ZCARD");
        command.arg(self.core.keys.workers());
        Ok(reply::number(self.core.command("workers", command).await?) as u64)
    }
}

/// Rank of a directive: a worker follows the highest that it is given.
fn severity(directive: &str) -> usize {
    ["running", "quiet", "terminate"].iter().position(|known| *known == directive).unwrap_or(0)
}
