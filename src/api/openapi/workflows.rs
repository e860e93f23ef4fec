//! Workflows: create, list, show, cancel.

use super::Schemas;
use super::jobs::stores_jobs;
use super::operation::{Operation, operation};
use super::schema::*;
use crate::api::answers::lists::CursorPaged;
use crate::domain::workflow::{MOST_JOBS, Shape, WorkflowState};
use serde_json::{Value, json};

pub fn schemas() -> Schemas {
    vec![
        ("NewWorkflow", new_workflow()),
        ("NewWorkflowStep", new_step()),
        ("Workflow", workflow()),
        ("WorkflowPart", part()),
    ]
}

/// A job that names the steps on which it depends.
fn new_step() -> Value {
    let step =
        request([("id", string()), ("type", job_type()), ("args?", array(any())), ("depends_on?", array(string()))]);
    open(step)
}

fn new_workflow() -> Value {
    let part = || any_of([reference("NewJob"), reference("NewWorkflow")]);
    let callbacks = open(request([("on_complete?", part()), ("on_success?", part()), ("on_failure?", part())]));
    let workflow = request([
        ("type?", string()),
        ("id?", uuid()),
        ("name?", string_of_length(0, 255)),
        ("meta?", any_object()),
        ("options?", any_object()),
        ("steps?", array_of(any_of([part(), reference("NewWorkflowStep")]), 1, MOST_JOBS)),
        ("jobs?", array_of(part(), 1, MOST_JOBS)),
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
        {"required": ["steps"], "properties": {"steps": array(reference("NewWorkflowStep"))}},
    ]);
    with_description(
        workflow,
        "A chain has `steps`, a group `jobs`, and a batch `jobs` and `callbacks`. A part is a job or another workflow, nested up to three levels. As an alternative, each of the `steps` names its predecessors in `depends_on`.",
    )
}

/// Counters, parts and callbacks, under the names that the type of the workflow has for them.
fn inside() -> Value {
    let parts = || array(reference("WorkflowPart"));
    object([
        ("steps_total?", count()),
        ("steps_completed?", count()),
        ("steps_failed?", count()),
        ("steps?", parts()),
        ("jobs_total?", count()),
        ("jobs_completed?", count()),
        ("jobs_failed?", count()),
        ("jobs?", parts()),
        ("callbacks?", map_of(reference("WorkflowPart"))),
    ])
}

fn part() -> Value {
    let own = object([
        ("index?", count()),
        ("type", string()),
        ("state", string()),
        ("job_id?", uuid()),
        ("started_at?", timestamp()),
        ("completed_at?", timestamp()),
        ("result?", any()),
    ]);
    // Steps have the members that the client set as well.
    open(merge(own, inside()))
}

/// A workflow as an item of a list, without its parts.
fn summary() -> Value {
    let metadata = object([
        ("job_count", count()),
        ("completed_count", count()),
        ("failed_count", count()),
        ("created_at", timestamp()),
        ("started_at", timestamp()),
        ("completed_at?", timestamp()),
        ("cancelled_at?", timestamp()),
    ]);
    object([
        ("id", uuid()),
        ("type", string()),
        ("state", enumeration(&WorkflowState::NAMES)),
        ("name?", string()),
        ("meta?", any_object()),
        ("created_at", timestamp()),
        ("started_at", timestamp()),
        ("completed_at?", timestamp()),
        ("cancelled_at?", timestamp()),
        ("metadata", metadata),
    ])
}

fn workflow() -> Value {
    let failures = object([("failed_step_index?", count()), ("failed_job_ids?", array(uuid()))]);
    merge(merge(summary(), failures), inside())
}

/// A workflow, at top level and inside `workflow`.
fn workflow_response() -> Value {
    merge(workflow(), object([("workflow", reference("Workflow"))]))
}

pub fn progress() -> Operation {
    let step = object([
        ("id?", string()),
        ("job_id?", uuid()),
        ("type", string()),
        ("state", string()),
        ("progress", nullable(ratio())),
        ("data?", any()),
    ]);
    let response = object([
        ("workflow_id", uuid()),
        ("type", string()),
        ("state", string()),
        ("progress", ratio()),
        ("steps", array(step)),
    ]);
    operation("Show the progress of a workflow and of its jobs")
        .response(200, "The progress.", response)
        .with_headers(&["Cache-Control", "X-OJS-Progress"])
}

pub fn create() -> Operation {
    stores_jobs(operation("Create a workflow; all of its jobs are stored, or none"))
        .request_body(reference("NewWorkflow"))
        .response(201, "The workflow.", workflow_response())
        .with_headers(&["Location"])
}

pub fn list_all() -> Operation {
    operation("List workflows")
        .description(super::jobs::SCANNED)
        .tenant_header()
        .query("state", comma_separated(&WorkflowState::NAMES), "Only workflows in these states, separated by commas.")
        .query("type", enumeration(&Shape::NAMES), "Only workflows of this type.")
        .paged_by_cursor()
        .list_of::<CursorPaged>(&["workflows"], summary(), "Workflows, without their parts.")
}

pub fn show() -> Operation {
    operation("Show a workflow").response(200, "The workflow.", workflow_response())
}

pub fn cancel() -> Operation {
    operation("Cancel a running workflow").response(200, "The workflow.", workflow_response()).errors(&[409])
}
