//! The stream of planner rounds, as server-sent events.

use super::event_stream;
use crate::api::Api;
use crate::api::concurrency_limit::{ClientId, Peer, Permit};
use crate::api::error::ApiError;
use crate::api::path::PathParam;
use crate::auth::Session;
use crate::rules::KnownRules;
use crate::store::{RecordedRound, Signal, Store};
use axum::http::HeaderMap;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream::{self, Stream, StreamExt};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::fmt;
use std::time::Duration;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

/// The interval of the comments that keep an idle stream open.
pub(crate) const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// The number of past rounds that a reader gets when it reconnects.
const CATCH_UP: usize = 100;
/// The position before the first round of a rule.
const FIRST: &str = "0-0";

/// The number of rules whose positions fit into the id of an event.
const MOST_POSITIONS: usize = 50;

/// `GET /admin/planner/events`: rounds of all rules.
pub(crate) async fn all_rounds(api: Api, headers: HeaderMap, peer: Peer) -> Result<Response, ApiError> {
    let known = api.registry().rules().known().await?;
    let permit = event_stream::stream_permit(&api, peer)?;
    Ok(rounds(&api, &known, None, &headers, permit).await)
}

/// `GET /admin/planner/{rule}/events`.
pub(crate) async fn rounds_of(
    api: Api,
    PathParam(name): PathParam,
    headers: HeaderMap,
    peer: Peer,
) -> Result<Response, ApiError> {
    let known = api.registry().rules().known().await?;
    if !known.has(&name) {
        return Err(ApiError::not_found("plan rule", &name));
    }
    let permit = event_stream::stream_permit(&api, peer)?;
    Ok(rounds(&api, &known, Some(name), &headers, permit).await)
}

/// Returns the id of the last event that the client received, from its headers.
pub(crate) fn last_event(headers: &HeaderMap) -> Option<&str> {
    headers.get("last-event-id").and_then(|id| id.to_str().ok())
}

/// The state of an open stream.
struct RoundReader {
    store: Store,
    signals: Receiver<Signal>,
    only: Option<String>,
    positions: Positions,
    /// Rules that may have unsent rounds for which no signal will come.
    behind: Vec<String>,
    draining: tokio_util::sync::CancellationToken,
    session: Session,
    _permit: Permit<ClientId>,
}

async fn rounds(
    api: &Api,
    known: &KnownRules,
    only: Option<String>,
    headers: &HeaderMap,
    permit: Permit<ClientId>,
) -> Response {
    let store = api.store().clone();
    let signals = store.signals();
    let is_read = |rule: &str| known.has(rule) && only.as_deref().is_none_or(|only| only == rule);
    let last = last_event(headers).unwrap_or_default();
    let mut positions = Positions::parse(last, is_read);
    let behind = positions.rules();
    // Other rules start at their newest round. Their positions are recorded, because event ids contain them.
    for rule in known.names().filter(|rule| is_read(rule)).take(MOST_POSITIONS) {
        if positions.of(rule).is_none()
            && let Ok(newest) = store.recorded_rounds(rule, None, 1).await
        {
            positions.append(rule, newest.first().map_or(FIRST, |round| &round.id));
        }
    }
    let (draining, session) = (api.inner.draining.clone(), api.session());
    let reader = RoundReader { store, signals, only, positions, behind, draining, session, _permit: permit };
    Sse::new(events(reader)).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response()
}

fn events(reader: RoundReader) -> impl Stream<Item = Result<Event, Infallible>> {
    stream::unfold(reader, |mut reader| async move {
        loop {
            let rule = reader.next().await?;
            let fresh = reader.fresh(&rule).await;
            if !fresh.is_empty() {
                return Some((stream::iter(fresh), reader));
            }
        }
    })
    .flatten()
}

impl RoundReader {
    /// Waits for a rule that may have unsent rounds; `None` ends the stream.
    async fn next(&mut self) -> Option<String> {
        loop {
            if let Some(rule) = self.behind.pop() {
                return Some(rule);
            }
            let signal = tokio::select! {
                () = self.draining.cancelled() => return None,
                () = self.session.ended() => return None,
                signal = self.signals.recv() => signal,
            };
            match signal {
                Ok(Signal::Round { rule }) if self.only.as_ref().is_none_or(|only| *only == rule) => return Some(rule),
                Ok(Signal::Missed) | Err(RecvError::Lagged(_)) => self.behind = self.positions.rules(),
                Ok(_) => {}
                Err(RecvError::Closed) => return None,
            }
        }
    }

    /// Returns the unsent rounds of a rule, oldest first. For a rule without a position, only the newest round.
    async fn fresh(&mut self, rule: &str) -> Vec<Result<Event, Infallible>> {
        let seen = self.positions.of(rule).map(str::to_owned);
        let most = if seen.is_some() { CATCH_UP } else { 1 };
        // While the store is unavailable, the stream misses events. The rounds themselves remain recorded.
        let recorded = self.store.recorded_rounds(rule, None, most).await.unwrap_or_default();
        let mut fresh: Vec<RecordedRound> =
            recorded.into_iter().take_while(|round| Some(&round.id) != seen.as_ref()).collect();
        fresh.reverse();
        let event = |round: RecordedRound| {
            self.positions.advance(rule, round.id);
            Ok(Event::default().event("round").id(self.positions.to_string()).data(round.document))
        };
        fresh.into_iter().map(event).collect()
    }
}

/// The last round of each rule that was sent, latest first. Displayed as `rule/id,rule/id`, it is the id of an event, with
/// which a client resumes the stream.
#[derive(Default)]
struct Positions(VecDeque<(String, String)>);

impl Positions {
    fn parse(text: &str, is_read: impl Fn(&str) -> bool) -> Positions {
        let mut positions = Positions::default();
        for (rule, id) in text.split(',').take(MOST_POSITIONS).filter_map(|position| position.split_once('/')) {
            if is_read(rule) && is_stream_id(id) && positions.of(rule).is_none() {
                positions.append(rule, id);
            }
        }
        positions
    }

    fn of(&self, rule: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == rule).map(|(_, id)| id.as_str())
    }

    fn rules(&self) -> Vec<String> {
        self.0.iter().map(|(rule, _)| rule.clone()).collect()
    }

    fn append(&mut self, rule: &str, id: &str) {
        self.0.push_back((rule.to_owned(), id.to_owned()));
    }

    fn advance(&mut self, rule: &str, id: String) {
        self.0.retain(|(known, _)| known != rule);
        self.0.push_front((rule.to_owned(), id));
    }
}

impl fmt::Display for Positions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, (rule, id)) in self.0.iter().take(MOST_POSITIONS).enumerate() {
            write!(f, "{}{rule}/{id}", if number == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

fn is_stream_id(id: &str) -> bool {
    !id.is_empty() && id.len() <= 40 && id.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-')
}
