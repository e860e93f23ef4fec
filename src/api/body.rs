//! Request bodies: JSON text in UTF-8 of a bounded size.

use super::Api;
use super::error::ApiError;
use crate::domain::invalid::{Invalid, Kind};
use crate::domain::json::{self, Object};
use crate::domain::{names, portable};
use axum::body::Bytes;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap};
use futures_util::FutureExt;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use std::pin::pin;

/// The body of a request as text. Only its bounds and its encoding are checked.
pub(super) struct RequestBody {
    bytes: Bytes,
    max_nesting: usize,
}

impl RequestBody {
    /// Reads a body whose JSON is portable. Parts of it are stored and returned byte for byte, so all clients must be able
    /// to parse them.
    pub(super) async fn read(api: &Api, request: Request) -> Result<RequestBody, ApiError> {
        let text = RequestBody::read_any(api, request).await?;
        portable::check(text.as_str())?;
        Ok(text)
    }

    /// Reads a body. The caller must check that the parts that it stores are portable.
    ///
    /// A body that is too large is refused before it is read if `Content-Length` gives its size.
    pub(super) async fn read_any(api: &Api, request: Request) -> Result<RequestBody, ApiError> {
        let (parts, body) = request.into_parts();
        let most = api.inner.max_body;
        let announced = parts.headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
        if let Some(length) = announced.filter(|length| *length > most as u64) {
            return Err(too_large(length as usize, most));
        }
        // A little less than the request timeout, so that a slow client gets the error about its body.
        let deadline = api.inner.request_timeout * 9 / 10;
        let mut collecting = pin!(Limited::new(body, most).collect());
        // Most bodies arrive together with their head and need no timer.
        let collected = match collecting.as_mut().now_or_never() {
            Some(collected) => Ok(collected),
            None => tokio::time::timeout(deadline, collecting).await,
        };
        let bytes = match collected {
            Ok(Ok(collected)) => collected.to_bytes(),
            Ok(Err(error)) if error.is::<LengthLimitError>() => return Err(too_large(most + 1, most)),
            Ok(Err(_)) => {
                return Err(ApiError::from(Invalid::new(
                    Kind::Payload,
                    "",
                    "is malformed: the HTTP framing is not valid",
                ))
                .closing_connection());
            }
            Err(_) => return Err(ApiError::body_timed_out(deadline)),
        };
        // The headers are checked last, because a connection stays usable only if the body was read to its end.
        check_headers(&parts.headers, !bytes.is_empty())?;
        if let Err(error) = std::str::from_utf8(&bytes) {
            let problem = format!("is not valid UTF-8 at byte {}", error.valid_up_to());
            return Err(Invalid::new(Kind::Payload, "", problem).into());
        }
        Ok(RequestBody { bytes, max_nesting: api.inner.limits.max_nesting })
    }

    /// The bytes of the body.
    pub(super) fn bytes(&self) -> Bytes {
        self.bytes.clone()
    }

    pub(super) fn as_str(&self) -> &str {
        // Checked in `read_any`.
        std::str::from_utf8(&self.bytes).unwrap_or_default()
    }

    /// Parses the body as an object.
    pub(super) fn fields(&self) -> Result<Fields<'_>, ApiError> {
        let text = self.as_str();
        let object = Object::parse(text).map_err(|error| Invalid::unreadable(text, &error))?;
        match object.too_deep(self.max_nesting) {
            Some(name) => Err(Invalid::too_deep(name, self.max_nesting).into()),
            None => Ok(Fields(object)),
        }
    }

    /// Parses the body as an object, into a value.
    pub(super) fn value(&self) -> Result<serde_json::Value, ApiError> {
        self.fields()?;
        serde_json::from_str(self.as_str()).map_err(|error| Invalid::unreadable(self.as_str(), &error).into())
    }

    /// The fields of a body that may be missing altogether.
    pub(super) fn optional_fields(&self) -> Result<Fields<'_>, ApiError> {
        if self.as_str().trim().is_empty() { Ok(Fields(Object::default())) } else { self.fields() }
    }
}

/// Checks media type and encoding. The media type is required: a web page can send a body to another origin without a
/// preflight request only with another media type or with none.
fn check_headers(headers: &HeaderMap, has_body: bool) -> Result<(), ApiError> {
    let expected = "application/openjobspec+json, application/json or another type that ends in +json";
    match headers.get(CONTENT_TYPE).map(|value| value.to_str().unwrap_or_default()) {
        Some(media_type) if !is_json(media_type) => {
            return Err(Invalid::field("Content-Type", expected, media_type).into());
        }
        None if has_body => return Err(Invalid::missing("Content-Type", expected).into()),
        _ => {}
    }
    match headers.get(CONTENT_ENCODING) {
        Some(encoding) if encoding != "identity" => {
            let message = "`Content-Encoding` must be left out: compressed bodies are not supported.";
            let error = ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported", message);
            Err(error.with("field", "Content-Encoding"))
        }
        _ => Ok(()),
    }
}

fn is_json(media_type: &str) -> bool {
    let essence = media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let subtype = essence.strip_prefix("application/");
    subtype.is_some_and(|subtype| subtype == "json" || subtype.ends_with("+json"))
}

pub(super) fn too_large(size: usize, most: usize) -> ApiError {
    ApiError::from(Invalid::too_large(Kind::EnvelopeTooLarge, "", size, most, "bytes or more")).closing_connection()
}

/// The members of a small request. A member of a wrong type is refused by name.
pub(super) struct Fields<'a>(Object<'a>);

impl<'a> Fields<'a> {
    pub(super) fn of(object: Object<'a>) -> Self {
        Fields(object)
    }

    pub(super) fn object(&self) -> &Object<'a> {
        &self.0
    }

    pub(super) fn get(&self, name: &str) -> Option<&'a str> {
        self.0.get(name)
    }

    pub(super) fn text(&self, name: &str) -> Result<Option<String>, Invalid> {
        let Some(value) = self.0.get(name) else { return Ok(None) };
        json::text(value).map(|text| Some(text.into_owned())).ok_or_else(|| Invalid::field(name, "a string", value))
    }

    pub(super) fn boolean(&self, name: &str) -> Result<Option<bool>, Invalid> {
        let Some(value) = self.0.get(name) else { return Ok(None) };
        json::boolean(value).map(Some).ok_or_else(|| Invalid::field(name, "true or false", value))
    }

    /// A whole number of at least `least`.
    pub(super) fn number(&self, name: &str, least: u64) -> Result<Option<u64>, Invalid> {
        let Some(value) = self.0.get(name) else { return Ok(None) };
        let number =
            json::integer(value).and_then(|number| u64::try_from(number).ok()).filter(|number| *number >= least);
        let expected = || format!("a whole number of {least} or more");
        number.map(Some).ok_or_else(|| Invalid::field(name, expected(), value))
    }

    /// A number of milliseconds up to a year.
    pub(super) fn milliseconds(&self, name: &str) -> Result<Option<u64>, Invalid> {
        let number = self.number(name, 1)?;
        match number {
            Some(ms) if ms > 366 * 86_400_000 => {
                Err(Invalid::field(name, "at most a year, in milliseconds", &ms.to_string()))
            }
            number => Ok(number),
        }
    }

    /// Strings, at most `most` of them.
    pub(super) fn texts(&self, name: &str, most: usize) -> Result<Option<Vec<String>>, Invalid> {
        let Some(value) = self.0.get(name) else { return Ok(None) };
        let strings = json::elements(value).filter(|elements| elements.len() <= most).and_then(|elements| {
            elements.into_iter().map(|element| json::text(element).map(Into::into)).collect::<Option<Vec<String>>>()
        });
        strings.map(Some).ok_or_else(|| Invalid::field(name, format!("an array of at most {most} strings"), value))
    }

    /// A job id that must be there. One that can be no id is refused by name rather than looked for.
    pub(super) fn job_id(&self) -> Result<String, Invalid> {
        let id = self.text("job_id")?.ok_or_else(|| Invalid::missing("job_id", "the id of a job"))?;
        if id.is_empty() || id.len() > 128 || id.chars().any(char::is_control) {
            return Err(Invalid::field("job_id", "the id of a job", &id));
        }
        Ok(id)
    }

    /// The worker's name, if it gives one.
    pub(super) fn worker(&self) -> Result<Option<String>, Invalid> {
        let worker = self.text("worker_id")?;
        worker.iter().try_for_each(|worker| names::check_worker("worker_id", worker))?;
        Ok(worker)
    }
}
