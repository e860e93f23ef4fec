//! Malformed workflows.

use super::{FREE, JOB, MAX_BATCH, MAX_ENVELOPE, MAX_META, MAX_NESTING, Row, WORKFLOWS, job, nested};

/// A chain of steps.
fn chain(steps: &[&str]) -> String {
    format!(r#"{{"type":"chain","steps":[{}]}}"#, steps.join(","))
}

fn group(jobs: &[&str]) -> String {
    format!(r#"{{"type":"group","jobs":[{}]}}"#, jobs.join(","))
}

fn batch(callbacks: &str) -> String {
    format!(r#"{{"type":"batch","jobs":[{JOB}],"callbacks":{callbacks}}}"#)
}

/// A chain of one step with further members.
fn with(members: &str) -> String {
    format!(r#"{{"type":"chain","steps":[{JOB}],{members}}}"#)
}

pub fn all() -> Vec<Row> {
    [shapes(), callbacks(), steps(), members(), sizes(), lookups()].into_iter().flatten().collect()
}

fn wrong(body: String, field: &str) -> Row {
    Row::post(format!("the workflow {}", body.chars().take(150).collect::<String>()), WORKFLOWS, body)
        .is(400, "invalid_workflow")
        .field(field)
}

/// Steps that are refused like any job.
fn refused(body: String, field: &str) -> Row {
    Row { code: "invalid_request", ..wrong(body, field) }
}

fn shapes() -> Vec<Row> {
    let mut rows = Vec::new();
    for (body, field) in [
        ("{}", "type"),
        (r#"{"type":null}"#, "type"),
        (r#"{"type":"saga","steps":[]}"#, "type"),
        (r#"{"type":"Chain"}"#, "type"),
        (r#"{"type":5}"#, "type"),
        (r#"{"steps":[{"type":"test.job","args":[]}]}"#, "type"),
        (r#"{"type":"chain"}"#, "steps"),
        (r#"{"type":"chain","steps":null}"#, "steps"),
        (r#"{"type":"chain","steps":[]}"#, "steps"),
        (r#"{"type":"chain","steps":{}}"#, "steps"),
        (r#"{"type":"chain","steps":"a"}"#, "steps"),
        (r#"{"type":"chain","jobs":[{"type":"test.job","args":[]}]}"#, "steps"),
        (r#"{"type":"group"}"#, "jobs"),
        (r#"{"type":"group","jobs":[]}"#, "jobs"),
        (r#"{"type":"group","steps":[{"type":"test.job","args":[]}]}"#, "jobs"),
        (r#"{"type":"batch","jobs":[],"callbacks":{}}"#, "jobs"),
    ] {
        rows.push(wrong(body.to_owned(), field));
    }
    rows.push(wrong(with(r#""depends_on":["a"]"#), "depends_on"));
    rows.push(wrong(chain(&[JOB, &job(r#""depends_on":["a"]"#)]), "steps[1].depends_on"));
    let step = |id: &str, needs: &str| format!(r#"{{"id":{id},"type":"test.job","args":[],"depends_on":{needs}}}"#);
    for (steps, field) in [
        (vec![step("null", r#"["a"]"#)], "steps[0].id"),
        (vec![step("5", "[]")], "steps[0].id"),
        (vec![step(r#""""#, "[]")], "steps[0].id"),
        (vec![step(r#""a\u001fb""#, "[]")], "steps[0].id"),
        (vec![step(r#""a""#, "[]"), step(r#""a""#, "[]")], "steps[1].id"),
        (vec![step(r#""a""#, r#""b""#)], "steps[0].depends_on"),
        (vec![step(r#""a""#, "[1]")], "steps[0].depends_on"),
        (vec![step(r#""a""#, r#"["b"]"#)], "steps[0].depends_on"),
        (vec![step(r#""a""#, r#"["a"]"#)], "steps[0].depends_on"),
        (vec![step(r#""a""#, r#"["b"]"#), step(r#""b""#, r#"["a"]"#)], "steps[0].depends_on"),
        (vec![step(r#""a""#, "[]"), step(r#""b""#, "[]"), step(r#""c""#, r#"["a"]"#)], "steps[2].depends_on"),
        (vec![step(r#""a""#, "[]"), r#"{"id":"b","type":"group","jobs":[]}"#.to_owned()], "steps[1].type"),
        (vec!["5".to_owned(), step(r#""a""#, "[]")], "steps[0].id"),
    ] {
        rows.push(wrong(format!(r#"{{"steps":[{}]}}"#, steps.join(",")), field));
    }
    rows.push(wrong(chain(&[JOB, r#"{"type":"group","jobs":[]}"#]), "steps[1].jobs"));
    rows.push(wrong(chain(&[&group(&[r#"{"type":"chain"}"#])]), "steps[0].jobs[0].steps"));
    let three = chain(&[&group(&[&chain(&[JOB])])]);
    rows.push(wrong(group(&[&three]), "jobs[0].steps[0].jobs[0].type"));
    rows.push(wrong(chain(&[&group(&[&chain(&[&group(&[JOB])])])]), "steps[0].jobs[0].steps[0].type"));
    rows
}

fn callbacks() -> Vec<Row> {
    let mut rows = Vec::new();
    for (callbacks, field) in [
        ("null", "callbacks"),
        ("{}", "callbacks"),
        ("[]", "callbacks"),
        ("5", "callbacks"),
        (r#"{"on_success":null}"#, "callbacks"),
        (r#"{"on_end":{"type":"test.job","args":[]}}"#, "callbacks.on_end"),
        (r#"{"on_success":5}"#, "callbacks.on_success"),
        (r#"{"on_success":{"type":"group","jobs":[]}}"#, "callbacks.on_success.type"),
        (r#"{"on_complete":{"type":"test.job","args":[],"id":"x"}}"#, "callbacks.on_complete.id"),
    ] {
        rows.push(wrong(batch(callbacks), field));
    }
    rows.push(refused(batch(r#"{"on_failure":{"type":"test.job"}}"#), "callbacks.on_failure.args"));
    rows.push(refused(batch(r#"{"on_failure":{"args":[]}}"#), "callbacks.on_failure.type"));
    rows.push(wrong(format!(r#"{{"type":"batch","jobs":[{JOB}]}}"#), "callbacks"));
    rows.push(wrong(with(&format!(r#""callbacks":{{"on_complete":{JOB}}}"#)), "callbacks"));
    rows
}

fn steps() -> Vec<Row> {
    let mut rows = Vec::new();
    for step in ["5", "null", "[]", "\"a\""] {
        rows.push(wrong(chain(&[JOB, step]), "steps[1]"));
    }
    for (step, field) in [
        ("{}", "type"),
        (r#"{"type":"test.job"}"#, "args"),
        (r#"{"type":"Test","args":[]}"#, "type"),
        (r#"{"type":"test.job","args":{}}"#, "args"),
        (r#"{"type":"test.job","args":[],"queue":"Upper"}"#, "queue"),
        (r#"{"type":"test.job","args":[],"options":{"queue":"Upper"}}"#, "options.queue"),
        (r#"{"type":"test.job","args":[],"options":{"priority":101}}"#, "options.priority"),
        (r#"{"type":"test.job","args":[],"options":[]}"#, "options"),
        (r#"{"type":"test.job","args":[],"meta":5}"#, "meta"),
        (r#"{"type":"test.job","args":[],"scheduled_at":"soon"}"#, "scheduled_at"),
    ] {
        rows.push(refused(chain(&[JOB, step]), &format!("steps[1].{field}")));
        rows.push(refused(chain(&[&group(&[JOB, step])]), &format!("steps[0].jobs[1].{field}")));
    }
    let policy = chain(&[&job(r#""retry":{"max_attempts":-1}"#)]);
    rows.push(wrong(policy, "steps[0].retry.max_attempts").is(422, "validation_error"));
    let unique = r#"{"keys":["type"]}"#;
    rows.push(wrong(chain(&[&job(&format!(r#""unique":{unique}"#))]), "steps[0].unique"));
    rows.push(wrong(group(&[&job(&format!(r#""options":{{"unique":{unique}}}"#))]), "jobs[0].options.unique"));
    rows.push(wrong(with(&format!(r#""options":{{"unique":{unique}}}"#)), "options.unique"));
    let own_id = chain(&[&job(&format!(r#""id":"{FREE}""#))]);
    rows.push(wrong(own_id, "steps[0].id"));
    for place in ["meta", "options\":{\"metadata"] {
        let close = if place == "meta" { "" } else { "}" };
        let step = job(&format!(r#""{place}":{{"tenant_id":"other"}}{close}"#));
        let field = if place == "meta" { "steps[0].meta.tenant_id" } else { "steps[0].options.metadata.tenant_id" };
        rows.push(wrong(format!(r#"{{"type":"chain","steps":[{step}],"meta":{{"tenant_id":"acme"}}}}"#), field));
    }
    rows
}

fn members() -> Vec<Row> {
    let mut rows = Vec::new();
    for (members, field) in [
        (r#""id":"x""#, "id"),
        (r#""id":5"#, "id"),
        (r#""id":"019461A8-1A2B-7C3D-8E4F-5A6B7C8D9E0F""#, "id"),
        (r#""name":5"#, "name"),
        (r#""options":[]"#, "options"),
        (r#""options":{"queue":"Upper"}"#, "options.queue"),
        (r#""options":{"priority":"high"}"#, "options.priority"),
        (r#""priority":1000"#, "priority"),
        (r#""meta":[]"#, "meta"),
    ] {
        rows.push(refused(with(members), field));
    }
    for (members, field) in [
        (r#""meta":{"tenant_id":true}"#, "meta.tenant_id"),
        (r#""meta":{"tenant_id":"_default"}"#, "meta.tenant_id"),
        (r#""tenant_id":"""#, "tenant_id"),
    ] {
        rows.push(wrong(with(members), field).is(422, "validation_error"));
    }
    rows.push(refused(with(&format!(r#""name":"{}""#, "n".repeat(256))), "name"));
    let row = wrong(with(r#""options":{"retry":{"max_attempts":-1}}"#), "options.retry.max_attempts");
    rows.push(row.is(422, "validation_error"));
    rows
}

fn sizes() -> Vec<Row> {
    let jobs = vec![JOB; MAX_BATCH + 1];
    let too_many = |body: String, field: &str| {
        wrong(body, field).is(413, "BATCH_SIZE_EXCEEDED").with("/error/max_batch_size", MAX_BATCH)
    };
    let long = |size: usize| format!(r#""x":"{}""#, "x".repeat(size));
    let deep = chain(&[&format!(r#"{{"type":"test.job","args":{}}}"#, nested(MAX_NESTING))]);
    vec![
        too_many(chain(&jobs), "steps"),
        too_many(group(&jobs), "jobs"),
        too_many(chain(&[&group(&jobs[..2]), &group(&jobs[..2])]), "steps"),
        too_many(
            format!(
                r#"{{"type":"batch","jobs":[{}],"callbacks":{{"on_complete":{JOB}}}}}"#,
                jobs[..MAX_BATCH].join(",")
            ),
            "jobs",
        ),
        wrong(chain(&[JOB, &job(&long(MAX_ENVELOPE))]), "steps[1]").is(413, "envelope_too_large"),
        wrong(chain(&[&job(&format!(r#""meta":{{{}}}"#, long(MAX_META)))]), "steps[0].meta")
            .is(413, "metadata_too_large"),
        refused(deep, "steps[0].args"),
    ]
}

fn lookups() -> Vec<Row> {
    let mut rows = Vec::new();
    for id in [FREE, "x", "019461A8-1A2B-7C3D-8E4F-5A6B7C8D9E0F", "a%00b"] {
        for method in ["GET", "DELETE"] {
            let row = Row::new(format!("{method} of workflow {id}"), method, format!("/v1/workflows/{id}"));
            rows.push(row.missing("workflow"));
        }
    }
    rows
}
