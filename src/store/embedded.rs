//! The private Redis: a child process on a unix socket in the data directory, stopped with us and restarted if it dies.

use super::Address;
use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Longest path that fits into a socket address.
const LONGEST_SOCKET_PATH: usize = 107;
/// How long a server of an earlier run may take to finish before we give up on its data directory.
const PATIENCE_WITH_PREDECESSOR: Duration = Duration::from_secs(15);
const PATIENCE_WITH_START: Duration = Duration::from_secs(30);
/// How long the server may take to write its data at the end before it is killed.
const PATIENCE_WITH_STOP: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(10);

/// How the private server runs.
#[derive(Clone, Debug)]
pub struct Options {
    pub data_dir: PathBuf,
    /// Whether jobs must survive: an append-only file. Tests go without.
    pub durable: bool,
}

/// Why there is no private server. Each message has its cause in it, so no field is called `source`: it would be printed twice.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(
        "neither redis-server nor valkey-server is installed: install one (Debian: `apt-get install redis-server`), or set store.url to use a Redis that runs already"
    )]
    NotInstalled,
    #[error(
        "cannot use the data directory {path}: {error}; choose a directory that this user may write with --data-dir, or set store.url to use a Redis that runs already"
    )]
    Directory { path: PathBuf, error: io::Error },
    #[error(
        "the data directory {path} is in use by another fairgate (process {holder}): stop that one, or choose another with --data-dir"
    )]
    InUse { path: PathBuf, holder: String },
    #[error("cannot start {program}: {error}")]
    Spawn { program: PathBuf, error: io::Error },
    #[error("{program} did not come up: {reason}; its log is {log}")]
    NotUp { program: PathBuf, reason: String, log: PathBuf },
}

/// A running private server. Dropping it stops the server and waits until its data is written.
pub struct PrivateRedis {
    socket: PathBuf,
    pid: Arc<AtomicU32>,
    stopping: Arc<AtomicBool>,
    keeper: Option<JoinHandle<()>>,
}

impl PrivateRedis {
    /// Starts the installed server and waits until it accepts connections.
    pub fn start(options: Options) -> Result<PrivateRedis, Error> {
        let program = find_program().ok_or(Error::NotInstalled)?;
        Self::start_program(Path::new(program), options)
    }

    /// Starts a certain server program and waits until it accepts connections.
    pub fn start_program(program: &Path, options: Options) -> Result<PrivateRedis, Error> {
        let directory = prepare(&options.data_dir)?;
        let lock = lock(&directory)?;
        let socket = socket_path(&directory);
        let (pid, stopping) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicBool::new(false)));
        let server =
            Server { program: program.to_owned(), directory, socket: socket.clone(), durable: options.durable, lock };
        let (report, started) = mpsc::channel();
        let (keeper_pid, keeper_stopping) = (Arc::clone(&pid), Arc::clone(&stopping));
        // The parent-death signal follows the thread that spawned the child, so that must be one that lives as long.
        let keeper = std::thread::Builder::new()
            .name("private-redis".to_owned())
            .spawn(move || server.keep(&report, &keeper_pid, &keeper_stopping))
            .map_err(|error| Error::Spawn { program: program.to_owned(), error })?;
        let redis = PrivateRedis { socket, pid, stopping, keeper: Some(keeper) };
        // A keeper that ended without a report has panicked; dropping `redis` joins it.
        started.recv().unwrap_or(Err(Error::NotInstalled))?;
        Ok(redis)
    }

    /// Where it listens.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// The address for the store.
    pub fn address(&self) -> Address {
        Address::unix(&self.socket)
    }

    /// The server's process id.
    pub fn pid(&self) -> u32 {
        self.pid.load(Ordering::SeqCst)
    }
}

impl Drop for PrivateRedis {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::SeqCst);
        if let Some(keeper) = self.keeper.take() {
            // A keeper that panicked has nothing left to stop.
            _ = keeper.join();
        }
    }
}

struct Server {
    program: PathBuf,
    directory: PathBuf,
    socket: PathBuf,
    durable: bool,
    /// Inherited by the child, so that the directory stays locked until the child is gone too, whatever happens to us.
    lock: File,
}

impl Server {
    fn keep(self, report: &mpsc::Sender<Result<(), Error>>, pid: &AtomicU32, stopping: &AtomicBool) {
        let mut child = match self.spawn_and_wait() {
            Ok(child) => {
                pid.store(child.id(), Ordering::SeqCst);
                _ = report.send(Ok(())); // nobody waits any more only if the start was given up
                child
            }
            Err(error) => {
                _ = report.send(Err(error));
                return;
            }
        };
        loop {
            if stopping.load(Ordering::SeqCst) {
                return self.stop(&mut child);
            }
            match child.try_wait() {
                Ok(None) => std::thread::sleep(POLL * 5),
                outcome => {
                    tracing::error!(?outcome, log = %self.log().display(), "the private Redis ended, starting it again");
                    match self.spawn_and_wait() {
                        Ok(next) => {
                            child = next;
                            pid.store(child.id(), Ordering::SeqCst);
                        }
                        Err(error) => {
                            tracing::error!(%error, "the private Redis does not start, trying again");
                            std::thread::sleep(Duration::from_millis(500));
                        }
                    }
                }
            }
        }
    }

    fn spawn_and_wait(&self) -> Result<Child, Error> {
        // A socket left behind by a killed server would look like one that listens.
        _ = std::fs::remove_file(&self.socket);
        let mut child = self.spawn().map_err(|error| Error::Spawn { program: self.program.clone(), error })?;
        let mut deadline = Instant::now() + PATIENCE_WITH_START;
        loop {
            match UnixStream::connect(&self.socket).and_then(greet).as_deref() {
                Ok("+PONG") => return Ok(child),
                // However long it takes to read a large file, it is on its way.
                Ok("-LOAD") => deadline = Instant::now() + PATIENCE_WITH_START,
                _ => {}
            }
            let reason = match child.try_wait() {
                Ok(Some(status)) => {
                    let reason = format!("it ended with {status}");
                    return Err(Error::NotUp { program: self.program.clone(), reason, log: self.log() });
                }
                Ok(None) if Instant::now() < deadline => {
                    std::thread::sleep(POLL);
                    continue;
                }
                _ => format!("it did not answer within {PATIENCE_WITH_START:?}"),
            };
            self.stop(&mut child);
            return Err(Error::NotUp { program: self.program.clone(), reason, log: self.log() });
        }
    }

    fn spawn(&self) -> io::Result<Child> {
        let lock = self.lock.try_clone()?;
        let mut command = Command::new(&self.program);
        command
            .current_dir(&self.directory)
            .args(["--port", "0", "--unixsocket"])
            .arg(&self.socket)
            .args(["--unixsocketperm", "700", "--daemonize", "no", "--save", "", "--dir", "."])
            .args(["--appendonly", if self.durable { "yes" } else { "no" }, "--appendfsync", "everysec"])
            .args(["--maxmemory-policy", "noeviction", "--loglevel", "notice", "--logfile", "redis.log"])
            // Nobody but us runs scripts here, and ours are bounded: watching over how long they take would cost 4 % of each.
            .args(["--lua-time-limit", "0"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let parent = nix::unistd::getpid();
        // SAFETY: between fork and exec only async-signal-safe calls are made: prctl, getppid and fcntl.
        #[expect(unsafe_code, reason = "no safe call sets a parent-death signal on a child")]
        unsafe {
            command.pre_exec(move || {
                nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGTERM)?;
                // The parent may have died before the signal was asked for.
                if nix::unistd::getppid() != parent {
                    return Err(io::Error::other("the parent is gone"));
                }
                let keep = nix::fcntl::FdFlag::empty();
                nix::fcntl::fcntl(&lock, nix::fcntl::FcntlArg::F_SETFD(keep))?;
                // Ctrl-C goes to the whole foreground group; the server must outlive us to save what we still send.
                nix::unistd::setpgid(nix::unistd::Pid::from_raw(0), nix::unistd::Pid::from_raw(0))?;
                Ok(())
            });
        }
        command.spawn()
    }

    fn stop(&self, child: &mut Child) {
        let id = nix::unistd::Pid::from_raw(child.id() as i32);
        _ = nix::sys::signal::kill(id, nix::sys::signal::Signal::SIGTERM);
        let deadline = Instant::now() + PATIENCE_WITH_STOP;
        while matches!(child.try_wait(), Ok(None)) {
            if Instant::now() > deadline {
                tracing::error!("the private Redis does not stop, killing it");
                _ = child.kill();
                _ = child.wait();
                break;
            }
            std::thread::sleep(POLL);
        }
        _ = std::fs::remove_file(&self.socket);
    }

    fn log(&self) -> PathBuf {
        self.directory.join("redis.log")
    }
}

/// How the server's answer to PING begins: while it loads its data it listens, but refuses.
fn greet(mut stream: UnixStream) -> io::Result<String> {
    stream.set_read_timeout(Some(Duration::from_secs(1)))?;
    stream.write_all(b"PING\r\n")?;
    let mut answer = [0; 5];
    stream.read_exact(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// The first server program on the PATH.
pub fn find_program() -> Option<&'static str> {
    let path = std::env::var_os("PATH")?;
    let on_path = |program: &&str| std::env::split_paths(&path).any(|directory| directory.join(program).is_file());
    ["redis-server", "valkey-server"].into_iter().find(on_path)
}

fn prepare(directory: &Path) -> Result<PathBuf, Error> {
    // An error names the absolute path: the default one is relative to the working directory.
    let absolute = || std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned());
    let failed = |error| Error::Directory { path: absolute(), error };
    std::fs::create_dir_all(directory).map_err(failed)?;
    // Jobs may hold anything; nobody else on this machine should read them.
    std::fs::set_permissions(directory, Permissions::from_mode(0o700)).map_err(failed)?;
    directory.canonicalize().map_err(failed)
}

/// Takes the directory for us, waiting a little for a server of an earlier run that is still saving.
fn lock(directory: &Path) -> Result<File, Error> {
    let failed = |error| Error::Directory { path: directory.to_owned(), error };
    let path = directory.join("fairgate.lock");
    let mut file = OpenOptions::new().create(true).truncate(false).read(true).write(true).open(path).map_err(failed)?;
    let deadline = Instant::now() + PATIENCE_WITH_PREDECESSOR;
    loop {
        match file.try_lock() {
            Ok(()) => break,
            Err(std::fs::TryLockError::Error(error)) => return Err(failed(error)),
            Err(std::fs::TryLockError::WouldBlock) => {
                let mut holder = String::new();
                _ = file.rewind().and_then(|()| file.read_to_string(&mut holder));
                let holder = holder.trim().to_owned();
                // A holder that is alive will not finish for our sake.
                if is_fairgate(&holder) || Instant::now() > deadline {
                    return Err(Error::InUse { path: directory.to_owned(), holder });
                }
                std::thread::sleep(POLL * 5);
            }
        }
    }
    let write = |file: &mut File| {
        file.set_len(0)?;
        file.rewind()?;
        write!(file, "{}", std::process::id())
    };
    write(&mut file).map_err(failed)?;
    Ok(file)
}

/// Whether another fairgate runs under that process id; ids are used again, in containers even our own.
fn is_fairgate(pid: &str) -> bool {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    name.trim() == "fairgate" && pid != std::process::id().to_string()
}

/// The socket in the data directory, or a short name in the temporary one where that path is too long for a socket.
fn socket_path(directory: &Path) -> PathBuf {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let inside = directory.join("redis.sock");
    if inside.as_os_str().len() <= LONGEST_SOCKET_PATH {
        return inside;
    }
    let mut hasher = DefaultHasher::new();
    directory.hash(&mut hasher);
    std::env::temp_dir().join(format!("fairgate-{:016x}.sock", hasher.finish()))
}

/// The address of the server that runs in a data directory, whoever started it.
pub fn address_in(directory: &Path) -> Address {
    let directory = directory.canonicalize().unwrap_or_else(|_| directory.to_owned());
    Address::unix(&socket_path(&directory))
}
