//! Releases: handing staged jobs back to the Sidekiq that they came from.

use super::codec::wire;
use super::outbox::DeliveryRoute;
use super::script::{HOLD_RELEASE, LIST_STAGED, READ_STAGED, REGISTER_IMPORTER, UNSTAGE};
use super::{Error, Store, reply};
use crate::domain::escape::{escape, unescape};
use crate::domain::job::id;

/// Time in ms after which an importer that has not registered again counts as gone.
const IMPORTER_LIFE_MS: u64 = 10_000;
/// Time in ms after which a release ends unless it is renewed.
const RELEASE_LIFE_MS: u64 = 15_000;
/// Number of tenants whose jobs one call lists.
const TENANTS_LISTED: usize = 80;
/// Number of jobs that one call lists.
const JOBS_LISTED: usize = 100;

/// The outcome of starting or renewing a release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hold {
    Held,
    /// Another release of the main queue is in progress.
    Taken,
    /// A process imports jobs from a source of the main queue.
    Drained {
        process: String,
        /// Name of the source.
        from: String,
        /// Time since it last registered, in milliseconds.
        ago_ms: u64,
    },
}

/// The origin of a staged job.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CameFrom {
    /// The staging queue of a Sidekiq.
    StagingQueue,
    /// The keys of the gem sidekiq-fairplay for a class.
    Fairplay { class: String },
    /// Any other origin, such as the HTTP API.
    Elsewhere,
}

/// A staged job in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StagedEntry {
    pub id: String,
    /// The job's position in the order of staging.
    pub sequence: u64,
    /// Size of the job's record and envelope, in bytes.
    pub bytes: usize,
    pub came_from: CameFrom,
}

/// The stored parts of a staged job of a Sidekiq.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StagedText {
    /// Time of staging, in milliseconds.
    pub created: i64,
    /// The job's tenant in the gem sidekiq-fairplay; empty if it did not come from there.
    pub tenant: String,
    /// Template of the job's payload.
    pub template: String,
    pub args: String,
}

/// A source to which jobs are handed back. `words` are its arguments for `lua/sidekiq/restore.lua`.
pub struct ReleaseTarget {
    /// Name of the source, unique among all main queues.
    pub name: String,
    pub words: Vec<String>,
}

/// A job that is handed back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restored {
    pub id: String,
    /// The job's tenant in the gem sidekiq-fairplay; empty if it goes to a queue.
    pub tenant: String,
    /// The job's payload, or its arguments if it goes to the gem's keys.
    pub text: String,
}

/// The outcome of unstaging jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unstaged {
    /// The jobs have left staging, except those in `missing`, which were not staged any more.
    Done { missing: Vec<String> },
    /// The release has ended.
    Lost,
    /// The gem's locks have another owner; nothing has changed.
    Locked,
}

impl Store {
    /// Registers a process that imports jobs from a source of a main queue. Returns false while a
    /// release hands jobs back.
    pub async fn register_importer(&self, main_queue: &str, process: &str, source: &str) -> Result<bool, Error> {
        Ok(self.call_register_importer(main_queue, process, source, true).await? == 1)
    }

    /// Removes a process that has stopped importing jobs. Returns the number of other processes
    /// that import from the same source.
    pub async fn deregister_importer(&self, main_queue: &str, process: &str, source: &str) -> Result<u64, Error> {
        Ok(self.call_register_importer(main_queue, process, source, false).await?.max(0) as u64)
    }

    async fn call_register_importer(
        &self,
        main_queue: &str,
        process: &str,
        source: &str,
        imports: bool,
    ) -> Result<i64, Error> {
        let fill = |command: &mut redis::Cmd, _: bool| {
            let command = self.core.begin(command).arg(main_queue).arg(process).arg(source);
            command.arg(IMPORTER_LIFE_MS).arg(u8::from(imports));
        };
        reply::number(REGISTER_IMPORTER.call(&self.core.connection, fill).await?, "register_importer")
    }

    /// Starts or renews a release of a main queue under a token.
    pub async fn hold_release(&self, main_queue: &str, token: &str) -> Result<Hold, Error> {
        self.call_hold_release(main_queue, token, RELEASE_LIFE_MS).await
    }

    /// Ends a release.
    pub async fn end_release(&self, main_queue: &str, token: &str) -> Result<(), Error> {
        self.call_hold_release(main_queue, token, 0).await.map(drop)
    }

    async fn call_hold_release(&self, main_queue: &str, token: &str, life: u64) -> Result<Hold, Error> {
        let fill = |command: &mut redis::Cmd, _: bool| {
            self.core.begin(command).arg(main_queue).arg(token).arg(life).arg(IMPORTER_LIFE_MS);
        };
        let mut words =
            reply::texts(HOLD_RELEASE.call(&self.core.connection, fill).await?, "hold_release")?.into_iter();
        let mut next = || words.next().unwrap_or_default();
        Ok(match next().as_str() {
            "ok" => Hold::Held,
            "held" => Hold::Taken,
            "drained" => {
                let (who, ago) = (next(), next());
                let (process, from) = who.split_once(' ').unwrap_or((&who, ""));
                let ago_ms = reply::parse(&ago, "hold_release")?;
                Hold::Drained { process: process.to_owned(), from: from.to_owned(), ago_ms }
            }
            _ => return Err(Error::unreadable("hold_release")),
        })
    }

    /// Returns the queues for which a rule has staged jobs.
    pub async fn staged_queues(&self, rule: &str) -> Result<Vec<String>, Error> {
        let mut command = redis::cmd("ZRANGE");
        command.arg(self.core.keys.plan_queues(rule)).arg(0).arg(-1);
        reply::texts(self.core.command("queues", command).await?, "queues")
    }

    /// Lists all jobs that a rule has staged for a queue, in portions and in no particular order. A
    /// job may be listed more than once.
    pub async fn list_staged(
        &self,
        rule: &str,
        queue: &str,
        mut each: impl FnMut(Vec<StagedEntry>),
    ) -> Result<(), Error> {
        let mut cursor = 0;
        loop {
            let (next, names) = self.tenant_names(rule, queue, cursor, TENANTS_LISTED).await?;
            let tenants: Vec<String> = names.iter().map(|name| escape(name)).collect();
            for tenants in tenants.chunks(TENANTS_LISTED) {
                let (mut done, mut place) = (0, [String::new(), String::new()]);
                while done < tenants.len() {
                    let (complete, jobs);
                    (complete, place, jobs) = self.list_tenants(rule, queue, &tenants[done..], &place).await?;
                    done += complete;
                    each(jobs);
                }
            }
            cursor = next;
            if cursor == 0 {
                return Ok(());
            }
        }
    }

    /// Lists jobs of tenants. Returns the number of tenants that are complete, and the position in
    /// the next one to continue from.
    async fn list_tenants(
        &self,
        rule: &str,
        queue: &str,
        tenants: &[String],
        place: &[String; 2],
    ) -> Result<(usize, [String; 2], Vec<StagedEntry>), Error> {
        let fill = |command: &mut redis::Cmd, _: bool| {
            self.core.begin(command).arg(rule).arg(queue).arg(JOBS_LISTED).arg(place).arg(tenants);
        };
        let mut words = reply::texts(LIST_STAGED.call(&self.core.connection, fill).await?, "list_staged")?.into_iter();
        let unreadable = || Error::unreadable("list_staged");
        let complete = words.next().and_then(|number| number.parse().ok()).ok_or_else(unreadable)?;
        let place = [words.next().unwrap_or_default(), words.next().unwrap_or_default()];
        let jobs = words.map(|entry| staged_job(&entry).ok_or_else(unreadable)).collect::<Result<_, _>>()?;
        Ok((complete, place, jobs))
    }

    /// Reads staged jobs of a Sidekiq. Returns `None` for a job that is not staged any more.
    pub async fn read_staged(&self, ids: &[&str]) -> Result<Vec<Option<StagedText>>, Error> {
        let fill = |command: &mut redis::Cmd, _: bool| _ = self.core.begin(command).arg(ids);
        let answer = reply::array(READ_STAGED.call(&self.core.connection, fill).await?, "read_staged")?;
        let text = |words| {
            let words: Vec<String> = reply::texts(words, "read_staged")?;
            let Ok([created, tenant, template, args]) = <[String; 4]>::try_from(words) else { return Ok(None) };
            let created = created.parse().map_err(|_| Error::unreadable("read_staged"))?;
            Ok(Some(StagedText { created, tenant: unescape(&tenant), template, args }))
        };
        answer.into_iter().map(text).collect()
    }

    /// Takes staged jobs of a Sidekiq out of staging and hands them back to their source, or puts
    /// them into its outbox. `jobs` are in order, newest first.
    pub async fn unstage(
        &self,
        main_queue: &str,
        token: &str,
        route: &DeliveryRoute,
        target: &ReleaseTarget,
        jobs: &[Restored],
    ) -> Result<Unstaged, Error> {
        let call_id = id::generate();
        let (way, theirs, ours, origin) = match route {
            DeliveryRoute::Here => ("here", String::new(), String::new(), ""),
            DeliveryRoute::Database { theirs, ours } => ("database", theirs.to_string(), ours.to_string(), ""),
            DeliveryRoute::Outbox { origin } => ("outbox", String::new(), String::new(), origin.as_str()),
        };
        let fill = |command: &mut redis::Cmd, again: bool| {
            let command = self.core.begin(command).arg(main_queue).arg(token).arg(RELEASE_LIFE_MS);
            command.arg(&call_id).arg(u8::from(again)).arg(way).arg(&theirs).arg(&ours).arg(origin);
            command.arg(&target.name).arg(target.words.len()).arg(&target.words);
            for Restored { id, tenant, text } in jobs {
                command.arg(id).arg(if way == "outbox" { escape(tenant) } else { tenant.clone() }).arg(text);
            }
        };
        let mut words = reply::texts(UNSTAGE.call(&self.core.connection, fill).await?, "unstage")?.into_iter();
        match words.next().as_deref() {
            Some("ok") => Ok(Unstaged::Done { missing: words.collect() }),
            Some("lost") => Ok(Unstaged::Lost),
            Some("locked") => Ok(Unstaged::Locked),
            _ => Err(Error::unreadable("unstage")),
        }
    }
}

fn staged_job(entry: &str) -> Option<StagedEntry> {
    let mut words = wire::values(entry);
    let (id, sequence, bytes) = (words.next()?.to_owned(), words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    let came_from = match words.next()?.split_at_checked(1)? {
        ("q", _) => CameFrom::StagingQueue,
        ("f", class) => CameFrom::Fairplay { class: class.to_owned() },
        _ => CameFrom::Elsewhere,
    };
    Some(StagedEntry { id, sequence, bytes, came_from })
}
