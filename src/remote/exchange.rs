//! Access to a server over HTTP.

use super::answer::Answer;
use super::{Error, ErrorKind};
use crate::config::Secret;
use crate::weights::{Client, causes, client_builder, client_builder_trusting};
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use reqwest::{Method, Url};
use std::time::Duration;

const MEDIA_TYPE: &str = "application/openjobspec+json";

/// The address of a server and how to access it.
pub struct Options {
    /// The part of the URL before `/ojs`.
    pub url: String,
    pub token: Option<Secret>,
    /// PEM certificates to trust instead of the public authorities.
    pub certificates: Option<Vec<u8>>,
    /// Maximum duration of a request.
    pub timeout: Duration,
}

/// A client of an OJS server; clones share the connections.
#[derive(Clone)]
pub struct Remote {
    pub(super) http: Client,
    /// Ends without a slash.
    pub(super) base: Url,
    pub(super) token: Option<HeaderValue>,
    timeout: Duration,
}

impl Remote {
    /// Creates a client without connecting. Returns a message if the options are invalid.
    pub fn new(options: &Options) -> Result<Remote, String> {
        let base = Url::parse(&options.url).map_err(|error| format!("invalid url: {error}"))?;
        let builder = match &options.certificates {
            Some(certificates) => client_builder_trusting(certificates)?,
            None => client_builder(),
        };
        let token = match &options.token {
            Some(token) => {
                let value = HeaderValue::try_from(format!("Bearer {}", token.expose()));
                let mut value =
                    value.map_err(|_| "the token contains characters that an HTTP header cannot hold".to_owned())?;
                value.set_sensitive(true);
                Some(value)
            }
            None => None,
        };
        let http = builder.build().map_err(causes)?;
        Ok(Remote { http, base, token, timeout: options.timeout })
    }

    /// Returns the server's base URL.
    pub fn place(&self) -> &str {
        self.base.as_str().trim_end_matches('/')
    }

    pub(super) async fn get(&self, path: &str) -> Result<Answer, Error> {
        self.ask(Method::GET, path, None).await
    }

    pub(super) async fn post(&self, path: &str, body: String) -> Result<Answer, Error> {
        self.ask(Method::POST, path, Some(body)).await
    }

    /// Sends a request and reads the whole answer within the deadline. An answer whose status
    /// implies a failure is an error.
    pub(super) async fn ask(&self, method: Method, path: &str, body: Option<String>) -> Result<Answer, Error> {
        let verb = method.clone();
        let late = |_| ErrorKind::Unreachable.with(format!("no complete response within {:?}", self.timeout));
        let answer =
            tokio::time::timeout(self.timeout, self.exchange(method, path, body)).await.map_err(late).flatten();
        let answer = answer.and_then(|answer| answer.trouble().map_or(Ok(answer), Err));
        answer.map_err(|error| error.kind.with(format!("{verb} {}{path}: {}", self.place(), error.text)))
    }

    async fn exchange(&self, method: Method, path: &str, body: Option<String>) -> Result<Answer, Error> {
        let mut request = self.http.request(method, format!("{}{path}", self.place()));
        if let Some(token) = &self.token {
            request = request.header(AUTHORIZATION, token.clone());
        }
        if let Some(body) = body {
            request = request.header(CONTENT_TYPE, MEDIA_TYPE).body(body);
        }
        let response = request.send().await.map_err(|error| ErrorKind::Unreachable.with(causes(error)))?;
        Answer::read(response).await
    }
}
