//! Events, polled and streamed.

use super::Schemas;
use super::operation::{Operation, operation};
use super::schema::*;
use crate::api::answers::events::EventsPage;
use serde_json::json;

pub const STREAM: &str = "text/event-stream";

pub fn schemas() -> Schemas {
    let event = object([
        ("specversion", json!({"const": "1.0"})),
        ("id", string()),
        ("type", string()),
        ("source", string()),
        ("time", timestamp()),
        ("subject", string()),
        ("data", any_object()),
    ]);
    vec![("Event", event)]
}

pub fn stream() -> Operation {
    operation("Stream events")
        .query("channel", string(), "`all`, `queue:NAME` or `job:ID`.")
        .query("after", uuid(), "Only events after the one with this id.")
        .query("types", string(), "Only events of these types, separated by commas.")
        .query("queues", string(), "Only events of jobs in these queues, separated by commas.")
        .query("job_types", string(), "Only events of jobs of these types, separated by commas.")
        .header("Last-Event-ID", uuid(), "The id of the last event that the client received.")
        .text_response(STREAM, "Server-sent events; the data of each is an `Event`.")
        .errors(&[429])
}

pub fn poll() -> Operation {
    operation("List events")
        .description(
            "A client that accepts `text/event-stream` gets a stream that starts after `after` or `Last-Event-ID`.",
        )
        .query("limit", integer(1, 1_000_000), "The number of events; 100 by default. More than 1000 count as 1000.")
        .query("order", enumeration(&["asc", "desc"]), "`asc`, the default, is oldest first, `desc` newest first.")
        .query("after", uuid(), "Only events after the one with this id, in the given order.")
        .query("cursor", uuid(), "An alias of `after`.")
        .query("types", string(), "Only events of these types, separated by commas.")
        .query("queues", string(), "Only events of jobs in these queues, separated by commas.")
        .query("job_types", string(), "Only events of jobs of these types, separated by commas.")
        .list_of::<EventsPage>(&["events"], reference("Event"), "Events.")
        .also_as(STREAM, string())
        .errors(&[429])
}
