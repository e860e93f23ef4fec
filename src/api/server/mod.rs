//! The listener: accepts a bounded number of connections, serves HTTP/1.1 and HTTP/2, and shuts down gracefully.

mod activity;
mod connection;

pub use connection::Timeouts;

use crate::api::Api;
use crate::api::concurrency_limit::{ConcurrencyLimit, Peer};
use crate::telemetry::HttpMetrics;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use hyper_util::server::conn::auto;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// A bound listener, the API that it serves, and its limits.
pub struct Server {
    pub listener: TcpListener,
    pub api: Api,
    pub max_connections: usize,
    pub max_connections_per_peer: Option<usize>,
    pub max_header: usize,
    /// The deadlines of silent clients.
    pub timeouts: Timeouts,
    /// The time that requests in flight have to finish after a shutdown started.
    pub grace: Duration,
    pub metrics: HttpMetrics,
}

impl Server {
    /// The address on which the server listens.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until `stop`, then finishes the requests in flight.
    pub async fn run(self, stop: CancellationToken) {
        let permits = Arc::new(Semaphore::new(self.max_connections));
        let peers = ConcurrencyLimit::new(self.max_connections_per_peer.unwrap_or(usize::MAX));
        let connections = TaskTracker::new();
        let http = self.http();
        loop {
            // The permit is taken before the connection is accepted: further clients wait in the backlog at no cost.
            let permit = tokio::select! {
                () = stop.cancelled() => break,
                permit = Arc::clone(&permits).acquire_owned() => permit,
            };
            let Ok(permit) = permit else { break };
            let (stream, peer) = tokio::select! {
                () = stop.cancelled() => break,
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, address)) => (stream, Peer::of(address.ip())),
                    Err(error) => {
                        // Most likely the process has no file descriptors left. Some may be free soon.
                        tracing::warn!(%error, "cannot accept a connection");
                        tokio::time::sleep(Duration::from_millis(20)).await;
                        continue;
                    }
                },
            };
            let Some(peer_permit) = peers.try_acquire(peer) else {
                tracing::debug!(?peer, "closed a connection: server.max_connections_per_peer is reached");
                self.metrics.closed("max_connections_per_peer");
                continue;
            };
            prepare(&stream);
            let serving =
                connection::serve(http.clone(), (stream, peer), self.api.clone(), self.timeouts, stop.clone());
            let metrics = self.metrics.clone();
            connections.spawn(async move {
                metrics.connections().inc();
                if let Some(overdue) = serving.await {
                    tracing::debug!(
                        ?peer,
                        deadline = overdue.name(),
                        "closed a connection: its client missed a deadline"
                    );
                    metrics.closed(overdue.name());
                }
                metrics.connections().dec();
                drop((permit, peer_permit));
            });
        }
        drop(self.listener);
        connections.close();
        if tokio::time::timeout(self.grace, connections.wait()).await.is_err() {
            tracing::warn!("some requests did not finish within the grace period");
        }
    }

    fn http(&self) -> auto::Builder<TokioExecutor> {
        let mut http = auto::Builder::new(TokioExecutor::new());
        // Responses are short, so copying head and body together costs less than a vectored write. The deadline for heads is
        // not hyper's, because hyper's would apply to idle connections as well.
        http.http1().timer(TokioTimer::new()).header_read_timeout(None).max_buf_size(self.max_header).writev(false);
        http.http2().timer(TokioTimer::new()).max_header_list_size(self.max_header as u32);
        http
    }
}

fn prepare(stream: &TcpStream) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "cannot set TCP_NODELAY");
    }
}
