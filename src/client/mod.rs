//! A client of a running fairgate, for commands that show or change its state over HTTP.

use crate::config::Secret;
use crate::weights::{Client, causes, client_builder};
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use reqwest::{Method, Url};
use serde_json::Value;
use std::time::Duration;

/// Maximum duration of a request.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum number of bytes read of a response.
const MOST_BYTES: usize = 64 << 20;

/// A failed request.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The URL of the server or the key is unusable.
    #[error("{0}")]
    Invalid(String),
    /// The server did not answer, or not with JSON.
    #[error("no answer from {url}: {reason}; is the server running, and is this its address?")]
    Unreachable { url: String, reason: String },
    /// The server refused the request.
    #[error("{method} {path}: HTTP {status}: {message}")]
    Refused { method: Method, path: String, status: u16, message: String },
}

impl Error {
    /// Returns true if the server knows nothing of that name.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Error::Refused { status: 404, .. })
    }
}

/// A client of one server; clones share the connections.
#[derive(Clone)]
pub struct ApiClient {
    http: Client,
    base: Url,
    key: Option<HeaderValue>,
}

impl ApiClient {
    /// Creates a client without connecting. `url` is the part before `/ojs`.
    pub fn new(url: &str, key: Option<&Secret>) -> Result<ApiClient, Error> {
        let invalid = |reason: String| Error::Invalid(format!("cannot use the server {url:?}: {reason}"));
        let mut base = Url::parse(url).map_err(|error| invalid(error.to_string()))?;
        if !["http", "https"].contains(&base.scheme()) {
            return Err(invalid("the URL must begin with http:// or https://".to_owned()));
        }
        base.set_path(&format!("{}/", base.path().trim_end_matches('/')));
        let key = match key {
            Some(key) => {
                let value = HeaderValue::try_from(format!("Bearer {}", key.expose()));
                let mut value = value.map_err(|_| Error::Invalid("the API key has invalid characters".to_owned()))?;
                value.set_sensitive(true);
                Some(value)
            }
            None => None,
        };
        let http = client_builder().timeout(TIMEOUT).build().map_err(|error| invalid(causes(error)))?;
        Ok(ApiClient { http, base, key })
    }

    /// Requests a path such as `/ojs/v1/queues` and returns the JSON of the response.
    pub async fn get(&self, path: &str) -> Result<Value, Error> {
        self.send(Method::GET, path, None).await
    }

    /// Requests a path and returns the text of the response.
    pub async fn get_text(&self, path: &str) -> Result<String, Error> {
        Ok(String::from_utf8_lossy(&self.body(Method::GET, path, None).await?).into_owned())
    }

    pub async fn post(&self, path: &str, body: &Value) -> Result<Value, Error> {
        self.send(Method::POST, path, Some(body)).await
    }

    pub async fn put(&self, path: &str, body: &Value) -> Result<Value, Error> {
        self.send(Method::PUT, path, Some(body)).await
    }

    pub async fn delete(&self, path: &str) -> Result<Value, Error> {
        self.send(Method::DELETE, path, None).await
    }

    async fn send(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value, Error> {
        let body = self.body(method, path, body).await?;
        Ok(serde_json::from_slice(&body).unwrap_or(Value::Null))
    }

    /// Sends a request and returns the body of a successful response.
    async fn body(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Vec<u8>, Error> {
        let unreachable = |reason: String| Error::Unreachable { url: self.base.to_string(), reason };
        let url = self.base.join(path.trim_start_matches('/')).map_err(|error| Error::Invalid(error.to_string()))?;
        let mut request = self.http.request(method.clone(), url);
        if let Some(key) = &self.key {
            request = request.header(AUTHORIZATION, key.clone());
        }
        if let Some(body) = body {
            request = request.header(CONTENT_TYPE, "application/json").body(body.to_string());
        }
        let mut response = request.send().await.map_err(|error| unreachable(causes(error)))?;
        let status = response.status();
        let mut bytes = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| unreachable(causes(error)))? {
            if bytes.len() + chunk.len() > MOST_BYTES {
                return Err(unreachable(format!("the response is longer than {MOST_BYTES} bytes")));
            }
            bytes.extend_from_slice(&chunk);
        }
        if status.is_success() {
            return Ok(bytes);
        }
        let answer: Value = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        let message = answer.pointer("/error/message").and_then(Value::as_str).unwrap_or("no reason given").to_owned();
        Err(Error::Refused { method, path: path.to_owned(), status: status.as_u16(), message })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_urls_of_http_servers_are_accepted() {
        for url in ["http://127.0.0.1:8080", "https://jobs.example.com/fairgate/"] {
            assert!(ApiClient::new(url, None).is_ok(), "{url}");
        }
        for url in ["localhost:8080", "ftp://example.com", "", "http://"] {
            let error = ApiClient::new(url, None).err().map(|error| error.to_string()).unwrap_or_default();
            assert!(error.contains(&format!("{url:?}")), "{url}: {error}");
        }
    }

    #[test]
    fn a_path_is_added_to_the_path_of_the_server() {
        let client = ApiClient::new("https://jobs.example.com/fairgate", None).unwrap();
        assert_eq!(client.base.join("ojs/v1/queues").unwrap().path(), "/fairgate/ojs/v1/queues");
    }
}
