//! Polled events.

use super::page::Query;
use super::problem::Problem;
use super::{Api, answer, event_stream};
use crate::job::invalid::Invalid;
use crate::job::{id, json, names};
use crate::store::{EventFilter, EventPage};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::Response;

/// `GET /events`, oldest first; as a stream to whoever accepts one.
pub(super) async fn poll(api: Api, uri: Uri, headers: HeaderMap) -> Result<Response, Problem> {
    let query = Query::of(&uri);
    let limit = query.number("limit", 1, 1_000_000)?.unwrap_or(100).min(1000);
    let name = if query.get("after").is_some() { "after" } else { "cursor" };
    let after = query.get(name);
    let filter = filter(&query);
    if event_stream::is_wanted(&headers) {
        return event_stream::stream(&api, filter, after, &headers).await;
    }
    let Some(EventPage { events, cursor, has_more }) = api.store().events(&filter, after, limit).await? else {
        return Err(Invalid::field(name, "the id of an event", after.unwrap_or_default()).into());
    };
    let mut body = String::from("{\"events\":[");
    for (index, event) in events.iter().enumerate() {
        body.push_str(if index == 0 { "" } else { "," });
        event.write(&mut body);
    }
    let cursor = cursor.as_deref().or(after).unwrap_or_default();
    body.push_str(&format!("],\"cursor\":{},\"has_more\":{has_more}}}", json::quoted(cursor)));
    Ok(answer::json(StatusCode::OK, body))
}

/// `GET /events/stream`: the same as a stream, whatever the client accepts. `channel` is `all`, `queue:NAME` or `job:ID`.
pub(super) async fn stream(api: Api, uri: Uri, headers: HeaderMap) -> Result<Response, Problem> {
    let query = Query::of(&uri);
    let mut filter = filter(&query);
    match query.get("channel").map(|channel| (channel, channel.split_once(':'))) {
        None | Some(("all", _)) => {}
        Some((_, Some(("queue", name)))) if names::is_queue(name) => filter.queues = vec![name.to_owned()],
        Some((_, Some(("job", id)))) if id::is_valid(id) => filter.jobs = vec![id.to_owned()],
        Some((channel, _)) => return Err(Invalid::field("channel", "all, queue:NAME or job:ID", channel).into()),
    }
    event_stream::stream(&api, filter, query.get("after"), &headers).await
}

fn filter(query: &Query) -> EventFilter {
    let [types, queues, job_types] = ["types", "queues", "job_types"].map(|name| query.list(name));
    EventFilter { types, queues, job_types, jobs: Vec::new() }
}
