//! The table of malformed requests.
//!
//! The limits of the server under test are those of [`limits`]; one job, [`TAKEN`], is there before the first row.

mod dispatch;
mod workflows;

pub use dispatch::{policy, set_up};

use crate::support::json;
use fairgate::config::{ByteSize, Limits};
use serde_json::Value;

/// The id of a job that exists and is available.
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

/// A malformed request and what must be said about it.
pub struct Row {
    pub name: String,
    pub method: &'static str,
    pub path: String,
    pub headers: Vec<(&'static str, Vec<u8>)>,
    pub body: Option<Vec<u8>>,
    pub status: u16,
    pub code: &'static str,
    /// What `details.field` must be; empty for the body as a whole, `None` where no field is to blame.
    pub field: Option<String>,
    /// Further members that must be there, by JSON pointer.
    pub members: Vec<(&'static str, Value)>,
    /// Whether the answer must say what to do.
    pub hints: bool,
    /// Whether the server has to close the connection, because it cannot know where the next request starts.
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
    let groups = [
        bodies(),
        transfers(),
        headers(),
        paths(),
        job_fields(),
        retry_policies(),
        rate_limits(),
        sizes(),
        batches(),
        fetches(),
        acks(),
        nacks(),
        heartbeats(),
        queries(),
        lookups(),
        dispatch::all(),
        workflows::all(),
    ];
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

fn nested(depth: usize) -> String {
    format!("{}{}", "[".repeat(depth), "]".repeat(depth))
}

/// Bodies that are no JSON object, wherever one is required.
fn bodies() -> Vec<Row> {
    let unreadable: [(&str, &[u8]); 17] = [
        ("an empty body", b""),
        ("a body of blanks", b" \r\n\t"),
        ("half an object", br#"{"type":"test.job","args":["#),
        ("an object and more", br#"{"type":"test.job","args":[]} x"#),
        ("two objects", br#"{"type":"test.job","args":[]}{}"#),
        ("a byte order mark", b"\xef\xbb\xbf{\"type\":\"test.job\",\"args\":[]}"),
        ("UTF-16", b"{\0\"\0t\0y\0p\0e\0\"\0:\x001\0}\0"),
        ("bytes that are not UTF-8", b"{\"type\":\"test.job\",\"args\":[\"\xff\"]}"),
        ("an encoded surrogate", b"{\"type\":\"test.job\",\"args\":[\"\xed\xa0\x80\"]}"),
        ("a comma too many", br#"{"type":"test.job","args":[],}"#),
        ("single quotes", b"{'type':'test.job','args':[]}"),
        ("a comment", br#"{"type":"test.job","args":[]/**/}"#),
        ("NaN", br#"{"type":"test.job","args":[NaN]}"#),
        ("a leading zero", br#"{"type":"test.job","args":[01]}"#),
        ("a raw control character in a string", b"{\"type\":\"test.job\",\"args\":[\"\n\"]}"),
        ("an unknown escape", br#"{"type":"test.job","args":["\x41"]}"#),
        ("a form", b"type=test.job&args="),
    ];
    let mut rows: Vec<Row> =
        unreadable.into_iter().map(|(name, body)| Row::post(name, JOBS, body).unreadable()).collect();
    // The object is one, only a name in it is no text.
    rows.push(Row::post("a lone surrogate as a name", JOBS, job(r#""\ud800":1"#)).unreadable());
    rows.push(Row::post("brackets that never close", JOBS, "[".repeat(100)).unreadable());
    rows.push(Row::post("an array nested too deep", JOBS, nested(100)).field(""));
    for value in ["[]", "\"text\"", "1", "true", "null", "[{\"type\":\"test.job\",\"args\":[]}]"] {
        rows.push(Row::post(format!("a job that is {value}"), JOBS, value).field(""));
    }
    for path in [BATCH, FETCH, ACK, NACK, HEARTBEAT, REGISTER, WORKFLOWS] {
        rows.push(Row::post(format!("nothing for {path}"), path, "").unreadable());
        rows.push(Row::post(format!("no JSON for {path}"), path, "{\"job_id\"").unreadable());
        rows.push(Row::post(format!("no UTF-8 for {path}"), path, b"{\"worker_id\":\"\xc3\x28\"}").unreadable());
        rows.push(Row::post(format!("an array for {path}"), path, "[]").field(""));
        rows.push(Row { body: None, ..Row::post(format!("no body at all for {path}"), path, "") }.unreadable());
    }
    for verb in ["ack", "nack"] {
        let path = format!("/v1/jobs/{TAKEN}/{verb}");
        rows.push(Row::post(format!("no JSON for {verb} by path"), &path, "{").unreadable());
        rows.push(Row::post(format!("an array for {verb} by path"), &path, "[]").field(""));
    }
    rows.push(Row { body: None, ..Row::post("no body at all for a job", JOBS, "") }.unreadable());
    rows
}

/// Bodies that do not arrive as they should.
fn transfers() -> Vec<Row> {
    let chunked = |name, body: &str| Row::post(name, JOBS, body).header("Transfer-Encoding", "chunked");
    let long = "a".repeat(MAX_BODY);
    let too_long = |row: Row| row.is(413, "envelope_too_large").field("").closes();
    vec![
        chunked("a chunk whose size is no number", "zz\r\n{}\r\n0\r\n\r\n").unreadable().closes(),
        chunked("a chunk that is longer than it says", "2\r\n{}{}\r\n0\r\n\r\n").unreadable().closes(),
        too_long(chunked(
            "chunks that are too long",
            &format!("{:x}\r\n{long}\r\n{:x}\r\n{long}\r\n", MAX_BODY, MAX_BODY),
        )),
        too_long(Row::post("a length that is too long", JOBS, "").header("Content-Length", (MAX_BODY + 1).to_string())),
        too_long(Row::post("a length that is absurd", JOBS, "").header("Content-Length", "9999999999999999999")),
        too_long(
            Row::post("a length that is too long, not sent before it is asked for", JOBS, "")
                .header("Content-Length", "1000000000")
                .header("Expect", "100-continue"),
        ),
    ]
}

fn headers() -> Vec<Row> {
    let mut rows = Vec::new();
    for kind in ["text/plain", "application/xml", "application/jsonx", "multipart/form-data; boundary=x", "json", ""] {
        let name = format!("the content type {kind:?}");
        rows.push(Row::post(name, JOBS, JOB).header("Content-Type", kind).field("Content-Type"));
    }
    for path in [BATCH, FETCH, ACK, NACK, HEARTBEAT, REGISTER, WORKFLOWS] {
        let row = Row::post(format!("a form for {path}"), path, "job_id=1");
        rows.push(row.header("Content-Type", "application/x-www-form-urlencoded").field("Content-Type"));
    }
    let row = Row::post("a content type that is no text", JOBS, JOB);
    rows.push(row.header("Content-Type", b"application/json\xff").field("Content-Type"));
    for encoding in ["gzip", "zstd", "br", "identity, gzip"] {
        let row = Row::post(format!("the content encoding {encoding}"), JOBS, JOB).header("Content-Encoding", encoding);
        rows.push(row.is(415, "unsupported").field("Content-Encoding"));
    }
    for version in ["2.0", "1.1", "one", ""] {
        let row = Row::post(format!("OJS-Version {version:?}"), JOBS, JOB).header("OJS-Version", version);
        rows.push(row.is(422, "unsupported").field("OJS-Version"));
    }
    let extension = "urn:ojs:ext:time-travel";
    for path in [JOBS, FETCH] {
        let row = Row::post(format!("a required extension for {path}"), path, JOB);
        let row = row.header("OJS-Requires-Extension", extension).is(422, "EXTENSION_NOT_SUPPORTED");
        let row = row.with("/error/extension", extension).with("/error/details/extension", extension);
        rows.push(row.field("OJS-Requires-Extension"));
    }
    for (name, key) in [("too long", vec![b'k'; 257]), ("empty", vec![]), ("no text", vec![0xff])] {
        for path in [ACK, NACK] {
            let row = Row::post(format!("an idempotency key for {path} that is {name}"), path, ack(TAKEN));
            rows.push(row.header("Idempotency-Key", key.clone()).field("Idempotency-Key"));
        }
    }
    rows
}

/// Methods and paths that do not exist.
fn paths() -> Vec<Row> {
    let mut rows = Vec::new();
    for (method, path) in [
        ("GET", "/"),
        ("ASSERT", "/"),
        ("push", "/"),
        ("fetch", "/"),
        ("OPTIONS", "*"),
        ("CONNECT", "fairgate:80"),
        ("GET", "/ojs"),
        ("GET", "/ojs/v1"),
        ("GET", "/ojs/v2/jobs"),
        ("GET", "/v2"),
        ("POST", "/ojs/v1/jobs/"),
        ("POST", "//ojs/v1/jobs"),
        ("POST", "/OJS/V1/JOBS"),
        ("GET", "/ojs/v1/jobs/../jobs"),
        ("GET", "/ojs/v1/jobs/a/b/c"),
        ("GET", "/ojs/v1/%00"),
        ("POST", "/ojs/v1/workers"),
    ] {
        rows.push(Row::new(format!("{method} {path}"), method, path).is(404, "not_found"));
    }
    for (method, path, allowed) in [
        ("GET", "/v1/jobs", "POST"),
        ("ASSERT", "/v1/jobs", "POST"),
        ("PUT", "/v1/jobs", "POST"),
        ("GET", "/v1/jobs/batch", "POST"),
        ("PATCH", "/v1/jobs/019461a8-1a2b-7c3d-8e4f-5a6b7c8d9e0f", "GET,HEAD,DELETE"),
        ("GET", "/v1/workers/fetch", "POST"),
        ("DELETE", "/v1/workers/ack", "POST"),
        ("PUT", "/v1/workers/nack", "POST"),
        ("GET", "/v1/workers/heartbeat", "POST"),
        ("GET", "/v1/workers/register", "POST"),
        ("GET", "/v1/workers/w1", "DELETE"),
        ("POST", "/v1/queues", "GET,HEAD"),
        ("POST", "/v1/dead-letter", "GET,HEAD,DELETE"),
        ("GET", "/v1/dead-letter/retry", "POST"),
        ("PUT", "/v1/cron", "GET,HEAD,POST"),
        ("POST", "/v1/cron/nightly", "GET,HEAD,PATCH,DELETE"),
        ("GET", "/v1/queues/q/pause", "POST"),
        ("PUT", "/v1/webhooks/subscriptions", "GET,HEAD,POST"),
        ("GET", "/v1/dead-letter/019461a8-1a2b-7c3d-8e4f-5a6b7c8d9e0f/retry", "POST"),
        ("GET", "/v1/workflows", "POST"),
        ("POST", "/v1/workflows/019461a8-1a2b-7c3d-8e4f-5a6b7c8d9e0f", "GET,HEAD,DELETE"),
        ("POST", "/v1/events", "GET,HEAD"),
        ("DELETE", "/v1/admin/pools", "GET,HEAD,POST"),
        ("POST", "/v1/admin/pools/a", "GET,HEAD,PUT,DELETE"),
        ("PUT", "/v1/admin/scheduling/stats", "GET,HEAD"),
        ("POST", "/v1/admin/scheduling/config", "GET,HEAD,PUT"),
        ("PUT", "/v1/rate-limits", "GET,HEAD"),
        ("POST", "/v1/rate-limits/a", "GET,HEAD,PUT,DELETE"),
        ("POST", "/v1/admin/queues/a/rate-limit", "GET,HEAD,PUT,DELETE"),
        ("DELETE", "/v1/admin/jobs/019461a8-1a2b-7c3d-8e4f-5a6b7c8d9e0f", "GET,HEAD"),
        ("POST", "/v1/health", "GET,HEAD"),
        ("POST", "/ojs/manifest", "GET,HEAD"),
        ("DELETE", "/metrics", "GET,HEAD"),
    ] {
        let row = Row::new(format!("{method} {path}"), method, path).is(405, "invalid_request");
        rows.push(row.with("allow", allowed));
    }
    rows.push(Row::post("a body for a path that does not exist", "/v1/nothing", JOB).is(404, "not_found"));
    rows.push(
        Row { body: Some(JOB.into()), ..Row::new("a body for a wrong method", "PUT", JOBS) }.is(405, "invalid_request"),
    );
    rows
}

/// Members of a job, at top level and in `options`.
fn job_fields() -> Vec<Row> {
    let mut rows = Vec::new();
    for (name, body, field) in [
        ("no type", r#"{"args":[]}"#.to_owned(), "type"),
        ("no args", r#"{"type":"test.job"}"#.to_owned(), "args"),
        ("nothing", "{}".to_owned(), "type"),
        ("a type only in options", r#"{"args":[],"options":{"type":"test.job"}}"#.to_owned(), "type"),
        ("args only in options", r#"{"type":"test.job","options":{"args":[]}}"#.to_owned(), "args"),
        ("args nested too deep", format!(r#"{{"type":"test.job","args":{}}}"#, nested(MAX_NESTING)), "args"),
        ("meta nested too deep", job(&format!(r#""meta":{{"a":{}}}"#, nested(MAX_NESTING))), "meta"),
        ("an unknown attribute nested too deep", job(&format!(r#""x_y":{}"#, nested(MAX_NESTING))), "x_y"),
        ("options that are an array", job(r#""options":[]"#), "options"),
        ("options that are text", job(r#""options":"queue""#), "options"),
        ("meta in options that is an array", job(r#""options":{"meta":[]}"#), "options.meta"),
        ("metadata that is an array", job(r#""options":{"metadata":[]}"#), "options.metadata"),
        ("another specversion", job(r#""specversion":"2.0""#), "specversion"),
        ("a specversion that is a number", job(r#""specversion":1.0"#), "specversion"),
        ("the last of two types counts", job(r#""type":"Wrong""#), "type"),
    ] {
        rows.push(Row::post(name, JOBS, body).field(field));
    }
    for kind in ["", "Test.job", "test job", "1st", "a..b", ".a", "a.", "a@1", "a!", "\\ud800", "a\\u0000", "é"] {
        let body = format!(r#"{{"type":"{kind}","args":[]}}"#);
        rows.push(Row::post(format!("the type {kind:?}"), JOBS, body).field("type"));
    }
    let long = format!(r#"{{"type":"{}","args":[]}}"#, "a".repeat(256));
    rows.push(Row::post("a type that is too long", JOBS, long).field("type"));
    for kind in ["5", "[]", "{}", "true", "null"] {
        let body = format!(r#"{{"type":{kind},"args":[]}}"#);
        rows.push(Row::post(format!("the type {kind}"), JOBS, body).field("type"));
    }
    for args in ["{}", "\"a\"", "1", "true", "null"] {
        let body = format!(r#"{{"type":"test.job","args":{args}}}"#);
        rows.push(Row::post(format!("args that are {args}"), JOBS, body).field("args"));
    }
    for id in [
        "\"f47ac10b-58cc-4372-a567-0e02b2c3d479\"",
        "\"019461A8-1A2B-7C3D-8E4F-5A6B7C8D9E0F\"",
        "\"019461a81a2b7c3d8e4f5a6b7c8d9e0f\"",
        "\"{019461a8-1a2b-7c3d-8e4f-5a6b7c8d9e0f}\"",
        "\"019461a8-1a2b-7c3d-ce4f-5a6b7c8d9e0f\"",
        "\"\"",
        "7",
    ] {
        rows.push(Row::post(format!("the id {id}"), JOBS, job(&format!(r#""id":{id}"#))).field("id"));
    }
    for meta in ["[]", "\"a\"", "1"] {
        rows.push(Row::post(format!("meta that is {meta}"), JOBS, job(&format!(r#""meta":{meta}"#))).field("meta"));
    }
    rows.extend(options());
    rows
}

/// What may stand at both places, each value at both.
fn options() -> Vec<Row> {
    let long_queue = format!("\"{}\"", "q".repeat(129));
    let mut rows = Vec::new();
    let mut both = |field: &str, values: &[&str]| {
        for value in values {
            let name = format!("{field} {}", value.chars().take(40).collect::<String>());
            rows.push(Row::post(&name, JOBS, job(&format!(r#""{field}":{value}"#))).field(field));
            let inside = job(&format!(r#""options":{{"{field}":{value}}}"#));
            rows.push(Row::post(format!("options.{name}"), JOBS, inside).field(format!("options.{field}")));
        }
    };
    both(
        "queue",
        &[
            "\"\"",
            "\"Upper\"",
            "\"a_b\"",
            "\"-a\"",
            "\"a b\"",
            "\"a:b\"",
            "\"{a}\"",
            "\"\\ud800\"",
            "5",
            "[]",
            &long_queue,
        ],
    );
    both("priority", &["101", "-101", "1.5", "\"high\"", "1e400", "99999999999999999999", "true", "[]"]);
    for field in ["scheduled_at", "delay_until", "expires_at"] {
        both(field, &["\"2030-01-01T00:00:00\"", "\"tomorrow\"", "1893456000", "\"+soon\"", "\"+P1M\""]);
    }
    both(
        "scheduled_at",
        &[
            "\"\"",
            "\"2030-01-01\"",
            "\"2030-02-30T00:00:00Z\"",
            "\"2030-01-01 00:00:00Z\"",
            "\"2030-01-01T00:00:00Z[UTC]\"",
            "\"2030-01-01T00:00:00Z \"",
            "\"2030-01-01T25:00:00Z\"",
            // Other standards read these, RFC 3339 does not, and they would be echoed to workers that expect it.
            "\"2030-01-01T00:00:00+02\"",
            "\"2030-01-01T00:00:00+0200\"",
            "\"2030-01-01T00:00:00,5Z\"",
            "\"+-PT5S\"",
            "\"+PT99999999999H\"",
        ],
    );
    both("timeout_ms", &["-1", "1.5", "\"30s\"", "1e400", "9223372036854775807"]);
    both("timeout", &["-1", "0.5", "\"30\"", "99999999999999999999"]);
    both("visibility_timeout_ms", &["-1", "\"PT5S\"", "1e300"]);
    both("visibility_timeout", &["-1", "\"soon\"", "\"P1Y\"", "\"-PT5S\"", "[]", "1e300"]);
    both("heartbeat_timeout", &["0", "\"60\"", "-1"]);
    both("grace_period", &["1.5", "-1"]);
    both("total_timeout", &["0", "-1", "\"PT1H\""]);
    both("enqueue_ttl", &["0", "-1", "1e300"]);
    both("tags", &["\"a\"", "[1]", "{}", "[\"a\",null]"]);
    both("pending", &["\"yes\"", "1"]);
    rows
}

/// Values of a retry policy, under each of its names and places.
fn retry_policies() -> Vec<Row> {
    let mut rows = Vec::new();
    for (policy, field) in [
        ("[]", ""),
        ("5", ""),
        ("\"never\"", ""),
        (r#"{"max_attempts":-1}"#, ".max_attempts"),
        (r#"{"max_attempts":1.5}"#, ".max_attempts"),
        (r#"{"max_attempts":"3"}"#, ".max_attempts"),
        (r#"{"max_attempts":1e400}"#, ".max_attempts"),
        (r#"{"max_attempts":4294967296}"#, ".max_attempts"),
        (r#"{"initial_interval":"soon"}"#, ".initial_interval"),
        (r#"{"initial_interval":5}"#, ".initial_interval"),
        (r#"{"initial_interval":"PT0S"}"#, ".initial_interval"),
        (r#"{"initial_interval":"-PT1S"}"#, ".initial_interval"),
        (r#"{"initial_interval":"P1M"}"#, ".initial_interval"),
        (r#"{"initial_interval_ms":0}"#, ".initial_interval_ms"),
        (r#"{"initial_interval_ms":-5}"#, ".initial_interval_ms"),
        (r#"{"initial_interval_ms":9223372036854775807}"#, ".initial_interval_ms"),
        (r#"{"max_interval":"PT0.5S"}"#, ".max_interval"),
        (r#"{"max_interval":"99999999d"}"#, ".max_interval"),
        (r#"{"max_interval_ms":"5"}"#, ".max_interval_ms"),
        (r#"{"max_interval_ms":9223372036854775807}"#, ".max_interval_ms"),
        (r#"{"backoff_coefficient":0.5}"#, ".backoff_coefficient"),
        (r#"{"backoff_coefficient":-2}"#, ".backoff_coefficient"),
        (r#"{"backoff_coefficient":1e400}"#, ".backoff_coefficient"),
        (r#"{"backoff_coefficient":"2"}"#, ".backoff_coefficient"),
        (r#"{"jitter":"yes"}"#, ".jitter"),
        (r#"{"non_retryable_errors":"auth.*"}"#, ".non_retryable_errors"),
        (r#"{"non_retryable_errors":[""]}"#, ".non_retryable_errors"),
        (r#"{"non_retryable_errors":["a\u001fb"]}"#, ".non_retryable_errors"),
        (r#"{"on_exhaustion":"explode"}"#, ".on_exhaustion"),
        (r#"{"backoff_strategy":"random"}"#, ".backoff_strategy"),
        (r#"{"backoff_type":"random"}"#, ".backoff_type"),
        (r#"{"strategy":5}"#, ".strategy"),
    ] {
        for name in ["retry", "retry_policy"] {
            let outside = Row::post(format!("{name} {policy}"), JOBS, job(&format!(r#""{name}":{policy}"#)));
            let members = job(&format!(r#""options":{{"{name}":{policy}}}"#));
            let inside = Row::post(format!("options.{name} {policy}"), JOBS, members);
            rows.push(outside.field(format!("{name}{field}")));
            rows.push(inside.field(format!("options.{name}{field}")));
        }
    }
    rows.into_iter().map(|row| row.is(422, "validation_error").with("/error/type", "validation_error")).collect()
}

/// Values of a rate limit, in each of its places.
fn rate_limits() -> Vec<Row> {
    let mut rows = Vec::new();
    for (policy, field) in [
        ("[]", ""),
        ("5", ""),
        ("{}", ".key"),
        (r#"{"concurrency":1}"#, ".key"),
        (r#"{"key":"a b"}"#, ".key"),
        (r#"{"key":7}"#, ".key"),
        (r#"{"key":"k","concurrency":-1}"#, ".concurrency"),
        (r#"{"key":"k","concurrency":1e400}"#, ".concurrency"),
        (r#"{"key":"k","rate":{"limit":0,"period":"PT1S"}}"#, ".rate.limit"),
        (r#"{"key":"k","rate":{"limit":1}}"#, ".rate.period"),
        (r#"{"key":"k","rate":{"limit":1,"period":"P1Y"}}"#, ".rate.period"),
        (r#"{"key":"k","rate":5,"period":"fortnight"}"#, ".period"),
        (r#"{"key":"k","throttle":[]}"#, ".throttle"),
        (r#"{"max_per_second":0}"#, ".max_per_second"),
        (r#"{"max_per_second":1,"rate":{"limit":1,"period":"PT1S"}}"#, ".max_per_second"),
        (r#"{"key":"k","on_limit":"explode"}"#, ".on_limit"),
    ] {
        let outside = Row::post(format!("rate_limit {policy}"), JOBS, job(&format!(r#""rate_limit":{policy}"#)));
        let members = job(&format!(r#""options":{{"rate_limit":{policy}}}"#));
        let inside = Row::post(format!("options.rate_limit {policy}"), JOBS, members);
        rows.push(outside.field(format!("rate_limit{field}")));
        rows.push(inside.field(format!("options.rate_limit{field}")));
    }
    rows.into_iter().map(|row| row.is(422, "validation_error").with("/error/type", "validation_error")).collect()
}

/// What is too large for the limits; the answer tells the limit as a number.
fn sizes() -> Vec<Row> {
    let long = "a".repeat(MAX_ENVELOPE);
    let meta = format!(r#""meta":{{"a":"{}"}}"#, "a".repeat(MAX_META));
    let hidden = format!(r#""options":{{"metadata":{{"a":"{}"}}}}"#, "a".repeat(MAX_META));
    let result = format!(r#"{{"job_id":"{TAKEN}","result":"{}"}}"#, "a".repeat(MAX_RESULT));
    let many = format!(r#"{{"jobs":[{}]}}"#, [JOB; MAX_BATCH + 1].join(","));
    let acks = format!(r#"{{"acks":[{}]}}"#, [ack(FREE).as_str(); MAX_BATCH + 1].join(","));
    let large = |row: Row, code, field: &str, limit: usize| row.is(413, code).field(field).with("limit", limit);
    let by_path = format!("/v1/jobs/{TAKEN}/ack");
    vec![
        large(
            Row::post("an envelope", JOBS, job(&format!(r#""x_long":"{long}""#))),
            "envelope_too_large",
            "",
            MAX_ENVELOPE,
        ),
        large(Row::post("meta", JOBS, job(&meta)), "metadata_too_large", "meta", MAX_META),
        large(Row::post("metadata", JOBS, job(&hidden)), "metadata_too_large", "meta", MAX_META),
        large(Row::post("a result", ACK, result.as_str()), "RESULT_TOO_LARGE", "result", MAX_RESULT),
        large(Row::post("a result by path", &by_path, result.as_str()), "RESULT_TOO_LARGE", "result", MAX_RESULT),
        large(Row::post("a batch", BATCH, many), "BATCH_SIZE_EXCEEDED", "jobs", MAX_BATCH)
            .with("/error/max_batch_size", MAX_BATCH)
            .with("/error/details/max_batch_size", MAX_BATCH),
        large(
            Row::post(
                "an envelope in a batch",
                BATCH,
                format!(r#"{{"jobs":[{JOB},{}]}}"#, job(&format!(r#""x":"{long}""#))),
            ),
            "envelope_too_large",
            "jobs[1]",
            MAX_ENVELOPE,
        )
        .with("/error/details/index", 1),
        Row::post("too many acks", ACK, acks).field("acks"),
    ]
}

fn batches() -> Vec<Row> {
    let mut rows = Vec::new();
    for (name, body) in [
        ("a batch without jobs", "{}"),
        ("a batch of no jobs", r#"{"jobs":[]}"#),
        ("a batch whose jobs are an object", r#"{"jobs":{}}"#),
        ("a batch whose jobs are text", r#"{"jobs":"all"}"#),
        ("a batch whose jobs are null", r#"{"jobs":null}"#),
    ] {
        rows.push(Row::post(name, BATCH, body).field("jobs"));
    }
    // A good job stands before and after each of these.
    for (member, field) in [
        ("5", "jobs[1]"),
        ("null", "jobs[1]"),
        ("[]", "jobs[1]"),
        ("{}", "jobs[1].type"),
        (r#"{"type":"Bad","args":[]}"#, "jobs[1].type"),
        (r#"{"type":"test.job"}"#, "jobs[1].args"),
        (r#"{"type":"test.job","args":[],"id":"x"}"#, "jobs[1].id"),
        (r#"{"type":"test.job","args":[],"queue":"Q"}"#, "jobs[1].queue"),
        (r#"{"type":"test.job","args":[],"options":{"priority":1e9}}"#, "jobs[1].options.priority"),
        (r#"{"type":"test.job","args":[],"expires_at":"never"}"#, "jobs[1].expires_at"),
        (r#"{"type":"test.job","args":[],"meta":[]}"#, "jobs[1].meta"),
        (r#"{"type":"test.job","args":[],"options":[]}"#, "jobs[1].options"),
    ] {
        let row = Row::post(format!("a batch with {member}"), BATCH, format!(r#"{{"jobs":[{JOB},{member},{JOB}]}}"#));
        rows.push(row.field(field).with("/error/details/index", 1));
    }
    let retry = r#"{"type":"test.job","args":[],"options":{"retry":{"max_attempts":-1}}}"#;
    let row = Row::post("a bad retry policy in a batch", BATCH, format!(r#"{{"jobs":[{JOB},{JOB},{retry}]}}"#));
    let row = row.is(422, "validation_error").with("/error/type", "validation_error").with("/error/details/index", 2);
    rows.push(row.field("jobs[2].options.retry.max_attempts"));
    for (name, id, existing) in [("of the same id", FREE, FREE), ("with an id that is taken", TAKEN, TAKEN)] {
        let job = job(&format!(r#""id":"{id}""#));
        let first = if id == FREE { &job } else { JOB };
        let row = Row::post(format!("jobs {name} in a batch"), BATCH, format!(r#"{{"jobs":[{first},{job}]}}"#));
        let row = row.is(409, "duplicate").field("jobs[1].id").with("/error/details/index", 1);
        rows.push(if id == TAKEN { row.with("/error/details/existing_job_id", existing) } else { row });
    }
    let row = Row::post("an id that is taken", JOBS, job(&format!(r#""id":"{TAKEN}""#)));
    rows.push(row.is(409, "duplicate").field("id").with("/error/details/existing_job_id", TAKEN));
    rows
}

/// Bodies with one wrong member, to a path where that is 400.
fn wrong(path: &str, bodies: &[(&str, &str)]) -> Vec<Row> {
    let verb = path.rsplit('/').next().unwrap_or_default();
    let row = |(body, field): &(&str, &str)| Row::post(format!("{verb} {body}"), path, *body).field(*field);
    bodies.iter().map(row).collect()
}

fn fetches() -> Vec<Row> {
    let many = format!(r#"{{"queues":[{}]}}"#, ["\"a\""; 257].join(","));
    let long = format!(r#"{{"queues":["a"],"worker_id":"{}"}}"#, "w".repeat(257));
    let mut rows = wrong(
        FETCH,
        &[
            ("{}", "queues"),
            (r#"{"queues":null}"#, "queues"),
            (r#"{"queues":[]}"#, "queues"),
            (r#"{"queues":"default"}"#, "queues"),
            (r#"{"queues":{}}"#, "queues"),
            (r#"{"queues":[1]}"#, "queues"),
            (r#"{"queues":[null]}"#, "queues"),
            (r#"{"queues":["a","B"]}"#, "queues[1]"),
            (r#"{"queues":["a:b"]}"#, "queues[0]"),
            (r#"{"queues":["*"]}"#, "queues[0]"),
            (r#"{"queues":[""]}"#, "queues[0]"),
            (r#"{"queues":["a"],"count":0}"#, "count"),
            (r#"{"queues":["a"],"count":-1}"#, "count"),
            (r#"{"queues":["a"],"count":1.5}"#, "count"),
            (r#"{"queues":["a"],"count":"1"}"#, "count"),
            (r#"{"queues":["a"],"count":1e400}"#, "count"),
            (r#"{"queues":["a"],"worker_id":5}"#, "worker_id"),
            (r#"{"queues":["a"],"worker_id":""}"#, "worker_id"),
            (r#"{"queues":["a"],"worker_id":"w\u0000"}"#, "worker_id"),
            (r#"{"queues":["a"],"worker_id":"w\n1"}"#, "worker_id"),
            (r#"{"queues":["a"],"worker_id":"w\u0085"}"#, "worker_id"),
            (r#"{"queues":["a"],"worker_id":"\udfff"}"#, "worker_id"),
            (r#"{"queues":["a"],"visibility_timeout_ms":0}"#, "visibility_timeout_ms"),
            (r#"{"queues":["a"],"visibility_timeout_ms":-1}"#, "visibility_timeout_ms"),
            (r#"{"queues":["a"],"visibility_timeout_ms":"PT5S"}"#, "visibility_timeout_ms"),
            (r#"{"queues":["a"],"visibility_timeout_ms":31622400001}"#, "visibility_timeout_ms"),
            (r#"{"queues":["a"],"visibility_timeout_ms":1e300}"#, "visibility_timeout_ms"),
            (r#"{"queues":["a"],"wait_ms":-1}"#, "wait_ms"),
            (r#"{"queues":["a"],"wait_ms":1.5}"#, "wait_ms"),
            (r#"{"queues":["a"],"wait_ms":"5"}"#, "wait_ms"),
            (r#"{"queues":["a"],"wait_ms":true}"#, "wait_ms"),
            (r#"{"queues":["a"],"wait_ms":[5]}"#, "wait_ms"),
            (r#"{"queues":["a"],"wait_ms":1e400}"#, "wait_ms"),
            (r#"{"queues":["a"],"fetch_id":""}"#, "fetch_id"),
            (r#"{"queues":["a"],"fetch_id":7}"#, "fetch_id"),
            (r#"{"queues":["a"],"fetch_id":"a\u001fb"}"#, "fetch_id"),
        ],
    );
    rows.push(Row::post("fetch from too many queues", FETCH, many).field("queues"));
    rows.push(Row::post("fetch by a worker whose name is too long", FETCH, long).field("worker_id"));
    rows
}

fn ack(id: &str) -> String {
    format!(r#"{{"job_id":"{id}"}}"#)
}

fn acks() -> Vec<Row> {
    let deep = format!(r#"{{"job_id":"{FREE}","result":{}}}"#, nested(MAX_NESTING));
    let mut rows = job_ids(ACK);
    rows.extend(wrong(
        ACK,
        &[
            (r#"{"acks":{}}"#, "acks"),
            (r#"{"acks":[]}"#, "acks"),
            (r#"{"acks":"all"}"#, "acks"),
            (r#"{"acks":5}"#, "acks"),
        ],
    ));
    rows.push(Row::post("a result nested too deep", ACK, deep).field("result"));
    rows.push(Row::post("ack a job that does not exist", ACK, ack(FREE)).missing("job"));
    rows.push(Row::post("ack a job that is not active", ACK, ack(TAKEN)).is(409, "conflict"));
    rows.push(Row::post("ack by path what does not exist", &format!("/v1/jobs/{FREE}/ack"), "{}").missing("job"));
    let by_path = format!("/v1/jobs/{TAKEN}/ack");
    rows.push(Row::post("ack by path with a bad worker", &by_path, r#"{"worker_id":""}"#).field("worker_id"));
    rows
}

/// Bad ids and workers of an ack or nack.
fn job_ids(path: &str) -> Vec<Row> {
    let long = format!(r#"{{"job_id":"{}"}}"#, "a".repeat(129));
    let mut rows = wrong(
        path,
        &[
            ("{}", "job_id"),
            (r#"{"job_id":null}"#, "job_id"),
            (r#"{"job_id":5}"#, "job_id"),
            (r#"{"job_id":""}"#, "job_id"),
            (r#"{"job_id":["a"]}"#, "job_id"),
            (r#"{"job_id":"a\u0000b"}"#, "job_id"),
            (r#"{"job_id":"\ud800"}"#, "job_id"),
        ],
    );
    rows.push(Row::post(format!("an id that is too long for {path}"), path, long).field("job_id"));
    for worker in ["5", "\"\"", "\"w\\u0007\"", "[]"] {
        let body = format!(r#"{{"job_id":"{TAKEN}","worker_id":{worker}}}"#);
        rows.push(Row::post(format!("the worker {worker} for {path}"), path, body).field("worker_id"));
    }
    rows
}

fn nacks() -> Vec<Row> {
    let mut rows = job_ids(NACK);
    for (members, field) in [
        (r#""error":"it broke""#, "error"),
        (r#""error":[]"#, "error"),
        (r#""error":{"message":1}"#, "error.message"),
        (r#""error":{"message":"\ud800"}"#, "error.message"),
        (r#""error":{"code":5}"#, "error.code"),
        (r#""error":{"type":{}}"#, "error.type"),
        (r#""error":{"retryable":"no"}"#, "error.retryable"),
        (r#""requeue":"yes""#, "requeue"),
        (r#""requeue":1"#, "requeue"),
    ] {
        let by_path = format!("/v1/jobs/{TAKEN}/nack");
        rows.push(Row::post(format!("nack by path {members}"), &by_path, format!("{{{members}}}")).field(field));
        let body = format!(r#"{{"job_id":"{TAKEN}",{members}}}"#);
        rows.push(Row::post(format!("nack {members}"), NACK, body).field(field));
    }
    let deep = format!(r#"{{"job_id":"{FREE}","error":{{"details":{}}}}}"#, nested(MAX_NESTING));
    rows.push(Row::post("an error nested too deep", NACK, deep).field("error"));
    rows.push(Row::post("nack a job that does not exist", NACK, ack(FREE)).missing("job"));
    rows.push(Row::post("nack a job that is not active", NACK, ack(TAKEN)).is(409, "conflict"));
    rows
}

fn heartbeats() -> Vec<Row> {
    let mut rows = Vec::new();
    for (members, field) in [
        (r#""state":"sleeping""#, "state"),
        (r#""state":5"#, "state"),
        (r#""active_jobs":"x""#, "active_jobs"),
        (r#""active_jobs":[1]"#, "active_jobs"),
        (r#""active_jobs":-1"#, "active_jobs"),
        (r#""active_jobs":{}"#, "active_jobs"),
        (r#""active_job_ids":"x""#, "active_job_ids"),
        (r#""active_job_ids":[null]"#, "active_job_ids"),
        (r#""job_id":5"#, "job_id"),
        (r#""visibility_timeout_ms":0"#, "visibility_timeout_ms"),
        (r#""visibility_timeout_ms":"1s""#, "visibility_timeout_ms"),
        (r#""queues":"default""#, "queues"),
        (r#""labels":[1]"#, "labels"),
        (r#""concurrency":-1"#, "concurrency"),
        (r#""concurrency":"ten""#, "concurrency"),
    ] {
        for path in [HEARTBEAT, REGISTER] {
            let row = Row::post(format!("{path} {members}"), path, format!(r#"{{"worker_id":"w1",{members}}}"#));
            rows.push(row.field(field));
        }
    }
    for path in [HEARTBEAT, REGISTER] {
        for worker in ["null", "5", "\"\"", "\"a\\u0000\"", "\"a\\u007f\"", "\"\\ud83d\"", "{}"] {
            let body = format!(r#"{{"worker_id":{worker}}}"#);
            rows.push(Row::post(format!("{path} of {worker}"), path, body).field("worker_id"));
        }
        rows.push(Row::post(format!("{path} of nobody"), path, "{}").field("worker_id"));
    }
    rows.extend(wrong(
        REGISTER,
        &[
            (r#"{"worker":"w1"}"#, "worker"),
            (r#"{"worker":[]}"#, "worker"),
            (r#"{"worker":{}}"#, "worker.worker_id"),
            (r#"{"worker":{"worker_id":"w","state":5}}"#, "worker.state"),
        ],
    ));
    rows
}

fn queries() -> Vec<Row> {
    let mut rows = Vec::new();
    for list in ["dead-letter", "queues", "rate-limits", "admin/pools"] {
        for (query, field) in [
            ("limit=0", "limit"),
            ("limit=-1", "limit"),
            ("limit=ten", "limit"),
            ("limit=1.5", "limit"),
            ("limit=99999999999999999999999", "limit"),
            ("limit=5&limit=x", "limit"),
            ("limit=%ff", "limit"),
            ("offset=-1", "offset"),
            ("offset=x", "offset"),
            ("offset=18446744073709551615", "offset"),
            ("cursor=bogus", "cursor"),
            ("cursor=after-", "cursor"),
            ("cursor=after--1", "cursor"),
            ("cursor=after-99999999999", "cursor"),
            ("page=0", "page"),
            ("page=x", "page"),
            ("page=18446744073709551615", "page"),
            ("per_page=0", "per_page"),
            ("per_page=-5", "per_page"),
            ("page=1&per_page=many", "per_page"),
        ] {
            let path = format!("/v1/{list}?{query}");
            rows.push(Row::get(format!("{list} with {query}"), path).field(field));
        }
    }
    for value in ["yesterday", "2026-01-01", "2026-01-01T00:00:00", "1767225600", "%2BPT5S", "2026-01-01T00:00:00%2B02"]
    {
        for name in ["since", "until"] {
            let path = format!("/v1/dead-letter?{name}={value}");
            rows.push(Row::get(format!("dead letters {name} {value}"), path).field(name));
        }
    }
    for (query, field) in [
        ("limit=0", "limit"),
        ("limit=-1", "limit"),
        ("limit=x", "limit"),
        ("limit=99999999999999999999999", "limit"),
        ("after=bogus", "after"),
        ("after=0-0", "after"),
        ("after=evt_", "after"),
        ("after=evt_f47ac10b-58cc-4372-a567-0e02b2c3d479", "after"),
        ("after=evt_019461A8-1A2B-7C3D-8E4F-5A6B7C8D9E0F", "after"),
        ("after=%00", "after"),
        ("cursor=bogus", "cursor"),
        ("cursor=after-5", "cursor"),
    ] {
        rows.push(Row::get(format!("events with {query}"), format!("/v1/events?{query}")).field(field));
    }
    rows
}

/// Things that are looked for by a name that is none, or nobody's.
fn lookups() -> Vec<Row> {
    let mut rows = Vec::new();
    let odd = [
        "x",
        "f47ac10b-58cc-4372-a567-0e02b2c3d479",
        "019461A8-1A2B-7C3D-8E4F-5A6B7C8D9E0F",
        "%00",
        "a%2Fb",
        "*",
        "%0D%0AX:1",
    ];
    for id in odd.iter().chain(&[FREE]) {
        for (method, path, resource) in [
            ("GET", format!("/v1/jobs/{id}"), "job"),
            ("DELETE", format!("/v1/jobs/{id}"), "job"),
            ("POST", format!("/v1/jobs/{id}/cancel"), "job"),
            ("POST", format!("/v1/jobs/{id}/activate"), "job"),
            ("GET", format!("/v1/dead-letter/{id}"), "dead letter"),
            ("DELETE", format!("/v1/dead-letter/{id}"), "dead letter"),
            ("POST", format!("/v1/dead-letter/{id}/retry"), "dead letter"),
            ("GET", format!("/v1/queues/{id}"), "queue"),
            ("GET", format!("/v1/queues/{id}/stats"), "queue"),
            ("DELETE", format!("/v1/workers/{id}"), "worker"),
            ("GET", format!("/v1/admin/jobs/{id}"), "job"),
            ("GET", format!("/v1/admin/pools/{id}"), "pool"),
            ("DELETE", format!("/v1/admin/pools/{id}"), "pool"),
            ("GET", format!("/v1/rate-limits/{id}"), "rate limit"),
            ("DELETE", format!("/v1/rate-limits/{id}"), "override"),
            ("GET", format!("/v1/admin/queues/{id}/rate-limit"), "limit of queue"),
            ("DELETE", format!("/v1/admin/queues/{id}/rate-limit"), "limit of queue"),
        ] {
            rows.push(Row::new(format!("{method} {path}"), method, path).missing(resource));
        }
    }
    for (method, path, field) in [
        ("GET", "/v1/jobs/%FF", "id"),
        ("DELETE", "/v1/jobs/%C3%28", "id"),
        ("POST", "/v1/jobs/%FF/cancel", "id"),
        ("POST", "/v1/jobs/%FF/ack", "id"),
        ("GET", "/v1/dead-letter/%FF", "id"),
        ("POST", "/v1/dead-letter/%FF/retry", "id"),
        ("GET", "/v1/queues/%FF", "name"),
        ("GET", "/v1/queues/%FF/stats", "name"),
        ("DELETE", "/v1/workers/%FF", "id"),
        ("GET", "/v1/admin/pools/%FF", "name"),
        ("PUT", "/v1/admin/pools/%FF", "name"),
        ("GET", "/v1/rate-limits/%FF", "key"),
        ("PUT", "/v1/rate-limits/%FF", "key"),
        ("PUT", "/v1/admin/queues/%FF/rate-limit", "name"),
    ] {
        rows.push(Row::new(format!("{method} {path}"), method, path).field(field));
    }
    let taken = |verb: &str| format!("/v1/jobs/{TAKEN}/{verb}");
    rows.push(Row::new("activate what is not pending", "POST", taken("activate")).is(409, "conflict"));
    rows.push(Row::get("a dead letter that lives", format!("/v1/dead-letter/{TAKEN}")).missing("dead letter"));
    rows.into_iter()
        .map(|row| if row.status == 409 { row.with("/error/details/current_state", json!("available")) } else { row })
        .collect()
}
