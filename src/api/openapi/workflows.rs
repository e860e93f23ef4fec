//! Workflows: begin, look up, cancel.

use super::Shapes;
use super::jobs::stores;
use super::operation::{Operation, op};
use super::schema::*;
use crate::api::handlers::workflows::{STATES, TYPES};
use crate::job::workflow::MOST_JOBS;
use serde_json::{Value, json};

pub fn shapes() -> Shapes {
    vec![
        ("NewWorkflow", new_workflow()),
        ("NewWorkflowStep", new_step()),
        ("Workflow", workflow()),
        ("WorkflowPart", part()),
    ]
}

/// A job that says behind which others it comes.
fn new_step() -> Value {
    let step = request([("id", text()), ("type", kind()), ("args?", list(any())), ("depends_on?", list(text()))]);
    open(step)
}

fn new_workflow() -> Value {
    let part = || either([refer("NewJob"), refer("NewWorkflow")]);
    let callbacks = open(request([("on_complete?", part()), ("on_success?", part()), ("on_failure?", part())]));
    let workflow = request([
        ("type?", text()),
        ("id?", uuid()),
        ("name?", short(0, 255)),
        ("meta?", anything_named()),
        ("options?", anything_named()),
        ("steps?", list_of(either([part(), refer("NewWorkflowStep")]), 1, MOST_JOBS)),
        ("jobs?", list_of(part(), 1, MOST_JOBS)),
        ("callbacks?", callbacks),
    ]);
    let is = |name: &str, parts: &[&str]| {
        let mut form = json!({"properties": {"type": {"const": name}}, "required": parts});
        parts.iter().for_each(|part| form["properties"][*part] = json!({"not": {"type": "null"}}));
        form
    };
    let mut workflow = open(workflow);
    workflow["anyOf"] = json!([
        is("chain", &["steps"]),
        is("group", &["jobs"]),
        is("batch", &["jobs", "callbacks"]),
        {"required": ["steps"], "properties": {"steps": list(refer("NewWorkflowStep"))}},
    ]);
    described(
        workflow,
        "A chain has `steps`, a group and a batch `jobs`, a batch `callbacks` as well; a part is a job or another of these, three deep. Or its `steps` say with `depends_on` what comes before them.",
    )
}

/// Counters, parts and callbacks, under the names that the shape has for them.
fn inside() -> Value {
    let parts = || list(refer("WorkflowPart"));
    object([
        ("steps_total?", count()),
        ("steps_completed?", count()),
        ("steps_failed?", count()),
        ("steps?", parts()),
        ("jobs_total?", count()),
        ("jobs_completed?", count()),
        ("jobs_failed?", count()),
        ("jobs?", parts()),
        ("callbacks?", map(refer("WorkflowPart"))),
    ])
}

fn part() -> Value {
    let own = object([
        ("index?", count()),
        ("type", text()),
        ("state", text()),
        ("job_id?", uuid()),
        ("started_at?", time()),
        ("completed_at?", time()),
        ("result?", any()),
    ]);
    // Steps are shown with what their client said of them.
    open(with(own, inside()))
}

/// A workflow as lists show it: without its parts.
fn summary() -> Value {
    let metadata = object([
        ("job_count", count()),
        ("completed_count", count()),
        ("failed_count", count()),
        ("created_at", time()),
        ("started_at", time()),
        ("completed_at?", time()),
        ("cancelled_at?", time()),
    ]);
    object([
        ("id", uuid()),
        ("type", text()),
        ("state", one_of(&STATES)),
        ("name?", text()),
        ("meta?", anything_named()),
        ("created_at", time()),
        ("started_at", time()),
        ("completed_at?", time()),
        ("cancelled_at?", time()),
        ("metadata", metadata),
    ])
}

fn workflow() -> Value {
    let failures = object([("failed_step_index?", count()), ("failed_job_ids?", list(uuid()))]);
    with(with(summary(), failures), inside())
}

/// The workflow itself, and again inside `workflow`.
fn answer() -> Value {
    with(workflow(), object([("workflow", refer("Workflow"))]))
}

pub fn progress() -> Operation {
    let step = object([
        ("id?", text()),
        ("job_id?", uuid()),
        ("type", text()),
        ("state", text()),
        ("progress", or_null(ratio())),
        ("data?", any()),
    ]);
    let answer = object([
        ("workflow_id", uuid()),
        ("type", text()),
        ("state", text()),
        ("progress", ratio()),
        ("steps", list(step)),
    ]);
    op("How far a workflow and each of its jobs has got")
        .gives(200, "Its progress.", answer)
        .with_headers(&["Cache-Control", "X-OJS-Progress"])
}

pub fn begin() -> Operation {
    stores(op("Begin a workflow: all of it is stored, or nothing"))
        .takes(refer("NewWorkflow"))
        .gives(201, "The workflow.", answer())
        .with_headers(&["Location"])
}

pub fn list_all() -> Operation {
    let answer = with(list_answer(&["workflows"], summary()), object([("pagination", refer("CursorPagination"))]));
    op("List workflows")
        .about(super::jobs::SCANNED)
        .of_tenant()
        .query("state", words(&STATES), "Workflows of these states, separated by commas.")
        .query("type", one_of(&TYPES), "Workflows of this type.")
        .paged_by_cursor()
        .gives(200, "Workflows, without their parts.", answer)
}

pub fn show() -> Operation {
    op("Show a workflow").gives(200, "The workflow.", answer())
}

pub fn cancel() -> Operation {
    op("Cancel a workflow that is running").gives(200, "The workflow.", answer()).fails(&[409])
}
