//! Requests to the API of another fairgate, for commands that show or change its state.

use super::answer::Answer;
use super::{Error, ErrorKind, Remote};
use reqwest::Method;
use serde_json::Value;

impl Remote {
    /// Requests a path such as `/ojs/v1/queues` and returns the JSON of the response. A refusal is
    /// an error with the server's message.
    pub async fn api_get(&self, path: &str) -> Result<Value, Error> {
        self.call_api(Method::GET, path, None).await?.json()
    }

    /// Requests a path and returns the text of the response.
    pub async fn api_get_text(&self, path: &str) -> Result<String, Error> {
        Ok(self.call_api(Method::GET, path, None).await?.text())
    }

    pub async fn api_post(&self, path: &str, body: &Value) -> Result<Value, Error> {
        self.call_api(Method::POST, path, Some(body)).await?.json()
    }

    pub async fn api_put(&self, path: &str, body: &Value) -> Result<Value, Error> {
        self.call_api(Method::PUT, path, Some(body)).await?.json()
    }

    pub async fn api_delete(&self, path: &str) -> Result<Value, Error> {
        self.call_api(Method::DELETE, path, None).await?.json()
    }

    async fn call_api(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Answer, Error> {
        let verb = method.clone();
        let answer = self.ask(method, path, body.map(Value::to_string)).await?;
        match answer.refusal() {
            _ if (200..300).contains(&answer.status) => Ok(answer),
            Some((_, message)) => {
                let text = format!("{verb} {}{path}: HTTP {}: {message}", self.place(), answer.status);
                Err(ErrorKind::Status.with(text))
            }
            None => Err(answer.unreadable()),
        }
    }
}
