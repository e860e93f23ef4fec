//! Noisy neighbours: the figures by which they are judged, and their throttles.

use super::script::{APPLY_THROTTLES, NOISY_SNAPSHOT};
use super::statistics::TenantActivity;
use super::tenants::TenantJobs;
use super::{Error, Store};
use crate::domain::escape::{escape, unescape};
use crate::domain::noisy::{Figures, Snapshot, TenantFigures};
use crate::domain::tenant::Weight;
use crate::store::packed;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Number of busiest tenants in a snapshot, and of random others. They bound the cost of a
/// snapshot.
const BUSIEST: usize = 200;
const SAMPLE: usize = 100;

/// The lock of the process that acts on noisy neighbours.
#[derive(Clone, Copy, Debug)]
pub struct DetectorLock<'a> {
    pub holder: &'a str,
    pub lease_ms: u64,
    /// Keeps the recording of activity switched on.
    pub records_activity: bool,
}

/// A snapshot of tenants for the noisy neighbour detector.
#[derive(Clone, Debug, Default)]
pub struct NoisySnapshot {
    pub snapshot: Snapshot,
    /// Documents with the detector's state of a tenant, by tenant.
    pub documents: BTreeMap<String, String>,
}

/// The reply to a request for a snapshot.
#[derive(Clone, Debug)]
pub enum NoisySnapshotReply {
    /// There are no tenants with jobs, or activity is not recorded.
    Idle,
    /// Another process holds the detector's lock.
    Held,
    Read(Box<NoisySnapshot>),
}

/// A throttle as scripts apply it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThrottleTerms {
    /// The remaining part of the weight, in thousandths.
    pub weight_part: u32,
    /// The end of the throttle, in milliseconds.
    pub until: i64,
    /// The limit on active jobs.
    pub max_active: Option<u64>,
}

/// A change of one tenant's throttle.
#[derive(Clone, Debug, Default)]
pub struct ThrottleUpdate {
    pub id: String,
    /// The expected current document, and the new one; empty for none.
    pub before: String,
    pub after: String,
    /// The throttle to set; `None` to remove it.
    pub throttle: Option<ThrottleTerms>,
    /// The event to emit: its type, and its data as JSON members.
    pub event: Option<(&'static str, String)>,
}

#[derive(Serialize)]
struct NoisySnapshotArgs<'a> {
    holder: Option<&'a str>,
    life: u64,
    counts: bool,
    minutes: u64,
    busiest: usize,
    sampled: usize,
    tenants: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum SnapshotOutcome {
    Idle,
    Held,
    Read(ReadSnapshot),
}

#[derive(Deserialize)]
struct ReadSnapshot {
    now: i64,
    span: u64,
    with_jobs: u64,
    most_of_minute: u64,
    all: ReadFigures,
    #[serde(deserialize_with = "packed::map")]
    documents: BTreeMap<String, String>,
    tenants: Vec<ReadTenant>,
    sampled: usize,
}

#[derive(Deserialize)]
struct ReadTenant {
    name: String,
    weight: u32,
    figures: ReadFigures,
}

#[derive(Deserialize)]
struct ReadFigures {
    jobs: TenantJobs,
    activity: TenantActivity,
    runnable: u64,
}

#[derive(Serialize)]
struct ApplyThrottles<'a> {
    holder: Option<&'a str>,
    tenants: Vec<AppliedThrottle<'a>>,
}

#[derive(Serialize)]
struct AppliedThrottle<'a> {
    name: String,
    before: &'a str,
    after: &'a str,
    throttle: String,
    event: Option<ThrottleEvent<'a>>,
}

#[derive(Serialize)]
struct ThrottleEvent<'a> {
    kind: &'a str,
    data: &'a str,
}

impl Store {
    /// Takes a snapshot of the busiest tenants and a sample of the others, over `minutes`. With a
    /// `lock`, takes or renews it, unless another process holds it. Without one, only reads.
    /// Tenants in `besides` are always included.
    pub async fn noisy_snapshot(
        &self,
        lock: Option<&DetectorLock<'_>>,
        minutes: u64,
        besides: &[&str],
    ) -> Result<NoisySnapshotReply, Error> {
        self.sum_activity().await?;
        let args = NoisySnapshotArgs {
            holder: lock.map(|lock| lock.holder),
            life: lock.map_or(0, |lock| lock.lease_ms),
            counts: lock.is_some_and(|lock| lock.records_activity),
            minutes,
            busiest: BUSIEST,
            sampled: SAMPLE,
            tenants: besides.iter().map(|id| escape(id)).collect(),
        };
        Ok(match NOISY_SNAPSHOT.call_packed(&self.core, &args).await? {
            SnapshotOutcome::Idle => NoisySnapshotReply::Idle,
            SnapshotOutcome::Held => NoisySnapshotReply::Held,
            SnapshotOutcome::Read(read) => NoisySnapshotReply::Read(Box::new(noisy_snapshot(read))),
        })
    }

    /// Applies throttle updates and returns how many tenants changed. Skips tenants whose document
    /// is not the expected one. Changes none if a process other than `holder` has the detector's
    /// lock; without a holder, the change was made by a person and needs no lock.
    pub async fn apply_throttles(&self, holder: Option<&str>, updates: &[ThrottleUpdate]) -> Result<u64, Error> {
        let tenants = updates.iter().map(|update| {
            let throttle = update.throttle.map(|ThrottleTerms { weight_part, until, max_active }| {
                let max_active = max_active.map_or_else(|| "-".to_owned(), |most| most.to_string());
                format!("{weight_part} {until} {max_active}")
            });
            AppliedThrottle {
                name: escape(&update.id),
                before: &update.before,
                after: &update.after,
                throttle: throttle.unwrap_or_default(),
                event: update.event.as_ref().map(|(kind, data)| ThrottleEvent { kind, data }),
            }
        });
        APPLY_THROTTLES.call_packed(&self.core, &ApplyThrottles { holder, tenants: tenants.collect() }).await
    }
}

impl ReadFigures {
    fn figures(&self) -> Figures {
        let ReadFigures { jobs, activity, runnable } = *self;
        Figures {
            depth: jobs.pending + jobs.available,
            runnable,
            active: jobs.active,
            enqueued: activity.enqueued,
            pushes: activity.pushes,
            completed: activity.completed,
            failed: activity.failed,
            worker_ms: activity.worker_ms,
        }
    }
}

fn noisy_snapshot(read: ReadSnapshot) -> NoisySnapshot {
    let tenant = |tenant: &ReadTenant| TenantFigures {
        id: unescape(&tenant.name),
        weight: Weight::from_thousandths(tenant.weight),
        figures: tenant.figures.figures(),
    };
    let seen: Vec<TenantFigures> = read.tenants.iter().map(tenant).collect();
    let active = seen.iter().filter(|seen| seen.figures != Figures::default()).count() as u64;
    let contending = seen.iter().filter(|seen| seen.figures.contends()).count() as u64;
    let sampled = read.sampled.min(seen.len());
    let sample: Vec<usize> = (0..sampled).filter(|place| seen[*place].figures.contends()).collect();
    // If the sample includes all tenants, the contenders are known exactly; otherwise every tenant
    // with jobs counts as one.
    let contenders = if read.with_jobs < SAMPLE as u64 { contending } else { read.with_jobs.max(contending) };
    let snapshot = Snapshot {
        now: read.now,
        span: read.span,
        tenants: read.with_jobs.max(read.most_of_minute).max(active),
        contenders,
        total: read.all.figures(),
        seen,
        sample,
    };
    let documents = read.documents.into_iter().map(|(id, text)| (unescape(&id), text)).collect();
    NoisySnapshot { snapshot, documents }
}
