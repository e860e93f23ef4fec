//! The relay: passes requests of clients to a server, and the answers back, without changing them.

use super::{Error, ErrorKind, Remote};
use crate::weights::causes;
use hyper::body::{Body, Bytes, Frame, SizeHint};
use hyper::header::{
    AUTHORIZATION, CONNECTION, EXPECT, HOST, HeaderMap, HeaderName, HeaderValue, PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use hyper::{Request, Response};
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

/// The body of a relayed answer.
pub type Passed = reqwest::Body;

/// Headers that concern one connection and are not passed on.
const HOP_BY_HOP: [HeaderName; 7] =
    [CONNECTION, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE];
/// Further such headers, for which the library has no constants.
const HOP_BY_HOP_TOO: [&str; 2] = ["keep-alive", "proxy-connection"];

impl Remote {
    /// Passes a request on, with the server's token instead of the client's credentials. Returns
    /// when the answer begins; bodies are streamed.
    pub async fn relay<B>(&self, request: Request<B>, deadline: Duration) -> Result<Response<Passed>, Error>
    where
        B: Body<Data = Bytes> + Send + Unpin + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let (parts, body) = request.into_parts();
        let target = parts.uri.path_and_query().map_or("/", |target| target.as_str());
        let url = self.target(parts.uri.path(), target)?;
        let mut headers = parts.headers;
        strip(&mut headers);
        for name in [AUTHORIZATION, HOST, EXPECT, HeaderName::from_static("x-api-key")] {
            headers.remove(name);
        }
        headers.extend(self.token.clone().map(|token| (AUTHORIZATION, token)));
        let mut sent = self.http.request(parts.method, url).headers(headers);
        if !body.is_end_stream() {
            sent = sent.body(reqwest::Body::wrap(Exclusive(Mutex::new(body))));
        }
        let late = |_| ErrorKind::Unreachable.with(format!("no response within {deadline:?}"));
        let sent = tokio::time::timeout(deadline, sent.send()).await.map_err(late)?;
        let mut response = Response::from(sent.map_err(|error| ErrorKind::Unreachable.with(causes(error)))?);
        strip(response.headers_mut());
        Ok(response)
    }

    /// Returns the target URL of a request. Refuses paths that could leave `/ojs` or reach another
    /// resource than the one that was authorized.
    fn target(&self, path: &str, whole: &str) -> Result<String, Error> {
        let lower = path.to_ascii_lowercase();
        let is_odd = |segment: &str| matches!(segment.replace("%2e", ".").as_str(), "." | "..");
        if !path.starts_with("/ojs/")
            || ["%2f", "%5c", "\\", "//"].iter().any(|part| lower.contains(part))
            || lower.split('/').any(is_odd)
        {
            return Err(ErrorKind::NotPassed.with("the path contains segments that are not passed through"));
        }
        Ok(format!("{}{whole}", self.place()))
    }
}

/// Removes headers that concern one connection, including those listed in `Connection`.
fn strip(headers: &mut HeaderMap) {
    let named: Vec<String> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value: &HeaderValue| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|name| name.trim().to_ascii_lowercase())
        .collect();
    named.iter().for_each(|name| _ = headers.remove(name.as_str()));
    HOP_BY_HOP.iter().for_each(|name| _ = headers.remove(name));
    HOP_BY_HOP_TOO.iter().for_each(|name| _ = headers.remove(*name));
}

/// A body that only one thread uses at a time, which makes it `Sync` as the HTTP client requires.
struct Exclusive<B>(Mutex<B>);

impl<B: Body<Data = Bytes> + Unpin> Body for Exclusive<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let body = self.get_mut().0.get_mut().unwrap_or_else(PoisonError::into_inner);
        Pin::new(body).poll_frame(cx)
    }

    fn size_hint(&self) -> SizeHint {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::super::Options;
    use super::*;

    #[test]
    fn no_path_leads_anywhere_else() {
        let options =
            Options { url: "http://h/base".to_owned(), token: None, certificates: None, timeout: Duration::ZERO };
        let remote = Remote::new(&options).expect("a server");
        let target = |path: &str| remote.target(path, &format!("{path}?a=b"));
        assert_eq!(target("/ojs/v1/queues/a%20b").as_deref(), Ok("http://h/base/ojs/v1/queues/a%20b?a=b"));
        for path in [
            "/ojs",
            "/ojs/../secret",
            "/ojs/v1/%2e%2E/secret",
            "/ojs/v1/.%2e/x",
            "/ojs/v1/jobs/.",
            "/ojs/v1/jobs/a%2f..%2fb",
            "/ojs/v1/jobs/a%5Cb",
            "/ojs//h2/x",
            "//h2/ojs/",
            "/secret",
        ] {
            assert!(target(path).is_err(), "{path}");
        }
    }

    #[test]
    fn what_is_about_a_connection_stays_there() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("connection", "close, X-Mine"),
            ("keep-alive", "5"),
            ("x-mine", "1"),
            ("te", "trailers"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "websocket"),
            ("x-kept", "1"),
            ("content-length", "3"),
        ] {
            headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        strip(&mut headers);
        let mut left: Vec<&str> = headers.keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        assert_eq!(left, ["content-length", "x-kept"]);
    }
}
