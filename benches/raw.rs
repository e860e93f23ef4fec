//! Raw Redis on the same machine in the same run: the rate of `redis-benchmark`, without a server in between.

use crate::fixture::new_job;
use crate::load::Measured;
use crate::monitor::Monitor;
use crate::scenario::JOB;
use crate::servers::Servers;
use anyhow::{Context, bail, ensure};
use fairgate::clock::Clock;
use fairgate::domain::job::NewJob;
use fairgate::store::{self, Enqueued};
use fairgate::telemetry::StoreMetrics;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::process::Stdio;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The placeholder that `redis-benchmark` replaces by twelve random digits.
const RANDOM: &str = "__rand_int__";
/// The range of random numbers. They have 31 bits; a larger range overflows and makes every number 0.
const RANGE: &str = "2000000000";
const PATIENCE: Duration = Duration::from_secs(60);
/// Requests of the short warm-up run, whose rate determines the length of the measured run.
const FIRST: u64 = 20_000;
const MOST: u64 = 500_000;

/// The connection of `redis-benchmark` to Redis.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// TCP to this port on the loopback interface, as the HTTP load uses it.
    Tcp(u16),
    UnixSocket,
}

/// A command to send repeatedly.
pub struct Command {
    words: Vec<Vec<u8>>,
}

impl Command {
    /// `SET` of a new key with a value of a job's size.
    pub fn set() -> Command {
        Command { words: ["SET", &format!("raw:{RANDOM}"), JOB].map(|word| word.as_bytes().to_vec()).to_vec() }
    }

    /// The store's call that enqueues a single job, each time with another id.
    pub async fn enqueue(servers: &Servers) -> anyhow::Result<Command> {
        let job = new_job(JOB)?;
        let id = job.id.clone();
        let mut words = Self::observe(servers, job).await?;
        // Only the id in the job's keys varies; the id in the envelope stays, with the same length.
        let place =
            words.iter().position(|word| word == id.as_bytes()).context("the enqueue call contains no job id")?;
        words[place] = format!("01946000-0000-7000-8000-{RANDOM}").into_bytes();
        Ok(Command { words })
    }

    /// Enqueues a job and returns the call that Redis received for it.
    async fn observe(servers: &Servers, job: NewJob) -> anyhow::Result<Vec<Vec<u8>>> {
        let options = store::Options {
            address: store::Address::unix(servers.socket()),
            namespace: "default".to_owned(),
            call_timeout: Duration::from_secs(5),
            wait_replicas: 0,
            wait_replicas_timeout: Duration::from_secs(1),
            clock: Clock::System,
            settings: store::Settings::default(),
            older_data: store::OlderData::Refuse,
        };
        let stop = CancellationToken::new();
        let store = store::Store::open(options, StoreMetrics::default(), &TaskTracker::new(), stop.clone())?;
        let mut monitor = Monitor::start(servers.redis()?)?;
        let id = job.id.clone();
        // No plan rule exists, so their version is empty.
        let answer = store.enqueue(vec![job], "".into()).await?;
        stop.cancel();
        ensure!(matches!(answer, Enqueued::Stored(_)), "the job was not stored: {answer:?}");
        monitor.find(|words| words.iter().any(|word| word == id.as_bytes()))
    }

    /// Sends the command with many clients for about `seconds` on an empty Redis.
    pub async fn measure(
        &self,
        servers: &Servers,
        transport: Transport,
        connections: usize,
        seconds: f64,
    ) -> anyhow::Result<Measured> {
        let place: Vec<OsString> = match transport {
            Transport::Tcp(port) => vec!["-h".into(), "127.0.0.1".into(), "-p".into(), port.to_string().into()],
            Transport::UnixSocket => vec!["-s".into(), servers.socket().into()],
        };
        servers.empty()?;
        let first = self.run(&place, connections, FIRST).await?;
        let requests = ((first.rate() * seconds) as u64).clamp(FIRST, MOST);
        servers.empty()?;
        let measured = self.run(&place, connections, requests).await?;
        let keys = servers.redis()?.keys()?;
        // Some random ids collide; an error or a constant id would leave almost no keys.
        ensure!(keys as u64 > requests * 9 / 10, "redis-benchmark sent {requests} requests and left only {keys} keys");
        Ok(measured)
    }

    async fn run(&self, place: &[OsString], connections: usize, requests: u64) -> anyhow::Result<Measured> {
        let mut command = tokio::process::Command::new("redis-benchmark");
        command.args(place).arg("-c").arg(connections.to_string()).arg("-n").arg(requests.to_string());
        command.args(["-r", RANGE, "--csv"]).args(self.words.iter().map(|word| OsStr::from_bytes(word)));
        command.stdin(Stdio::null()).kill_on_drop(true);
        let output =
            tokio::time::timeout(PATIENCE, command.output()).await.context("redis-benchmark did not finish")?;
        let output = output.context("cannot run redis-benchmark (Debian: `apt-get install redis-tools`)")?;
        let text = String::from_utf8_lossy(&output.stdout);
        if !output.status.success() {
            bail!("redis-benchmark failed: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        read_row(&text, requests).with_context(|| format!("cannot parse the output of redis-benchmark: {text}"))
    }
}

/// Parses `"name","rps","avg","min","p50","p95","p99","max"` from its end, because the name is the command and contains
/// quotes.
fn read_row(text: &str, requests: u64) -> Option<Measured> {
    let mut fields = text.lines().last()?.rsplit(',').map(|field| field.trim_matches('"').parse::<f64>().ok());
    let (_max, p99_ms, _p95, p50_ms) = (fields.next()??, fields.next()??, fields.next()??, fields.next()??);
    let (_min, _average, rate) = (fields.next()??, fields.next()??, fields.next()??);
    Some(Measured { jobs: requests, seconds: requests as f64 / rate, p50_ms, p99_ms, ..Measured::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_parsed_if_its_name_contains_commas() {
        let text = "\"test\",\"rps\"\n\"SET k {\"a\": 1,\"b\": 2}\",\"50000.00\",\"0.4\",\"0.1\",\"0.5\",\"0.8\",\"1.2\",\"5.2\"\n";
        let row = read_row(text, 100_000).expect("readable");
        assert_eq!((row.rate(), row.p50_ms, row.p99_ms), (50_000.0, 0.5, 1.2));
        assert!(read_row("\"test\",\"rps\"\n", 1).is_none());
    }
}
