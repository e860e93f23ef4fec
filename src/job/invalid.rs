//! Why a request was refused, in terms a client can act on.

use std::fmt;

/// What kind of rule was broken; the API maps it to a status and an error code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The body is not JSON.
    Payload,
    /// A field is missing, of the wrong type or out of range.
    Field,
    /// A value of a policy: how to retry, what to limit, whom to serve.
    Policy,
    /// The job names no tenant where its plan rule looks for one.
    Tenant,
    /// The shape of a workflow.
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
    /// Part of the text, but not of this server.
    Unsupported,
}

/// A refused value: which field, why, and what would be accepted.
#[derive(Clone, Debug, PartialEq)]
pub struct Invalid {
    pub kind: Kind,
    /// Path of the value, such as `options.retry.max_attempts`; empty for the body as a whole.
    pub field: String,
    /// The sentence after the field's name.
    pub problem: String,
    /// What would be accepted.
    pub expected: Option<String>,
    /// What was sent, shortened.
    pub received: Option<String>,
    /// Which job of a batch.
    pub index: Option<usize>,
    /// The size that was exceeded, and by what.
    pub sizes: Option<(usize, usize)>,
}

impl Invalid {
    /// A broken rule of some kind about one field.
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

    /// A field whose value is not what is expected.
    pub fn field(field: impl Into<String>, expected: impl Into<String>, received: &str) -> Self {
        let expected = expected.into();
        Invalid {
            expected: Some(expected.clone()),
            received: Some(shorten(received)),
            ..Invalid::new(Kind::Field, field, format!("must be {expected}"))
        }
    }

    /// Something whose size is over its limit; `unit` is what the size counts.
    pub fn too_large(kind: Kind, field: &str, size: usize, limit: usize, unit: &str) -> Self {
        let problem = format!("has {size} {unit}, over the limit of {limit}");
        Invalid { sizes: Some((size, limit)), ..Invalid::new(kind, field, problem) }
    }

    /// A value that is nested too deep.
    pub fn too_deep(field: &str, most: usize) -> Self {
        Invalid::new(Kind::Field, field, format!("is nested too deep: the limit of the whole body is {most}"))
    }

    /// A field that must be there and is not.
    pub fn missing(field: impl Into<String>, expected: impl Into<String>) -> Self {
        Invalid { expected: Some(expected.into()), ..Invalid::new(Kind::Field, field, "is required") }
    }

    /// The same problem, seen as one of another kind.
    pub fn of_kind(self, kind: Kind) -> Self {
        Invalid { kind, ..self }
    }

    /// The same problem inside job number `index` of a batch.
    pub fn in_job(self, index: usize) -> Self {
        Invalid { index: Some(index), ..self.within(&format!("jobs[{index}]")) }
    }

    /// The same problem inside the value at `path`.
    pub fn within(self, path: &str) -> Self {
        let field = match self.field.as_str() {
            "" => path.to_owned(),
            field => format!("{path}.{field}"),
        };
        Invalid { field, ..self }
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

/// A value as it appears in a message: never more than a glimpse, as it may be megabytes.
pub(super) fn shorten(text: &str) -> String {
    const GLIMPSE: usize = 60;
    match text.char_indices().nth(GLIMPSE) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
