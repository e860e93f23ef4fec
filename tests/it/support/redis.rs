//! A Redis of the test's own, in a temporary directory, gone with the test.

use super::PATIENCE;
use fairgate::store::embedded::{Options, PrivateRedis};
use redis::aio::MultiplexedConnection;
use std::path::Path;
use tempfile::TempDir;

/// The server and its directory, dropped in this order.
pub struct TestRedis {
    server: PrivateRedis,
    directory: TempDir,
}

impl TestRedis {
    /// Starts a server that keeps nothing on disk.
    pub fn start() -> Self {
        Self::start_with(false)
    }

    /// Starts a server with an append-only file, which survives a kill of the server.
    pub fn durable() -> Self {
        Self::start_with(true)
    }

    fn start_with(durable: bool) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let options = Options { data_dir: directory.path().to_owned(), durable };
        let server = PrivateRedis::start(options).expect("redis-server starts; scripts/test installs it");
        TestRedis { server, directory }
    }

    pub fn socket(&self) -> &Path {
        self.server.socket()
    }

    pub fn url(&self) -> String {
        format!("unix://{}", self.socket().display())
    }

    pub fn pid(&self) -> u32 {
        self.server.pid()
    }

    /// Kills the server; it is started again by itself.
    pub fn kill(&self) {
        let pid = nix::unistd::Pid::from_raw(self.pid() as i32);
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL).expect("it runs");
    }

    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// A connection that goes around fairgate, to look and to disturb.
    pub async fn connection(&self) -> MultiplexedConnection {
        let client = redis::Client::open(self.url()).expect("a valid url");
        // Longer than a machine that runs many tests at once keeps a Redis waiting.
        let config = redis::AsyncConnectionConfig::new().set_response_timeout(Some(PATIENCE));
        client.get_multiplexed_async_connection_with_config(&config).await.expect("Redis accepts connections")
    }

    /// Runs a command and reads its reply.
    pub async fn command<T: redis::FromRedisValue>(&self, words: &[&str]) -> T {
        let mut command = redis::Cmd::new();
        words.iter().for_each(|word| _ = command.arg(*word));
        command.query_async(&mut self.connection().await).await.expect("Redis carries the command out")
    }

    /// All keys of the default namespace that contain a text.
    pub async fn keys_with(&self, part: &str) -> Vec<String> {
        let mut keys: Vec<String> = self.command(&["KEYS", &format!("fg:{{default}}:*{part}*")]).await;
        keys.sort();
        keys
    }
}
