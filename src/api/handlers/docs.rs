//! The OpenAPI document and a page to browse it, without a build step and without third-party resources.

mod errors_page;

use crate::api::{Api, openapi, static_file};
use axum::response::Response;

/// `GET /openapi.json`.
pub(crate) async fn document(api: Api) -> Response {
    let text = api.inner.openapi.get_or_init(|| openapi::document(&api.inner.limits).to_string());
    static_file::respond("application/json", text.clone())
}

/// `GET /docs`.
pub(crate) async fn page() -> Response {
    static_file::respond("text/html; charset=utf-8", include_str!("docs/page.html"))
}

/// `GET /docs/errors`.
pub(crate) async fn errors() -> Response {
    static_file::respond("text/html; charset=utf-8", errors_page::PAGE.as_str())
}

/// `GET /docs/script.js`.
pub(crate) async fn script() -> Response {
    static_file::respond("text/javascript; charset=utf-8", include_str!("docs/page.js"))
}

/// `GET /docs/style.css`.
pub(crate) async fn style() -> Response {
    static_file::respond("text/css; charset=utf-8", include_str!("docs/page.css"))
}
