//! A Redis server for one test, in a temporary directory that is removed with it.

use super::PATIENCE;
use fairgate::store::embedded::{Options, PrivateRedis};
use redis::aio::MultiplexedConnection;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A server version that `scripts/test` downloads, other than the installed one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ServerVersion {
    /// The oldest version that fairgate supports.
    Redis6,
    /// The newest version.
    Valkey9,
}

impl ServerVersion {
    /// The path at which `scripts/test` puts it.
    fn program(self) -> PathBuf {
        let (folder, step) = match self {
            ServerVersion::Redis6 => ("redis-6.2", "need_old_redis"),
            ServerVersion::Valkey9 => ("valkey-9.1", "need_new_redis"),
        };
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("a target folder");
        let program = target.join("servers").join(folder).join("server");
        assert!(program.is_file(), "{} is missing: scripts/test downloads it ({step})", program.display());
        program
    }
}

/// The server and its directory, dropped in this order.
pub struct TestRedis {
    server: PrivateRedis,
    directory: TempDir,
}

impl TestRedis {
    /// Starts a server without persistence.
    pub fn start() -> Self {
        Self::start_with(false)
    }

    /// Starts a server with an append-only file, so that its data survives a kill.
    pub fn durable() -> Self {
        Self::start_with(true)
    }

    fn start_with(durable: bool) -> Self {
        let (directory, options) = Self::prepare(durable);
        let server = PrivateRedis::start(options).expect("redis-server starts; scripts/test installs it");
        TestRedis { server, directory }
    }

    /// Starts a server of another version, with an append-only file.
    pub fn of_version(version: ServerVersion) -> Self {
        let (directory, options) = Self::prepare(true);
        let server = PrivateRedis::start_program(&version.program(), options).expect("the server starts");
        TestRedis { server, directory }
    }

    fn prepare(durable: bool) -> (TempDir, Options) {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let options = Options { data_dir: directory.path().to_owned(), durable };
        (directory, options)
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

    /// Kills the server; it is restarted automatically.
    pub fn kill(&self) {
        let pid = nix::unistd::Pid::from_raw(self.pid() as i32);
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL).expect("it runs");
    }

    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Connects with a password.
    pub async fn connection_as(&self, password: &str) -> MultiplexedConnection {
        let url = format!("redis+unix://{}?pass={password}", self.socket().display());
        let client = redis::Client::open(url).expect("a valid url");
        client.get_multiplexed_async_connection().await.expect("Redis accepts the password")
    }

    /// A direct connection, to inspect and to change data without fairgate.
    pub async fn connection(&self) -> MultiplexedConnection {
        let client = redis::Client::open(self.url()).expect("a valid url");
        // Longer than Redis can be delayed on a machine that runs many tests at once.
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
