//! Responses with files that are part of the program: the pages in `/docs` and the dashboard.

use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, HeaderName, HeaderValue, IF_NONE_MATCH,
};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};

/// The content security policy: a page loads its scripts and styles, and calls the API, from this server only.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
    img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Builds the response with a file that belongs to a page.
pub(super) fn respond(media_type: &'static str, content: impl IntoResponse) -> Response {
    let mut response = content.into_response();
    for (name, value) in [
        (CONTENT_TYPE, media_type),
        (CONTENT_SECURITY_POLICY, POLICY),
        (HeaderName::from_static("x-content-type-options"), "nosniff"),
        (HeaderName::from_static("referrer-policy"), "no-referrer"),
    ] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Lets clients keep a file for good. Its name changes with its content.
pub(super) fn immutable(mut response: Response) -> Response {
    let forever = HeaderValue::from_static("public, max-age=31536000, immutable");
    response.headers_mut().insert(CACHE_CONTROL, forever);
    response
}

/// Lets clients keep a file, but ask each time if it has changed; returns 304 if the client's copy is current.
pub(super) fn revalidated(response: Response, tag: &'static str, request: &HeaderMap) -> Response {
    let known = request.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    let is_current = known.flat_map(|tags| tags.split(',')).any(|known| known.trim().trim_start_matches("W/") == tag);
    let mut response = if is_current { StatusCode::NOT_MODIFIED.into_response() } else { response };
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response.headers_mut().insert(ETAG, HeaderValue::from_static(tag));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_current_copy_is_not_sent_again() {
        let ask = |tags: Option<&'static str>| {
            let mut request = HeaderMap::new();
            tags.into_iter().for_each(|tags| _ = request.insert(IF_NONE_MATCH, HeaderValue::from_static(tags)));
            revalidated(respond("text/html", "page"), "\"abc\"", &request)
        };
        for (tags, status) in [
            (None, 200),
            (Some("\"abc\""), 304),
            (Some("W/\"abc\""), 304),
            (Some("\"old\", \"abc\""), 304),
            (Some("\"old\""), 200),
            (Some("abc"), 200),
        ] {
            let response = ask(tags);
            assert_eq!(response.status().as_u16(), status, "{tags:?}");
            assert_eq!(response.headers()[ETAG], "\"abc\"");
            assert_eq!(response.headers()[CACHE_CONTROL], "no-cache");
        }
    }
}
