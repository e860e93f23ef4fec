//! Jobs that wait in staging for a Sidekiq, by their Sidekiq id (jid).

use crate::api::answers::sidekiq::StagedJob;
use crate::api::answers::types::{JobId, Timestamp};
use crate::api::error::ApiError;
use crate::api::path::PathParam;
use crate::api::{Api, response};
use axum::http::StatusCode;
use axum::response::Response;

/// `GET /admin/sidekiq/jobs/{id}`: the staged job with a jid.
pub(crate) async fn show_job(api: Api, PathParam(jid): PathParam) -> Result<Response, ApiError> {
    let (found, is_truncated) = api.store().staged_job(&jid).await?;
    let Some(job) = found else {
        let hint = match is_truncated {
            false => "The job may be in Sidekiq after its promotion, or still in the staging queue.",
            true => "The search stopped at its limit of keys; search by rule and tenant instead.",
        };
        return Err(ApiError::not_found("staged job", &jid).hint(hint));
    };
    let known = api.registry().rules().known().await?;
    let waits_ms = u64::try_from(api.store().clock().now_ms() - job.created).unwrap_or(0);
    let body = StagedJob {
        jid,
        id: JobId(job.id),
        class: job.class,
        tenant_id: job.tenant,
        main_queue: known.find(&job.rule).map(|rule| rule.main_queue.clone()),
        rule: job.rule,
        queue: job.queue,
        created_at: Timestamp(job.created),
        waits_ms,
    };
    Ok(response::json(StatusCode::OK, &body))
}
