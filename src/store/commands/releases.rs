//! Releases: handing staged jobs back to the Sidekiq that they came from.

use super::outbox::DeliveryRoute;
use super::script::{HOLD_RELEASE, LIST_STAGED, READ_STAGED, REGISTER_IMPORTER, UNSTAGE};
use super::{Error, Store, reply};
use crate::domain::escape::{escape, unescape};
use crate::domain::job::id;
use crate::store::packed;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::HashMap;

/// Time in ms after which an importer that has not registered again counts as gone.
const IMPORTER_LIFE_MS: u64 = 10_000;
/// Time in ms after which a release ends unless it is renewed.
const RELEASE_LIFE_MS: u64 = 15_000;
/// Number of tenants whose jobs one call lists.
const TENANTS_LISTED: usize = 80;
/// Number of jobs that one call lists.
const JOBS_LISTED: usize = 100;

/// The outcome of starting or renewing a release.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
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
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "snake_case")]
pub enum CameFrom {
    /// The staging queue of a Sidekiq.
    StagingQueue,
    /// The keys of the gem sidekiq-fairplay for a class.
    Fairplay { class: String },
    /// Any other origin, such as the HTTP API.
    Elsewhere,
}

/// A staged job in a list.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub struct StagedEntry {
    pub id: String,
    /// The job's position in the order of staging.
    pub sequence: u64,
    /// Size of the job's record and envelope, in bytes.
    pub bytes: usize,
    pub came_from: CameFrom,
}

/// The stored parts of a staged job of a Sidekiq.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Restored {
    pub id: String,
    /// The job's tenant in the gem sidekiq-fairplay; empty if it goes to a queue.
    pub tenant: String,
    /// The job's payload, or its arguments if it goes to the gem's keys.
    pub text: String,
}

/// The outcome of unstaging jobs.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Unstaged {
    /// The jobs have left staging, except those in `missing`, which were not staged any more.
    Done { missing: Vec<String> },
    /// The release has ended.
    Lost,
    /// The gem's locks have another owner; nothing has changed.
    Locked,
}

#[derive(Serialize)]
struct RegisterImporter<'a> {
    main: &'a str,
    process: &'a str,
    source: &'a str,
    life: u64,
    registers: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum ImporterOutcome {
    Registered,
    /// A release is in progress.
    Released,
    /// The number of other importers of the source.
    Removed(u64),
}

#[derive(Serialize)]
struct HoldRelease<'a> {
    main: &'a str,
    token: &'a str,
    life: u64,
    silent_ms: u64,
}

/// The position of a job in the list of a tenant's staged jobs.
#[derive(Deserialize, Serialize)]
struct StagedPlace {
    priority: i32,
    score: String,
}

#[derive(Serialize)]
struct ListStaged<'a> {
    rule: &'a str,
    queue: &'a str,
    most: usize,
    after: Option<StagedPlace>,
    tenants: &'a [String],
}

#[derive(Deserialize)]
struct ListedStaged {
    /// Number of tenants of which all jobs are listed.
    complete: usize,
    /// The last job listed of the next tenant.
    last: Option<StagedPlace>,
    jobs: Vec<StagedEntry>,
}

#[derive(Serialize)]
struct ReadStaged<'a> {
    ids: &'a [&'a str],
}

#[derive(Deserialize)]
#[serde(transparent)]
struct StagedTexts {
    #[serde(deserialize_with = "packed::map")]
    by_id: HashMap<String, StagedText>,
}

#[derive(Serialize)]
struct Unstage<'a> {
    main: &'a str,
    token: &'a str,
    life: u64,
    call_id: &'a str,
    route: &'a DeliveryRoute,
    source: &'a str,
    words: &'a [String],
    jobs: &'a [Restored],
}

impl Store {
    /// Registers a process that imports jobs from a source of a main queue. Returns false while a
    /// release hands jobs back.
    pub async fn register_importer(&self, main_queue: &str, process: &str, source: &str) -> Result<bool, Error> {
        let args = RegisterImporter { main: main_queue, process, source, life: IMPORTER_LIFE_MS, registers: true };
        match self.call_register_importer(&args).await? {
            ImporterOutcome::Registered => Ok(true),
            ImporterOutcome::Released => Ok(false),
            ImporterOutcome::Removed(_) => Err(Error::unreadable("register_importer")),
        }
    }

    /// Removes a process that has stopped importing jobs. Returns the number of other processes
    /// that import from the same source.
    pub async fn deregister_importer(&self, main_queue: &str, process: &str, source: &str) -> Result<u64, Error> {
        let args = RegisterImporter { main: main_queue, process, source, life: IMPORTER_LIFE_MS, registers: false };
        match self.call_register_importer(&args).await? {
            ImporterOutcome::Removed(others) => Ok(others),
            ImporterOutcome::Registered | ImporterOutcome::Released => Err(Error::unreadable("register_importer")),
        }
    }

    async fn call_register_importer(&self, args: &RegisterImporter<'_>) -> Result<ImporterOutcome, Error> {
        REGISTER_IMPORTER.call_packed(&self.core, args).await
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
        let args = HoldRelease { main: main_queue, token, life, silent_ms: IMPORTER_LIFE_MS };
        HOLD_RELEASE.call_packed(&self.core, &args).await
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
                let (mut done, mut after) = (0, None);
                while done < tenants.len() {
                    let args = ListStaged { rule, queue, most: JOBS_LISTED, after, tenants: &tenants[done..] };
                    let listed: ListedStaged = LIST_STAGED.call_packed(&self.core, &args).await?;
                    (done, after) = (done + listed.complete, listed.last);
                    each(listed.jobs);
                }
            }
            cursor = next;
            if cursor == 0 {
                return Ok(());
            }
        }
    }

    /// Reads staged jobs of a Sidekiq. Returns `None` for a job that is not staged any more.
    pub async fn read_staged(&self, ids: &[&str]) -> Result<Vec<Option<StagedText>>, Error> {
        let texts: StagedTexts = READ_STAGED.call_packed(&self.core, &ReadStaged { ids }).await?;
        let unescaped = |text: &StagedText| StagedText { tenant: unescape(&text.tenant), ..text.clone() };
        Ok(ids.iter().map(|id| texts.by_id.get(*id).map(unescaped)).collect())
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
        // In an outbox, values are separated by control characters.
        let escaped = |job: &Restored| Restored { tenant: escape(&job.tenant), ..job.clone() };
        let jobs: Cow<'_, [Restored]> = match route {
            DeliveryRoute::Outbox { .. } => jobs.iter().map(escaped).collect(),
            DeliveryRoute::Here | DeliveryRoute::Database { .. } => Cow::Borrowed(jobs),
        };
        let args = Unstage {
            main: main_queue,
            token,
            life: RELEASE_LIFE_MS,
            call_id: &id::generate(),
            route,
            source: &target.name,
            words: &target.words,
            jobs: &jobs,
        };
        UNSTAGE.call_packed(&self.core, &args).await
    }
}
