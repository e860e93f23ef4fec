//! The table of malformed requests.
//!
//! The limits of the server under test are those of [`limits`]; one job, [`TAKEN`], is there before the first row.

mod dispatch;
mod jobs;
mod lookups;
mod requests;
mod workers;
mod workflows;

pub use dispatch::{policy, set_up};

use crate::support::json;
use fairgate::config::{ByteSize, Limits};
use serde_json::Value;

/// The id of an available job.
pub const TAKEN: &str = "019461a8-1a2b-7c3d-8e4f-5a6b7c8d9e0f";
/// An id that no job has.
const FREE: &str = "019461a8-1a2b-7c3d-8e4f-000000000000";

pub const MAX_HEADER: usize = 8 << 10;
const MAX_BODY: usize = 16 << 10;
const MAX_ENVELOPE: usize = 4 << 10;
const MAX_META: usize = 512;
const MAX_RESULT: usize = 600;
const MAX_BATCH: usize = 3;
const MAX_NESTING: usize = 8;

/// Limits that are cheap to exceed.
pub fn limits(limits: &mut Limits) {
    limits.max_header = ByteSize::new(MAX_HEADER);
    limits.max_body = ByteSize::new(MAX_BODY);
    limits.max_envelope = ByteSize::new(MAX_ENVELOPE);
    limits.max_meta = ByteSize::new(MAX_META);
    limits.max_result = ByteSize::new(MAX_RESULT);
    limits.max_batch = MAX_BATCH;
    limits.max_nesting = MAX_NESTING;
}

/// A malformed request and the expected error.
pub struct Row {
    pub name: String,
    pub method: &'static str,
    pub path: String,
    pub headers: Vec<(&'static str, Vec<u8>)>,
    pub body: Option<Vec<u8>>,
    pub status: u16,
    pub code: &'static str,
    /// The expected `details.field`; empty for the body as a whole, `None` if no field is at fault.
    pub field: Option<String>,
    /// Further members that the error must have, by JSON pointer.
    pub members: Vec<(&'static str, Value)>,
    /// True if the error must have a hint.
    pub hints: bool,
    /// True if the server must close the connection because it cannot know where the next request starts.
    pub closes: bool,
}

impl Row {
    fn new(name: impl Into<String>, method: &'static str, path: impl Into<String>) -> Self {
        let (name, path) = (name.into(), path.into());
        let (path, status, code) =
            (if path.starts_with("/v1") { format!("/ojs{path}") } else { path }, 400, "invalid_request");
        Row {
            name,
            method,
            path,
            headers: vec![],
            body: None,
            status,
            code,
            field: None,
            members: vec![],
            hints: false,
            closes: false,
        }
    }

    fn post(name: impl Into<String>, path: &str, body: impl Into<Vec<u8>>) -> Self {
        Row { body: Some(body.into()), ..Row::new(name, "POST", path) }
    }

    fn get(name: impl Into<String>, path: impl Into<String>) -> Self {
        Row::new(name, "GET", path)
    }

    fn header(mut self, name: &'static str, value: impl Into<Vec<u8>>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    fn field(self, field: impl Into<String>) -> Self {
        Row { field: Some(field.into()), ..self }
    }

    fn is(self, status: u16, code: &'static str) -> Self {
        Row { status, code, ..self }
    }

    fn unreadable(self) -> Self {
        self.is(400, "invalid_payload").field("")
    }

    fn missing(self, resource: &str) -> Self {
        self.is(404, "not_found").with("/error/details/resource_type", resource)
    }

    fn with(mut self, pointer: &'static str, value: impl Into<Value>) -> Self {
        self.members.push((pointer, value.into()));
        self
    }

    fn closes(self) -> Self {
        Row { closes: true, ..self }
    }
}

/// All rows.
pub fn all() -> Vec<Row> {
    let groups = [requests::all(), jobs::all(), workers::all(), lookups::all(), dispatch::all(), workflows::all()];
    groups.into_iter().flatten().collect()
}

const JOBS: &str = "/v1/jobs";
const BATCH: &str = "/v1/jobs/batch";
const FETCH: &str = "/v1/workers/fetch";
const ACK: &str = "/v1/workers/ack";
const NACK: &str = "/v1/workers/nack";
const HEARTBEAT: &str = "/v1/workers/heartbeat";
const REGISTER: &str = "/v1/workers/register";
const WORKFLOWS: &str = "/v1/workflows";

const JOB: &str = r#"{"type":"test.job","args":[]}"#;

/// A job with further members.
fn job(members: &str) -> String {
    format!(r#"{{"type":"test.job","args":[],{members}}}"#)
}

fn ack(id: &str) -> String {
    format!(r#"{{"job_id":"{id}"}}"#)
}

fn nested(depth: usize) -> String {
    format!("{}{}", "[".repeat(depth), "]".repeat(depth))
}

/// Bodies with one invalid member, for a path that responds with 400.
fn wrong(path: &str, bodies: &[(&str, &str)]) -> Vec<Row> {
    let verb = path.rsplit('/').next().unwrap_or_default();
    let row = |(body, field): &(&str, &str)| Row::post(format!("{verb} {body}"), path, *body).field(*field);
    bodies.iter().map(row).collect()
}
