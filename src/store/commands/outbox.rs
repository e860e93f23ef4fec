//! Operations for external main queues: promotion into them, the outbox, and imports from their
//! inbox.

use super::codec::wire;
use super::jobs::{self, Enqueued};
use super::promotion::{self, Promoted};
use super::script::{INBOX_IMPORT, OUTBOX_CONFIRM, OUTBOX_PROMOTE, TAKE_BACK};
use super::{Error, Store, reply};
use crate::domain::job::{NewJob, id};
use crate::domain::json;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Number of outbox entries that one call reads.
const ENTRIES_PER_READ: i64 = 16;

/// The route of promoted jobs to a Sidekiq.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DeliveryRoute {
    /// The Sidekiq uses the store's own database: a promotion is one script.
    Here,
    /// The Sidekiq uses another database of the store's Redis: a promotion is one script that
    /// switches databases.
    Database { theirs: u32, ours: u32 },
    /// The Sidekiq uses another Redis: a promotion puts jobs into an outbox, from where they are
    /// delivered.
    Outbox { origin: String },
}

/// The external main queue of a promotion.
#[derive(Clone, Debug)]
pub struct Destination {
    /// The main queue's name.
    pub name: String,
    /// Prefix of the Sidekiq's keys.
    pub prefix: String,
    pub route: DeliveryRoute,
}

/// An entry of an outbox: jobs that were promoted together, or unstaged together to be handed back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutboxEntry {
    /// The [origin](Store::origin) of the store that wrote the entry.
    pub origin: String,
    pub sequence: u64,
    /// The target queue; empty for jobs that are handed back.
    pub queue: String,
    /// Payloads of jobs. For jobs that are handed back, each payload follows its tenant.
    pub payloads: Vec<String>,
}

/// A promoted job that the external main queue rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Returned {
    pub id: String,
    /// The error code of the rejection.
    pub code: String,
    pub message: String,
    /// True if the job becomes a dead letter, for a person to inspect.
    pub is_dead: bool,
}

/// The entries of an inbox that one call imports.
pub struct Inbox<'a> {
    /// The main queue that the jobs come from.
    pub main_queue: &'a str,
    pub name: &'a str,
    /// The sequence up to which the inbox had been imported when the entries were read.
    pub before: u64,
    /// The sequence of the last entry of this import.
    pub after: u64,
    /// The token of the release that imports the jobs to hand them back; empty if they are to be
    /// promoted.
    pub release: &'a str,
}

/// The outcome of an import.
#[derive(Clone, Debug)]
pub enum ImportOutcome {
    Stored,
    /// Another process has imported the entries.
    AlreadyImported,
    /// The plan rules have changed since the jobs were prepared.
    Stale,
    /// A plan rule has reached its limit of staged jobs; the entries stay in the inbox.
    Full {
        rule: String,
    },
    /// A release of the main queue is in progress; if the import belongs to a release, that release
    /// has ended.
    Released,
}

#[derive(Serialize)]
struct OutboxConfirm<'a> {
    outbox: &'a str,
    delivered: u64,
}

#[derive(Serialize)]
struct TakeBack<'a> {
    jobs: Vec<TakenBack<'a>>,
}

#[derive(Serialize)]
struct TakenBack<'a> {
    id: &'a str,
    entry: String,
    error: String,
    is_dead: bool,
}

#[derive(Serialize)]
struct InboxImport<'a> {
    inbox: &'a str,
    before: u64,
    after: u64,
    version: &'a str,
    main: &'a str,
    release: Option<&'a str>,
    jobs: usize,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Imported {
    /// The answer to the request with the jobs.
    Answer(String),
    /// There were no jobs.
    Stored,
    Taken,
    Released,
}

impl Store {
    /// Returns the unique id of this store, which is created on the first call. Outboxes and
    /// inboxes are named by it.
    pub async fn origin(&self) -> Result<String, Error> {
        let mut set = redis::cmd("HSETNX");
        set.arg(self.core.keys.state()).arg("origin").arg(id::generate());
        self.core.command("origin", set).await?;
        let mut get = redis::cmd("HGET");
        get.arg(self.core.keys.state()).arg("origin");
        reply::text(self.core.command("origin", get).await?, "origin")
    }

    /// Returns the prefix of all keys of this store.
    pub fn prefix(&self) -> &str {
        &self.core.keys.prefix
    }

    /// Checks that scripts may switch to another database.
    pub async fn can_select(&self, database: u32) -> Result<(), Error> {
        let mut command = redis::cmd("EVAL");
        command.arg("redis.call('SELECT', ARGV[1]) return redis.call('EXISTS', 'queues')").arg(0).arg(database);
        self.core.command("select", command).await.map(drop)
    }

    /// Promotes up to `jobs` staged jobs into a queue of an external main queue, or into the outbox
    /// on their way there.
    pub async fn promote_external(
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

    /// Returns the first entries of an outbox. `name` is the rule, or the source to which jobs are
    /// handed back.
    pub async fn outbox(&self, name: &str) -> Result<Vec<OutboxEntry>, Error> {
        let mut command = redis::cmd("LRANGE");
        command.arg(self.core.keys.outbox(name)).arg(0).arg(ENTRIES_PER_READ - 1);
        let entries = reply::texts(self.core.command("outbox", command).await?, "outbox")?;
        entries.iter().map(|entry| parse_entry(entry).ok_or_else(|| Error::unreadable("outbox"))).collect()
    }

    /// Removes delivered entries from an outbox, up to `sequence`.
    pub async fn confirm_outbox(&self, name: &str, sequence: u64) -> Result<(), Error> {
        let args = OutboxConfirm { outbox: name, delivered: sequence };
        let _left: u64 = OUTBOX_CONFIRM.call_packed(&self.core, &args).await?;
        Ok(())
    }

    /// Takes back promoted jobs that the main queue rejected, and discards them; those marked as
    /// dead become dead letters.
    pub async fn take_back(&self, jobs: &[Returned]) -> Result<(), Error> {
        let jobs = jobs.iter().map(|Returned { id, code, message, is_dead }| {
            let (code, message) = (json::quoted(code), json::quoted(message));
            let members = format!("\"code\":{code},\"message\":{message},\"retryable\":false");
            let (entry, error) = (format!("\"type\":\"main_queue\",{members}"), format!("{{{members}}}"));
            TakenBack { id, entry, error, is_dead: *is_dead }
        });
        let gone: Vec<String> = TAKE_BACK.call_packed(&self.core, &TakeBack { jobs: jobs.collect() }).await?;
        for id in gone {
            tracing::error!(
                id,
                "the record of a job that its main queue rejected has expired; raise retention.completed"
            );
        }
        Ok(())
    }

    /// Returns the sequence up to which an inbox has been imported.
    pub async fn imported_up_to(&self, inbox: &str) -> Result<u64, Error> {
        let mut command = redis::cmd("HGET");
        command.arg(self.core.keys.inboxes()).arg(inbox);
        Ok(reply::number_or_zero(self.core.command("inbox", command).await?, "inbox")?.max(0) as u64)
    }

    /// Stages the jobs of an inbox: all of them or none, and exactly once.
    pub async fn import_inbox(
        &self,
        inbox: &Inbox<'_>,
        jobs: Vec<NewJob>,
        rules: Arc<str>,
    ) -> Result<ImportOutcome, Error> {
        let args = InboxImport {
            inbox: inbox.name,
            before: inbox.before,
            after: inbox.after,
            version: &rules,
            main: inbox.main_queue,
            release: Some(inbox.release).filter(|token| !token.is_empty()),
            jobs: jobs.len(),
        };
        let push = |command: &mut redis::Cmd, _: bool| jobs.iter().for_each(|job| jobs::push_job(command, job));
        let answer = match INBOX_IMPORT.call_packed_with_words(&self.core, &args, push).await? {
            Imported::Answer(answer) => answer,
            Imported::Stored => return Ok(ImportOutcome::Stored),
            Imported::Taken => return Ok(ImportOutcome::AlreadyImported),
            Imported::Released => return Ok(ImportOutcome::Released),
        };
        Ok(match jobs::enqueued(&self.core, "inbox_import", &answer, jobs)? {
            Enqueued::Full { rule, .. } => ImportOutcome::Full { rule },
            Enqueued::Stale(_) => ImportOutcome::Stale,
            Enqueued::Stored(_) | Enqueued::Duplicate { .. } => ImportOutcome::Stored,
            // Jobs of an inbox are never unique, and neither bounds nor tenants' limits apply to
            // them.
            Enqueued::Exists { .. } | Enqueued::Bounded { .. } | Enqueued::Limited(_) => {
                return Err(Error::unreadable("inbox_import"));
            }
        })
    }
}

fn parse_entry(entry: &str) -> Option<OutboxEntry> {
    let mut parts = wire::values(entry).map(str::to_owned);
    let (origin, sequence, queue) = (parts.next()?, parts.next()?.parse().ok()?, parts.next()?);
    Some(OutboxEntry { origin, sequence, queue, payloads: parts.collect() })
}
