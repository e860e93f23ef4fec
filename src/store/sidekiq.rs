//! Verbs on the Redis of a Sidekiq: what its queues and processes are like, what is pushed there, what is taken from there.

use super::address::Address;
use super::forwards::Parcel;
use super::link::Link;
use super::script::{CLAIM, CREW, DELIVER, LOOK};
use super::{Error, inspect, reply};
use crate::job::sidekiq;
use crate::telemetry::StoreMetrics;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument;

/// Processes that are looked at.
pub(super) const MOST_PROCESSES: usize = 512;

/// A handle to a Sidekiq; clones share it.
#[derive(Clone)]
pub struct Sidekiq {
    pub(super) link: Link,
    prefix: Arc<str>,
}

/// A queue of a Sidekiq.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SidekiqQueue {
    pub depth: u64,
    /// Since when the job waits that is next.
    pub oldest: Option<i64>,
    pub paused: bool,
}

/// A process of a Sidekiq, as it last told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SidekiqProcess {
    pub identity: String,
    pub queues: Vec<String>,
    pub concurrency: u64,
    pub busy: u64,
    /// It takes no more jobs.
    pub quiet: bool,
    /// Its version; those before 7 do not tell.
    pub version: Option<String>,
}

/// An entry of an inbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claimed {
    pub sequence: u64,
    pub payload: String,
}

impl Sidekiq {
    /// Opens a Sidekiq; the connection is made in the background and kept until `stop`.
    pub fn open(
        address: &Address,
        prefix: &str,
        deadline: Duration,
        metrics: StoreMetrics,
        tasks: &TaskTracker,
        stop: CancellationToken,
    ) -> Result<Sidekiq, Error> {
        let (link, keeper) =
            Link::open(address, deadline, metrics, stop, move |connection| inspect::admit_other(connection, deadline))?;
        // Its log lines are about this Redis, not about the store.
        tasks.spawn(keeper.instrument(tracing::info_span!("main_queue_redis")));
        Ok(Sidekiq { link, prefix: prefix.into() })
    }

    /// What its keys start with.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Waits for the first connection; the reason if there is none after `patience`.
    pub async fn connected_within(&self, patience: Duration) -> Result<(), Error> {
        self.link.connected_within(patience).await
    }

    /// How queues are, in the order in which they are named.
    pub async fn queues(&self, names: &[&str]) -> Result<Vec<SidekiqQueue>, Error> {
        let fill = |command: &mut redis::Cmd, _: bool| _ = command.arg(0).arg(&*self.prefix).arg(names);
        let parts = reply::texts(LOOK.call(&self.link, fill).await?, "look")?;
        let queue = |part: &[String]| SidekiqQueue {
            depth: part[0].parse().unwrap_or(0),
            oldest: sidekiq::waits_since(&part[1]),
            paused: part[2] == "1",
        };
        Ok(parts.chunks_exact(3).map(queue).collect())
    }

    /// Its processes.
    pub async fn processes(&self) -> Result<Vec<SidekiqProcess>, Error> {
        let fill = |command: &mut redis::Cmd, _: bool| _ = command.arg(0).arg(&*self.prefix).arg(MOST_PROCESSES);
        let parts = reply::texts(CREW.call(&self.link, fill).await?, "crew")?;
        Ok(parts.chunks_exact(5).map(process).collect())
    }

    /// Pushes an entry of an outbox, unless that has happened; whether it is new there.
    pub async fn deliver(&self, marker: &str, parcel: &Parcel) -> Result<bool, Error> {
        let fill = |command: &mut redis::Cmd, _: bool| {
            command.arg(0).arg(&*self.prefix).arg(marker).arg(parcel.sequence).arg(&parcel.queue);
            command.arg(&parcel.payloads);
        };
        Ok(reply::number(DELIVER.call(&self.link, fill).await?) == 1)
    }

    /// Takes up to `most` jobs off a queue that no worker reads; what was taken in already is forgotten.
    pub async fn claim(&self, queue: &str, inbox: &str, taken_in: u64, most: usize) -> Result<Vec<Claimed>, Error> {
        let fill = |command: &mut redis::Cmd, _: bool| {
            command.arg(0).arg(format!("{}queue:{queue}", self.prefix)).arg(inbox).arg(format!("{inbox}:last"));
            command.arg(taken_in).arg(most);
        };
        let entries = reply::texts(CLAIM.call(&self.link, fill).await?, "claim")?;
        let claimed = |entry: String| {
            let (sequence, payload) = entry.split_once('\u{1f}')?;
            Some(Claimed { sequence: sequence.parse().ok()?, payload: payload.to_owned() })
        };
        entries.into_iter().map(|entry| claimed(entry).ok_or_else(|| Error::unreadable("claim"))).collect()
    }

    /// Buries what no worker could run, as Sidekiq itself does.
    pub async fn bury(&self, payload: &str, now: i64) -> Result<(), Error> {
        let mut command = redis::cmd("ZADD");
        command.arg(format!("{}dead", self.prefix)).arg(sidekiq::seconds(now)).arg(payload);
        self.link.call("bury", |_| command.clone()).await.map(drop)
    }
}

/// Reads identity, info, concurrency, busy, quiet. Up to 8.1.1 the info tells the concurrency; later the hash does.
fn process(part: &[String]) -> SidekiqProcess {
    let info: serde_json::Value = serde_json::from_str(&part[1]).unwrap_or_default();
    let texts = |value: &serde_json::Value| -> Vec<String> {
        value.as_array().into_iter().flatten().filter_map(|text| text.as_str().map(str::to_owned)).collect()
    };
    let mut queues = texts(&info["queues"]);
    let mut concurrency = part[2].parse().ok().or_else(|| info["concurrency"].as_u64());
    for capsule in info["capsules"].as_object().into_iter().flat_map(|capsules| capsules.values()) {
        queues.extend(capsule["weights"].as_object().into_iter().flat_map(|weights| weights.keys().cloned()));
        if part[2].is_empty() && info["concurrency"].is_null() {
            concurrency = Some(concurrency.unwrap_or(0) + capsule["concurrency"].as_u64().unwrap_or(0));
        }
    }
    queues.sort();
    queues.dedup();
    SidekiqProcess {
        identity: part[0].clone(),
        queues,
        concurrency: concurrency.unwrap_or(0),
        busy: part[3].parse().unwrap_or(0),
        quiet: part[4] == "true",
        version: info["version"].as_str().map(str::to_owned),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(info: &str, concurrency: &str, quiet: &str) -> SidekiqProcess {
        process(&["h:1".to_owned(), info.to_owned(), concurrency.to_owned(), "3".to_owned(), quiet.to_owned()])
    }

    #[test]
    fn processes_of_all_versions() {
        let expected = SidekiqProcess {
            identity: "h:1".to_owned(),
            queues: vec!["a".to_owned(), "b".to_owned()],
            concurrency: 10,
            busy: 3,
            quiet: false,
            version: None,
        };
        assert_eq!(read(r#"{"concurrency":10,"queues":["b","a"]}"#, "", "false"), expected);
        let capsules =
            r#"{"capsules":{"default":{"concurrency":4,"weights":{"a":0}},"x":{"concurrency":6,"weights":{"b":2}}}}"#;
        assert_eq!(read(capsules, "", "false"), expected);
        assert_eq!(read(capsules, "10", "true"), SidekiqProcess { quiet: true, ..expected.clone() });
        let tells = r#"{"concurrency":10,"queues":["b","a"],"version":"7.3.10"}"#;
        assert_eq!(read(tells, "", "false"), SidekiqProcess { version: Some("7.3.10".to_owned()), ..expected });
        assert_eq!(read("junk", "", ""), SidekiqProcess { identity: "h:1".to_owned(), busy: 3, ..Default::default() });
    }
}
