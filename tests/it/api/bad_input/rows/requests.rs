//! Requests with invalid bodies, transfer or targets.

use super::*;

pub(super) fn all() -> Vec<Row> {
    [bodies(), transfers(), headers(), paths()].into_iter().flatten().collect()
}

/// Bodies that are not JSON objects, for every route that requires one.
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
    // The body is an object, but a member name is not valid text.
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

/// Bodies with an invalid transfer.
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
    for version in ["2.0", "1.1", "1.1.0-rc.1", "1.0.", "one", ""] {
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
        ("GET", "/nowhere"),
        ("ASSERT", "/nowhere"),
        ("push", "/nowhere"),
        ("fetch", "/nowhere"),
        ("OPTIONS", "*"),
        ("CONNECT", "fairgate:80"),
        ("GET", "/ojs"),
        ("GET", "/ojs/v1"),
        ("GET", "/ojs/v2/jobs"),
        ("GET", "/v2"),
        ("POST", "/ojs/v1/jobs//"),
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
        ("DELETE", "/v1/jobs", "POST,GET,HEAD"),
        ("ASSERT", "/v1/jobs", "POST,GET,HEAD"),
        ("PUT", "/v1/jobs", "POST,GET,HEAD"),
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
        ("DELETE", "/v1/workflows", "POST,GET,HEAD"),
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
