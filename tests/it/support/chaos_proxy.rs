//! A proxy between fairgate and Redis, or another server, that loses responses: the call was carried out, but its
//! sender does not know.

use super::{TestRedis, eventually};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixStream};

/// A proxy that forwards everything until a fault is armed.
pub struct ChaosProxy {
    port: u16,
    shared: Arc<Shared>,
}

/// A fault that strikes the next request that contains a text, or its response.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fault {
    /// The response is lost with the connection, and no other connection is accepted until the proxy is opened.
    Lose,
    /// The response and its connection break off in the middle.
    Cut,
    /// No further response arrives on this connection, and the connection stays open.
    Mute,
    /// The request reaches the server only when `deliver` is called, even if its client is gone by then.
    Delay,
}

#[derive(Default)]
struct Shared {
    armed: Mutex<Option<(Fault, String)>>,
    struck: AtomicBool,
    closed: AtomicBool,
    delivering: AtomicBool,
    /// One of this many responses is cut; 0 cuts none.
    period: AtomicUsize,
    answers: AtomicUsize,
    cuts: AtomicUsize,
}

impl ChaosProxy {
    /// Starts a proxy to a Redis that forwards everything until a fault is armed.
    pub async fn start(redis: &TestRedis) -> Self {
        let socket = redis.socket().to_owned();
        Self::between(move || UnixStream::connect(socket.clone())).await
    }

    /// Starts a proxy to a server at an address.
    pub async fn before(address: SocketAddr) -> Self {
        Self::between(move || TcpStream::connect(address)).await
    }

    async fn between<S, F>(connect: impl Fn() -> F + Send + 'static) -> Self
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
        F: Future<Output = std::io::Result<S>> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        let shared = Arc::new(Shared::default());
        let for_task = Arc::clone(&shared);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                if !for_task.closed.load(Ordering::SeqCst) {
                    let (connecting, shared) = (connect(), Arc::clone(&for_task));
                    tokio::spawn(async move {
                        if let Ok(server) = connecting.await {
                            pass_on(client, server, shared).await;
                        }
                    });
                }
            }
        });
        ChaosProxy { port, shared }
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    pub fn http_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Loses the response to the next request that contains this text.
    pub fn arm(&self, pattern: &str) {
        self.arm_with(Fault::Lose, pattern);
    }

    /// Arms a fault for the next request that contains this text.
    pub fn arm_with(&self, fault: Fault, pattern: &str) {
        self.shared.struck.store(false, Ordering::SeqCst);
        *self.shared.armed.lock().unwrap() = Some((fault, pattern.to_owned()));
    }

    /// Waits until the armed fault has struck.
    pub async fn struck(&self) {
        eventually("the fault has happened", async || self.shared.struck.load(Ordering::SeqCst)).await;
    }

    /// Delivers a request that was delayed.
    pub fn deliver(&self) {
        self.shared.delivering.store(true, Ordering::SeqCst);
    }

    /// Cuts one of every `answers` responses from now on; 0 cuts none.
    pub fn cut_one_of(&self, answers: usize) {
        self.shared.period.store(answers, Ordering::SeqCst);
    }

    /// The number of responses cut so far.
    pub fn cuts(&self) -> usize {
        self.shared.cuts.load(Ordering::SeqCst)
    }

    /// Refuses connections until opened.
    pub fn close(&self) {
        self.shared.closed.store(true, Ordering::SeqCst);
    }

    /// Accepts connections again.
    pub fn open(&self) {
        self.shared.closed.store(false, Ordering::SeqCst);
    }
}

impl Shared {
    /// Takes the armed fault if a request contains its text.
    fn fault_of(&self, request: &[u8]) -> Option<(Fault, String)> {
        let text = String::from_utf8_lossy(request);
        self.armed.lock().unwrap().take_if(|(_, pattern)| text.contains(pattern.as_str()))
    }

    /// The number of bytes that arrive of a response that is cut; `None` if it is not cut.
    fn cut(&self, length: usize, is_doomed: bool) -> Option<usize> {
        let number = self.answers.fetch_add(1, Ordering::SeqCst);
        let period = self.period.load(Ordering::SeqCst);
        if !is_doomed && (period == 0 || number % period != period - 1) {
            return None;
        }
        // Cuts fall at every position of a response over time, whatever the period.
        let cuts = self.cuts.fetch_add(1, Ordering::SeqCst);
        Some(if is_doomed { length / 2 } else { cuts * 7 % length })
    }

    async fn delayed(&self) {
        self.struck.store(true, Ordering::SeqCst);
        while !self.delivering.load(Ordering::SeqCst) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

async fn pass_on(mut client: TcpStream, mut server: impl AsyncRead + AsyncWrite + Unpin, shared: Arc<Shared>) {
    let (mut request, mut answer) = (vec![0; 65536], vec![0; 65536]);
    let mut doomed: Option<(Fault, String)> = None;
    loop {
        tokio::select! {
            read = client.read(&mut request) => {
                let Some(length) = read.ok().filter(|length| *length > 0) else { return };
                let bytes = &request[..length];
                doomed = shared.fault_of(bytes).or(doomed);
                if doomed.take_if(|(fault, _)| *fault == Fault::Delay).is_some() {
                    shared.delayed().await;
                }
                if server.write_all(bytes).await.is_err() {
                    return;
                }
            }
            read = server.read(&mut answer) => {
                let Some(length) = read.ok().filter(|length| *length > 0) else { return };
                // A script that Redis does not know was not run and is called again, so the fault stays armed. A muted
                // connection stays mute.
                let is_unknown = |error: &[u8]| answer[..length].starts_with(error);
                if is_unknown(b"-NOSCRIPT") || is_unknown(b"-ERR Function not found") {
                    let mut armed = shared.armed.lock().unwrap();
                    *armed = doomed.take_if(|(fault, _)| *fault != Fault::Mute).or(armed.take());
                }
                let fault = doomed.as_ref().map(|(fault, _)| *fault);
                if let Some(length) = shared.cut(length, fault == Some(Fault::Cut)) {
                    shared.struck.store(true, Ordering::SeqCst);
                    _ = client.write_all(&answer[..length]).await; // it may be gone
                    return;
                }
                match fault {
                    Some(Fault::Lose) => {
                        shared.closed.store(true, Ordering::SeqCst);
                        shared.struck.store(true, Ordering::SeqCst);
                        return;
                    }
                    Some(Fault::Mute) => shared.struck.store(true, Ordering::SeqCst),
                    _ if client.write_all(&answer[..length]).await.is_err() => return,
                    _ => {}
                }
            }
        }
    }
}
