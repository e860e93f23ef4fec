//! The private Redis: a child process on a unix socket in the data directory. It stops with this
//! process and is restarted if it dies.

use crate::store::Address;
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

/// Longest path that fits into a socket address, in bytes.
const LONGEST_SOCKET_PATH: usize = 107;
/// How long to wait for a server of an earlier run to release the data directory.
const PATIENCE_WITH_PREDECESSOR: Duration = Duration::from_secs(15);
const PATIENCE_WITH_START: Duration = Duration::from_secs(30);
/// How long the server may take to save its data before it is killed.
const PATIENCE_WITH_STOP: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(10);

/// Options of the private server.
#[derive(Clone, Debug)]
pub struct Options {
    pub data_dir: PathBuf,
    /// Uses an append-only file, so that jobs survive a restart. Tests go without.
    pub durable: bool,
}

/// An error that prevents the private server from starting. Each message contains its cause, so no
/// field is named `source`, which would be printed a second time.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(
        "neither redis-server nor valkey-server is installed: install one (Debian: `apt-get install redis-server`), or set store.url to use an existing Redis"
    )]
    NotInstalled,
    #[error(
        "cannot use the data directory {path}: {error}; choose a directory that this user may write with --data-dir, or set store.url to use an existing Redis"
    )]
    Directory { path: PathBuf, error: io::Error },
    #[error(
        "the data directory {path} is in use by another fairgate (process {holder}): stop that process, or choose another directory with --data-dir"
    )]
    InUse { path: PathBuf, holder: String },
    #[error("cannot start {program}: {error}")]
    Spawn { program: PathBuf, error: io::Error },
    #[error("{program} did not start: {reason}; see its log {log}")]
    NotUp { program: PathBuf, reason: String, log: PathBuf },
}

/// A running private server. Dropping it stops the server and waits until its data is saved.
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

    /// Starts the given server program and waits until it accepts connections.
    pub fn start_program(program: &Path, options: Options) -> Result<PrivateRedis, Error> {
        let directory = prepare(&options.data_dir)?;
        let lock = lock(&directory)?;
        let socket = socket_path(&directory);
        let (pid, stopping) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicBool::new(false)));
        let server =
            Server { program: program.to_owned(), directory, socket: socket.clone(), durable: options.durable, lock };
        let (report, started) = mpsc::channel();
        let (keeper_pid, keeper_stopping) = (Arc::clone(&pid), Arc::clone(&stopping));
        // The kernel sends the parent-death signal when the thread that spawned the child ends, so
        // this thread must live as long as the child.
        let keeper = std::thread::Builder::new()
            .name("private-redis".to_owned())
            .spawn(move || server.keep(&report, &keeper_pid, &keeper_stopping))
            .map_err(|error| Error::Spawn { program: program.to_owned(), error })?;
        let redis = PrivateRedis { socket, pid, stopping, keeper: Some(keeper) };
        // A keeper that ended without a message has panicked; dropping `redis` joins it.
        started.recv().unwrap_or(Err(Error::NotInstalled))?;
        Ok(redis)
    }

    /// Returns the path of the server's unix socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Returns the address for the store.
    pub fn address(&self) -> Address {
        Address::unix(&self.socket)
    }

    /// Returns the server's process id. It changes when the server is restarted.
    pub fn pid(&self) -> u32 {
        self.pid.load(Ordering::SeqCst)
    }
}

impl Drop for PrivateRedis {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::SeqCst);
        if let Some(keeper) = self.keeper.take() {
            // An error means that the keeper has panicked; then there is nothing left to stop.
            _ = keeper.join();
        }
    }
}

struct Server {
    program: PathBuf,
    directory: PathBuf,
    socket: PathBuf,
    durable: bool,
    /// The child inherits this file, so that the directory stays locked until the child has ended
    /// too, even if this process is killed.
    lock: File,
}

impl Server {
    fn keep(self, report: &mpsc::Sender<Result<(), Error>>, pid: &AtomicU32, stopping: &AtomicBool) {
        let mut child = match self.spawn_and_wait() {
            Ok(child) => {
                pid.store(child.id(), Ordering::SeqCst);
                _ = report.send(Ok(())); // fails only if the caller has given up
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
                    tracing::error!(?outcome, log = %self.log().display(), "private Redis exited; restarting it");
                    match self.spawn_and_wait() {
                        Ok(next) => {
                            child = next;
                            pid.store(child.id(), Ordering::SeqCst);
                        }
                        Err(error) => {
                            tracing::error!(%error, "cannot restart the private Redis; retrying");
                            std::thread::sleep(Duration::from_millis(500));
                        }
                    }
                }
            }
        }
    }

    fn spawn_and_wait(&self) -> Result<Child, Error> {
        // The socket of a killed server would look like a listening one.
        _ = std::fs::remove_file(&self.socket);
        let mut child = self.spawn().map_err(|error| Error::Spawn { program: self.program.clone(), error })?;
        let mut deadline = Instant::now() + PATIENCE_WITH_START;
        loop {
            match UnixStream::connect(&self.socket).and_then(greet).as_deref() {
                Ok("+PONG") => return Ok(child),
                // It is loading its data, which takes as long as the file is large.
                Ok("-LOAD") => deadline = Instant::now() + PATIENCE_WITH_START,
                _ => {}
            }
            let reason = match child.try_wait() {
                Ok(Some(status)) => {
                    let reason = format!("it exited ({status})");
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
            // Only this process runs scripts here, and they are bounded. Watching their run time
            // would cost 4 % of each call.
            .args(["--lua-time-limit", "0"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let parent = nix::unistd::getpid();
        // SAFETY: between fork and exec only async-signal-safe calls are made: prctl, getppid and
        // fcntl.
        #[expect(unsafe_code, reason = "no safe call sets a parent-death signal on a child")]
        unsafe {
            command.pre_exec(move || {
                nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGTERM)?;
                // The parent may have died before the signal was set.
                if nix::unistd::getppid() != parent {
                    return Err(io::Error::other("the parent process has exited"));
                }
                let keep = nix::fcntl::FdFlag::empty();
                nix::fcntl::fcntl(&lock, nix::fcntl::FcntlArg::F_SETFD(keep))?;
                // Ctrl-C goes to the whole foreground process group. The server must outlive this
                // process to save its last writes.
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
                tracing::error!("private Redis did not stop in time; killing it");
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

/// Returns the first five bytes of the reply to PING. A server that is loading its data accepts
/// connections but answers `-LOADING`.
fn greet(mut stream: UnixStream) -> io::Result<String> {
    stream.set_read_timeout(Some(Duration::from_secs(1)))?;
    stream.write_all(b"PING\r\n")?;
    let mut answer = [0; 5];
    stream.read_exact(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// Returns the first server program on the PATH.
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
    // Jobs may contain secrets, so other users of this machine must not read them.
    std::fs::set_permissions(directory, Permissions::from_mode(0o700)).map_err(failed)?;
    directory.canonicalize().map_err(failed)
}

/// Locks the directory for this process. Waits for a server of an earlier run that is still saving.
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
                // A running fairgate will not release it, so do not wait.
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

/// Returns true if another fairgate has this process id. Ids are reused, and in a container even
/// this process may have the old one.
fn is_fairgate(pid: &str) -> bool {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    name.trim() == "fairgate" && pid != std::process::id().to_string()
}

/// Returns the socket's path: in the data directory, or a short one in the temporary directory if
/// that path is too long.
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

/// Returns the address of the private server of a data directory, whichever process started it.
pub fn address_in(directory: &Path) -> Address {
    let directory = directory.canonicalize().unwrap_or_else(|_| directory.to_owned());
    Address::unix(&socket_path(&directory))
}
