//! Events: polled, or as a stream.

use super::event_stream;
use crate::api::Api;
use crate::api::answers::events::EventsPage;
use crate::api::concurrency_limit::Peer;
use crate::api::error::ApiError;
use crate::api::list_response::ListResponse;
use crate::api::pagination::Query;
use crate::domain::invalid::Invalid;
use crate::domain::job::id;
use crate::domain::names;
use crate::store::{EventFilter, EventOrder, EventPage};
use axum::http::{HeaderMap, Uri};
use axum::response::Response;

/// `GET /events`, oldest first by default; a stream if the client accepts `text/event-stream`.
pub(crate) async fn poll(api: Api, uri: Uri, headers: HeaderMap, peer: Peer) -> Result<Response, ApiError> {
    let query = Query::parse(&uri);
    let limit = query.number("limit", 1, 1_000_000)?.unwrap_or(100).min(1000);
    let name = if query.get("after").is_some() { "after" } else { "cursor" };
    let after = query.get(name);
    let filter = filter(&query);
    let order = match query.get("order") {
        None | Some("asc") => EventOrder::OldestFirst,
        Some("desc") => EventOrder::NewestFirst,
        Some(other) => return Err(Invalid::field("order", "`asc` or `desc`", other).into()),
    };
    if event_stream::is_wanted(&headers) {
        if order == EventOrder::NewestFirst {
            return Err(Invalid::field("order", "`asc`, because a stream continues with new events", "desc").into());
        }
        return event_stream::stream(&api, filter, after, &headers, peer).await;
    }
    let Some(EventPage { events, cursor, has_more }) = api.store().events_in(order, &filter, after, limit).await?
    else {
        return Err(Invalid::field(name, "the id of an event", after.unwrap_or_default()).into());
    };
    let mut items = String::from("[");
    for (index, event) in events.iter().enumerate() {
        items.push_str(if index == 0 { "" } else { "," });
        event.write(&mut items);
    }
    items.push(']');
    let page = EventsPage { cursor: cursor.as_deref().or(after).unwrap_or_default(), has_more };
    Ok(ListResponse::new(&items, &["events"]).with(&page).into_response())
}

/// `GET /events/stream`: always a stream. `channel` is `all`, `queue:NAME` or `job:ID`.
pub(crate) async fn stream(api: Api, uri: Uri, headers: HeaderMap, peer: Peer) -> Result<Response, ApiError> {
    let query = Query::parse(&uri);
    let mut filter = filter(&query);
    match query.get("channel").map(|channel| (channel, channel.split_once(':'))) {
        None | Some(("all", _)) => {}
        Some((_, Some(("queue", name)))) if names::is_queue(name) => filter.queues = vec![name.to_owned()],
        Some((_, Some(("job", id)))) if id::is_valid(id) => filter.jobs = vec![id.to_owned()],
        Some((channel, _)) => return Err(Invalid::field("channel", "all, queue:NAME or job:ID", channel).into()),
    }
    event_stream::stream(&api, filter, query.get("after"), &headers, peer).await
}

fn filter(query: &Query) -> EventFilter {
    let [types, queues, job_types] = ["types", "queues", "job_types"].map(|name| query.list(name));
    EventFilter { types, queues, job_types, jobs: Vec::new() }
}
