//! A fairgate in its own process, as a user runs it, which a test may kill.

use super::{Client, eventually};
use nix::sys::signal::Signal;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};

/// A running `fairgate serve`; killed when dropped.
pub struct Process {
    child: Child,
    pub client: Client,
    /// The lines written to standard error so far.
    pub log: std::sync::Arc<std::sync::Mutex<Vec<String>>>,
}

impl Process {
    /// Starts `fairgate serve` with these arguments on a free port and waits until it is ready.
    pub async fn serve(arguments: &[&str]) -> Self {
        let process = Self::spawn(arguments);
        eventually("fairgate is ready", async || {
            process.client.try_send("GET", "/ready", &[], None).await.is_ok_and(|answer| answer.status == 200)
        })
        .await;
        process
    }

    /// Starts `fairgate serve` and does not wait.
    pub fn spawn(arguments: &[&str]) -> Self {
        Self::spawn_on(&free_address(), arguments)
    }

    /// Restarts it after a kill, with the same address.
    pub fn restart(&mut self, arguments: &[&str]) {
        let address = self.client.base().trim_start_matches("http://").to_owned();
        *self = Self::spawn_on(&address, arguments);
    }

    fn spawn_on(address: &str, arguments: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_fairgate"))
            .arg("serve")
            .args(["--listen", address])
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let log = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
        let (lines, sink) = (BufReader::new(child.stderr.take().expect("piped")), log.clone());
        std::thread::spawn(move || {
            lines.lines().map_while(Result::ok).for_each(|line| sink.lock().unwrap().push(line))
        });
        Process { child, client: Client::new(format!("http://{address}")), log }
    }

    /// Sends SIGKILL.
    pub fn kill(&mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it ends");
    }

    /// Sends SIGTERM and returns the exit status.
    pub fn terminate(&mut self) -> Option<i32> {
        self.signal(Signal::SIGTERM);
        self.child.wait().expect("it ends").code()
    }

    /// Sends SIGSTOP: the process stops, as in a long pause of its machine.
    pub fn freeze(&self) {
        self.signal(Signal::SIGSTOP);
    }

    /// Sends SIGCONT: the process continues and does not notice the pause.
    pub fn thaw(&self) {
        self.signal(Signal::SIGCONT);
    }

    fn signal(&self, signal: Signal) {
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(self.child.id() as i32), signal).expect("it runs");
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn logged(&self) -> String {
        self.log.lock().unwrap().join("\n")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have exited already, as the test wanted.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// Returns a free port below the range for outgoing connections. A client that connects to a server which was just
/// killed could otherwise get that very port as its own and connect to itself.
pub fn free_address() -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let start = std::process::id().wrapping_mul(97);
    loop {
        let port = 20_000 + (start + NEXT.fetch_add(1, Ordering::SeqCst)) % 12_000;
        if let Ok(address) = TcpListener::bind(("127.0.0.1", port as u16)).and_then(|listener| listener.local_addr()) {
            return address.to_string();
        }
    }
}
