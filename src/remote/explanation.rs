//! Requests to another fairgate.

use super::{Error, ErrorKind, Remote};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

impl Remote {
    /// Returns the explanation of a job. Returns an error with the server's message if it knows no
    /// such job.
    pub async fn explain(&self, id: &str) -> Result<Value, Error> {
        // A slash in an id must not lead to another path.
        let id = utf8_percent_encode(id, NON_ALPHANUMERIC);
        let answer = self.get(&format!("/ojs/v1/jobs/{id}/explain")).await?;
        match (answer.status, answer.refusal()) {
            (200, _) => answer.json(),
            (_, Some((_, message))) => Err(ErrorKind::Status.with(message)),
            (_, None) => Err(answer.unreadable()),
        }
    }
}
