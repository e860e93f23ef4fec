//! Operations on the Redis of a Sidekiq: reading its queues and processes, pushing jobs, and taking
//! jobs.

use super::codec::wire;
use super::outbox::OutboxEntry;
use super::releases::ReleaseTarget;
use super::script::{SIDEKIQ_CLAIM, SIDEKIQ_DELIVER, SIDEKIQ_PROCESSES, SIDEKIQ_QUEUES, SIDEKIQ_RESTORE};
use super::{Error, reply};
use crate::domain::escape::unescape;
use crate::domain::job::sidekiq;
use crate::store::connection::{Address, Connection, health};
use crate::telemetry::StoreMetrics;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument;

/// Largest number of processes that are read.
pub(super) const MOST_PROCESSES: usize = 512;

/// A handle to a Sidekiq; clones share it.
#[derive(Clone)]
pub struct Sidekiq {
    pub(super) connection: Connection,
    prefix: Arc<str>,
}

/// A queue of a Sidekiq.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SidekiqQueue {
    pub depth: u64,
    /// Time since which the next job waits, in milliseconds.
    pub oldest: Option<i64>,
    pub paused: bool,
}

/// A process of a Sidekiq, according to its last report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SidekiqProcess {
    pub identity: String,
    pub queues: Vec<String>,
    pub concurrency: u64,
    /// The process' capsules.
    pub capsules: Vec<SidekiqCapsule>,
    pub busy: u64,
    /// True if the process fetches no more jobs.
    pub quiet: bool,
    /// Version of Sidekiq; not reported before version 7.
    pub version: Option<String>,
}

/// A capsule of a process: a group of threads and the queues that they serve.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SidekiqCapsule {
    pub queues: Vec<String>,
    /// Number of threads; `None` if the process reports only the total of all capsules.
    pub concurrency: Option<u64>,
}

impl SidekiqProcess {
    /// Returns the number of threads that serve a queue; all threads of the process if it does not
    /// report them by capsule.
    pub fn threads(&self, queue: &str) -> u64 {
        let serving = self.capsules.iter().filter(|capsule| capsule.queues.iter().any(|own| own == queue));
        let threads: Option<u64> = serving.map(|capsule| capsule.concurrency).sum();
        threads.unwrap_or(self.concurrency)
    }

    /// Returns the least number of threads that serve a queue and were idle at the last report.
    /// Busy threads are only reported for all capsules together.
    pub fn spare(&self, queue: &str) -> u64 {
        let serving = self.capsules.iter().filter(|capsule| capsule.queues.iter().any(|own| own == queue));
        serving.filter_map(|capsule| capsule.concurrency).map(|threads| threads.saturating_sub(self.busy)).sum()
    }
}

/// An entry of an inbox.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub struct Claimed {
    pub sequence: u64,
    pub payload: String,
}

#[derive(Serialize)]
struct SidekiqDeliver<'a> {
    prefix: &'a str,
    delivered: &'a str,
    sequence: u64,
    queue: &'a str,
    payloads: &'a [String],
}

#[derive(Serialize)]
struct SidekiqClaim<'a> {
    queue: String,
    inbox: &'a str,
    last: String,
    imported: u64,
    most: usize,
}

#[derive(Serialize)]
struct SidekiqRestore<'a> {
    restored: &'a str,
    sequence: u64,
    words: &'a [String],
    jobs: Vec<String>,
}

impl Sidekiq {
    /// Opens a Sidekiq. The connection is made in the background and kept until `stop`.
    pub fn open(
        address: &Address,
        prefix: &str,
        deadline: Duration,
        metrics: StoreMetrics,
        tasks: &TaskTracker,
        stop: CancellationToken,
    ) -> Result<Sidekiq, Error> {
        let (connection, keeper) = Connection::open(address, deadline, None, metrics, stop, move |connection| {
            health::check_other_server(connection, deadline)
        })?;
        // Mark the log lines as being about this Redis and not the store.
        tasks.spawn(keeper.instrument(tracing::info_span!("main_queue_redis")));
        Ok(Sidekiq { connection, prefix: prefix.into() })
    }

    /// Returns the prefix of the Sidekiq's keys.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Waits at most `patience` for the first connection. Returns the last failure if there is
    /// none.
    pub async fn connected_within(&self, patience: Duration) -> Result<(), Error> {
        self.connection.connected_within(patience).await
    }

    /// Returns the state of queues, in the order of `names`.
    pub async fn queues(&self, names: &[&str]) -> Result<Vec<SidekiqQueue>, Error> {
        let fill = |command: &mut redis::Cmd, _: bool| _ = command.arg(0).arg(&*self.prefix).arg(names);
        let parts = reply::texts(SIDEKIQ_QUEUES.call(&self.connection, fill).await?, "sidekiq_queues")?;
        let queue = |part: &[String]| SidekiqQueue {
            depth: part[0].parse().unwrap_or(0),
            oldest: sidekiq::waits_since(&part[1]),
            paused: part[2] == "1",
        };
        Ok(parts.chunks_exact(3).map(queue).collect())
    }

    /// Returns the Sidekiq's processes.
    pub async fn processes(&self) -> Result<Vec<SidekiqProcess>, Error> {
        let fill = |command: &mut redis::Cmd, _: bool| _ = command.arg(0).arg(&*self.prefix).arg(MOST_PROCESSES);
        let parts = reply::texts(SIDEKIQ_PROCESSES.call(&self.connection, fill).await?, "sidekiq_processes")?;
        Ok(parts.chunks_exact(5).map(process).collect())
    }

    /// Pushes an outbox entry into its queue. Returns false if it has been pushed before.
    pub async fn deliver(&self, marker: &str, entry: &OutboxEntry) -> Result<bool, Error> {
        let args = SidekiqDeliver {
            prefix: &self.prefix,
            delivered: marker,
            sequence: entry.sequence,
            queue: &entry.queue,
            payloads: &entry.payloads,
        };
        SIDEKIQ_DELIVER.call_packed_there(&self.connection, &args).await
    }

    /// Moves up to `most` jobs from a queue that no worker reads into an inbox, and returns the
    /// inbox. Removes entries up to `taken_in`, which have been imported.
    pub async fn claim(&self, queue: &str, inbox: &str, taken_in: u64, most: usize) -> Result<Vec<Claimed>, Error> {
        let args = SidekiqClaim {
            queue: format!("{}queue:{queue}", self.prefix),
            inbox,
            last: format!("{inbox}:last"),
            imported: taken_in,
            most,
        };
        SIDEKIQ_CLAIM.call_packed_there(&self.connection, &args).await
    }

    /// Returns the number of jobs of an inbox that have not been imported.
    pub async fn pending(&self, inbox: &str, taken_in: u64) -> Result<u64, Error> {
        let mut command = redis::cmd("LRANGE");
        command.arg(inbox).arg(0).arg(-1);
        let entries = reply::texts(self.connection.call("inbox", |_| command.clone()).await?, "inbox")?;
        let sequence = |entry: &String| wire::values(entry).next().and_then(|text| text.parse::<u64>().ok());
        Ok(entries.iter().filter_map(sequence).filter(|sequence| *sequence > taken_in).count() as u64)
    }

    /// Returns a queue as a target for jobs that are handed back. `name` is the source's name.
    pub fn queue_target(&self, name: String, queue: &str) -> ReleaseTarget {
        ReleaseTarget { name, words: vec!["queue".to_owned(), self.prefix.to_string(), queue.to_owned()] }
    }

    /// Hands an outbox entry back to the source of its jobs, unless that was done before. Returns
    /// false if the gem's locks have another owner.
    pub async fn give_back(&self, marker: &str, entry: &OutboxEntry, target: &ReleaseTarget) -> Result<bool, Error> {
        let pairs = entry.payloads.chunks_exact(2);
        let args = SidekiqRestore {
            restored: marker,
            sequence: entry.sequence,
            words: &target.words,
            jobs: pairs.flat_map(|job| [unescape(&job[0]), job[1].clone()]).collect(),
        };
        SIDEKIQ_RESTORE.call_packed_there(&self.connection, &args).await
    }

    /// Adds a payload that no worker could run to the dead set, as Sidekiq itself does.
    pub async fn bury(&self, payload: &str, now: i64) -> Result<(), Error> {
        let mut command = redis::cmd("ZADD");
        command.arg(format!("{}dead", self.prefix)).arg(sidekiq::seconds(now)).arg(payload);
        self.connection.call("bury", |_| command.clone()).await.map(drop)
    }
}

/// Parses identity, info, concurrency, busy, quiet. The info has the concurrency up to 8.1.1; later
/// versions have it in the hash.
fn process(part: &[String]) -> SidekiqProcess {
    let info: Value = serde_json::from_str(&part[1]).unwrap_or_default();
    let capsules = capsules(&info);
    let reported = part[2].parse().ok().or_else(|| info["concurrency"].as_u64());
    let concurrency = reported.unwrap_or_else(|| capsules.iter().filter_map(|capsule| capsule.concurrency).sum());
    let mut queues = texts(&info["queues"]);
    queues.extend(capsules.iter().flat_map(|capsule| capsule.queues.iter().cloned()));
    queues.sort();
    queues.dedup();
    let capsules = match capsules.len() {
        // All threads serve all queues. Their number may have changed since the process started.
        0 | 1 => vec![SidekiqCapsule { queues: queues.clone(), concurrency: Some(concurrency) }],
        _ => capsules,
    };
    SidekiqProcess {
        identity: part[0].clone(),
        queues,
        concurrency,
        capsules,
        busy: part[3].parse().unwrap_or(0),
        quiet: part[4] == "true",
        version: info["version"].as_str().map(str::to_owned),
    }
}

/// Returns the capsules of a process. Sidekiq reports their threads since 8.0.9, only the weights
/// of their queues in 7 and early 8, and no capsules in 6.
fn capsules(info: &Value) -> Vec<SidekiqCapsule> {
    let capsule = |weights: &Value, concurrency: &Value| SidekiqCapsule {
        queues: weights.as_object().into_iter().flat_map(|weights| weights.keys().cloned()).collect(),
        concurrency: concurrency.as_u64(),
    };
    match (info["capsules"].as_object(), info["weights"].as_array()) {
        (Some(capsules), _) => capsules.values().map(|one| capsule(&one["weights"], &one["concurrency"])).collect(),
        (None, Some(weights)) => weights.iter().map(|weights| capsule(weights, &Value::Null)).collect(),
        (None, None) => Vec::new(),
    }
}

fn texts(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().filter_map(|text| text.as_str().map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(info: &str, concurrency: &str, quiet: &str) -> SidekiqProcess {
        process(&["h:1".to_owned(), info.to_owned(), concurrency.to_owned(), "3".to_owned(), quiet.to_owned()])
    }

    fn capsule(queues: &[&str], concurrency: Option<u64>) -> SidekiqCapsule {
        SidekiqCapsule { queues: queues.iter().map(|queue| (*queue).to_owned()).collect(), concurrency }
    }

    #[test]
    fn processes_of_all_versions() {
        let expected = SidekiqProcess {
            identity: "h:1".to_owned(),
            queues: vec!["a".to_owned(), "b".to_owned()],
            concurrency: 10,
            capsules: vec![capsule(&["a", "b"], Some(10))],
            busy: 3,
            quiet: false,
            version: None,
        };
        assert_eq!(read(r#"{"concurrency":10,"queues":["b","a"]}"#, "", "false"), expected);
        let capsules =
            r#"{"capsules":{"default":{"concurrency":4,"weights":{"a":0}},"x":{"concurrency":6,"weights":{"b":2}}}}"#;
        let two = vec![capsule(&["a"], Some(4)), capsule(&["b"], Some(6))];
        let split = SidekiqProcess { capsules: two, ..expected.clone() };
        assert_eq!(read(capsules, "", "false"), split);
        assert_eq!(read(capsules, "10", "true"), SidekiqProcess { quiet: true, ..split });
        let tells = r#"{"concurrency":10,"queues":["b","a"],"version":"7.3.10"}"#;
        assert_eq!(read(tells, "", "false"), SidekiqProcess { version: Some("7.3.10".to_owned()), ..expected });
        let junk = SidekiqProcess { identity: "h:1".to_owned(), busy: 3, ..Default::default() };
        assert_eq!(read("junk", "", ""), SidekiqProcess { capsules: vec![capsule(&[], Some(0))], ..junk });
    }

    /// Records as 6.4, 7.3, 8.0, 8.1.1 and 8.1.2 write them, of a process with 3 busy threads.
    #[test]
    fn a_queue_has_the_threads_of_its_capsules() {
        let [one, two] = [r#"[{"a":2,"b":1}]"#, r#"[{"a":0,"b":0},{"b":0}]"#].map(|weights| {
            format!(
                r#"{{"concurrency":10,"queues":["a","b"],"weights":{weights},"version":"7.3.10","embedded":false}}"#
            )
        });
        let named = |concurrency: &str| {
            format!(
                r#"{{{concurrency}"capsules":{{"default":{{"concurrency":8,"mode":"strict","weights":{{"a":0,"b":0}}}},
                "single":{{"concurrency":4,"mode":"strict","weights":{{"b":0}}}}}},"queues":["a","b"],
                "weights":[{{"a":0,"b":0}},{{"b":0}}],"version":"8.1"}}"#
            )
        };
        let six = r#"{"concurrency":10,"queues":["a","b"]}"#;
        let changed = r#"{"capsules":{"default":{"concurrency":8,"mode":"strict","weights":{"a":0,"b":0}}}}"#;
        for (info, concurrency, threads, all) in [
            (six, "", [7, 7, 0], 10),
            (&one, "", [7, 7, 0], 10),
            (&two, "", [0, 0, 0], 10), // unknown how many of the ten threads serve which queue
            (&named(r#""concurrency":12,"#), "", [5, 6, 0], 8),
            (&named(""), "12", [5, 6, 0], 8),
            (changed, "20", [17, 17, 0], 20),
        ] {
            let process = read(info, concurrency, "false");
            assert_eq!(["a", "b", "c"].map(|queue| process.spare(queue)), threads, "{info}");
            assert_eq!((process.threads("a"), process.threads("c")), (all, 0), "{info}");
        }
    }
}
