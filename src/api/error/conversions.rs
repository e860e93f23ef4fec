//! Conversions of errors of the store, the planner and the validation of requests into error responses.

use super::ApiError;
use crate::domain::invalid::{Invalid, Kind};
use crate::domain::tenant::Foreign;
use crate::enqueue;
use crate::store;
use axum::http::StatusCode;

impl From<Invalid> for ApiError {
    fn from(invalid: Invalid) -> Self {
        let (status, code) = match invalid.kind {
            Kind::Payload => (StatusCode::BAD_REQUEST, "invalid_payload"),
            Kind::Field => (StatusCode::BAD_REQUEST, "invalid_request"),
            Kind::Policy | Kind::Tenant => (StatusCode::UNPROCESSABLE_ENTITY, "validation_error"),
            Kind::Workflow => (StatusCode::BAD_REQUEST, "invalid_workflow"),
            Kind::EnvelopeTooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "envelope_too_large"),
            Kind::MetaTooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "metadata_too_large"),
            Kind::ResultTooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "RESULT_TOO_LARGE"),
            Kind::BatchTooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "BATCH_SIZE_EXCEEDED"),
            Kind::Duplicate => (StatusCode::CONFLICT, "duplicate"),
            Kind::Unsupported => (StatusCode::UNPROCESSABLE_ENTITY, "unsupported"),
        };
        let mut problem = ApiError::new(status, code, invalid.to_string()).with("field", &invalid.field);
        problem.invalid = Some(Box::new(invalid.clone()));
        problem.kind = matches!(invalid.kind, Kind::Policy | Kind::Tenant).then_some("validation_error");
        for (name, value) in [("expected", &invalid.expected), ("received", &invalid.received)] {
            if let Some(value) = value {
                problem = problem.with(name, value);
            }
        }
        if let Some(index) = invalid.index {
            problem = problem.with_number("index", index);
        }
        if let Some((size, limit)) = invalid.sizes {
            problem = problem.with_number("size", size).with_number("limit", limit);
            if invalid.kind == Kind::BatchTooLarge {
                problem.top_level.push(("max_batch_size", limit.to_string()));
                problem = problem.with_number("max_batch_size", limit);
            }
        }
        problem
    }
}

impl From<enqueue::Refusal> for ApiError {
    fn from(refusal: enqueue::Refusal) -> Self {
        match refusal {
            enqueue::Refusal::Invalid(invalid) => invalid.into(),
            enqueue::Refusal::Foreign(Foreign { tenant, field }, index) => match index {
                Some(index) => {
                    ApiError::foreign_tenant(&tenant, &format!("jobs[{index}].{field}")).with_number("index", index)
                }
                None => ApiError::foreign_tenant(&tenant, &field),
            },
            // The rule was removed at the same time. A repeated request finds no rule and is handled as unplanned.
            enqueue::Refusal::Unplanned => store::Error::Busy.into(),
            enqueue::Refusal::Store(error) => error.into(),
        }
    }
}

impl From<store::Error> for ApiError {
    fn from(error: store::Error) -> Self {
        use store::Error;
        match error {
            Error::Unavailable(_) | Error::Busy | Error::Schema(_) => {
                // The reason contains host names, so it goes to the log only.
                tracing::debug!(%error, "store unavailable; responded with 503");
                let message = match error {
                    Error::Busy => "Too many requests are waiting for the store.",
                    _ => "The store is unavailable.",
                };
                ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "backend_unavailable", message).retry_after(1)
            }
            Error::MainQueue { name, reason, .. } => {
                tracing::debug!(main_queue = name, reason, "store unavailable; responded with 503");
                let message = format!("The main queue {name:?} is unavailable.");
                ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "backend_unavailable", message).retry_after(1)
            }
            Error::Unconfirmed { confirmed, wanted, within } => {
                tracing::warn!(confirmed, wanted, "replicas did not confirm a write in time; responded with 503");
                let message = format!(
                    "The request was stored, but only {confirmed} of {wanted} replicas confirmed it within {within:?}, so a failover may lose it."
                );
                ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "backend_unavailable", message)
                    .retry_after(1)
                    .hint("Send the request again with the same job id or Idempotency-Key; nothing is done twice.")
            }
            Error::Timeout(limit) => ApiError::timed_out(limit),
            Error::OtherPool(pool) => {
                let message = format!("The worker belongs to pool {pool:?}; a worker can belong to one pool only.");
                let problem = ApiError::new(StatusCode::CONFLICT, "conflict", message).with("field", "pool");
                problem
                    .with("pool", &pool)
                    .hint("Leave the pool out, or register the worker again when it has no jobs.")
            }
            Error::Backend(_) | Error::NoScript { .. } => {
                tracing::error!(%error, "the store returned an error");
                let mut problem =
                    ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "backend_error", "The store returned an error.");
                problem.retryable = true;
                problem.hint("See the server log for the details, under this request id.")
            }
        }
    }
}
