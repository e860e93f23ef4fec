//! Totals over all queues, jobs and workers.

use crate::api::answers::stats::{Stats, Throughput};
use crate::api::error::ApiError;
use crate::api::{Api, response};
use crate::domain::job::State as JobState;
use axum::http::StatusCode;
use axum::response::Response;
use std::collections::BTreeMap;

/// The period over which throughput is counted, in milliseconds.
const MINUTE: i64 = 60_000;
/// The number of queues whose jobs are counted.
const MOST_QUEUES: usize = 10_000;

/// `GET /admin/stats`.
pub(crate) async fn show(api: Api) -> Result<Response, ApiError> {
    let store = api.store();
    let queues = store.queues().await?;
    let mut jobs: BTreeMap<JobState, i64> = JobState::ALL.into_iter().map(|state| (state, 0)).collect();
    for queue in queues.iter().take(MOST_QUEUES) {
        for (state, count) in store.queue_counts(&queue.name).await? {
            *jobs.entry(state).or_default() += count;
        }
    }
    let since = store.clock().now_ms() - MINUTE;
    let body = Stats {
        queues: queues.len() as u64,
        workers: store.worker_count().await?,
        jobs,
        throughput: Throughput {
            processed_per_minute: store.ended_since(JobState::Completed, since).await?,
            failed_per_minute: store.ended_since(JobState::Discarded, since).await?,
        },
        uptime_seconds: api.inner.started.elapsed().as_secs(),
    };
    Ok(response::json(StatusCode::OK, &body))
}
