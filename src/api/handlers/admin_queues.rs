//! Queues in the shape of the admin API.

use super::queue_config;
use crate::api::answers::queues::{AdminQueue, AdminQueueAnswer, AdminQueueItem, Status, Throughput};
use crate::api::answers::types::Timestamp;
use crate::api::error::ApiError;
use crate::api::list_response::ListResponse;
use crate::api::pagination::{Page, Query};
use crate::api::path::PathParam;
use crate::api::{Api, response};
use crate::store::Queue;
use axum::http::{StatusCode, Uri};
use axum::response::Response;

/// `GET /admin/queues`.
pub(crate) async fn list(api: Api, uri: Uri) -> Result<Response, ApiError> {
    let page = Page::from_admin_query(&Query::parse(&uri))?;
    let (queues, paused) = (api.store().queues().await?, api.store().paused_queues().await?);
    let scheduling = api.store().scheduling(&[]).await?;
    let page_items: Vec<&Queue> = queues.iter().skip(page.offset).take(page.limit).collect();
    let names: Vec<&str> = page_items.iter().map(|queue| queue.name.as_str()).collect();
    let ended = api.store().recently_ended(&names).await?;
    let mut items = Vec::new();
    for (place, queue) in page_items.into_iter().enumerate() {
        let described = describe(&api, queue, paused.contains_key(&queue.name)).await?;
        let started = scheduling.queues.get(&queue.name);
        let ended = ended.as_ref().map(|ended| ended[place]);
        let throughput = Throughput {
            processed_per_minute: ended.map(|ended| ended.completed),
            failed_per_minute: ended.map(|ended| ended.discarded),
            started_per_minute: started.map_or(0, |queue| queue.jobs),
            avg_wait_ms: started.map_or(0.0, |queue| queue.average_wait_ms() as f64),
        };
        items.push(AdminQueueItem { queue: described, throughput });
    }
    Ok(ListResponse::from_values(&items, &[]).paged(page, queues.len()))
}

/// `GET /admin/queues/{name}`.
pub(crate) async fn show(api: Api, PathParam(name): PathParam) -> Result<Response, ApiError> {
    let queue = api.store().queue(&name).await?.ok_or_else(|| ApiError::not_found("queue", &name))?;
    let since = api.store().paused_since(&name).await?;
    let body = AdminQueueAnswer {
        queue: describe(&api, &queue, since.is_some()).await?,
        configuration: queue_config::describe(&api, &name).await?,
        oldest_available_at: api.store().queue_stats(&name).await?.oldest_available.map(Timestamp),
    };
    Ok(response::json(StatusCode::OK, &body))
}

async fn describe(api: &Api, queue: &Queue, is_paused: bool) -> Result<AdminQueue, ApiError> {
    Ok(AdminQueue {
        name: queue.name.clone(),
        state: Status::of(is_paused),
        paused: is_paused,
        counts: api.store().queue_counts(&queue.name).await?,
        created_at: Timestamp(queue.created),
    })
}
