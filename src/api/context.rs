//! The context of a request, and the extractors by which handlers read it.

use super::Api;
use super::concurrency_limit::Peer;
use axum::extract::FromRequestParts;
use axum::http::HeaderValue;
use axum::http::request::Parts;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The state from which the arguments of a handler are extracted.
///
/// Only the middleware creates one, after it has authorized the request. So a handler reaches no more of the API than the
/// caller's key permits.
pub(super) struct HandlerState {
    pub(super) api: Api,
    pub(super) context: Arc<RequestContext>,
}

/// Facts about a request, shared by the middleware and the extractors in one allocation.
pub(super) struct RequestContext {
    pub(super) id: HeaderValue,
    /// The path of the matched route, as the table of routes has it.
    pub(super) route: &'static str,
    /// The other end of the connection: the client, or a proxy in front of this server.
    peer: Peer,
    waiting_us: AtomicU64,
}

impl RequestContext {
    pub(super) fn new(id: HeaderValue, route: &'static str, peer: Peer) -> Arc<Self> {
        Arc::new(RequestContext { id, route, peer, waiting_us: AtomicU64::new(0) })
    }

    /// See [`WaitingTime`].
    pub(super) fn waiting(&self) -> Duration {
        Duration::from_micros(self.waiting_us.load(Ordering::Relaxed))
    }
}

/// The id of a request, for handlers that put several results into one body.
pub(super) struct RequestId(Arc<RequestContext>);

impl RequestId {
    pub(super) fn as_str(&self) -> &str {
        self.0.id.to_str().unwrap_or_default()
    }
}

/// The time that a request spends waiting because its client asked for it. It extends the deadline of the request and does
/// not count as time that the server took.
pub(super) struct WaitingTime(Arc<RequestContext>);

impl WaitingTime {
    /// Sets the time: first the longest possible wait, at the end the actual one.
    pub(super) fn set(&self, time: Duration) {
        self.0.waiting_us.store(time.as_micros() as u64, Ordering::Relaxed);
    }
}

impl FromRequestParts<HandlerState> for Api {
    type Rejection = Infallible;

    async fn from_request_parts(_: &mut Parts, state: &HandlerState) -> Result<Api, Infallible> {
        Ok(state.api.clone())
    }
}

impl FromRequestParts<HandlerState> for RequestId {
    type Rejection = Infallible;

    async fn from_request_parts(_: &mut Parts, state: &HandlerState) -> Result<RequestId, Infallible> {
        Ok(RequestId(Arc::clone(&state.context)))
    }
}

impl FromRequestParts<HandlerState> for Peer {
    type Rejection = Infallible;

    async fn from_request_parts(_: &mut Parts, state: &HandlerState) -> Result<Peer, Infallible> {
        Ok(state.context.peer)
    }
}

impl FromRequestParts<HandlerState> for WaitingTime {
    type Rejection = Infallible;

    async fn from_request_parts(_: &mut Parts, state: &HandlerState) -> Result<WaitingTime, Infallible> {
        Ok(WaitingTime(Arc::clone(&state.context)))
    }
}
