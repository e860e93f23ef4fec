//! Crons: registered under a name, and fired at most once for each scheduled time.

use super::jobs::{self, Enqueued};
use super::reply;
use super::script::{CRON_FIRE, CRON_LIST, CRON_REGISTER, CRON_REMOVE, CRON_RETIME};
use super::{Error, Store, or_empty};
use crate::domain::cron::{CronJob, CronSkip};
use crate::domain::job::{NewJob, Record};
use crate::domain::json;
use redis::Value;
use std::sync::Arc;

/// Largest number of crons. All of them may be due in the same minute.
pub const MOST_CRONS: usize = 10_000;

/// Number of crons that one call retimes; bounds how long the call occupies Redis.
const RETIMED_A_CALL: usize = 1000;

/// A cron as it is stored.
#[derive(Clone, Debug, Default, PartialEq)]
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
#[derive(Clone, Debug, Default)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

/// An earlier next time of a cron, in milliseconds.
#[derive(Clone, Debug)]
pub struct EarlierTime {
    /// The cron's name in the store.
    pub name: String,
    /// The next time as it was read.
    pub before: i64,
    pub after: i64,
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

impl Store {
    /// Registers a cron. With `version`, replaces the cron if it still has that version. `next` is
    /// its next time in milliseconds; `None` if it is disabled.
    pub async fn register_cron(
        &self,
        cron: &CronJob,
        version: Option<&str>,
        next: Option<i64>,
    ) -> Result<RegisterCronOutcome, Error> {
        let (new, name) = (crate::domain::job::id::generate(), self.scope.qualified(&cron.name));
        let answer = CRON_REGISTER
            .call(&self.core.connection, |command, _| {
                self.core.begin(command).arg(&*name).arg(version.unwrap_or_default()).arg(&new);
                command.arg(cron.document()).arg(cron.timing_text()).arg(or_empty(next.map(|at| at as u64)));
                command.arg(MOST_CRONS);
            })
            .await?;
        match reply::text(answer, "cron_register")?.as_str() {
            "created" => Ok(RegisterCronOutcome::Created),
            "changed" => Ok(RegisterCronOutcome::Changed),
            "stale" => Ok(RegisterCronOutcome::Stale),
            "full" => Ok(RegisterCronOutcome::Full),
            _ => Err(Error::unreadable("cron_register")),
        }
    }

    /// Removes a cron. Jobs that it enqueued stay.
    pub async fn remove_cron(&self, name: &str) -> Result<(), Error> {
        let name = self.scope.qualified(name);
        CRON_REMOVE.call(&self.core.connection, |command, _| _ = self.core.begin(command).arg(&*name)).await.map(drop)
    }

    /// Disables a cron until it is registered again, by clearing its next time.
    pub async fn disable_cron(&self, name: &str) -> Result<(), Error> {
        let mut command = redis::cmd("ZADD");
        command.arg(self.core.keys.crons()).arg("XX").arg("+inf").arg(name);
        self.core.command("rest_cron", command).await.map(drop)
    }

    /// Returns a cron by its name; the page is empty if there is none.
    pub async fn cron(&self, name: &str) -> Result<CronPage, Error> {
        self.cron_page(&["one", &self.scope.qualified(name)]).await
    }

    /// Returns a page of crons, sorted by name. `enabled` selects enabled or disabled ones.
    pub async fn crons(&self, offset: usize, limit: usize, enabled: Option<bool>) -> Result<CronPage, Error> {
        let which = match enabled {
            None => "",
            Some(true) => "on",
            Some(false) => "off",
        };
        if !self.scope.owns_queues() {
            return self.cron_page(&["page", &offset.to_string(), &limit.to_string(), which]).await;
        }
        // The store has one list for all tenants, so filter and page here.
        let mut page = self.cron_page(&["page", "0", &MOST_CRONS.to_string(), which]).await?;
        page.crons.retain(|cron| self.scope.unqualified(&cron.name).is_some());
        page.total = page.crons.len();
        page.crons = page.crons.into_iter().skip(offset).take(limit).collect();
        Ok(page)
    }

    /// Returns crons that are due, the longest overdue first.
    pub async fn due_crons(&self, limit: usize) -> Result<CronPage, Error> {
        self.cron_page(&["due", &limit.to_string()]).await
    }

    /// Moves crons to earlier times. Skips crons that were fired or changed since they were read. `outdated` is [`CronPage::outdated`]; the last
    /// call records that all next times are correct again.
    pub async fn retime_crons(&self, times: &[EarlierTime], outdated: &str) -> Result<(), Error> {
        let mut portions = times.chunks(RETIMED_A_CALL).peekable();
        loop {
            let portion = portions.next().unwrap_or_default();
            let done = if portions.peek().is_none() { outdated } else { "" };
            let fill = |command: &mut redis::Cmd, _: bool| {
                self.core.begin(command).arg(done);
                portion.iter().for_each(|time| _ = command.arg(&time.name).arg(time.before).arg(time.after));
            };
            CRON_RETIME.call(&self.core.connection, fill).await?;
            if !done.is_empty() {
                return Ok(());
            }
        }
    }

    async fn cron_page(&self, words: &[&str]) -> Result<CronPage, Error> {
        let answer =
            CRON_LIST.call(&self.core.connection, |command, _| _ = self.core.begin(command).arg(words)).await?;
        let mut parts = reply::array(answer, "cron_list")?.into_iter();
        let mut next = || parts.next().unwrap_or(Value::Nil);
        let mut page = CronPage {
            now: reply::number(next(), "cron_list")?,
            first: time(&reply::text(next(), "cron_list")?),
            total: reply::number(next(), "cron_list")? as usize,
            outdated: Some(reply::text(next(), "cron_list")?).filter(|shift| !shift.is_empty()),
            crons: Vec::new(),
        };
        while let (Some(name), Some(score), Some(fields)) = (parts.next(), parts.next(), parts.next()) {
            let fields = reply::texts(fields, "cron_list")?;
            let [document, version, created, last, runs, _job] =
                <[String; 6]>::try_from(fields).map_err(|_| Error::unreadable("cron_list"))?;
            page.crons.push(StoredCron {
                name: reply::text(name, "cron_list")?,
                document,
                version,
                created: reply::parse(&created, "cron_list")?,
                next: time(&reply::text(score, "cron_list")?),
                last: time(&last),
                runs: runs.parse().unwrap_or(0),
            });
        }
        Ok(page)
    }

    /// Fires a cron: stores its job, or records the reason for having none, and sets the next time,
    /// all in one step.
    pub async fn fire_cron(&self, firing: &Firing<'_>, prepared: PreparedCronJob) -> Result<FireCronOutcome, Error> {
        let at = |at: Option<i64>| or_empty(at.map(|at| at as u64));
        let expression = json::quoted(&firing.cron.expression);
        let kind = firing.cron.kind();
        let (request, no_job) = match prepared {
            PreparedCronJob::Job { job, rules } => (Some(jobs::EnqueueRequest::new(vec![*job], rules)), ""),
            PreparedCronJob::Skip(reason) => (None, reason.name()),
        };
        let answer = CRON_FIRE
            .call(&self.core.connection, |command, again| {
                self.core.begin(command).arg(firing.name).arg(firing.version);
                command
                    .arg(at(firing.at))
                    .arg(at(firing.next))
                    .arg(firing.cron.overlap.name())
                    .arg(&expression)
                    .arg(no_job);
                let job = request.as_ref().and_then(jobs::EnqueueRequest::first);
                command.arg(job.map_or(&*kind, |job| &job.kind)).arg(job.map_or("", |job| &job.queue));
                request.iter().for_each(|request| jobs::push_request(command, request, again));
            })
            .await?;
        let mut parts = reply::array(answer, "cron_fire")?.into_iter();
        let tag = reply::text(parts.next().unwrap_or(Value::Nil), "cron_fire")?;
        let mut next = || parts.next().unwrap_or(Value::Nil);
        match (tag.as_str(), request) {
            ("ok", Some(request)) => {
                match jobs::enqueued(&self.core, "cron_fire", &reply::text(next(), "cron_fire")?, request.jobs)? {
                    Enqueued::Stored(records) => {
                        let record = records.into_iter().next().ok_or_else(|| Error::unreadable("cron_fire"))?;
                        Ok(FireCronOutcome::Stored(Box::new(record)))
                    }
                    // the script reports all other outcomes as skipped
                    _ => Err(Error::unreadable("cron_fire")),
                }
            }
            ("gone", _) => Ok(FireCronOutcome::Gone),
            ("stale", _) => Ok(FireCronOutcome::Stale),
            ("skipped", _) => {
                let reason = CronSkip::from_name(&reply::text(next(), "cron_fire")?);
                Ok(FireCronOutcome::Skipped {
                    reason: reason.ok_or_else(|| Error::unreadable("cron_fire"))?,
                    job: Some(reply::text(next(), "cron_fire")?).filter(|job| !job.is_empty()),
                })
            }
            _ => Err(Error::unreadable("cron_fire")),
        }
    }
}

/// Parses a time in milliseconds. `None` if the text is empty or infinite.
fn time(text: &str) -> Option<i64> {
    text.parse::<f64>().ok().filter(|at| at.is_finite()).map(|at| at as i64)
}
