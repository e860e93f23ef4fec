//! A proxy between fairgate and Redis, or another server, that loses an answer: the call was carried out, and nobody knows.

use super::{TestRedis, eventually};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixStream};

/// Swallows the answer to the next request that holds a text, breaks the connection, and admits no other until opened.
pub struct ChaosProxy {
    port: u16,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    pattern: Mutex<Option<String>>,
    closed: AtomicBool,
}

impl ChaosProxy {
    /// A proxy that lets everything through until it is armed.
    pub async fn start(redis: &TestRedis) -> Self {
        let socket = redis.socket().to_owned();
        Self::between(move || UnixStream::connect(socket.clone())).await
    }

    /// The same before a server.
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

    /// The answer to the next request that holds this text is lost.
    pub fn arm(&self, pattern: &str) {
        *self.shared.pattern.lock().unwrap() = Some(pattern.to_owned());
    }

    /// Waits until an answer was lost.
    pub async fn struck(&self) {
        eventually("an answer was lost", async || self.shared.closed.load(Ordering::SeqCst)).await;
    }

    /// Admits no connections until opened.
    pub fn close(&self) {
        self.shared.closed.store(true, Ordering::SeqCst);
    }

    /// Admits connections again.
    pub fn open(&self) {
        self.shared.closed.store(false, Ordering::SeqCst);
    }
}

async fn pass_on(mut client: TcpStream, mut server: impl AsyncRead + AsyncWrite + Unpin, shared: Arc<Shared>) {
    let (mut request, mut answer) = (vec![0; 65536], vec![0; 65536]);
    let mut doomed: Option<String> = None;
    loop {
        tokio::select! {
            read = client.read(&mut request) => {
                let Some(length) = read.ok().filter(|length| *length > 0) else { return };
                let text = String::from_utf8_lossy(&request[..length]).into_owned();
                let found = shared.pattern.lock().unwrap().take_if(|pattern| text.contains(pattern.as_str()));
                doomed = found.or(doomed);
                if server.write_all(&request[..length]).await.is_err() {
                    return;
                }
            }
            read = server.read(&mut answer) => {
                let Some(length) = read.ok().filter(|length| *length > 0) else { return };
                // A script that Redis does not know yet was not run: its call comes again.
                let unknown = [&b"-NOSCRIPT"[..], b"-ERR Function not found"];
                if unknown.iter().any(|error| answer[..length].starts_with(error)) {
                    let pattern = doomed.take();
                    let mut armed = shared.pattern.lock().unwrap();
                    *armed = pattern.or(armed.take());
                } else if doomed.is_some() {
                    shared.closed.store(true, Ordering::SeqCst);
                    return;
                }
                if client.write_all(&answer[..length]).await.is_err() {
                    return;
                }
            }
        }
    }
}
