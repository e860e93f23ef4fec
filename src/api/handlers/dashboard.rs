//! The dashboard: its page and the files of the page, which `build.rs` embeds if they have been built.

#[cfg(test)]
mod embed;

use crate::api::error::ApiError;
use crate::api::path::PathParam;
use crate::api::{Api, static_file};
use axum::http::HeaderMap;
use axum::response::Response;

include!(concat!(env!("OUT_DIR"), "/dashboard.rs"));

/// A file of the page, named after its content.
struct Asset {
    name: &'static str,
    media_type: &'static str,
    content: &'static [u8],
}

/// `GET /`: the dashboard, or how to build it if this program was built without it.
pub(crate) async fn page(api: Api, headers: HeaderMap) -> Result<Response, ApiError> {
    check_enabled(&api)?;
    let response = static_file::respond("text/html; charset=utf-8", PAGE);
    Ok(static_file::revalidated(response, PAGE_TAG, &headers))
}

/// `GET /dashboard/{file}`.
pub(crate) async fn file(api: Api, PathParam(name): PathParam) -> Result<Response, ApiError> {
    check_enabled(&api)?;
    let asset = ASSETS.iter().find(|asset| asset.name == name).ok_or_else(|| {
        let hint = "Reload the page. Its files have other names in each version.";
        ApiError::not_found("dashboard file", &name).hint(hint)
    })?;
    Ok(static_file::immutable(static_file::respond(asset.media_type, asset.content)))
}

fn check_enabled(api: &Api) -> Result<(), ApiError> {
    if api.inner.has_dashboard { Ok(()) } else { Err(ApiError::unknown_path()) }
}
