//! Verbs for main queues that are not ours: promotion out of our Redis, the outbox, what comes in from there.

use super::codec::wire;
use super::jobs::{self, Enqueued};
use super::promotion::{self, Promoted};
use super::script::{INBOX_IMPORT, OUTBOX_CONFIRM, OUTBOX_PROMOTE, TAKE_BACK};
use super::{Error, Store, reply};
use crate::job::{NewJob, id, json};
use std::sync::Arc;

/// Entries of an outbox that are read at once.
const ENTRIES_PER_READ: i64 = 16;

/// How promoted jobs reach a Sidekiq.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeliveryRoute {
    /// It lives in our database: a promotion is one script.
    Here,
    /// It lives in another database of our Redis: a promotion is one script that goes there and back.
    Database { theirs: u32, ours: u32 },
    /// It lives elsewhere: a promotion puts jobs into an outbox, from where they are delivered.
    Outbox { origin: String },
}

/// What a promotion hands its jobs to.
#[derive(Clone, Debug)]
pub struct Destination {
    /// The main queue's name.
    pub name: String,
    /// What its keys start with.
    pub prefix: String,
    pub route: DeliveryRoute,
}

/// An entry of an outbox: jobs that were promoted together, or taken out of staging together to be handed back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutboxEntry {
    /// Tells the outboxes of different fairgates apart.
    pub origin: String,
    pub sequence: u64,
    /// Empty for jobs that are handed back.
    pub queue: String,
    /// Of jobs that are handed back, each with its tenant before it.
    pub payloads: Vec<String>,
}

/// A promoted job that the other system does not want.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Returned {
    pub id: String,
    /// What was said about it.
    pub code: String,
    pub message: String,
    /// Whether somebody should look at it.
    pub is_dead: bool,
}

/// An entry of an inbox, brought into the form in which it is stored.
pub struct Inbox<'a> {
    /// The main queue whose jobs it holds.
    pub main_queue: &'a str,
    pub name: &'a str,
    /// The sequence up to which it had been taken in.
    pub before: u64,
    /// The sequence of the last entry that is taken in now.
    pub after: u64,
    /// The token of the release that takes them in to hand them back; empty if they are to be promoted.
    pub release: &'a str,
}

/// What became of entries of an inbox.
#[derive(Clone, Debug)]
pub enum TakenIn {
    Stored,
    /// Somebody else took them in.
    Before,
    /// Other plan rules hold than those they were prepared under.
    Stale,
    /// A plan rule has as many jobs staged as it may: they have to wait.
    Full {
        rule: String,
    },
    /// A release hands jobs of the main queue back; or, to a release, it holds no more.
    Released,
}

impl Store {
    /// What tells this store from any other, now and later: outboxes and inboxes are named by it.
    pub async fn origin(&self) -> Result<String, Error> {
        let mut set = redis::cmd("HSETNX");
        set.arg(self.core.keys.state()).arg("origin").arg(id::generate());
        self.core.command("origin", set).await?;
        let mut get = redis::cmd("HGET");
        get.arg(self.core.keys.state()).arg("origin");
        Ok(reply::text(self.core.command("origin", get).await?))
    }

    /// The prefix of all keys of this store.
    pub fn prefix(&self) -> &str {
        &self.core.keys.prefix
    }

    /// Whether scripts may go to another database.
    pub async fn can_select(&self, database: u32) -> Result<(), Error> {
        let mut command = redis::cmd("EVAL");
        command.arg("redis.call('SELECT', ARGV[1]) return redis.call('EXISTS', 'queues')").arg(0).arg(database);
        self.core.command("select", command).await.map(drop)
    }

    /// Promotes up to `jobs` staged jobs into a queue of another system, or into the outbox on their way there.
    pub async fn forward(
        &self,
        rule: &str,
        token: &str,
        queue: &str,
        jobs: u64,
        destination: &Destination,
    ) -> Result<Promoted, Error> {
        let call_id = id::generate();
        let fill = |command: &mut redis::Cmd, again: bool| {
            let command = self.core.begin(command).arg(rule).arg(token).arg(queue).arg(jobs);
            command.arg(&call_id).arg(u8::from(again)).arg(&destination.name);
            match &destination.route {
                DeliveryRoute::Here => command.arg("here").arg(&destination.prefix),
                DeliveryRoute::Database { theirs, ours } => {
                    command.arg("database").arg(&destination.prefix).arg(theirs).arg(ours)
                }
                DeliveryRoute::Outbox { origin } => command.arg("outbox").arg(origin),
            };
        };
        promotion::promoted(OUTBOX_PROMOTE.call(&self.core.connection, fill).await?)
    }

    /// The first entries of the outbox of a rule, or of a source of jobs that are handed back.
    pub async fn outbox(&self, name: &str) -> Result<Vec<OutboxEntry>, Error> {
        let mut command = redis::cmd("LRANGE");
        command.arg(self.core.keys.outbox(name)).arg(0).arg(ENTRIES_PER_READ - 1);
        let entries = reply::texts(self.core.command("outbox", command).await?, "outbox")?;
        entries.iter().map(|entry| parse_entry(entry).ok_or_else(|| Error::unreadable("outbox"))).collect()
    }

    /// Takes what has been delivered out of an outbox.
    pub async fn confirm(&self, name: &str, sequence: u64) -> Result<(), Error> {
        let fill = |command: &mut redis::Cmd, _: bool| _ = self.core.begin(command).arg(name).arg(sequence);
        OUTBOX_CONFIRM.call(&self.core.connection, fill).await.map(drop)
    }

    /// Takes back promoted jobs that the other system does not want: they are discarded, as dead letters where somebody should look.
    pub async fn take_back(&self, jobs: &[Returned]) -> Result<(), Error> {
        let fill = |command: &mut redis::Cmd, _: bool| {
            let command = self.core.begin(command);
            for Returned { id, code, message, is_dead } in jobs {
                let (code, message) = (json::quoted(code), json::quoted(message));
                let error = format!("\"code\":{code},\"message\":{message},\"retryable\":false");
                command.arg(id).arg(format!("\"type\":\"main_queue\",{error}")).arg(format!("{{{error}}}"));
                command.arg(u8::from(*is_dead));
            }
        };
        let gone = reply::texts(TAKE_BACK.call(&self.core.connection, fill).await?, "take_back")?;
        for id in gone {
            tracing::error!(
                id,
                "a job that its main queue does not want was kept for too short: raise retention.completed"
            );
        }
        Ok(())
    }

    /// The sequence up to which an inbox has been taken in.
    pub async fn taken_in(&self, inbox: &str) -> Result<u64, Error> {
        let mut command = redis::cmd("HGET");
        command.arg(self.core.keys.inboxes()).arg(inbox);
        Ok(reply::number(self.core.command("inbox", command).await?).max(0) as u64)
    }

    /// Stages what came through an inbox: all of it, and once.
    pub async fn take_in(&self, inbox: &Inbox<'_>, jobs: Vec<NewJob>, rules: Arc<str>) -> Result<TakenIn, Error> {
        let fill = |command: &mut redis::Cmd, _: bool| {
            let command = self.core.begin(command).arg(inbox.name).arg(inbox.before).arg(inbox.after);
            command.arg(&*rules).arg(inbox.main_queue).arg(inbox.release).arg(jobs.len());
            jobs.iter().for_each(|job| jobs::push_job(command, job));
        };
        let answer = reply::text(INBOX_IMPORT.call(&self.core.connection, fill).await?);
        match answer.as_str() {
            "taken" => return Ok(TakenIn::Before),
            "released" => return Ok(TakenIn::Released),
            // Without jobs there is nothing else to tell.
            "ok" => return Ok(TakenIn::Stored),
            _ => {}
        }
        Ok(match jobs::enqueued(&self.core, &answer, jobs)? {
            Enqueued::Full { rule, .. } => TakenIn::Full { rule },
            Enqueued::Stale(_) => TakenIn::Stale,
            Enqueued::Stored(_) | Enqueued::Duplicate { .. } => TakenIn::Stored,
            // Nothing that came through an inbox is unique, nor kept out by a bound or a tenant's limit.
            Enqueued::Exists { .. } | Enqueued::Bounded { .. } | Enqueued::Limited(_) => {
                return Err(Error::unreadable("drain"));
            }
        })
    }
}

fn parse_entry(entry: &str) -> Option<OutboxEntry> {
    let mut parts = wire::values(entry).map(str::to_owned);
    let (origin, sequence, queue) = (parts.next()?, parts.next()?.parse().ok()?, parts.next()?);
    Some(OutboxEntry { origin, sequence, queue, payloads: parts.collect() })
}
