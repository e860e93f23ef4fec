//! Requests to a server, and the interpretation of its answers.

use super::answer::Answer;
use super::{Error, ErrorKind, Remote};
use crate::domain::json;
use serde_json::Value;
use std::collections::HashSet;

/// The lowest supported conformance level. From it on, jobs can be looked up by id, which is needed
/// to distinguish a repeated push from a new one.
const LEAST_LEVEL: u64 = 1;

/// A server's description of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    pub name: String,
    pub version: String,
    pub level: u64,
    /// Its time in epoch milliseconds, if it is in the answer.
    pub date: Option<i64>,
}

/// The result of posting several jobs at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BatchOutcome {
    /// The ids of the accepted jobs, which may be only some of them.
    Taken(HashSet<String>),
    /// None was accepted. Posting them one by one shows the reason.
    None,
}

/// The result of posting one job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Single {
    Taken,
    /// Another job with the same unique key exists, so this one was dropped.
    Unwanted,
    /// The id or the unique key is taken.
    Conflict,
    /// Refused permanently, with `error.code` and `error.message`.
    Refused {
        code: String,
        message: String,
    },
}

impl Remote {
    /// Reads the server's manifest. Returns an error if fairgate cannot work with the server.
    pub async fn manifest(&self) -> Result<Manifest, Error> {
        let answer = self.get("/ojs/manifest").await?;
        if answer.status != 200 {
            let text =
                format!("{} returned HTTP {} for its manifest; is this an OJS server?", self.place(), answer.status);
            return Err(ErrorKind::Unsupported.with(text));
        }
        let body = answer.json()?;
        let text = |value: &Value| value.as_str().map(|text| text.chars().take(80).collect::<String>());
        let version = text(&body["specversion"]).or_else(|| text(&body["ojs_version"]));
        let Some(version) = version else { return Err(answer.unreadable()) };
        if version != "1.0" && !version.starts_with("1.") {
            let text = format!("{} speaks OJS {version}; fairgate supports 1.0", self.place());
            return Err(ErrorKind::Unsupported.with(text));
        }
        let level = body["conformance_level"].as_u64().unwrap_or(0);
        if level < LEAST_LEVEL {
            let text = format!(
                "{} has conformance level {level}; at least {LEAST_LEVEL} is required to look up jobs by id",
                self.place()
            );
            return Err(ErrorKind::Unsupported.with(text));
        }
        let name = text(&body["implementation"]["name"]).unwrap_or_else(|| "unnamed".to_owned());
        Ok(Manifest { name, version, level, date: answer.date })
    }

    /// Posts several jobs, which are JSON objects with ids.
    pub async fn enqueue_batch(&self, jobs: &[String]) -> Result<BatchOutcome, Error> {
        let answer = self.post("/ojs/v1/jobs/batch", format!("{{\"jobs\":[{}]}}", jobs.join(","))).await?;
        match answer.status {
            200..300 => {
                let jobs = answer.object()?.get("jobs").and_then(json::elements).ok_or_else(|| answer.unreadable())?;
                Ok(BatchOutcome::Taken(jobs.into_iter().filter_map(id_of).collect()))
            }
            // The server accepts all or none, has no batches, or considers this one too large.
            _ => Ok(BatchOutcome::None),
        }
    }

    /// Posts a job.
    pub async fn enqueue(&self, job: &str, id: &str) -> Result<Single, Error> {
        let answer = self.post("/ojs/v1/jobs", job.to_owned()).await?;
        match answer.status {
            200..300 => {
                let body = answer.object()?;
                let bare = || body.get("id").and_then(json::text).map(Into::into);
                let taken = body.get("job").and_then(id_of).or_else(bare).ok_or_else(|| answer.unreadable())?;
                Ok(if taken == id { Single::Taken } else { Single::Unwanted })
            }
            409 => Ok(Single::Conflict),
            404 | 405 => Err(no_such_thing(&answer, "POST /ojs/v1/jobs")),
            status => match answer.refusal() {
                Some((code, message)) => Ok(Single::Refused { code, message }),
                // A proxy in front of the server refused it, and would do so again.
                None if status == 413 => {
                    let message = "the job is too large for a proxy in front of the server".to_owned();
                    Ok(Single::Refused { code: "envelope_too_large".to_owned(), message })
                }
                None => Err(answer.unreadable()),
            },
        }
    }

    /// Returns true if the server knows a job.
    pub async fn has(&self, id: &str) -> Result<bool, Error> {
        let answer = self.get(&format!("/ojs/v1/jobs/{id}")).await?;
        match answer.status {
            200..300 => Ok(true),
            // A 404 without an OJS error may come from a proxy, which does not know any jobs.
            404 if answer.refusal().is_some() => Ok(false),
            404 => Err(answer.unreadable()),
            // The job existed and was deleted.
            410 => Ok(true),
            _ => Err(no_such_thing(&answer, "GET /ojs/v1/jobs/{id}")),
        }
    }
}

fn no_such_thing(answer: &Answer, what: &str) -> Error {
    ErrorKind::Status.with(format!("returned HTTP {} to {what}; check its url", answer.status))
}

/// Returns the id of a job, which is a JSON object.
pub fn id_of(job: &str) -> Option<String> {
    let object = json::Object::parse(job).ok()?;
    object.get("id").and_then(json::text).map(Into::into)
}
