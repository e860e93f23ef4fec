//! The OpenAPI document and a page to browse it, without a build step and without third-party resources.

mod errors_page;

use crate::api::{Api, openapi};
use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue};
use axum::response::{IntoResponse, Response};

/// The content security policy: the page loads its own script and style, and the document, from this server only.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// `GET /openapi.json`.
pub(crate) async fn document(api: Api) -> Response {
    let text = api.inner.openapi.get_or_init(|| openapi::document(&api.inner.limits).to_string());
    file("application/json", text.clone())
}

/// `GET /docs`.
pub(crate) async fn page() -> Response {
    file("text/html; charset=utf-8", include_str!("docs/page.html"))
}

/// `GET /docs/errors`.
pub(crate) async fn errors() -> Response {
    file("text/html; charset=utf-8", errors_page::PAGE.as_str())
}

/// `GET /docs/script.js`.
pub(crate) async fn script() -> Response {
    file("text/javascript; charset=utf-8", include_str!("docs/page.js"))
}

/// `GET /docs/style.css`.
pub(crate) async fn style() -> Response {
    file("text/css; charset=utf-8", include_str!("docs/page.css"))
}

fn file(media_type: &'static str, text: impl IntoResponse) -> Response {
    let mut response = text.into_response();
    for (name, value) in [
        (CONTENT_TYPE, media_type),
        (CONTENT_SECURITY_POLICY, POLICY),
        (HeaderName::from_static("x-content-type-options"), "nosniff"),
    ] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}
