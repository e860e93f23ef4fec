//! Failed attempts as workers report them, in any of the three dialects of the OJS documents.

use crate::domain::invalid::Invalid;
use crate::domain::json::{self, Object};
use crate::domain::time::{self, At};

/// Maximum size in bytes of one part of an entry. Longer parts are left out and the entry is marked
/// as truncated, because a job keeps up to 25 entries.
const LONGEST_PART: usize = 10_000;

/// A reported failure, in the form in which the store decides about it and records it.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// JSON members of the history entry, without attempt and time, which the store adds.
    pub entry: String,
    /// `{code, message, retryable}` as JSON, for events.
    pub error: String,
    /// Type, code and error class, to compare with `non_retryable_errors`.
    pub classes: Vec<String>,
    /// Decision of the handler, if it made one.
    pub verdict: Option<FailureVerdict>,
    pub retryable: bool,
    /// Message as a JSON string.
    pub message: String,
    /// Time until which the limit of the job's key is to be held, in milliseconds since the epoch:
    /// an external rate limit that the worker ran into.
    pub hold_until: Option<i64>,
}

/// Decision of a handler about its failed job, sent as the code of the error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureVerdict {
    Retry,
    Discard,
    DeadLetter,
    Fail,
}

impl FailureVerdict {
    const ALL: [FailureVerdict; 4] =
        [FailureVerdict::Retry, FailureVerdict::Discard, FailureVerdict::DeadLetter, FailureVerdict::Fail];

    /// Returns the name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            FailureVerdict::Retry => "RETRY",
            FailureVerdict::Discard => "DISCARD",
            FailureVerdict::DeadLetter => "DEAD_LETTER",
            FailureVerdict::Fail => "FAIL",
        }
    }

    /// Parses the name of a verdict.
    pub fn from_name(name: &str) -> Option<FailureVerdict> {
        FailureVerdict::ALL.into_iter().find(|verdict| verdict.name() == name)
    }
}

impl Failure {
    /// Parses the `error` member of a nack. A missing one becomes an unspecified handler error.
    pub fn parse(field: &str, text: Option<&str>) -> Result<Failure, Invalid> {
        let text = text.unwrap_or("{}");
        let object = Object::parse(text).map_err(|_| Invalid::field(field, "an object", text))?;
        let string = |name: &str| match object.get(name) {
            None => Ok(None),
            Some(value) => json::text(value)
                .map(|text| Some(text.into_owned()))
                .ok_or_else(|| Invalid::field(format!("{field}.{name}"), "a string", value)),
        };
        let (code, kind, message) = (string("code")?, string("type")?, string("message")?);
        let retryable = match object.get("retryable") {
            None => true,
            Some(value) => json::boolean(value)
                .ok_or_else(|| Invalid::field(format!("{field}.retryable"), "true or false", value))?,
        };
        let hold_until = match object.get("rate_limit_until") {
            None => None,
            Some(value) => match json::text(value).and_then(|text| At::parse(&text)) {
                Some(At::Absolute(at)) => Some(at),
                _ => return Err(Invalid::field(format!("{field}.rate_limit_until"), time::ABSOLUTE_EXPECTED, value)),
            },
        };
        let verdict = code.as_deref().and_then(FailureVerdict::from_name);
        let code = code.filter(|_| verdict.is_none()).unwrap_or_else(|| "handler_error".to_owned());
        let class = class(object.get("details"));
        let kind = kind.or_else(|| class.clone()).unwrap_or_else(|| code.clone());
        let mut message = message.unwrap_or_else(|| "unspecified".to_owned());
        let mut truncated = message.len() > LONGEST_PART;
        message.truncate(message.floor_char_boundary(LONGEST_PART));

        let core = format!(
            "\"code\":{},\"message\":{},\"retryable\":{retryable}",
            json::quoted(&code),
            json::quoted(&message)
        );
        let mut entry = format!("\"type\":{},{core}", json::quoted(&kind));
        for name in ["details", "backtrace"] {
            match object.get(name) {
                Some(value) if value.len() <= LONGEST_PART => entry.extend([",\"", name, "\":", value]),
                part => truncated |= part.is_some(),
            }
        }
        if truncated {
            entry.push_str(",\"truncated\":true");
        }
        let mut classes = vec![kind, code];
        classes.extend(class);
        classes.iter_mut().for_each(|class| class.retain(|character| !character.is_control()));
        Ok(Failure {
            entry,
            error: format!("{{{core}}}"),
            classes,
            verdict,
            retryable,
            message: json::quoted(&message),
            hold_until,
        })
    }
}

fn class(details: Option<&str>) -> Option<String> {
    let details = Object::parse(details?).ok()?;
    json::text(details.get("error_class")?).map(Into::into)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Failure {
        Failure::parse("error", Some(text)).unwrap()
    }

    #[test]
    fn reads_the_three_dialects() {
        let core = parse(r#"{"type":"SmtpError","message":"refused","backtrace":["a","b"]}"#);
        assert_eq!(core.classes, ["SmtpError", "handler_error"]);
        assert!(core.entry.ends_with(r#","backtrace":["a","b"]"#), "{}", core.entry);

        let http = parse(r#"{"code":"smtp","message":"m","retryable":false,"details":{"error_class":"Net::Smtp"}}"#);
        assert_eq!(http.classes, ["Net::Smtp", "smtp", "Net::Smtp"]);
        assert!(!http.retryable);

        let retry = parse(r#"{"type":"T","message":"m","code":"DEAD_LETTER"}"#);
        assert_eq!(
            (retry.verdict, retry.classes),
            (Some(FailureVerdict::DeadLetter), vec!["T".to_owned(), "handler_error".to_owned()])
        );
    }

    #[test]
    fn verdicts_are_read_as_they_are_written() {
        for verdict in FailureVerdict::ALL {
            assert_eq!(FailureVerdict::from_name(verdict.name()), Some(verdict));
        }
        assert_eq!(FailureVerdict::from_name("retry"), None);
    }

    #[test]
    fn the_code_stands_in_for_a_missing_type() {
        assert!(parse(r#"{"code":"smtp","message":"m"}"#).entry.starts_with(r#""type":"smtp","code":"smtp","#));
    }

    #[test]
    fn a_missing_error_is_unspecified() {
        let failure = Failure::parse("error", None).unwrap();
        assert_eq!(failure.error, r#"{"code":"handler_error","message":"unspecified","retryable":true}"#);
    }

    #[test]
    fn what_is_too_long_is_left_out_and_told() {
        let long = "é".repeat(LONGEST_PART);
        let failure = parse(&format!(r#"{{"message":"{long}","backtrace":["{long}"]}}"#));
        assert!(failure.entry.len() < 2 * LONGEST_PART && failure.entry.ends_with(r#","truncated":true"#));
    }

    #[test]
    fn names_the_field_that_is_wrong() {
        for (text, field) in
            [("[]", "error"), (r#"{"message":1}"#, "error.message"), (r#"{"retryable":"no"}"#, "error.retryable")]
        {
            assert_eq!(Failure::parse("error", Some(text)).unwrap_err().field, field);
        }
    }
}
