//! Parsing of replies. `what` names the command in errors.

use super::codec;
use super::error::Error;
use crate::job::Record;
use crate::job::escape::unescape;
use crate::job::scope::own_worker;
use redis::Value;

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

/// Returns the text of a string or number reply; empty for nil.
pub(super) fn text(value: Value) -> String {
    match value {
        Value::BulkString(bytes) => {
            String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
        }
        Value::SimpleString(text) => text,
        Value::Int(number) => number.to_string(),
        Value::Double(number) => number.to_string(),
        Value::Okay => "OK".to_owned(),
        _ => String::new(),
    }
}

/// Returns the number of an integer reply, or of a string that contains one.
pub(super) fn number(value: Value) -> i64 {
    match value {
        Value::Int(number) => number,
        other => text(other).parse().unwrap_or(0),
    }
}

/// Returns the elements of an array reply as text.
pub(super) fn texts(value: Value, what: &str) -> Result<Vec<String>, Error> {
    Ok(array(value, what)?.into_iter().map(text).collect())
}

/// Returns the fields and values of a hash.
pub(super) fn pairs(value: Value, what: &str) -> Result<Vec<(String, String)>, Error> {
    if let Value::Map(pairs) = value {
        return Ok(pairs.into_iter().map(|(name, value)| (text(name), text(value))).collect());
    }
    let texts = texts(value, what)?;
    Ok(texts.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect())
}

/// Parses a job view.
pub(super) fn record(value: Value, what: &str) -> Result<Record, Error> {
    codec::record::read(&text(value)).ok_or_else(|| Error::unreadable(what))
}

/// Parses job views.
pub(super) fn records(value: Value, what: &str) -> Result<Vec<Record>, Error> {
    array(value, what)?.into_iter().map(|view| record(view, what)).collect()
}

/// The outcome of an operation on one job.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// The job after the operation, and its previous state if the command reports it.
    Done(Box<Record>, Option<String>),
    /// There is no such job.
    Missing,
    /// The job is in another state, or another worker holds it.
    Conflict { state: String, holder: Option<String> },
}

/// Parses an outcome: a view, `{'ok', view, previous}`, `{'missing'}`, `{'conflict', state,
/// holder}` or `{'error', text}`.
pub(super) fn outcome(value: Value, what: &str) -> Result<Outcome, Error> {
    if matches!(value, Value::BulkString(_)) {
        return Ok(Outcome::Done(Box::new(record(value, what)?), None));
    }
    let mut parts = array(value, what)?.into_iter();
    let tag = parts.next().map(text).unwrap_or_default();
    let mut next = || parts.next().map(text).filter(|text| !text.is_empty());
    match tag.as_str() {
        "missing" => Ok(Outcome::Missing),
        "conflict" => {
            let state = next().unwrap_or_default();
            Ok(Outcome::Conflict { state, holder: next().map(|worker| own_worker(&unescape(&worker)).to_owned()) })
        }
        "error" => Err(Error::Backend(next().unwrap_or_default())),
        "ok" => {
            let view = parts.next().ok_or_else(|| Error::unreadable(what))?;
            let previous = parts.next().map(text).filter(|text| !text.is_empty());
            Ok(Outcome::Done(Box::new(record(view, what)?), previous))
        }
        _ => Err(Error::unreadable(what)),
    }
}

/// Parses the outcomes of a group, one for each request.
pub(super) fn outcomes(value: Value, what: &str) -> Result<Vec<Result<Outcome, Error>>, Error> {
    Ok(array(value, what)?.into_iter().map(|answer| outcome(answer, what)).collect())
}
