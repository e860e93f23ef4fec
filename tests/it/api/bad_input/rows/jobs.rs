//! Jobs that are refused.

use super::*;

pub(super) fn all() -> Vec<Row> {
    [job_fields(), retry_policies(), rate_limits(), sizes(), batches()].into_iter().flatten().collect()
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

/// Members that are valid in both places, each value in both.
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
            // Other standards accept these times, RFC 3339 does not, and they would be returned to workers that expect
            // RFC 3339.
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

/// Values of a retry policy, with each of its names and in each place.
fn retry_policies() -> Vec<Row> {
    let mut rows = Vec::new();
    for (policy, field) in [
        ("[]", ""),
        ("5", ""),
        ("\"never\"", ""),
        (r#"{"max_attempts":-1}"#, ".max_attempts"),
        (r#"{"max_attempts":1.5}"#, ".max_attempts"),
        (r#"{"max_attempts":"3"}"#, ".max_attempts"),
        (r#"{"max_attempts":1e300}"#, ".max_attempts"),
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
        (r#"{"key":"k","concurrency":1e300}"#, ".concurrency"),
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

/// Values over the limits; the response names the limit as a number.
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
    // Each of these is placed between two valid jobs.
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
