//! Ruby processes: Sidekiq itself, and scripts that use its client.

use crate::support::{TestRedis, eventually};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const APPLICATION: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/sidekiq/worker.rb");
const MIDDLEWARE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/sidekiq/fairgate.rb");

/// The line that a job writes when it runs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ran {
    pub class: String,
    pub jid: String,
    pub args: String,
}

impl Ran {
    /// The first of its arguments.
    pub fn tenant(&self) -> String {
        let args: serde_json::Value = serde_json::from_str(&self.args).expect("arguments");
        args[0].as_str().expect("a tenant").to_owned()
    }
}

/// A Sidekiq process; killed when dropped.
pub struct Worker {
    child: Child,
    ran: PathBuf,
}

/// The options of a worker process.
pub struct WorkerOptions<'a> {
    pub queues: &'a [&'a str],
    pub threads: usize,
    /// Seconds that each job takes.
    pub takes: f64,
    pub database: u32,
    /// True if each job fails after writing its line.
    pub fails: bool,
    /// The option `retry` of `HeavyJob`.
    pub retries: &'a str,
}

impl Default for WorkerOptions<'_> {
    fn default() -> Self {
        WorkerOptions { queues: &["heavy"], threads: 1, takes: 0.0, database: 0, fails: false, retries: "true" }
    }
}

fn environment(command: &mut Command, redis: &TestRedis, database: u32, ran: &Path) {
    command.env("SOCKET", redis.socket()).env("DB", database.to_string()).env("RAN", ran).env("MIDDLEWARE", MIDDLEWARE);
}

impl Worker {
    /// Starts an unmodified Sidekiq.
    pub fn start(redis: &TestRedis, options: &WorkerOptions<'_>) -> Worker {
        let ran = redis.directory().join("ran");
        let mut command = Command::new("sidekiq");
        command.args(["-r", APPLICATION, "-c", &options.threads.to_string(), "-t", "1"]);
        options.queues.iter().for_each(|queue| _ = command.args(["-q", queue]));
        environment(&mut command, redis, options.database, &ran);
        command.env("TAKES", options.takes.to_string()).env("RETRIES", options.retries);
        if options.fails {
            command.env("FAILS", "1");
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().expect("sidekiq starts; scripts/test installs ruby-sidekiq");
        Worker { child, ran }
    }

    /// The jobs that have run so far.
    pub fn ran(&self) -> Vec<Ran> {
        let text = std::fs::read_to_string(&self.ran).unwrap_or_default();
        // The last line may be incomplete.
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        let line = |line: &str| {
            let mut parts = line.splitn(3, ' ').map(str::to_owned);
            Some(Ran { class: parts.next()?, jid: parts.next()?, args: parts.next()? })
        };
        whole.lines().map(|text| line(text).expect("a line")).collect()
    }

    /// Waits until this number of jobs have run.
    pub async fn ran_all(&self, jobs: usize) -> Vec<Ran> {
        eventually(&format!("{jobs} jobs have run"), async || self.ran().len() >= jobs).await;
        self.ran()
    }

    /// Sends the signal to stop fetching jobs.
    pub fn quiet(&self) {
        let pid = nix::unistd::Pid::from_raw(self.child.id() as i32);
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTSTP).expect("it runs");
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // It may have exited already.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// Runs a script with the test application loaded; returns its output.
pub async fn script(redis: &TestRedis, text: &str) -> String {
    let mut command = Command::new("ruby");
    command.args(["-r", APPLICATION, "-e", text]);
    environment(&mut command, redis, 0, &redis.directory().join("ran"));
    let output = tokio::task::spawn_blocking(move || command.output()).await.expect("it runs").expect("ruby starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}
