//! Verbs that hand staged jobs back to the Sidekiq that they came from.

use super::codec::wire;
use super::outbox::DeliveryRoute;
use super::script::{HOLD_RELEASE, LIST_STAGED, READ_STAGED, REGISTER_IMPORTER, UNSTAGE};
use super::{Error, Store, reply};
use crate::job::escape::{escape, unescape};
use crate::job::id;

/// How long a process that takes jobs in counts as alive after it last registered.
const DRAINER_LIFE_MS: u64 = 10_000;
/// How long a release holds unless it is renewed.
const RELEASE_LIFE_MS: u64 = 15_000;
/// Tenants whose jobs one call lists.
const TENANTS_LISTED: usize = 80;
/// Jobs that one call lists.
const JOBS_LISTED: usize = 100;

/// The answer to the wish to begin a release, or to go on with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hold {
    Held,
    /// Another release of the main queue is under way.
    Taken,
    /// A process takes jobs in from a source of the main queue.
    Drained {
        process: String,
        /// The source's name.
        from: String,
        /// How long ago it registered.
        ago_ms: u64,
    },
}

/// Where a staged job came from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CameFrom {
    /// The staging queue of a Sidekiq.
    StagingQueue,
    /// The keys of the gem sidekiq-fairplay, for a class.
    Fairplay { class: String },
    /// Elsewhere: over HTTP.
    Elsewhere,
}

/// A staged job as lists show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StagedEntry {
    pub id: String,
    /// Its place in the order in which jobs were staged.
    pub sequence: u64,
    /// Size of its record and envelope.
    pub bytes: usize,
    pub came_from: CameFrom,
}

/// The stored parts of a staged job of a Sidekiq.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StagedText {
    /// When it was staged.
    pub created: i64,
    /// Its tenant in the gem sidekiq-fairplay; empty if it did not come from there.
    pub tenant: String,
    /// The template of its payload.
    pub template: String,
    pub args: String,
}

/// A source that jobs are put back into, as `lua/sidekiq/restore.lua` knows it.
pub struct Target {
    /// Names the source among those of all main queues.
    pub name: String,
    pub words: Vec<String>,
}

/// A job that is handed back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restored {
    pub id: String,
    /// Its tenant in the gem sidekiq-fairplay; empty if it goes to a queue.
    pub tenant: String,
    /// A payload, or arguments where it goes to the gem's keys.
    pub text: String,
}

/// The outcome for jobs that were to be handed back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unstaged {
    /// All but these, which were not staged any more, have left staging.
    Done { missing: Vec<String> },
    /// The release holds no more.
    Lost,
    /// The locks of the gem sidekiq-fairplay are not ours; nothing has changed.
    Locked,
}

impl Store {
    /// Registers a process that takes jobs in from a source of a main queue. False while a release hands them back.
    pub async fn register_importer(&self, main_queue: &str, process: &str, source: &str) -> Result<bool, Error> {
        Ok(self.note_importer(main_queue, process, source, true).await? == 1)
    }

    /// Removes a process that takes no more jobs in; how many others take them from the same source.
    pub async fn deregister_importer(&self, main_queue: &str, process: &str, source: &str) -> Result<u64, Error> {
        Ok(self.note_importer(main_queue, process, source, false).await?.max(0) as u64)
    }

    async fn note_importer(&self, main_queue: &str, process: &str, source: &str, drains: bool) -> Result<i64, Error> {
        let fill = |command: &mut redis::Cmd, _: bool| {
            let command = self.core.begin(command).arg(main_queue).arg(process).arg(source);
            command.arg(DRAINER_LIFE_MS).arg(u8::from(drains));
        };
        Ok(reply::number(REGISTER_IMPORTER.call(&self.core.connection, fill).await?))
    }

    /// Begins a release of a main queue under a token, or renews it.
    pub async fn hold_release(&self, main_queue: &str, token: &str) -> Result<Hold, Error> {
        self.note_release(main_queue, token, RELEASE_LIFE_MS).await
    }

    /// Ends a release.
    pub async fn end_release(&self, main_queue: &str, token: &str) -> Result<(), Error> {
        self.note_release(main_queue, token, 0).await.map(drop)
    }

    async fn note_release(&self, main_queue: &str, token: &str, life: u64) -> Result<Hold, Error> {
        let fill = |command: &mut redis::Cmd, _: bool| {
            self.core.begin(command).arg(main_queue).arg(token).arg(life).arg(DRAINER_LIFE_MS);
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
                let ago_ms = ago.parse().unwrap_or(0);
                Hold::Drained { process: process.to_owned(), from: from.to_owned(), ago_ms }
            }
            _ => return Err(Error::unreadable("hold_release")),
        })
    }

    /// Queues for which a rule has jobs staged.
    pub async fn staged_queues(&self, rule: &str) -> Result<Vec<String>, Error> {
        let mut command = redis::cmd("ZRANGE");
        command.arg(self.core.keys.plan_queues(rule)).arg(0).arg(-1);
        reply::texts(self.core.command("queues", command).await?, "queues")
    }

    /// Lists all jobs that a rule has staged for a queue, in portions, in no order. One may be listed more than once.
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

    /// Lists jobs of tenants: how many of them are complete, and where in the next one's lanes to go on.
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

    /// Reads staged jobs of a Sidekiq; none for one that is not staged any more.
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

    /// Takes jobs of a Sidekiq, newest first, out of staging and hands them back to their source, or puts them into its outbox.
    pub async fn unstage(
        &self,
        main_queue: &str,
        token: &str,
        route: &DeliveryRoute,
        target: &Target,
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
