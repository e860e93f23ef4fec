//! Protection against web pages of other origins, and CORS for those that the configuration allows.
//!
//! Without API keys, anybody who reaches the server may do everything, and a browser on the same machine reaches it on behalf
//! of any page. So a page of another origin may not change anything, unless the configuration allows the origin. The `Host`
//! header exposes a page whose own name resolves to this machine (DNS rebinding). With API keys, neither check is needed,
//! because a page has no key.

use super::error::ApiError;
use crate::config;
use axum::body::Body;
use axum::http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_METHOD, HOST, ORIGIN, VARY,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri};
use axum::response::Response;
use std::net::IpAddr;

static SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
static REQUEST_PRIVATE_NETWORK: HeaderName = HeaderName::from_static("access-control-request-private-network");
static ALLOW_PRIVATE_NETWORK: HeaderName = HeaderName::from_static("access-control-allow-private-network");

const METHODS: &str = "GET, POST, PUT, PATCH, DELETE, OPTIONS";
/// The headers of requests that the server reads.
const REQUEST_HEADERS: &str = "Content-Type, Accept, Authorization, X-API-Key, X-Request-Id, OJS-Version, \
     OJS-Requires-Extension, OJS-Block-Timeout, X-OJS-Tenant, Idempotency-Key, Last-Event-ID, traceparent, tracestate";
/// The headers of responses that a page may read, in addition to those that it always may.
const RESPONSE_HEADERS: &str = "X-Request-Id, OJS-Version, Location, Retry-After, Allow, WWW-Authenticate, \
     X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset, X-OJS-Queue-Depth, X-OJS-Queue-Bound, X-OJS-Queue-Pressure, X-OJS-Progress";
/// The time for which a browser may cache the response to a preflight request, in seconds.
const MAX_AGE: &str = "86400";

/// Domains that public DNS does not resolve.
const PRIVATE_DOMAINS: [&str; 3] = [".local", ".internal", ".svc"];

/// The configured policy for requests of browsers.
pub(super) struct BrowserPolicy {
    /// True if only this machine reaches the server.
    is_loopback: bool,
    allowed_hosts: Vec<String>,
    cors_origins: Vec<String>,
}

impl BrowserPolicy {
    pub(super) fn new(server: &config::Server) -> Self {
        BrowserPolicy {
            is_loopback: server.listen.ip().is_loopback(),
            allowed_hosts: server.allowed_hosts.clone(),
            cors_origins: server.cors_origins.clone(),
        }
    }

    /// Refuses an unauthenticated request if a page of another origin may have sent it.
    pub(super) fn check(&self, method: &Method, uri: &Uri, headers: &HeaderMap) -> Result<(), ApiError> {
        // With HTTP/2, the name is part of the URI. A request without a name is not from a browser.
        let host = headers.get(HOST).map_or_else(
            || uri.authority().map(|authority| authority.as_str()),
            |host| Some(host.to_str().unwrap_or("?")),
        );
        if let Some(host) = host.filter(|host| !self.is_known(name_of(host))) {
            return Err(ApiError::unknown_host(name_of(host)));
        }
        if matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS) || self.allowed_origin(headers).is_some() {
            return Ok(());
        }
        let origin = headers.get(ORIGIN);
        let is_foreign = match headers.get(&SEC_FETCH_SITE).map(HeaderValue::as_bytes) {
            // Scripts cannot set this header. It is more reliable than `Host`, which a proxy may have changed.
            Some(b"same-origin" | b"none") => false,
            Some(_) => true,
            None => origin.is_some_and(|origin| !is_same_origin(origin, host)),
        };
        match is_foreign {
            true => Err(ApiError::foreign_origin(origin.and_then(|origin| origin.to_str().ok()).unwrap_or("null"))),
            false => Ok(()),
        }
    }

    fn is_known(&self, name: &str) -> bool {
        let is = |known: &str| name.eq_ignore_ascii_case(known);
        let ends_with = |ending: &str| {
            let start = name.len().checked_sub(ending.len());
            start.and_then(|start| name.get(start..)).is_some_and(|end| end.eq_ignore_ascii_case(ending))
        };
        // DNS rebinding needs a name in the URL of the page, so an address is safe.
        let is_address = name.trim_matches(['[', ']']).parse::<IpAddr>().is_ok();
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        let is_private = || {
            let is_local = !name.contains('.') || PRIVATE_DOMAINS.iter().any(|domain| ends_with(domain));
            is_local && name.bytes().all(is_name)
        };
        is_address
            || is("localhost")
            || ends_with(".localhost")
            || self.allowed_hosts.iter().any(|host| is(host))
            || (!self.is_loopback && is_private())
    }

    /// Returns the origin of a request, if the configuration allows it.
    pub(super) fn allowed_origin<'a>(&self, headers: &'a HeaderMap) -> Option<&'a HeaderValue> {
        if self.cors_origins.is_empty() {
            return None;
        }
        headers.get(ORIGIN).filter(|origin| self.cors_origins.iter().any(|allowed| *origin == allowed.as_str()))
    }

    /// Builds the response to a preflight request of an allowed origin. It needs no key, because browsers send none.
    pub(super) fn preflight(&self, method: &Method, headers: &HeaderMap) -> Option<Response> {
        if method != Method::OPTIONS || !headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD) {
            return None;
        }
        self.allowed_origin(headers)?;
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::NO_CONTENT;
        let allowed = response.headers_mut();
        allowed.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static(METHODS));
        allowed.insert(ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static(REQUEST_HEADERS));
        allowed.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static(MAX_AGE));
        if headers.get(&REQUEST_PRIVATE_NETWORK).is_some_and(|wanted| wanted == "true") {
            allowed.insert(ALLOW_PRIVATE_NETWORK.clone(), HeaderValue::from_static("true"));
        }
        Some(response)
    }

    /// Adds the headers that let a page of an allowed origin read a response.
    pub(super) fn expose(&self, origin: Option<HeaderValue>, headers: &mut HeaderMap) {
        if !self.cors_origins.is_empty() {
            headers.append(VARY, HeaderValue::from_static("Origin"));
        }
        if let Some(origin) = origin {
            headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
            headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(RESPONSE_HEADERS));
        }
    }
}

/// Returns the name in `name:port`, without a trailing dot.
fn name_of(host: &str) -> &str {
    let name = match host.rfind(']') {
        Some(end) => &host[..=end],
        None => host.split(':').next().unwrap_or_default(),
    };
    name.strip_suffix('.').unwrap_or(name)
}

/// Returns true if an origin is the host of the request. Schemes are not compared, because a proxy may terminate TLS.
fn is_same_origin(origin: &HeaderValue, host: Option<&str>) -> bool {
    let authority = origin.to_str().ok().and_then(|origin| Some(origin.split_once("://")?.1));
    authority.zip(host).is_some_and(|(authority, host)| authority.eq_ignore_ascii_case(host))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(is_loopback: bool) -> BrowserPolicy {
        let (allowed_hosts, cors_origins) = (vec!["jobs.example.com".into()], vec!["https://dash.example.com".into()]);
        BrowserPolicy { is_loopback, allowed_hosts, cors_origins }
    }

    fn check(is_loopback: bool, method: Method, headers: &[(&'static str, &str)]) -> bool {
        let headers = headers.iter().map(|(name, value)| {
            (HeaderName::from_static(name), HeaderValue::from_str(value).expect("a value of a header"))
        });
        policy(is_loopback).check(&method, &Uri::from_static("/"), &headers.collect()).is_ok()
    }

    #[test]
    fn a_server_without_keys_accepts_only_private_or_configured_names() {
        for (host, on_loopback, elsewhere) in [
            ("localhost", true, true),
            ("LocalHost.:8080", true, true),
            ("a.localhost:8080", true, true),
            ("127.0.0.1:8080", true, true),
            ("[::1]:8080", true, true),
            ("192.0.2.1", true, true),
            ("jobs.example.com", true, true),
            ("JOBS.example.com:443", true, true),
            ("fairgate:8080", false, true),
            ("fairgate.jobs.svc.cluster.local", false, true),
            ("fairgate.jobs.svc", false, true),
            ("other.example.com", false, false),
            ("localhost.example.com", false, false),
            ("127.0.0.1.example.com", false, false),
            ("evilocalhost.com:8080", false, false),
            ("é", false, false),
        ] {
            assert_eq!(check(true, Method::GET, &[("host", host)]), on_loopback, "{host} on loopback");
            assert_eq!(check(false, Method::GET, &[("host", host)]), elsewhere, "{host} elsewhere");
        }
        assert!(check(true, Method::POST, &[]), "a client of HTTP/1.0 is no browser");
    }

    #[test]
    fn pages_of_other_origins_change_nothing() {
        const HOST: (&str, &str) = ("host", "localhost:8080");
        for (headers, is_allowed) in [
            (vec![], true),
            (vec![("origin", "http://localhost:8080")], true),
            (vec![("origin", "https://localhost:8080")], true),
            (vec![("origin", "http://localhost:9000")], false),
            (vec![("origin", "http://evil.example")], false),
            (vec![("origin", "null")], false),
            (vec![("origin", "https://dash.example.com")], true),
            (vec![("origin", "https://dash.example.com"), ("sec-fetch-site", "cross-site")], true),
            (vec![("origin", "https://dash.example.com.evil.example")], false),
            (vec![("sec-fetch-site", "cross-site")], false),
            (vec![("sec-fetch-site", "same-site"), ("origin", "http://localhost:8080")], false),
            (vec![("sec-fetch-site", "same-origin"), ("origin", "http://in.front")], true),
            (vec![("sec-fetch-site", "none")], true),
        ] {
            let headers: Vec<_> = [vec![HOST], headers].concat();
            for method in [Method::POST, Method::PUT, Method::PATCH, Method::DELETE] {
                assert_eq!(check(true, method, &headers), is_allowed, "{headers:?}");
            }
            assert!(check(true, Method::GET, &headers), "reading is up to the browser: {headers:?}");
        }
    }
}
