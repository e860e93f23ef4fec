//! Events, polled and streamed.

use super::Shapes;
use super::operation::{Operation, op};
use super::schema::*;
use serde_json::json;

pub const STREAM: &str = "text/event-stream";

pub fn shapes() -> Shapes {
    let event = object([
        ("specversion", json!({"const": "1.0"})),
        ("id", text()),
        ("type", text()),
        ("source", text()),
        ("time", time()),
        ("subject", text()),
        ("data", anything_named()),
    ]);
    vec![("Event", event)]
}

pub fn stream() -> Operation {
    op("What happens, as it happens")
        .query("channel", text(), "`all`, `queue:NAME` or `job:ID`.")
        .query("after", uuid(), "Events behind the one of this id.")
        .query("types", text(), "Only these types, separated by commas.")
        .query("queues", text(), "Only of jobs of these queues, separated by commas.")
        .query("job_types", text(), "Only of jobs of these types, separated by commas.")
        .header("Last-Event-ID", uuid(), "The event that was seen last.")
        .gives_text(STREAM, "Events, each an `Event`.")
        .fails(&[429])
}

pub fn poll() -> Operation {
    let answer = with(list_answer(&["events"], refer("Event")), object([("cursor", text()), ("has_more", flag())]));
    op("What happened")
        .about("Whoever accepts `text/event-stream` gets events as they happen, behind `after` or `Last-Event-ID`.")
        .query("limit", integer(1, 1_000_000), "Events at once, 100 if it is not said; more than 1000 count as 1000.")
        .query("order", one_of(&["asc", "desc"]), "`desc` begins with the newest; `asc` if it is not said.")
        .query("after", uuid(), "Events behind the one of this id, in this order.")
        .query("cursor", uuid(), "The same.")
        .query("types", text(), "Only these types, separated by commas.")
        .query("queues", text(), "Only of jobs of these queues, separated by commas.")
        .query("job_types", text(), "Only of jobs of these types, separated by commas.")
        .gives(200, "Events.", answer)
        .or_as(STREAM, text())
        .fails(&[429])
}
