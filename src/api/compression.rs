//! Compression of responses with gzip, for clients that accept it.

use axum::body::{Body, Bytes, HttpBody};
use axum::http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, VARY};
use axum::http::{HeaderMap, HeaderValue};
use axum::response::Response;
use flate2::Compression;
use flate2::write::GzEncoder;
use http_body_util::BodyExt;
use std::io::Write;
use tokio::sync::Semaphore;

/// The smallest body that is compressed, in bytes. Smaller ones fit into one packet anyway.
const LEAST: u64 = 1024;
/// The largest body that is compressed, in bytes. Larger ones take too much time and memory.
const MOST: u64 = 16 << 20;
/// The largest body that is compressed on the current thread, which takes less than a millisecond.
const SMALL: usize = 64 * 1024;

/// Compresses a bounded number of responses at a time. Responses beyond that are sent uncompressed.
pub(super) struct Compressor {
    permits: Semaphore,
}

impl Default for Compressor {
    /// Uses at most half of the processors.
    fn default() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Compressor { permits: Semaphore::new((processors / 2).max(1)) }
    }
}

impl Compressor {
    /// Compresses a response, or returns it unchanged if there is no permit.
    pub(super) async fn compress(&self, response: Response) -> Response {
        let Ok(_permit) = self.permits.try_acquire() else { return response };
        let (mut parts, body) = response.into_parts();
        // Only bodies with an exact size are compressed. Those are in memory, so reading them neither waits nor fails.
        let Ok(plain) = body.collect().await.map(http_body_util::Collected::to_bytes) else {
            return Response::from_parts(parts, Body::empty());
        };
        let body = match gzip(plain.clone()).await {
            Some(compressed) if compressed.len() < plain.len() => {
                parts.headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
                parts.headers.remove(CONTENT_LENGTH);
                Body::from(compressed)
            }
            _ => Body::from(plain),
        };
        Response::from_parts(parts, body)
    }
}

/// Returns true if a response should be compressed for a client that `accepts` it. Adds `Vary` to each response that is
/// compressed for other clients, for caches.
pub(super) fn is_wanted(accepts: bool, response: &mut Response) -> bool {
    let is_worth_it = is_worth_it(response);
    if is_worth_it {
        response.headers_mut().append(VARY, HeaderValue::from_static("Accept-Encoding"));
    }
    accepts && is_worth_it
}

/// Returns true if the `Accept-Encoding` of a request includes gzip.
pub(super) fn accepts_gzip(headers: &HeaderMap) -> bool {
    let ranges = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    let mut quality = None;
    for range in ranges.flat_map(|value| value.split(',')) {
        let mut parts = range.split(';').map(str::trim);
        let coding = parts.next().unwrap_or_default();
        let weight = parts.find_map(|part| part.strip_prefix("q=")).map_or(1.0, |q| q.parse().unwrap_or(0.0));
        if coding.eq_ignore_ascii_case("gzip") {
            return weight > 0.0;
        }
        if coding == "*" {
            quality = Some(weight);
        }
    }
    quality.is_some_and(|weight: f64| weight > 0.0)
}

fn is_worth_it(response: &Response) -> bool {
    let headers = response.headers();
    let is_text = || {
        let media_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let essence = media_type.split(';').next().unwrap_or_default();
        essence.ends_with("json") || essence == "application/openmetrics-text" || essence.starts_with("text/")
    };
    // An event stream has no exact size.
    response.body().size_hint().exact().is_some_and(|size| (LEAST..=MOST).contains(&size))
        && is_text()
        && !headers.contains_key(CONTENT_ENCODING)
}

async fn gzip(plain: Bytes) -> Option<Vec<u8>> {
    let is_small = plain.len() <= SMALL;
    let compress = move || {
        let mut encoder = GzEncoder::new(Vec::with_capacity(plain.len() / 4), Compression::fast());
        encoder.write_all(&plain).ok()?;
        encoder.finish().ok()
    };
    if is_small { compress() } else { tokio::task::spawn_blocking(compress).await.ok().flatten() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::header::HeaderName;
    use std::io::Read;

    fn response(kind: &'static str, body: impl Into<Body>) -> Response {
        let mut response = Response::new(body.into());
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        response
    }

    #[test]
    fn gzip_has_to_be_asked_for() {
        for (value, accepts) in [
            ("gzip", true),
            ("br, GZIP;q=0.5", true),
            ("*", true),
            ("*;q=0.1, br", true),
            ("gzip;q=0", false),
            ("gzip; q=0.0, *", false),
            ("identity, *;q=0", false),
            ("br, deflate", false),
            ("", false),
        ] {
            let name = HeaderName::from_static("accept-encoding");
            let headers = HeaderMap::from_iter([(name, HeaderValue::from_static(value))]);
            assert_eq!(accepts_gzip(&headers), accepts, "{value}");
        }
        assert!(!accepts_gzip(&HeaderMap::new()));
    }

    #[tokio::test]
    async fn large_text_is_compressed_and_comes_back_as_it_was() {
        let compressor = Compressor::default();
        for size in [2000, 500_000] {
            let text: String = (0..size).map(|number| char::from(b'a' + (number % 7) as u8)).collect();
            let mut response = response("application/openjobspec+json", text.clone());
            assert!(is_wanted(true, &mut response));
            let compressed = compressor.compress(response).await;
            assert_eq!(compressed.headers()[CONTENT_ENCODING], "gzip");
            assert_eq!(compressed.headers()[VARY], "Accept-Encoding");
            let bytes = compressed.into_body().collect().await.unwrap().to_bytes();
            let mut plain = String::new();
            flate2::read::GzDecoder::new(&bytes[..]).read_to_string(&mut plain).unwrap();
            assert!(plain == text && bytes.len() < text.len() / 5);
        }
    }

    #[test]
    fn other_responses_are_sent_as_they_are() {
        let long = "a".repeat(5000);
        assert!(is_wanted(true, &mut response("application/json", long.clone())));
        assert!(!is_wanted(false, &mut response("application/json", long.clone())));
        assert!(!is_wanted(true, &mut response("application/json", "short")));
        assert!(!is_wanted(true, &mut response("image/png", long.clone())));
        let stream = Body::from_stream(futures_util::stream::iter([Ok::<_, std::io::Error>(long.clone())]));
        assert!(!is_wanted(true, &mut response("text/event-stream", stream)));
        let mut encoded = response("application/json", long);
        encoded.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("br"));
        assert!(!is_wanted(true, &mut encoded));
    }

    #[tokio::test]
    async fn no_more_are_compressed_at_once_than_there_are_permits() {
        let (busy, long) = (Compressor { permits: Semaphore::new(0) }, "a".repeat(5000));
        let plain = busy.compress(response("application/json", long.clone())).await;
        assert!(!plain.headers().contains_key(CONTENT_ENCODING));
        assert_eq!(plain.into_body().collect().await.unwrap().to_bytes(), long);
    }
}
