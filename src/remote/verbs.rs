//! What a server is asked for, and what its answers mean.

use super::answer::Answer;
use super::{Error, ErrorKind, Remote};
use crate::job::json;
use serde_json::Value;
use std::collections::HashSet;

/// The level of conformance at which jobs can be looked up by id, without which a repeated push cannot be told from a new one.
const LEAST_LEVEL: u64 = 1;

/// What a server says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    pub name: String,
    pub version: String,
    pub level: u64,
    /// Its time in milliseconds, if it tells.
    pub date: Option<i64>,
}

/// What became of jobs that were posted together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Batch {
    /// The ids of those that it has taken, which need not be all.
    Taken(HashSet<String>),
    /// It has taken none of them: they have to be posted one by one to find out why.
    None,
}

/// What became of a job that was posted alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Single {
    Taken,
    /// Another job counts as the same, and this one is not wanted.
    Unwanted,
    /// The id, or what is to be unique, is taken.
    Conflict,
    /// It will never take it: `error.code` and `error.message`.
    Refused {
        code: String,
        message: String,
    },
}

impl Remote {
    /// What the server says of itself; an error if we cannot work with it.
    pub async fn manifest(&self) -> Result<Manifest, Error> {
        let answer = self.get("/ojs/manifest").await?;
        if answer.status != 200 {
            let text = format!("{} answered {} for its manifest: is this an OJS server?", self.place(), answer.status);
            return Err(ErrorKind::Unsupported.with(text));
        }
        let body = answer.json()?;
        let text = |value: &Value| value.as_str().map(|text| text.chars().take(80).collect::<String>());
        let version = text(&body["specversion"]).or_else(|| text(&body["ojs_version"]));
        let Some(version) = version else { return Err(answer.unreadable()) };
        if version != "1.0" && !version.starts_with("1.") {
            let text = format!("{} speaks OJS {version}, and we speak 1.0", self.place());
            return Err(ErrorKind::Unsupported.with(text));
        }
        let level = body["conformance_level"].as_u64().unwrap_or(0);
        if level < LEAST_LEVEL {
            let text = format!(
                "{} says of itself that it is of conformance level {level}: at least {LEAST_LEVEL} is needed, to look up jobs by id",
                self.place()
            );
            return Err(ErrorKind::Unsupported.with(text));
        }
        let name = text(&body["implementation"]["name"]).unwrap_or_else(|| "unnamed".to_owned());
        Ok(Manifest { name, version, level, date: answer.date })
    }

    /// Posts jobs together. They are JSON objects with ids.
    pub async fn enqueue_batch(&self, jobs: &[String]) -> Result<Batch, Error> {
        let answer = self.post("/ojs/v1/jobs/batch", format!("{{\"jobs\":[{}]}}", jobs.join(","))).await?;
        match answer.status {
            200..300 => {
                let jobs = answer.object()?.get("jobs").and_then(json::elements).ok_or_else(|| answer.unreadable())?;
                Ok(Batch::Taken(jobs.into_iter().filter_map(id_of).collect()))
            }
            // All or nothing, a server without batches, or one that finds this one too large.
            _ => Ok(Batch::None),
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
                // Said by something in front of it, which will say it again.
                None if status == 413 => {
                    let message = "the job is larger than what stands before the server lets through".to_owned();
                    Ok(Single::Refused { code: "envelope_too_large".to_owned(), message })
                }
                None => Err(answer.unreadable()),
            },
        }
    }

    /// Whether it knows a job.
    pub async fn has(&self, id: &str) -> Result<bool, Error> {
        let answer = self.get(&format!("/ojs/v1/jobs/{id}")).await?;
        match answer.status {
            200..300 => Ok(true),
            // Not of something in front of it, which knows of no job.
            404 if answer.refusal().is_some() => Ok(false),
            404 => Err(answer.unreadable()),
            // One that was there and is gone.
            410 => Ok(true),
            _ => Err(no_such_thing(&answer, "GET /ojs/v1/jobs/{id}")),
        }
    }
}

fn no_such_thing(answer: &Answer, what: &str) -> Error {
    ErrorKind::Status.with(format!("answered {} to {what}: check its url", answer.status))
}

/// The id of a job, which is a JSON object.
pub fn id_of(job: &str) -> Option<String> {
    let object = json::Object::parse(job).ok()?;
    object.get("id").and_then(json::text).map(Into::into)
}
