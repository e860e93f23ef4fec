//! The servers that are measured: a private Redis and a `fairgate serve`, in a directory of their own.

use super::client::{Connection, request};
use super::directory::Directory;
use super::process;
use super::resp::Resp;
use crate::store::embedded::{self, PrivateRedis};
use anyhow::{Context, bail};
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

const PATIENCE_WITH_START: Duration = Duration::from_secs(20);

/// Running servers. Dropping it ends them and removes their directory.
pub(super) struct Rig {
    pub(super) address: SocketAddr,
    server: Child,
    redis: PrivateRedis,
    /// Last, because the others still use it when they end.
    _directory: Directory,
}

impl Rig {
    /// Starts both, the server with this configuration file, and waits until it is ready.
    pub(super) async fn start(durable: bool, config: &str) -> anyhow::Result<Rig> {
        let directory = Directory::with_config(config)?;
        let data_dir = directory.path().join("redis");
        let redis = PrivateRedis::start(embedded::Options { data_dir, durable })?;
        let mut server = spawn_server(directory.path(), redis.socket())?;
        let log = server.stderr.take().context("the server has no standard error")?;
        // From here on dropping the rig ends the server.
        let mut rig = Rig { address: ([127, 0, 0, 1], 0).into(), server, redis, _directory: directory };
        rig.address = announced_address(log)?;
        let deadline = Instant::now() + PATIENCE_WITH_START;
        while Connection::open(rig.address).await?.exchange(&request("/ready", "")).await? != 200 {
            if Instant::now() > deadline {
                bail!("the server did not become ready within {PATIENCE_WITH_START:?}");
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(rig)
    }

    pub(super) fn server_pid(&self) -> u32 {
        self.server.id()
    }

    /// CPU time of the server, of Redis and of this process, which makes the load.
    pub(super) fn cpu_times(&self) -> [Duration; 3] {
        [self.server.id(), self.redis.pid(), std::process::id()].map(process::cpu_time)
    }

    pub(super) fn socket(&self) -> &Path {
        self.redis.socket()
    }

    pub(super) fn redis(&self) -> anyhow::Result<Resp> {
        Resp::connect(self.redis.socket())
    }

    /// The port on which Redis listens, from now on, besides its socket.
    pub(super) fn redis_port(&self) -> anyhow::Result<u16> {
        // It was free a moment ago, and the loopback is ours.
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let mut redis = self.redis()?;
        redis.call(&["CONFIG", "SET", "bind", "127.0.0.1", "port", &port.to_string()]).context("Redis before 7.0?")?;
        Ok(port)
    }

    /// Removes all data; scripts stay loaded.
    pub(super) fn empty(&self) -> anyhow::Result<()> {
        self.redis()?.call(&["FLUSHALL", "SYNC"]).map(drop)
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        // It may have ended already; nothing that it holds is worth a graceful end.
        _ = self.server.kill();
        _ = self.server.wait();
    }
}

fn spawn_server(directory: &Path, socket: &Path) -> anyhow::Result<Child> {
    let program = std::env::current_exe().context("cannot find our own program")?;
    let mut command = Command::new(program);
    // Defaults are measured, not what somebody's environment or working directory sets.
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("FAIRGATE_")) {
        command.env_remove(name);
    }
    command
        .args(["serve", "--listen", "127.0.0.1:0", "--redis"])
        .arg(format!("unix://{}", socket.display()))
        .env("FAIRGATE_LOG__LEVEL", "warn")
        .env("FAIRGATE_LOG__FORMAT", "json")
        // Connections are silent while other cases are prepared or take their turns.
        .env("FAIRGATE_SERVER__HEADER_TIMEOUT", "1h")
        .env("FAIRGATE_SERVER__IDLE_TIMEOUT", "1h")
        .current_dir(directory)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        // Ctrl-C goes to the whole foreground group; we end the server ourselves.
        .process_group(0);
    // SAFETY: between fork and exec only prctl is called, which is async-signal-safe.
    #[expect(unsafe_code, reason = "no safe call sets a parent-death signal on a child")]
    unsafe {
        // If we are killed, the server ends too. The signal follows the thread that spawns, which is our main one.
        command.pre_exec(|| Ok(nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL)?));
    }
    command.spawn().context("cannot start the server")
}

/// The address from the line that the server writes when it is ready; what it writes later is passed on.
fn announced_address(log: ChildStderr) -> anyhow::Result<SocketAddr> {
    let (found, address) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(log).lines().map_while(Result::ok) {
            let event: serde_json::Value = serde_json::from_str(&line).unwrap_or_default();
            let url = event["url"].as_str().filter(|_| event["message"] == "ready");
            match url.and_then(|url| url.strip_prefix("http://")?.parse().ok()) {
                Some(address) => _ = found.send(address),
                None => eprintln!("server: {line}"),
            }
        }
    });
    address.recv_timeout(PATIENCE_WITH_START).context("the server did not start")
}
