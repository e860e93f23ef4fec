//! The explanation of a job: why it waits.

use crate::api::answers::explain::{self as answers, JobCheck, JobEta, JobStage};
use crate::api::answers::types::{JobId, JobState, Timestamp};
use crate::api::error::ApiError;
use crate::api::path::PathParam;
use crate::api::{Api, response};
use crate::domain::job::sidekiq;
use crate::planner::{Answered, JobExplanation, Viewer};
use axum::http::StatusCode;
use axum::response::Response;

/// `GET /jobs/{id}/explain`. The id may be the jid of a staged job of a Sidekiq.
pub(crate) async fn show(api: Api, PathParam(id): PathParam) -> Result<Response, ApiError> {
    let (found, jid) = match read(&api, &id).await? {
        Some(found) => (Some(found), None),
        None if sidekiq::is_jid(&id) => (read_staged(&api, &id).await?, Some(id.clone())),
        None => (None, None),
    };
    let found = found.ok_or_else(|| missing(&id))?;
    Ok(response::json(StatusCode::OK, &answer(found, jid)))
}

fn missing(id: &str) -> ApiError {
    let error = ApiError::not_found("job", id);
    match sidekiq::is_jid(id) {
        true => error.hint("No job with this Sidekiq id is staged. It may be in Sidekiq after its promotion, or still in the staging queue."),
        false => error,
    }
}

async fn read(api: &Api, id: &str) -> Result<Option<JobExplanation>, ApiError> {
    let viewer = if api.store().scope().tenant().is_some() { Viewer::Tenant } else { Viewer::Operator };
    Ok(JobExplanation::read(api.registry(), api.store(), id, viewer).await?)
}

/// Explains the staged job with a jid. The search spans all tenants, but the explanation does not.
async fn read_staged(api: &Api, jid: &str) -> Result<Option<JobExplanation>, ApiError> {
    match api.store().staged_job(jid).await? {
        (Some(job), _) => read(api, &job.id).await,
        (None, _) => Ok(None),
    }
}

fn answer(found: JobExplanation, jid: Option<String>) -> answers::JobExplanation {
    let (waiting, facts) = (found.is_waiting(), found.facts);
    let mut answer = answers::JobExplanation {
        job_id: JobId(found.id),
        jid,
        state: JobState(facts.state),
        waiting,
        queue: facts.queue,
        tenant_id: facts.tenant,
        main_queue: found.rule.map(|rule| rule.main_queue.clone()),
        rule: facts.rule,
        position: None,
        binding: None,
        summary: String::new(),
        checks: None,
        eta: None,
        stages: None,
        total_ms: None,
        promoted_to: None,
        created_at: Timestamp(facts.created),
        computed_at: Timestamp(facts.now),
    };
    match found.answered {
        Answered::Waiting(explanation) => {
            answer.position = explanation.position.map(Into::into);
            answer.binding = explanation.binding().map(|check| check.name.name());
            answer.summary = answers::waiting_summary(&explanation);
            answer.checks = Some(explanation.checks.iter().map(JobCheck::from).collect());
            answer.eta = explanation.eta.as_ref().map(|eta| JobEta::of(eta, facts.now));
        }
        Answered::Past { stages, total_ms, promoted_to } => {
            answer.summary = match &promoted_to {
                Some(name) => format!("The job was promoted to main queue {name}."),
                None => format!("The job does not wait; it is {}.", facts.state),
            };
            answer.stages = Some(stages.iter().map(JobStage::from).collect());
            (answer.total_ms, answer.promoted_to) = (Some(total_ms), promoted_to);
        }
    }
    answer
}
