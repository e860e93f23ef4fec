//! Tenants: the numbers of their jobs, and their terms.

use super::codec::wire;
use super::script::{TENANT_CONFIGURE, TENANT_COUNTS};
use super::{Error, Store, reply};
use crate::domain::escape::{escape, unescape};
use crate::domain::job::{State, id};
use crate::domain::tenant::{TenantRule, TenantSettings};
use crate::domain::tenant_id;
use serde::{Deserialize, Serialize};

/// Shortest period of an enqueue window in ms; equal to the one in `lua/limits/enqueue_accounts.lua`.
const SHORTEST_WINDOW: u64 = 120_000;

/// Number of tenants that one call counts.
const COUNTED_PORTION: usize = 100;

/// Numbers of a tenant's jobs that have not ended, by state.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
pub struct TenantJobs {
    pub pending: u64,
    pub available: u64,
    pub scheduled: u64,
    pub retryable: u64,
    pub active: u64,
}

impl TenantJobs {
    /// Returns the number of all jobs.
    pub fn total(&self) -> u64 {
        self.depth() + self.retryable + self.active
    }

    /// Returns the number of waiting jobs.
    pub fn depth(&self) -> u64 {
        self.pending + self.available + self.scheduled
    }

    /// Parses the stored numbers, which include the staged jobs in the available ones.
    fn read(text: &str) -> TenantJobs {
        let mut words = text.split(' ').map(|word| word.parse().unwrap_or(0));
        let mut next = || words.next().unwrap_or(0);
        TenantJobs { pending: next(), available: next(), scheduled: next(), retryable: next(), active: next() }
    }

    /// Counts staged jobs, which the stored numbers include in the available ones, as pending, as
    /// clients see them.
    fn with_staged_as_pending(self, staged: u64) -> TenantJobs {
        let staged = staged.min(self.available);
        TenantJobs { pending: self.pending + staged, available: self.available - staged, ..self }
    }
}

/// A change of one tenant's terms.
pub struct TenantChange<'a> {
    pub id: &'a str,
    /// The expected current document; empty if there is none.
    pub before: &'a str,
    /// The new document and its terms; `None` to remove the tenant's terms.
    pub after: Option<(&'a str, &'a TenantSettings)>,
    /// Type of the event to emit.
    pub event: &'a str,
    /// Data of the event, as JSON members.
    pub data: &'a str,
}

/// A tenant of the configuration file, its document, and the data of the event that is emitted if
/// it is new.
pub struct FileTenant<'a> {
    pub rule: &'a TenantRule,
    pub document: String,
    pub data: String,
}

#[derive(Serialize)]
struct TenantConfigure<'a> {
    version: String,
    letters: &'a str,
    change: Configured<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Configured<'a> {
    Put {
        tenant: String,
        before: &'a str,
        document: Option<&'a str>,
        words: String,
        kind: &'a str,
        data: &'a str,
        id: &'a str,
    },
    Seed {
        tiers: String,
        fits_default: bool,
        tenants: Vec<SeededTenant<'a>>,
    },
}

#[derive(Serialize)]
struct SeededTenant<'a> {
    tenant: String,
    document: &'a str,
    words: String,
    data: &'a str,
    id: &'a str,
}

#[derive(Serialize)]
struct TenantCounts<'a> {
    tenants: &'a [String],
}

#[derive(Deserialize)]
struct CountedJobs {
    jobs: TenantJobs,
    staged: u64,
}

impl Store {
    /// Changes a tenant's terms. Returns false if the current document is not the expected one.
    pub async fn change_tenant(&self, change: &TenantChange<'_>) -> Result<bool, Error> {
        let (document, terms) = change.after.unzip();
        let put = Configured::Put {
            tenant: escape(change.id),
            before: change.before,
            document,
            words: terms.map(TenantSettings::packed).unwrap_or_default(),
            kind: change.event,
            data: change.data,
            id: change.id,
        };
        self.configure(&terms.map(TenantSettings::letters).unwrap_or_default(), put).await
    }

    /// Applies the tenants and tiers of the configuration file, except to tenants that were changed
    /// at run time.
    pub async fn seed_tenants(&self, rules: &[TenantRule], tenants: &[FileTenant<'_>]) -> Result<(), Error> {
        let letters: String = rules.iter().map(|rule| rule.terms.letters()).collect();
        let fits = |rule: &TenantRule| rule.prefix().is_some_and(|prefix| tenant_id::DEFAULT.starts_with(prefix));
        let tiers = TenantRule::tiers(rules).into_iter().map(|(prefix, words)| (escape(&prefix), words));
        let seeded = tenants.iter().map(|FileTenant { rule, document, data }| SeededTenant {
            tenant: escape(&rule.id),
            document,
            words: rule.terms.packed(),
            data,
            id: &rule.id,
        });
        let (tiers, fits_default) = (wire::pairs(tiers), rules.iter().any(fits));
        self.configure(&letters, Configured::Seed { tiers, fits_default, tenants: seeded.collect() }).await.map(drop)
    }

    async fn configure(&self, letters: &str, change: Configured<'_>) -> Result<bool, Error> {
        let args = TenantConfigure { version: id::generate(), letters, change };
        TENANT_CONFIGURE.call_packed(&self.core, &args).await
    }

    /// Returns true if tenants or tiers of a configuration file are in effect.
    pub async fn has_file_tenants(&self) -> Result<bool, Error> {
        let mut tiers = redis::cmd("HEXISTS");
        tiers.arg(self.core.keys.quotas()).arg("*");
        let mut tenants = redis::cmd("EXISTS");
        tenants.arg(self.core.keys.file_tenants());
        let tiers = reply::number(self.core.command("tenants", tiers).await?, "tenants")?;
        Ok(tiers == 1 || reply::number(self.core.command("tenants", tenants).await?, "tenants")? == 1)
    }

    /// Returns the documents of tenants in the order of `ids`; empty for a tenant without one.
    pub async fn tenant_documents(&self, ids: &[&str]) -> Result<Vec<String>, Error> {
        self.tenant_fields(self.core.keys.tenancy(), ids).await
    }

    /// Returns the numbers of tenants' jobs in the order of `ids`. Those of the default tenant are
    /// only known if it is counted.
    pub async fn tenant_jobs(&self, ids: &[&str]) -> Result<Vec<TenantJobs>, Error> {
        self.read_counts(&ids.iter().map(|id| escape(id)).collect::<Vec<_>>()).await
    }

    async fn read_counts(&self, names: &[String]) -> Result<Vec<TenantJobs>, Error> {
        let mut found = Vec::with_capacity(names.len());
        for portion in names.chunks(COUNTED_PORTION) {
            let args = TenantCounts { tenants: portion };
            let counted: Vec<CountedJobs> = TENANT_COUNTS.call_packed(&self.core, &args).await?;
            found.extend(counted.iter().map(|counted| counted.jobs.with_staged_as_pending(counted.staged)));
        }
        Ok(found)
    }

    /// Returns the numbers of jobs of all tenants except the default one.
    pub async fn all_tenants_jobs(&self) -> Result<TenantJobs, Error> {
        Ok(self.read_counts(&["*".to_owned()]).await?.pop().unwrap_or_default())
    }

    /// Returns the numbers of the default tenant's jobs: those of all queues minus those of the
    /// other tenants.
    pub async fn default_tenant_jobs(&self) -> Result<TenantJobs, Error> {
        let mut jobs = TenantJobs::default();
        for queue in self.queues().await? {
            let counts = self.queue_counts(&queue.name).await?;
            let count = |state: State| counts.get(&state).copied().unwrap_or(0).max(0) as u64;
            jobs.pending += count(State::Pending);
            jobs.available += count(State::Available);
            jobs.scheduled += count(State::Scheduled);
            jobs.retryable += count(State::Retryable);
            jobs.active += count(State::Active);
        }
        let others = self.all_tenants_jobs().await?;
        Ok(TenantJobs {
            pending: jobs.pending.saturating_sub(others.pending),
            available: jobs.available.saturating_sub(others.available),
            scheduled: jobs.scheduled.saturating_sub(others.scheduled),
            retryable: jobs.retryable.saturating_sub(others.retryable),
            active: jobs.active.saturating_sub(others.active),
        })
    }

    async fn tenant_fields(&self, key: String, ids: &[&str]) -> Result<Vec<String>, Error> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let mut command = redis::cmd("HMGET");
        command.arg(key);
        ids.iter().for_each(|id| _ = command.arg(escape(id)));
        reply::texts(self.core.command("tenants", command).await?, "tenants")
    }

    /// Returns about `count` tenants that have jobs, in no particular order, and the next cursor; 0
    /// at the end. Here the available jobs include the staged ones; [`Store::tenant_jobs`]
    /// separates them.
    pub async fn tenants_with_jobs(
        &self,
        cursor: u64,
        count: usize,
    ) -> Result<(u64, Vec<(String, TenantJobs)>), Error> {
        let (cursor, pairs) = self.scan_tenants(self.core.keys.tenants(), cursor, count).await?;
        let named = pairs.into_iter().filter(|(name, _)| name != "*");
        Ok((cursor, named.map(|(name, text)| (name, TenantJobs::read(&text))).collect()))
    }

    /// Returns about `count` tenants that have a document, with their documents, and the next
    /// cursor; 0 at the end.
    pub async fn tenants_with_terms(&self, cursor: u64, count: usize) -> Result<(u64, Vec<(String, String)>), Error> {
        self.scan_tenants(self.core.keys.tenancy(), cursor, count).await
    }

    async fn scan_tenants(
        &self,
        key: String,
        cursor: u64,
        count: usize,
    ) -> Result<(u64, Vec<(String, String)>), Error> {
        let mut command = redis::cmd("HSCAN");
        command.arg(key).arg(cursor).arg("COUNT").arg(count);
        let [next, pairs] = reply::parts(self.core.command("tenants", command).await?, "tenants")?;
        let pairs = reply::pairs(pairs, "tenants")?;
        Ok((
            reply::number(next, "tenants")? as u64,
            pairs.into_iter().map(|(name, text)| (unescape(&name), text)).collect(),
        ))
    }

    /// Returns the number of jobs that a tenant has enqueued within the last `period` ms, as its
    /// limit counts them. `lua/limits/enqueue_window.lua` writes the windows.
    pub async fn enqueued_lately(&self, id: &str, period: u64) -> Result<u64, Error> {
        let now = self.core.clock.now_ms();
        let length = std::iter::successors(Some(SHORTEST_WINDOW), |length| Some(length * 2));
        let length = length.take(40).find(|length| *length >= period * 2).unwrap_or(SHORTEST_WINDOW);
        let turn = now.max(0) as u64 / length;
        for turn in [turn, turn.saturating_sub(1)] {
            let mut command = redis::cmd("HGET");
            command.arg(self.core.keys.enqueue_window(length, turn)).arg(escape(id));
            let text = reply::text(self.core.command("tenant", command).await?, "tenant")?;
            if !text.is_empty() {
                return Ok(started_since(&text, now - period as i64));
            }
        }
        Ok(0)
    }
}

/// Returns the number of enqueues in those buckets of a window whose last enqueue is later than
/// `since`.
fn started_since(window: &str, since: i64) -> u64 {
    let starts = window.rsplit('|').next().unwrap_or_default();
    let counts = starts.split_terminator(';').filter_map(|bucket| {
        let mut words = bucket.split(',').skip(1);
        let last: i64 = words.next()?.parse().ok()?;
        words.next()?.parse::<u64>().ok().filter(|_| last > since)
    });
    counts.sum()
}
