//! The listener: accepts connections up to a bound, serves HTTP/1.1 and HTTP/2, and ends without cutting answers off.

use super::{Api, frame};
use crate::telemetry::HttpMetrics;
use axum::body::Body;
use futures_util::FutureExt;
use hyper::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

/// A client that sends its headers slower than this holds a connection for nothing.
const HEADER_TIMEOUT: Duration = Duration::from_secs(60);

/// A bound listener and what it serves.
pub struct Server {
    pub listener: TcpListener,
    pub api: Api,
    pub max_connections: usize,
    pub max_header: usize,
    /// How long requests in flight may take to finish.
    pub grace: Duration,
    pub metrics: HttpMetrics,
}

impl Server {
    /// The address that it listens on.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until `stop`, then finishes what is in flight.
    pub async fn run(self, stop: CancellationToken) {
        let slots = Arc::new(Semaphore::new(self.max_connections));
        let connections = GracefulShutdown::new();
        let mut http = auto::Builder::new(TokioExecutor::new());
        // Answers are short: copying head and body together costs less than a vectored write of the two.
        http.http1()
            .timer(TokioTimer::new())
            .header_read_timeout(HEADER_TIMEOUT)
            .max_buf_size(self.max_header)
            .writev(false);
        http.http2().timer(TokioTimer::new()).max_header_list_size(self.max_header as u32);
        loop {
            // The slot comes first: further clients wait in the backlog, where they cost nothing.
            let Ok(slot) = Arc::clone(&slots).acquire_owned().await else { break };
            let stream = tokio::select! {
                () = stop.cancelled() => break,
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, _)) => stream,
                    Err(error) => {
                        // Out of file descriptors, most likely: a moment later some may be free.
                        tracing::warn!(%error, "cannot accept a connection");
                        tokio::time::sleep(Duration::from_millis(20)).await;
                        continue;
                    }
                },
            };
            prepare(&stream);
            let api = self.api.clone();
            let service = service_fn(move |request: Request<Incoming>| {
                frame::around(api.clone(), request.map(Body::new)).map(Ok::<_, Infallible>)
            });
            let connection = http.serve_connection(TokioIo::new(stream), service).into_owned();
            let connection = connections.watch(connection);
            let open = self.metrics.connections().clone();
            tokio::spawn(async move {
                open.inc();
                if let Err(error) = connection.await {
                    tracing::debug!(error, "a connection ended badly");
                }
                open.dec();
                drop(slot);
            });
        }
        drop(self.listener);
        if tokio::time::timeout(self.grace, connections.shutdown()).await.is_err() {
            tracing::warn!("some requests did not finish within the grace period");
        }
    }
}

fn prepare(stream: &TcpStream) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "cannot set TCP_NODELAY");
    }
}
