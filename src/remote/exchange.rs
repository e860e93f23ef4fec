//! A server and how it is asked.

use super::answer::Answer;
use super::{Error, ErrorKind};
use crate::config::Secret;
use crate::weights::{Client, causes, client_builder, client_builder_trusting};
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use reqwest::{Method, Url};
use std::time::Duration;

const MEDIA_TYPE: &str = "application/openjobspec+json";

/// Where a server is, and the way in.
pub struct Options {
    /// Up to what comes before `/ojs`.
    pub url: String,
    pub token: Option<Secret>,
    /// Whom to trust instead of public authorities, as PEM.
    pub certificates: Option<Vec<u8>>,
    /// How long a request may take.
    pub timeout: Duration,
}

/// An OJS server; clones share its connections.
#[derive(Clone)]
pub struct Remote {
    pub(super) http: Client,
    /// Without a slash at its end.
    pub(super) base: Url,
    pub(super) token: Option<HeaderValue>,
    timeout: Duration,
}

impl Remote {
    /// A server; nothing is asked yet. A message says what is wrong with the options.
    pub fn new(options: &Options) -> Result<Remote, String> {
        let base = Url::parse(&options.url).map_err(|error| format!("its URL cannot be read: {error}"))?;
        let builder = match &options.certificates {
            Some(certificates) => client_builder_trusting(certificates)?,
            None => client_builder(),
        };
        let token = match &options.token {
            Some(token) => {
                let value = HeaderValue::try_from(format!("Bearer {}", token.expose()));
                let mut value = value.map_err(|_| "its token does not fit into a header".to_owned())?;
                value.set_sensitive(true);
                Some(value)
            }
            None => None,
        };
        let http = builder.build().map_err(causes)?;
        Ok(Remote { http, base, token, timeout: options.timeout })
    }

    /// Where it is.
    pub fn place(&self) -> &str {
        self.base.as_str().trim_end_matches('/')
    }

    pub(super) async fn get(&self, path: &str) -> Result<Answer, Error> {
        self.ask(Method::GET, path, None).await
    }

    pub(super) async fn post(&self, path: &str, body: String) -> Result<Answer, Error> {
        self.ask(Method::POST, path, Some(body)).await
    }

    /// Asks, and reads the answer to its end, all within the deadline. An answer that tells of trouble is an error.
    async fn ask(&self, method: Method, path: &str, body: Option<String>) -> Result<Answer, Error> {
        let verb = method.clone();
        let late = |_| ErrorKind::Unreachable.with(format!("no complete answer within {:?}", self.timeout));
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
