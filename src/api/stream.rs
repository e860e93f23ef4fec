//! Rounds as they happen, as server-sent events.

use super::Api;
use super::path::Name;
use super::problem::Problem;
use crate::store::{RecordedRound, Signal, Store};
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream::{self, Stream, StreamExt};
use std::collections::HashMap;
use std::convert::Infallible;
use std::time::Duration;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// Rounds sent at once to a reader that was away.
const CATCH_UP: usize = 100;

/// `GET /admin/planner/events`: rounds of all rules.
pub(super) async fn all_rounds(State(api): State<Api>, headers: HeaderMap) -> Response {
    rounds(&api, None, &headers)
}

/// `GET /admin/planner/{rule}/events`.
pub(super) async fn rounds_of(
    State(api): State<Api>,
    Name(name): Name,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let known = api.desk().rules().known().await?;
    if known.rules.get(&name).is_none() && !known.draining.contains(&name) {
        return Err(Problem::missing("plan rule", &name));
    }
    Ok(rounds(&api, Some(name), &headers))
}

/// What a reader has seen and waits for.
struct Reader {
    store: Store,
    signals: Receiver<Signal>,
    only: Option<String>,
    /// The last round sent of each rule.
    seen: HashMap<String, String>,
    draining: tokio_util::sync::CancellationToken,
}

fn rounds(api: &Api, only: Option<String>, headers: &HeaderMap) -> Response {
    let mut seen = HashMap::new();
    // A reader that comes back tells where it was: `rule/id`.
    let last = headers.get("last-event-id").and_then(|id| id.to_str().ok()).and_then(|id| id.split_once('/'));
    if let Some((rule, id)) = last.filter(|(_, id)| is_stream_id(id)) {
        seen.insert(rule.to_owned(), id.to_owned());
    }
    let reader = Reader {
        store: api.store().clone(),
        signals: api.store().signals(),
        only,
        seen,
        draining: api.inner.draining.clone(),
    };
    let events = events(reader);
    Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response()
}

fn is_stream_id(id: &str) -> bool {
    id.len() <= 40 && id.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-')
}

fn events(reader: Reader) -> impl Stream<Item = Result<Event, Infallible>> {
    stream::unfold(reader, |mut reader| async move {
        loop {
            let signal = tokio::select! {
                () = reader.draining.cancelled() => return None,
                signal = reader.signals.recv() => signal,
            };
            let rule = match signal {
                Ok(Signal::Round { rule }) if reader.only.as_ref().is_none_or(|only| *only == rule) => rule,
                Ok(_) | Err(RecvError::Lagged(_)) => continue,
                Err(RecvError::Closed) => return None,
            };
            let fresh = reader.fresh(&rule).await;
            if !fresh.is_empty() {
                return Some((stream::iter(fresh), reader));
            }
        }
    })
    .flatten()
}

impl Reader {
    /// Rounds of a rule that were not sent yet, oldest first. Without an earlier one, only the newest.
    async fn fresh(&mut self, rule: &str) -> Vec<Result<Event, Infallible>> {
        let most = if self.seen.contains_key(rule) { CATCH_UP } else { 1 };
        // A store that is away loses events of this stream; the rounds themselves stay on record.
        let recorded = self.store.recorded_rounds(rule, None, most).await.unwrap_or_default();
        let seen = self.seen.get(rule).cloned();
        let mut fresh: Vec<RecordedRound> =
            recorded.into_iter().take_while(|round| Some(&round.id) != seen.as_ref()).collect();
        if let Some(newest) = fresh.first() {
            self.seen.insert(rule.to_owned(), newest.id.clone());
        }
        fresh.reverse();
        let event = |round: RecordedRound| {
            Ok(Event::default().event("round").id(format!("{rule}/{}", round.id)).data(round.document))
        };
        fresh.into_iter().map(event).collect()
    }
}
