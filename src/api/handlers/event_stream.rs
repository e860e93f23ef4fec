//! The stream of events, as server-sent events.

use super::round_stream::{KEEP_ALIVE, last_event};
use crate::api::Api;
use crate::api::concurrency_limit::{ClientId, Peer, Permit};
use crate::api::error::ApiError;
use crate::auth::Session;
use crate::domain::invalid::Invalid;
use crate::store::{EventFilter, EventPage, Store};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream::{self, Stream, StreamExt};
use std::convert::Infallible;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// The interval at which a stream without new events polls the store.
const POLL_INTERVAL: Duration = Duration::from_millis(250);
/// The time that a client waits before it reconnects.
const RECONNECT_DELAY: Duration = Duration::from_secs(3);
/// The number of events that are read at once.
const PAGE_SIZE: usize = 200;
/// The number of streams that a client may have open at once. Each stream polls the store on its own.
pub(crate) const MOST_STREAMS: usize = 100;

/// Returns true if a request accepts a stream.
pub(crate) fn is_wanted(headers: &HeaderMap) -> bool {
    headers.get_all(header::ACCEPT).iter().any(|value| value.to_str().unwrap_or("").contains("text/event-stream"))
}

/// The state of an open stream.
struct EventReader {
    store: Store,
    filter: EventFilter,
    cursor: Option<String>,
    draining: CancellationToken,
    session: Session,
    _permit: Permit<ClientId>,
}

/// Takes a permit for one more stream of a client.
pub(crate) fn stream_permit(api: &Api, peer: Peer) -> Result<Permit<ClientId>, ApiError> {
    api.inner.event_streams.try_acquire(ClientId::of(api.caller(), peer)).ok_or_else(|| {
        let client = if api.caller().is_some() { "This key" } else { "This address" };
        let message = format!("{client} has {MOST_STREAMS} event streams open, which is the limit.");
        let error = ApiError::new(StatusCode::TOO_MANY_REQUESTS, "rate_limited", message).retry_after(5);
        error.hint("Close a stream, or poll GET /ojs/v1/events.")
    })
}

/// Streams the events after `Last-Event-ID` or else `after`; without either, the events from now on.
pub(crate) async fn stream(
    api: &Api,
    filter: EventFilter,
    after: Option<&str>,
    headers: &HeaderMap,
    peer: Peer,
) -> Result<Response, ApiError> {
    let permit = stream_permit(api, peer)?;
    let cursor = match last_event(headers).or(after) {
        None => api.store().last_event().await?,
        Some(id) => {
            // Checked before the stream starts, because a stream cannot report an error.
            if api.store().events(&filter, Some(id), 1).await?.is_none() {
                return Err(Invalid::field("Last-Event-ID", "the id of an event", id).into());
            }
            Some(id.to_owned())
        }
    };
    let draining = api.inner.draining.clone();
    let reader =
        EventReader { store: api.store().clone(), filter, cursor, draining, session: api.session(), _permit: permit };
    let keep_alive = KeepAlive::new().interval(KEEP_ALIVE).text("heartbeat");
    let mut response = Sse::new(events(reader)).keep_alive(keep_alive).into_response();
    response.headers_mut().insert("x-accel-buffering", header::HeaderValue::from_static("no"));
    Ok(response)
}

fn events(reader: EventReader) -> impl Stream<Item = Result<Event, Infallible>> {
    let first = stream::iter([Ok(Event::default().retry(RECONNECT_DELAY).comment("events follow"))]);
    let rest = stream::unfold(reader, |mut reader| async move {
        // Revoking a key ends its streams.
        while reader.session.is_valid() {
            // An error of the store does not end the stream: it continues after the last event that was sent.
            if let Ok(Some(page)) = reader.store.events(&reader.filter, reader.cursor.as_deref(), PAGE_SIZE).await {
                let EventPage { events, cursor, has_more } = page;
                reader.cursor = cursor.or(reader.cursor);
                if !events.is_empty() {
                    let frame = |event: crate::store::Event| {
                        Ok(Event::default().id(&event.id).event(&event.kind).data(event.to_json()))
                    };
                    return Some((stream::iter(events.into_iter().map(frame).collect::<Vec<_>>()), reader));
                }
                if has_more {
                    continue;
                }
            }
            tokio::select! {
                () = reader.draining.cancelled() => return None,
                () = tokio::time::sleep(POLL_INTERVAL) => {}
            }
        }
        None
    });
    first.chain(rest.flatten())
}
