//! Requests to another fairgate.

use super::{Error, ErrorKind, Remote};
use crate::domain::escape::escape;
use serde_json::Value;

impl Remote {
    /// Returns the explanation of a job. Returns an error with the server's message if it knows no
    /// such job.
    pub async fn explain(&self, id: &str) -> Result<Value, Error> {
        let answer = self.get(&format!("/ojs/v1/jobs/{}/explain", escape(id))).await?;
        match (answer.status, answer.refusal()) {
            (200, _) => answer.json(),
            (_, Some((_, message))) => Err(ErrorKind::Status.with(message)),
            (_, None) => Err(answer.unreadable()),
        }
    }
}
