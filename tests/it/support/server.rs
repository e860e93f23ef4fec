//! redis-server on TCP ports, alone and with a sentinel, and a fairgate that connects to it.

use super::{Client, eventually};
use fairgate::app::App;
use fairgate::clock::Clock;
use fairgate::config::{Config, StoreUrl};
use nix::sys::signal::Signal;
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// A redis-server on a TCP port; stopped when dropped.
pub struct Server {
    child: Child,
    pub port: u16,
    _directory: TempDir,
}

impl Server {
    pub fn start(arguments: &[&str]) -> Self {
        Self::start_in(tempfile::tempdir().unwrap(), free_port(), arguments)
    }

    pub fn start_in(directory: TempDir, port: u16, arguments: &[&str]) -> Self {
        let child = Command::new("redis-server")
            .current_dir(directory.path())
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
            .args(arguments)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("redis-server starts");
        Server { child, port, _directory: directory }
    }

    /// Starts a sentinel that monitors a primary under the name `mymaster`.
    fn sentinel(primary: &Server) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("sentinel.conf");
        let monitor = format!(
            "sentinel monitor mymaster 127.0.0.1 {} 1\nsentinel down-after-milliseconds mymaster 500\nsentinel failover-timeout mymaster 3000\n",
            primary.port
        );
        std::fs::write(&file, monitor).unwrap();
        let port = free_port();
        let child = Command::new("redis-server")
            .arg(&file)
            .args(["--sentinel", "--port", &port.to_string(), "--bind", "127.0.0.1"])
            .stdout(Stdio::null())
            .spawn()
            .expect("a sentinel starts");
        Server { child, port, _directory: directory }
    }

    /// The URL of `mymaster`, if this is a sentinel.
    pub fn sentinel_url(&self) -> String {
        format!("redis+sentinel://127.0.0.1:{}/mymaster/0", self.port)
    }

    /// Runs `redis-cli` with these arguments and returns its output.
    pub fn cli(&self, words: &[&str]) -> String {
        let output = Command::new("redis-cli").args(["-p", &self.port.to_string()]).args(words).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Waits until this server, a replica, has loaded the data of its primary. The primary counts a
    /// replica as online that is still loading and confirms nothing yet.
    pub async fn replicates(&self, primary: &Server) {
        eventually("the replica has loaded the data", async || {
            self.cli(&["INFO", "replication"]).contains("master_link_status:up")
                && primary.cli(&["INFO", "replication"]).contains("state=online")
        })
        .await;
    }

    /// Sends SIGSTOP: it keeps its connections and does not respond.
    pub fn freeze(&self) {
        self.signal(Signal::SIGSTOP);
    }

    /// Sends SIGCONT: it continues.
    pub fn thaw(&self) {
        self.signal(Signal::SIGCONT);
    }

    fn signal(&self, signal: Signal) {
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(self.child.id() as i32), signal).expect("it runs");
    }

    pub async fn up(self) -> Self {
        eventually("redis-server answers", async || {
            self.cli(&["PING"]).contains("PONG") || self.cli(&["PING"]).contains("NOAUTH")
        })
        .await;
        self
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A primary, its replica and a sentinel that monitors them.
pub struct SentinelSetup {
    pub primary: Server,
    pub replica: Server,
    pub sentinel: Server,
}

impl SentinelSetup {
    /// Starts all three, the primary with these arguments.
    pub async fn start(arguments: &[&str]) -> Self {
        let primary = Server::start(arguments).up().await;
        let replica = Server::start(&["--replicaof", "127.0.0.1", &primary.port.to_string()]).up().await;
        let sentinel = Server::sentinel(&primary).up().await;
        eventually("the sentinel knows the replica", async || {
            sentinel.cli(&["SENTINEL", "replicas", "mymaster"]).contains(&replica.port.to_string())
                && replica.cli(&["INFO", "replication"]).contains("master_link_status:up")
        })
        .await;
        SentinelSetup { primary, replica, sentinel }
    }
}

/// Starts a fairgate with the Redis at a URL.
pub async fn start(url: &str, change: impl FnOnce(&mut Config)) -> (App, Client) {
    let mut config = Config::default();
    config.server.listen = "127.0.0.1:0".parse().unwrap();
    config.store.url = Some(StoreUrl::parse(url).unwrap());
    change(&mut config);
    let app = App::start(&config, Clock::System).await.expect("fairgate starts");
    let client = Client::new(format!("http://{}", app.address));
    (app, client)
}
