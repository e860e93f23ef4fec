//! A request on its way through the server, and what of it handlers may ask for.

use super::Api;
use super::slots::Peer;
use axum::extract::FromRequestParts;
use axum::http::HeaderValue;
use axum::http::request::Parts;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// What a handler's arguments are taken from. Only `frame` makes one, once it is known who asks: so no handler can get at more of
/// the API than its caller's key opens.
pub(super) struct Visit {
    pub(super) api: Api,
    pub(super) ticket: Arc<Ticket>,
}

/// What is kept about a request, in one allocation for all who look at it.
pub(super) struct Ticket {
    pub(super) id: HeaderValue,
    /// The path of the table that leads to the handler.
    pub(super) route: &'static str,
    /// Whom the connection comes from: the client, or a proxy in front of this server.
    peer: Peer,
    waiting_us: AtomicU64,
}

impl Ticket {
    pub(super) fn new(id: HeaderValue, route: &'static str, peer: Peer) -> Arc<Self> {
        Arc::new(Ticket { id, route, peer, waiting_us: AtomicU64::new(0) })
    }

    /// See [`WaitingTime`].
    pub(super) fn waiting(&self) -> Duration {
        Duration::from_micros(self.waiting_us.load(Ordering::Relaxed))
    }
}

/// The id of a request, for handlers that answer with several results in one body.
pub(super) struct RequestId(Arc<Ticket>);

impl RequestId {
    pub(super) fn as_str(&self) -> &str {
        self.0.id.to_str().unwrap_or_default()
    }
}

/// Time that a request spends waiting because its client asked for that: it counts neither against the deadline nor as time
/// that we took.
pub(super) struct WaitingTime(Arc<Ticket>);

impl WaitingTime {
    /// Sets it: at first to what it may be, at the end to what it was.
    pub(super) fn set(&self, time: Duration) {
        self.0.waiting_us.store(time.as_micros() as u64, Ordering::Relaxed);
    }
}

impl FromRequestParts<Visit> for Api {
    type Rejection = Infallible;

    async fn from_request_parts(_: &mut Parts, visit: &Visit) -> Result<Api, Infallible> {
        Ok(visit.api.clone())
    }
}

impl FromRequestParts<Visit> for RequestId {
    type Rejection = Infallible;

    async fn from_request_parts(_: &mut Parts, visit: &Visit) -> Result<RequestId, Infallible> {
        Ok(RequestId(Arc::clone(&visit.ticket)))
    }
}

impl FromRequestParts<Visit> for Peer {
    type Rejection = Infallible;

    async fn from_request_parts(_: &mut Parts, visit: &Visit) -> Result<Peer, Infallible> {
        Ok(visit.ticket.peer)
    }
}

impl FromRequestParts<Visit> for WaitingTime {
    type Rejection = Infallible;

    async fn from_request_parts(_: &mut Parts, visit: &Visit) -> Result<WaitingTime, Infallible> {
        Ok(WaitingTime(Arc::clone(&visit.ticket)))
    }
}
