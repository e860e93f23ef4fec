//! The health report in the admin API.

use crate::api::answers::health_report::HealthReport;
use crate::api::error::ApiError;
use crate::api::pagination::Query;
use crate::api::{Api, response};
use crate::domain::invalid::Invalid;
use crate::health;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode, Uri, header::ACCEPT};
use axum::response::{IntoResponse, Response};

/// The forms of a report.
#[derive(Clone, Copy)]
enum ReportFormat {
    Json,
    Text,
    Markdown,
}

impl ReportFormat {
    /// Takes `format` of the query, or the media type that the client accepts.
    fn requested(uri: &Uri, headers: &HeaderMap) -> Result<ReportFormat, Invalid> {
        let accept = headers.get(ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
        match Query::parse(uri).get("format") {
            Some("json") => Ok(ReportFormat::Json),
            Some("text") => Ok(ReportFormat::Text),
            Some("markdown") => Ok(ReportFormat::Markdown),
            Some(other) => Err(Invalid::field("format", "one of json, text, markdown", other)),
            None if accept.starts_with("text/plain") => Ok(ReportFormat::Text),
            None if accept.starts_with("text/markdown") => Ok(ReportFormat::Markdown),
            None => Ok(ReportFormat::Json),
        }
    }
}

/// `GET /admin/health-report`.
pub(crate) async fn show(api: Api, uri: Uri, headers: HeaderMap) -> Result<Response, ApiError> {
    let format = ReportFormat::requested(&uri, &headers)?;
    let report = health::report(api.registry(), api.store().clock().now_ms()).await?;
    Ok(match format {
        ReportFormat::Json => response::json_in_order(StatusCode::OK, &HealthReport::from(&report)),
        ReportFormat::Text => ([(CONTENT_TYPE, "text/plain; charset=utf-8")], report.to_text()).into_response(),
        ReportFormat::Markdown => {
            ([(CONTENT_TYPE, "text/markdown; charset=utf-8")], report.to_markdown()).into_response()
        }
    })
}
