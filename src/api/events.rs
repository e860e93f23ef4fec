//! Polled events.

use super::page::Query;
use super::problem::Problem;
use super::{Api, answer, event_stream};
use crate::job::invalid::Invalid;
use crate::job::{json, time};
use crate::store::{Event, EventFilter, EventPage};
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
        push_event(&mut body, event);
    }
    let cursor = cursor.as_deref().or(after).unwrap_or_default();
    body.push_str(&format!("],\"cursor\":{},\"has_more\":{has_more}}}", json::quoted(cursor)));
    Ok(answer::json(StatusCode::OK, body))
}

/// An event as JSON.
pub(super) fn event_json(event: &Event) -> String {
    let mut text = String::new();
    push_event(&mut text, event);
    text
}

fn push_event(out: &mut String, event: &Event) {
    let component = event.kind.split('.').next().unwrap_or("server");
    out.push_str(&format!(
        "{{\"specversion\":\"1.0\",\"id\":\"{}\",\"type\":\"{}\",\"source\":\"ojs://fairgate/{component}\",\"time\":\"{}\",\"subject\":",
        event.id,
        event.kind,
        time::rfc3339(event.time)
    ));
    json::push_text(out, &event.subject);
    out.push_str(",\"data\":{");
    let mut separator = "";
    let name = match component {
        "worker" => "worker_id",
        "weights" => "rule",
        "cron" => "cron_name",
        "queue" | "backpressure" => "", // the queue is told anyway
        _ => "job_id",
    };
    let members =
        [(name, &event.subject), ("job_type", &event.job_type), ("queue", &event.queue), ("trace_id", &event.trace)];
    for (name, value) in members.into_iter().filter(|(name, value)| !name.is_empty() && !value.is_empty()) {
        out.push_str(&format!("{separator}\"{name}\":"));
        json::push_text(out, value);
        separator = ",";
    }
    if !event.data.is_empty() {
        out.push_str(separator);
        push_data(out, &event.data);
    }
    out.push_str("}}");
}

/// Scripts cannot write timestamps, so they mark milliseconds with group separators.
fn push_data(out: &mut String, data: &str) {
    for (index, part) in data.split('\u{1d}').enumerate() {
        match part.parse() {
            Ok(ms) if index % 2 == 1 => {
                out.push('"');
                time::write_rfc3339(out, ms);
                out.push('"');
            }
            _ => out.push_str(part),
        }
    }
}
