//! Errors for refused requests, in terms that a client can act on.

use std::fmt;

/// Kind of an error. The API maps it to a status and an error code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The body is not JSON.
    Payload,
    /// A field is missing, of the wrong type or out of range.
    Field,
    /// A policy (retries, limits, subscriptions) has an invalid value.
    Policy,
    /// The tenant is missing, invalid, or not the one that the job belongs to.
    Tenant,
    /// The structure of a workflow is invalid.
    Workflow,
    /// The job as a whole is too large.
    EnvelopeTooLarge,
    /// `meta` is too large.
    MetaTooLarge,
    /// The result of an ack is too large.
    ResultTooLarge,
    /// Too many jobs in one batch.
    BatchTooLarge,
    /// The same id twice in one batch.
    Duplicate,
    /// A feature of the specification that this server does not support.
    Unsupported,
}

/// A refused value: the field, the problem and the expected value.
#[derive(Clone, Debug, PartialEq)]
pub struct Invalid {
    pub kind: Kind,
    /// Path of the value, such as `options.retry.max_attempts`; empty for the body as a whole.
    pub field: String,
    /// Predicate of the message, whose subject is the field's name.
    pub problem: String,
    /// Description of the accepted values.
    pub expected: Option<String>,
    /// The received value, shortened.
    pub received: Option<String>,
    /// Index of the job in its batch.
    pub index: Option<usize>,
    /// Actual size and its limit, for values that are too large.
    pub sizes: Option<(usize, usize)>,
}

impl Invalid {
    /// Creates an error about one field.
    pub fn new(kind: Kind, field: impl Into<String>, problem: impl Into<String>) -> Self {
        Invalid {
            kind,
            field: field.into(),
            problem: problem.into(),
            expected: None,
            received: None,
            index: None,
            sizes: None,
        }
    }

    /// Creates an error for a field with an unexpected value.
    pub fn field(field: impl Into<String>, expected: impl Into<String>, received: &str) -> Self {
        let expected = expected.into();
        Invalid {
            expected: Some(expected.clone()),
            received: Some(shorten(received)),
            ..Invalid::new(Kind::Field, field, format!("must be {expected}"))
        }
    }

    /// Creates an error for a value over its size limit, both counted in `unit`.
    pub fn too_large(kind: Kind, field: &str, size: usize, limit: usize, unit: &str) -> Self {
        let problem = format!("has {size} {unit}, over the limit of {limit}");
        Invalid { sizes: Some((size, limit)), ..Invalid::new(kind, field, problem) }
    }

    /// Creates an error for a value that is nested too deeply; `most` is the limit.
    pub fn too_deep(field: &str, most: usize) -> Self {
        Invalid::new(Kind::Field, field, format!("is nested too deeply: the limit for the whole body is {most} levels"))
    }

    /// Creates an error for a missing field.
    pub fn missing(field: impl Into<String>, expected: impl Into<String>) -> Self {
        Invalid { expected: Some(expected.into()), ..Invalid::new(Kind::Field, field, "is required") }
    }

    /// Returns the error with another kind.
    pub fn of_kind(self, kind: Kind) -> Self {
        Invalid { kind, ..self }
    }

    /// Returns the error with the path and index of job `index` of a batch.
    pub fn in_job(self, index: usize) -> Self {
        Invalid { index: Some(index), ..self.within(&format!("jobs[{index}]")) }
    }

    /// Returns the error with its field moved below `path`.
    pub fn within(self, path: &str) -> Self {
        let field = match self.field.as_str() {
            "" => path.to_owned(),
            field => format!("{path}.{field}"),
        };
        Invalid { field, ..self }
    }

    /// Creates the error for a body that is not a JSON object. Distinguishes invalid JSON from other
    /// JSON values.
    pub fn unreadable(text: &str, problem: &serde_json::Error) -> Self {
        match serde_json::from_str::<serde::de::IgnoredAny>(text) {
            Ok(_) if !text.trim_start().starts_with('{') => Invalid::field("", "a JSON object", text),
            Err(_) if text.trim().is_empty() => Invalid::new(Kind::Payload, "", "is empty; expected a JSON object"),
            _ => Invalid::new(Kind::Payload, "", format!("is not valid JSON: {problem}")),
        }
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.field.as_str() {
            "" => write!(f, "The request body {}.", self.problem),
            field => write!(f, "`{field}` {}.", self.problem),
        }
    }
}

/// Shortens a value for a message, because it may be megabytes long.
pub(super) fn shorten(text: &str) -> String {
    const GLIMPSE: usize = 60;
    match text.char_indices().nth(GLIMPSE) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
