//! Parsing of replies. `what` names the command in errors.

use super::codec::{self, tenant::own_worker};
use super::error::Error;
use crate::domain::escape::unescape;
use crate::domain::job::{Record, State};
use redis::Value;
use serde::Deserialize;
use std::str::FromStr;

/// Returns the elements of an array reply; none for nil.
pub(super) fn array(value: Value, what: &str) -> Result<Vec<Value>, Error> {
    match value {
        Value::Array(elements) | Value::Set(elements) => Ok(elements),
        Value::Nil => Ok(Vec::new()),
        _ => Err(Error::unreadable(what)),
    }
}

/// Returns the elements of an array reply of fixed length.
pub(super) fn parts<const N: usize>(value: Value, what: &str) -> Result<[Value; N], Error> {
    array(value, what)?.try_into().map_err(|_| Error::unreadable(what))
}

/// Returns the text of a string or number reply; empty for nil, such as a missing key.
pub(super) fn text(value: Value, what: &str) -> Result<String, Error> {
    match value {
        Value::BulkString(bytes) => {
            Ok(String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
        }
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => Ok(text),
        Value::Int(number) => Ok(number.to_string()),
        Value::Double(number) => Ok(number.to_string()),
        Value::Okay => Ok("OK".to_owned()),
        Value::Nil => Ok(String::new()),
        _ => Err(Error::unreadable(what)),
    }
}

/// Returns the number of an integer reply, or of a string that contains one.
pub(super) fn number(value: Value, what: &str) -> Result<i64, Error> {
    match value {
        Value::Int(number) => Ok(number),
        other => parse(&text(other, what)?, what),
    }
}

/// Returns the number of a reply that is nil for a missing key, which counts as 0.
pub(super) fn number_or_zero(value: Value, what: &str) -> Result<i64, Error> {
    match value {
        Value::Nil => Ok(0),
        other => number(other, what),
    }
}

/// Parses a number in the text of a reply.
pub(super) fn parse<T: FromStr>(text: &str, what: &str) -> Result<T, Error> {
    text.parse().map_err(|_| Error::unreadable(what))
}

/// Returns the elements of an array reply as text.
pub(super) fn texts(value: Value, what: &str) -> Result<Vec<String>, Error> {
    array(value, what)?.into_iter().map(|element| text(element, what)).collect()
}

/// Returns the fields and values of a hash.
pub(super) fn pairs(value: Value, what: &str) -> Result<Vec<(String, String)>, Error> {
    if let Value::Map(pairs) = value {
        return pairs.into_iter().map(|(name, value)| Ok((text(name, what)?, text(value, what)?))).collect();
    }
    let texts = texts(value, what)?;
    let (pairs, []) = texts.as_chunks::<2>() else { return Err(Error::unreadable(what)) };
    Ok(pairs.iter().map(|[name, value]| (name.clone(), value.clone())).collect())
}

/// Parses a job view.
pub(super) fn record(value: Value, what: &str) -> Result<Record, Error> {
    read_record(&text(value, what)?, what)
}

fn read_record(view: &str, what: &str) -> Result<Record, Error> {
    codec::record::read(view).ok_or_else(|| Error::unreadable(what))
}

/// Parses the state of a job.
pub(super) fn state(name: &str, what: &str) -> Result<State, Error> {
    State::from_name(name).ok_or_else(|| Error::unreadable(what))
}

/// Parses job views.
pub(super) fn records(value: Value, what: &str) -> Result<Vec<Record>, Error> {
    array(value, what)?.into_iter().map(|view| record(view, what)).collect()
}

/// The outcome of an operation on one job.
#[derive(Clone, Debug, PartialEq)]
pub enum JobOutcome {
    /// The job after the operation, and its previous state if the command reports it.
    Done(Box<Record>, Option<State>),
    /// There is no such job.
    Missing,
    /// The job is in another state, or another worker holds it.
    Conflict { state: State, holder: Option<String> },
}

/// The reply to a command that changes one job.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum JobReply {
    Done { view: String, previous: Option<State> },
    Missing,
    Conflict { state: State },
}

impl JobReply {
    /// Parses the job's view.
    pub(super) fn outcome(self, command: &str) -> Result<JobOutcome, Error> {
        Ok(match self {
            JobReply::Done { view, previous } => JobOutcome::Done(Box::new(read_record(&view, command)?), previous),
            JobReply::Missing => JobOutcome::Missing,
            JobReply::Conflict { state } => JobOutcome::Conflict { state, holder: None },
        })
    }
}

/// Parses the outcome of a worker's answer: a view, `{'missing'}`, `{'conflict', state, holder}` or
/// `{'error', text}`.
pub(super) fn outcome(value: Value, what: &str) -> Result<JobOutcome, Error> {
    if matches!(value, Value::BulkString(_)) {
        return Ok(JobOutcome::Done(Box::new(record(value, what)?), None));
    }
    let mut words = texts(value, what)?.into_iter();
    let tag = words.next().unwrap_or_default();
    let mut next = || words.next().filter(|text| !text.is_empty());
    match tag.as_str() {
        "missing" => Ok(JobOutcome::Missing),
        "conflict" => {
            let state = state(&next().unwrap_or_default(), what)?;
            Ok(JobOutcome::Conflict { state, holder: next().map(|worker| own_worker(&unescape(&worker)).to_owned()) })
        }
        "error" => Err(Error::Backend(next().unwrap_or_default())),
        _ => Err(Error::unreadable(what)),
    }
}

/// Parses the outcomes of a group, one for each request.
pub(super) fn outcomes(value: Value, what: &str) -> Result<Vec<Result<JobOutcome, Error>>, Error> {
    Ok(array(value, what)?.into_iter().map(|answer| outcome(answer, what)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    fn message<T: std::fmt::Debug>(result: Result<T, Error>) -> String {
        result.expect_err("an error").reason()
    }

    #[test]
    fn a_malformed_reply_is_an_error_that_names_the_command() {
        let nested = || Value::Array(vec![Value::Array(Vec::new())]);
        for value in [Value::Nil, bulk(""), bulk("x"), bulk("1.5"), bulk("1 "), Value::Okay, nested()] {
            assert_eq!(message(number(value.clone(), "tick")), "unexpected reply to tick", "{value:?}");
        }
        assert_eq!(message(number_or_zero(bulk(""), "tick")), "unexpected reply to tick");
        for value in [nested(), Value::Map(Vec::new()), Value::Boolean(true)] {
            assert_eq!(message(text(value.clone(), "ack")), "unexpected reply to ack", "{value:?}");
        }
        assert_eq!(message(texts(nested(), "nack")), "unexpected reply to nack");
        assert_eq!(message(texts(bulk("x"), "nack")), "unexpected reply to nack");
        assert_eq!(message(pairs(Value::Array(vec![bulk("name")]), "rules")), "unexpected reply to rules");
        assert_eq!(message(parts::<2>(Value::Array(vec![bulk("1")]), "tick")), "unexpected reply to tick");
        assert_eq!(message(parse::<u64>("-1", "promote")), "unexpected reply to promote");
        assert_eq!(message(record(bulk("junk"), "fetch")), "unexpected reply to fetch");
    }

    #[test]
    fn texts_and_numbers_are_read_in_every_form_that_redis_has() {
        assert_eq!(number(Value::Int(-1), "x").unwrap(), -1);
        assert_eq!(number(bulk("1700000000000"), "x").unwrap(), 1_700_000_000_000);
        assert_eq!(number(Value::SimpleString("7".to_owned()), "x").unwrap(), 7);
        assert_eq!(number_or_zero(Value::Nil, "x").unwrap(), 0);
        assert_eq!(text(Value::Nil, "x").unwrap(), "");
        assert_eq!(text(Value::Int(5), "x").unwrap(), "5");
        assert_eq!(text(Value::Okay, "x").unwrap(), "OK");
        assert_eq!(text(Value::BulkString(vec![b'a', 0xff]), "x").unwrap(), "a\u{fffd}");
        let hash = Value::Array(vec![bulk("a"), Value::Int(1), bulk("b"), Value::Nil]);
        assert_eq!(pairs(hash, "x").unwrap(), [("a".to_owned(), "1".to_owned()), ("b".to_owned(), String::new())]);
    }

    #[test]
    fn an_outcome_without_its_parts_is_an_error() {
        for words in [&["conflict"][..], &["conflict", "odd"], &["ok"], &["ok", "junk"], &["later"], &[]] {
            let value = Value::Array(words.iter().map(|word| bulk(word)).collect());
            assert_eq!(message(outcome(value, "ack")), "unexpected reply to ack", "{words:?}");
        }
        let conflict = Value::Array(vec![bulk("conflict"), bulk("active"), bulk("w1")]);
        let expected = JobOutcome::Conflict { state: State::Active, holder: Some("w1".to_owned()) };
        assert_eq!(outcome(conflict, "ack").unwrap(), expected);
        let [missing, error] = [&["missing"][..], &["error", "too large"]]
            .map(|words| Value::Array(words.iter().map(|word| bulk(word)).collect()));
        assert_eq!(outcome(missing, "ack").unwrap(), JobOutcome::Missing);
        assert_eq!(message(outcome(error, "ack")), "too large");
    }
}
