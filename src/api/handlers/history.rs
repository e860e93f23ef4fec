//! The history of the last day in the admin API.

use crate::api::answers::history::History;
use crate::api::error::ApiError;
use crate::api::pagination::Query;
use crate::api::{Api, response};
use crate::store::{INTERVAL_MS, INTERVALS_KEPT};
use axum::http::{StatusCode, Uri};
use axum::response::Response;

const HOURS_KEPT: i64 = INTERVALS_KEPT * INTERVAL_MS / 3_600_000;

/// `GET /admin/history`.
pub(crate) async fn show(api: Api, uri: Uri) -> Result<Response, ApiError> {
    let hours = Query::parse(&uri).number("hours", 1, HOURS_KEPT as usize)?.map_or(HOURS_KEPT, |hours| hours as i64);
    let samples = api.store().history(hours * INTERVALS_KEPT / HOURS_KEPT).await?;
    Ok(response::json_in_order(StatusCode::OK, &History::of(&samples)))
}
