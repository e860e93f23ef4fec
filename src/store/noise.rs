//! Noisy neighbours: the figures by which they are judged, and their throttles.

use super::script::{APPLY_THROTTLES, NOISY_SNAPSHOT};
use super::statistics::TenantActivity;
use super::tenants::TenantJobs;
use super::{Error, Store, reply};
use crate::domain::escape::{escape, unescape};
use crate::domain::noisy::{Figures, Snapshot, TenantFigures};
use crate::domain::tenant::Weight;
use redis::{Cmd, Value};
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
        let fill = |command: &mut Cmd, _: bool| {
            let (holder, lease_ms, records_activity) =
                lock.map_or(("", 0, false), |lock| (lock.holder, lock.lease_ms, lock.records_activity));
            let command = self.core.begin(command).arg(holder).arg(lease_ms).arg(u8::from(records_activity));
            let command = command.arg(minutes);
            command.arg(BUSIEST).arg(SAMPLE);
            besides.iter().for_each(|id| _ = command.arg(escape(id)));
        };
        match NOISY_SNAPSHOT.call(&self.core.connection, fill).await? {
            Value::Array(parts) => {
                parse_snapshot(Value::Array(parts)).map(|snapshot| NoisySnapshotReply::Read(Box::new(snapshot)))
            }
            other if reply::text(other.clone(), "noisy_snapshot")? == "held" => Ok(NoisySnapshotReply::Held),
            _ => Ok(NoisySnapshotReply::Idle),
        }
    }

    /// Applies throttle updates and returns how many tenants changed. Skips tenants whose document
    /// is not the expected one. Changes none if a process other than `holder` has the detector's
    /// lock; without a holder, the change was made by a person and needs no lock.
    pub async fn apply_throttles(&self, holder: Option<&str>, updates: &[ThrottleUpdate]) -> Result<u64, Error> {
        let fill = |command: &mut Cmd, _: bool| {
            let command = self.core.begin(command).arg(holder.unwrap_or(""));
            for update in updates {
                let throttle = update.throttle.map(|ThrottleTerms { weight_part, until, max_active }| {
                    let max_active = max_active.map_or_else(|| "-".to_owned(), |most| most.to_string());
                    format!("{weight_part} {until} {max_active}")
                });
                let (kind, data) = update.event.as_ref().map_or(("", ""), |(kind, data)| (kind, data.as_str()));
                command.arg(escape(&update.id)).arg(&update.before).arg(&update.after);
                command.arg(throttle.unwrap_or_default()).arg(kind).arg(data);
            }
        };
        let changed = reply::number(APPLY_THROTTLES.call(&self.core.connection, fill).await?, "apply_throttles")?;
        Ok(u64::try_from(changed).unwrap_or(0))
    }
}

fn figures(jobs: &str, activity: &str, runnable: u64) -> Figures {
    let (jobs, activity) = (TenantJobs::read(jobs, 0), TenantActivity::read(activity));
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

fn parse_snapshot(answer: Value) -> Result<NoisySnapshot, Error> {
    let [now, span, with_jobs, of_minute, jobs, activity, documents, seen, lots, runnable] =
        reply::parts(answer, "noisy_snapshot")?;
    let documents =
        reply::pairs(documents, "noisy_snapshot")?.into_iter().map(|(id, text)| (unescape(&id), text)).collect();
    let read = |part: &[String]| TenantFigures {
        id: unescape(&part[0]),
        weight: Weight::from_thousandths(part[2].parse().unwrap_or(1000)),
        figures: figures(&part[1], &part[3], part[4].parse().unwrap_or(0)),
    };
    let seen: Vec<TenantFigures> = reply::texts(seen, "noisy_snapshot")?.chunks_exact(5).map(read).collect();
    let (with_jobs, of_minute) = (
        reply::number(with_jobs, "noisy_snapshot")?.max(0) as u64,
        reply::number(of_minute, "noisy_snapshot")?.max(0) as u64,
    );
    let active = seen.iter().filter(|seen| seen.figures != Figures::default()).count() as u64;
    let contending = seen.iter().filter(|seen| seen.figures.contends()).count() as u64;
    let lots = (reply::number(lots, "noisy_snapshot")?.max(0) as usize).min(seen.len());
    let sample: Vec<usize> = (0..lots).filter(|place| seen[*place].figures.contends()).collect();
    // If the sample includes all tenants, the contenders are known exactly; otherwise every tenant
    // with jobs counts as one.
    let contenders = if with_jobs < SAMPLE as u64 { contending } else { with_jobs.max(contending) };
    let snapshot = Snapshot {
        now: reply::number(now, "noisy_snapshot")?,
        span: reply::number(span, "noisy_snapshot")?.max(0) as u64,
        tenants: with_jobs.max(of_minute).max(active),
        contenders,
        total: figures(
            &reply::text(jobs, "noisy_snapshot")?,
            &reply::text(activity, "noisy_snapshot")?,
            reply::number(runnable, "noisy_snapshot")?.max(0) as u64,
        ),
        seen,
        sample,
    };
    Ok(NoisySnapshot { snapshot, documents })
}
