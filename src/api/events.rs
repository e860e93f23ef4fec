//! Polled events.

use super::page::Query;
use super::problem::Problem;
use super::{Api, answer, event_stream};
use crate::job::invalid::Invalid;
use crate::job::json;
use crate::store::{EventFilter, EventPage};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::Response;

/// `GET /events`, oldest first; as a stream to whoever accepts one.
pub(super) async fn poll(api: Api, uri: Uri, headers: HeaderMap) -> Result<Response, Problem> {
    let query = Query::of(&uri);
    let limit = query.number("limit", 1, 1_000_000)?.unwrap_or(100).min(1000);
    let name = if query.get("after").is_some() { "after" } else { "cursor" };
    let after = query.get(name);
    let filter =
        EventFilter { types: query.list("types"), queues: query.list("queues"), job_types: query.list("job_types") };
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
