//! Workflows: create, list, show, cancel.

use super::{jobs, progress};
use crate::api::body::RequestBody;
use crate::api::error::ApiError;
use crate::api::list_response::ListResponse;
use crate::api::pagination::{CursorPage, Query};
use crate::api::path::PathParam;
use crate::api::{Api, response};
use crate::domain::invalid::Invalid;
use crate::domain::job::{EnqueueKind, id};
use crate::domain::limit::Overflow;
use crate::domain::workflow::{self, Shape, WorkflowRecord, WorkflowState};
use crate::store::{CancelWorkflowOutcome, StartWorkflowOutcome, WorkflowFilter};
use axum::extract::Request;
use axum::http::header::LOCATION;
use axum::http::{HeaderValue, StatusCode, Uri};
use axum::response::Response;
use std::time::Instant;

/// `POST /workflows`: stores all jobs of a workflow, or nothing.
pub(crate) async fn create(api: Api, request: Request) -> Result<Response, ApiError> {
    let context = jobs::context(&api, request.headers())?;
    let headers = jobs::HeaderOptions::parse(&api, request.headers())?;
    let body = RequestBody::read(&api, request).await?;
    let mut new = workflow::parse(body.as_str(), &api.inner.limits, &context)?;
    let header = |name: &str| headers.tenants.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone());
    let deadline = Instant::now() + headers.block_timeout;
    let record = loop {
        match api.enqueue_service().start_workflow(&mut new, &header).await? {
            StartWorkflowOutcome::Stored(record) => break record,
            StartWorkflowOutcome::Bounded { overflow: Overflow::Block, .. } if Instant::now() < deadline => {
                tokio::time::sleep(jobs::BLOCKED_RETRY_INTERVAL).await;
            }
            StartWorkflowOutcome::Bounded { queue, depth, most, overflow } => {
                return Err(ApiError::queue_full(&queue, depth, most, overflow));
            }
            StartWorkflowOutcome::Duplicate => return Err(duplicate(&new.id)),
            StartWorkflowOutcome::Full { rule, most, staged } => {
                return Err(ApiError::staging_full(&rule, most, staged));
            }
            StartWorkflowOutcome::Limited(exceeded) => {
                return Err(ApiError::tenant_limited(&exceeded, EnqueueKind::Single));
            }
            StartWorkflowOutcome::Stale => return Err(ApiError::internal()), // retried by the enqueue service
        }
    };
    new.first_jobs().for_each(|job| api.metrics().jobs.enqueued(&job.queue, &job.kind));
    let mut response = workflow_response(StatusCode::CREATED, &record);
    // Workflow ids are valid in a header.
    if let Ok(location) = HeaderValue::try_from(format!("/ojs/v1/workflows/{}", record.id)) {
        response.headers_mut().insert(LOCATION, location);
    }
    Ok(response)
}

/// `GET /workflows`: workflows that match the query, without their parts and in no particular order. Each call reads a
/// bounded number of keys.
pub(crate) async fn list(api: Api, uri: Uri) -> Result<Response, ApiError> {
    let query = Query::parse(&uri);
    let CursorPage { cursor, limit } = CursorPage::from_query(&query)?;
    let one_of =
        |field: &str, known: &[&str], value: &str| Invalid::field(field, format!("one of {}", known.join(", ")), value);
    let state =
        |name: &String| WorkflowState::from_name(name).ok_or_else(|| one_of("state", &WorkflowState::NAMES, name));
    let shape = |name: &str| Shape::from_name(name).ok_or_else(|| one_of("type", &Shape::NAMES, name));
    let filter = WorkflowFilter {
        states: query.list("state").iter().map(state).collect::<Result<_, _>>()?,
        shape: query.get("type").map(shape).transpose()?,
        tenant: query.tenant()?,
    };
    let (found, next) = api.store().list_workflows(&filter, cursor, limit).await?;
    let mut items = String::from("[");
    for (index, record) in found.iter().enumerate() {
        items.push_str(if index == 0 { "" } else { "," });
        record.write_summary(&mut items);
    }
    items.push(']');
    let pagination = CursorPage::describe(limit, next.as_ref());
    Ok(ListResponse::new(&items, &["workflows"]).with(&pagination).into_response())
}

/// `GET /workflows/{id}`.
pub(crate) async fn show(api: Api, PathParam(id): PathParam) -> Result<Response, ApiError> {
    let missing = || ApiError::not_found("workflow", &id);
    if !id::is_valid(&id) {
        return Err(missing());
    }
    let record = api.store().workflow(&id).await?.ok_or_else(missing)?;
    Ok(workflow_response(StatusCode::OK, &record))
}

/// `GET /workflows/{id}/progress`.
pub(crate) async fn progress(api: Api, PathParam(id): PathParam) -> Result<Response, ApiError> {
    let missing = || ApiError::not_found("workflow", &id);
    if !id::is_valid(&id) {
        return Err(missing());
    }
    let record = api.store().workflow_progress(&id).await?.ok_or_else(missing)?;
    let mut body = String::new();
    record.write_progress(&mut body);
    Ok(progress::progress_response(body, Some(record.progress())))
}

/// `DELETE /workflows/{id}`.
pub(crate) async fn cancel(api: Api, PathParam(id): PathParam) -> Result<Response, ApiError> {
    if !id::is_valid(&id) {
        return Err(ApiError::not_found("workflow", &id));
    }
    match api.store().cancel_workflow(&id).await? {
        CancelWorkflowOutcome::Done(record) => Ok(workflow_response(StatusCode::OK, &record)),
        CancelWorkflowOutcome::Missing => Err(ApiError::not_found("workflow", &id)),
        CancelWorkflowOutcome::Ended(state) => Err(already_ended(&id, state)),
    }
}

/// A workflow, at top level and inside `workflow`.
fn workflow_response(status: StatusCode, record: &WorkflowRecord) -> Response {
    let mut plain = String::new();
    record.write(&mut plain);
    response::raw_json(status, response::wrapped("workflow", &plain, &[]))
}

/// The error for a new workflow whose id exists.
fn duplicate(id: &str) -> ApiError {
    let message = format!("`id` is taken: a workflow with the id {id} already exists.");
    ApiError::new(StatusCode::CONFLICT, "duplicate", message).with("existing_workflow_id", id).with("field", "id")
}

/// The error for cancelling a workflow that has ended.
fn already_ended(id: &str, state: WorkflowState) -> ApiError {
    let message = format!("Workflow {id} is {state}; only a running workflow can be cancelled.");
    ApiError::new(StatusCode::CONFLICT, "conflict", message)
        .with("workflow_id", id)
        .with("current_state", state.name())
        .with("expected_state", "running")
}
