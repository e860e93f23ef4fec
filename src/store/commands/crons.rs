//! Crons: registered under a name, and fired at most once for each scheduled time.

use super::jobs::{self, Enqueued};
use super::script::{CRON_FIRE, CRON_LIST, CRON_REGISTER, CRON_REMOVE, CRON_RETIME};
use super::{Error, Store};
use crate::domain::cron::{CronJob, CronSkip};
use crate::domain::job::{NewJob, Record};
use crate::domain::json;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Largest number of crons. All of them may be due in the same minute.
pub const MOST_CRONS: usize = 10_000;

/// Number of crons that one call retimes; bounds how long the call occupies Redis.
const RETIMED_A_CALL: usize = 1000;

/// A cron as it is stored.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
pub struct StoredCron {
    /// The name in the store, with the namespace of the tenant that registered it.
    pub name: String,
    /// The text that [`CronJob::document`] returned.
    pub document: String,
    /// Changes with every registration.
    pub version: String,
    pub created: i64,
    /// Time of the next firing in milliseconds; `None` while the cron is disabled.
    pub next: Option<i64>,
    /// The scheduled time of the last firing, in milliseconds.
    pub last: Option<i64>,
    pub runs: u64,
}

/// A page of crons, read at one moment.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct CronPage {
    /// The store's time in milliseconds.
    pub now: i64,
    /// When the first of all crons is due.
    pub first: Option<i64>,
    /// Number of crons that match the query, on all pages.
    pub total: usize,
    /// Set if the clock was set back after next times were computed. Pass it to
    /// [`Store::retime_crons`].
    pub outdated: Option<String>,
    pub crons: Vec<StoredCron>,
}

/// The outcome of registering a cron.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum RegisterCronOutcome {
    Created,
    Changed,
    /// Another client changed the cron since the given version.
    Stale,
    /// There are [`MOST_CRONS`] crons already.
    Full,
}

/// A cron's job, if it has one.
pub enum PreparedCronJob {
    /// The job and the version of the plan rules that it was prepared under.
    Job { job: Box<NewJob>, rules: Arc<str> },
    /// There is no job.
    Skip(CronSkip),
}

/// A cron to fire.
pub struct Firing<'a> {
    /// The cron's name in the store.
    pub name: &'a str,
    pub cron: &'a CronJob,
    /// The version that the caller has read.
    pub version: &'a str,
    /// The scheduled time; `None` if a person triggered the cron.
    pub at: Option<i64>,
    /// The scheduled time after this one.
    pub next: Option<i64>,
}

/// The outcome of firing a cron.
#[derive(Clone, Debug)]
pub enum FireCronOutcome {
    /// The job is stored.
    Stored(Box<Record>),
    /// Another process has fired the cron, or it was changed or removed.
    Gone,
    /// The plan rules have changed since the job was prepared.
    Stale,
    /// No job was stored; the reason, and the job that caused it, if one did.
    Skipped { reason: CronSkip, job: Option<String> },
}

#[derive(Serialize)]
struct CronRegister<'a> {
    name: &'a str,
    before: Option<&'a str>,
    version: &'a str,
    document: &'a str,
    timing: &'a str,
    next: Option<i64>,
    most: usize,
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum CronList<'a> {
    One { name: &'a str },
    Due { most: usize },
    Page { offset: usize, limit: usize, enabled: Option<bool> },
}

/// A cron whose next time changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RetimedCron {
    pub name: String,
    /// The next time as it was read.
    pub before: i64,
    pub after: i64,
}

#[derive(Serialize)]
struct CronRetime<'a> {
    /// The shift of the clock for which all next times are correct after this call.
    shift: Option<&'a str>,
    crons: &'a [RetimedCron],
}

#[derive(Serialize)]
struct CronFire<'a> {
    name: &'a str,
    version: &'a str,
    at: Option<i64>,
    next: Option<i64>,
    overlap: &'a str,
    expression: &'a str,
    no_job: Option<&'a str>,
    r#type: &'a str,
    queue: &'a str,
    id: Option<&'a str>,
    rules: Option<&'a str>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Fired {
    /// The answer to the request with the job.
    Answer(String),
    Gone,
    Stale,
    Skipped {
        reason: CronSkip,
        job: Option<String>,
    },
}

impl Store {
    /// Registers a cron. With `version`, replaces the cron if it still has that version. `next` is
    /// its next time in milliseconds; `None` if it is disabled.
    pub async fn register_cron(
        &self,
        cron: &CronJob,
        version: Option<&str>,
        next: Option<i64>,
    ) -> Result<RegisterCronOutcome, Error> {
        let args = CronRegister {
            name: &self.scope.qualified(&cron.name),
            before: version,
            version: &crate::domain::job::id::generate(),
            document: &cron.document(),
            timing: &cron.timing_text(),
            next,
            most: MOST_CRONS,
        };
        CRON_REGISTER.call_packed(&self.core, &args).await
    }

    /// Removes a cron. Jobs that it enqueued stay.
    pub async fn remove_cron(&self, name: &str) -> Result<(), Error> {
        #[derive(Serialize)]
        struct CronRemove<'a> {
            name: &'a str,
        }
        let _existed: bool =
            CRON_REMOVE.call_packed(&self.core, &CronRemove { name: &self.scope.qualified(name) }).await?;
        Ok(())
    }

    /// Disables a cron until it is registered again, by clearing its next time.
    pub async fn disable_cron(&self, name: &str) -> Result<(), Error> {
        let mut command = redis::cmd("ZADD");
        command.arg(self.core.keys.crons()).arg("XX").arg("+inf").arg(name);
        self.core.command("rest_cron", command).await.map(drop)
    }

    /// Returns a cron by its name; the page is empty if there is none.
    pub async fn cron(&self, name: &str) -> Result<CronPage, Error> {
        self.cron_page(&CronList::One { name: &self.scope.qualified(name) }).await
    }

    /// Returns a page of crons, sorted by name. `enabled` selects enabled or disabled ones.
    pub async fn crons(&self, offset: usize, limit: usize, enabled: Option<bool>) -> Result<CronPage, Error> {
        if !self.scope.owns_queues() {
            return self.cron_page(&CronList::Page { offset, limit, enabled }).await;
        }
        // The store has one list for all tenants, so filter and page here.
        let mut page = self.cron_page(&CronList::Page { offset: 0, limit: MOST_CRONS, enabled }).await?;
        page.crons.retain(|cron| self.scope.unqualified(&cron.name).is_some());
        page.total = page.crons.len();
        page.crons = page.crons.into_iter().skip(offset).take(limit).collect();
        Ok(page)
    }

    /// Returns crons that are due, the longest overdue first.
    pub async fn due_crons(&self, limit: usize) -> Result<CronPage, Error> {
        self.cron_page(&CronList::Due { most: limit }).await
    }

    /// Moves crons to earlier times. Skips crons that were fired or changed since they were read.
    /// `outdated` is [`CronPage::outdated`]; the last call records that all next times are correct
    /// again.
    pub async fn retime_crons(&self, crons: &[RetimedCron], outdated: &str) -> Result<(), Error> {
        let mut portions = crons.chunks(RETIMED_A_CALL).peekable();
        loop {
            let crons = portions.next().unwrap_or_default();
            let is_last = portions.peek().is_none();
            let args = CronRetime { shift: is_last.then_some(outdated), crons };
            let _changed: u64 = CRON_RETIME.call_packed(&self.core, &args).await?;
            if is_last {
                return Ok(());
            }
        }
    }

    async fn cron_page(&self, which: &CronList<'_>) -> Result<CronPage, Error> {
        CRON_LIST.call_packed(&self.core, which).await
    }

    /// Fires a cron: stores its job, or records the reason for having none, and sets the next time,
    /// all in one step.
    pub async fn fire_cron(&self, firing: &Firing<'_>, prepared: PreparedCronJob) -> Result<FireCronOutcome, Error> {
        let (request, no_job) = match prepared {
            PreparedCronJob::Job { job, rules } => (Some(jobs::EnqueueRequest::new(vec![*job], rules)), None),
            PreparedCronJob::Skip(reason) => (None, Some(reason.name())),
        };
        let (job, kind) = (request.as_ref().and_then(jobs::EnqueueRequest::first), firing.cron.kind());
        let args = CronFire {
            name: firing.name,
            version: firing.version,
            at: firing.at,
            next: firing.next,
            overlap: firing.cron.overlap.name(),
            expression: &json::quoted(&firing.cron.expression),
            no_job,
            r#type: job.map_or(&*kind, |job| &job.kind),
            queue: job.map_or("", |job| &job.queue),
            id: job.map(|job| &*job.id),
            rules: request.as_ref().map(jobs::EnqueueRequest::rules),
        };
        let push = |command: &mut redis::Cmd, again: bool| {
            request.iter().for_each(|request| jobs::push_request(command, request, again));
        };
        match (CRON_FIRE.call_packed_with_words(&self.core, &args, push).await?, request) {
            (Fired::Answer(answer), Some(request)) => {
                match jobs::enqueued(&self.core, "cron_fire", &answer, request.jobs)? {
                    Enqueued::Stored(records) => {
                        let record = records.into_iter().next().ok_or_else(|| Error::unreadable("cron_fire"))?;
                        Ok(FireCronOutcome::Stored(Box::new(record)))
                    }
                    // the script reports all other outcomes as skipped
                    _ => Err(Error::unreadable("cron_fire")),
                }
            }
            (Fired::Answer(_), None) => Err(Error::unreadable("cron_fire")),
            (Fired::Gone, _) => Ok(FireCronOutcome::Gone),
            (Fired::Stale, _) => Ok(FireCronOutcome::Stale),
            (Fired::Skipped { reason, job }, _) => Ok(FireCronOutcome::Skipped { reason, job }),
        }
    }
}
