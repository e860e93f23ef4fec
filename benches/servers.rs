//! The measured servers: a private Redis and a `fairgate serve` in a temporary directory.

use crate::client::{Connection, request};
use crate::directory::Directory;
use crate::process;
use crate::resp::Resp;
use anyhow::{Context, bail};
use fairgate::store::embedded::{self, PrivateRedis};
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

const PATIENCE_WITH_START: Duration = Duration::from_secs(20);

/// Running servers. Dropping the value stops them and removes their directory.
pub struct Servers {
    pub address: SocketAddr,
    server: Child,
    redis: PrivateRedis,
    /// Dropped last, because the servers use it until they stop.
    _directory: Directory,
}

impl Servers {
    /// Starts both, the server with the given configuration, and waits until it is ready.
    pub async fn start(durable: bool, config: &str) -> anyhow::Result<Servers> {
        let directory = Directory::with_config(config)?;
        let data_dir = directory.path().join("redis");
        let redis = PrivateRedis::start(embedded::Options { data_dir, durable })?;
        let mut server = spawn_server(directory.path(), redis.socket())?;
        let log = server.stderr.take().context("the server has no standard error")?;
        // From here on, dropping the value stops the server.
        let mut servers = Servers { address: ([127, 0, 0, 1], 0).into(), server, redis, _directory: directory };
        servers.address = announced_address(log)?;
        let deadline = Instant::now() + PATIENCE_WITH_START;
        while Connection::open(servers.address).await?.exchange(&request("/ready", "")).await? != 200 {
            if Instant::now() > deadline {
                bail!("the server did not become ready within {PATIENCE_WITH_START:?}");
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(servers)
    }

    pub fn server_pid(&self) -> u32 {
        self.server.id()
    }

    /// CPU time of the server, of Redis and of this process, which generates the load.
    pub fn cpu_times(&self) -> [Duration; 3] {
        [self.server.id(), self.redis.pid(), std::process::id()].map(process::cpu_time)
    }

    pub fn socket(&self) -> &Path {
        self.redis.socket()
    }

    pub fn redis(&self) -> anyhow::Result<Resp> {
        Resp::connect(self.redis.socket())
    }

    /// Makes Redis listen on a TCP port as well, and returns the port.
    pub fn redis_port(&self) -> anyhow::Result<u16> {
        // The port was free a moment ago.
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let mut redis = self.redis()?;
        redis.call(&["CONFIG", "SET", "bind", "127.0.0.1", "port", &port.to_string()]).context("Redis before 7.0?")?;
        Ok(port)
    }

    /// Removes all data; scripts stay loaded.
    pub fn empty(&self) -> anyhow::Result<()> {
        self.redis()?.call(&["FLUSHALL", "SYNC"]).map(drop)
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        // It may have exited already, and it holds nothing that needs a graceful shutdown.
        _ = self.server.kill();
        _ = self.server.wait();
    }
}

fn spawn_server(directory: &Path, socket: &Path) -> anyhow::Result<Child> {
    let program = server_program()?;
    let mut command = Command::new(&program);
    // The benchmark measures defaults, not settings from the environment or the working directory.
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("FAIRGATE_")) {
        command.env_remove(name);
    }
    command
        .args(["serve", "--listen", "127.0.0.1:0", "--redis"])
        .arg(format!("unix://{}", socket.display()))
        .env("FAIRGATE_LOG__LEVEL", "warn")
        .env("FAIRGATE_LOG__FORMAT", "json")
        // Connections are idle while other cases are prepared or measured.
        .env("FAIRGATE_SERVER__HEADER_TIMEOUT", "1h")
        .env("FAIRGATE_SERVER__IDLE_TIMEOUT", "1h")
        .current_dir(directory)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        // Ctrl-C goes to the whole foreground group; the server is stopped by `drop` instead.
        .process_group(0);
    // SAFETY: between fork and exec only prctl is called, which is async-signal-safe.
    #[expect(unsafe_code, reason = "no safe call sets a parent-death signal on a child")]
    unsafe {
        // If this process is killed, the server ends too. The signal depends on the spawning thread, which is the main
        // thread.
        command.pre_exec(|| Ok(nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL)?));
    }
    command.spawn().with_context(|| format!("cannot start {}; is it built?", program.display()))
}

/// The path of `fairgate`, which cargo builds beside this program.
fn server_program() -> anyhow::Result<PathBuf> {
    Ok(std::env::current_exe().context("cannot find our own program")?.with_file_name("fairgate"))
}

/// Reads the address from the server's `ready` log line; later lines are passed on to standard error.
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
