//! Replies of scripts, taken apart.

use super::error::Error;
use crate::job::Record;
use redis::Value;

/// The elements of an array reply.
pub(super) fn array(value: Value, what: &str) -> Result<Vec<Value>, Error> {
    match value {
        Value::Array(elements) | Value::Set(elements) => Ok(elements),
        Value::Nil => Ok(Vec::new()),
        _ => Err(Error::unreadable(what)),
    }
}

/// Text of a string or number reply; empty for nil.
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

/// The number of an integer reply or a string that holds one.
pub(super) fn number(value: Value) -> i64 {
    match value {
        Value::Int(number) => number,
        other => text(other).parse().unwrap_or(0),
    }
}

/// All elements as text.
pub(super) fn texts(value: Value, what: &str) -> Result<Vec<String>, Error> {
    Ok(array(value, what)?.into_iter().map(text).collect())
}

/// A script's answer, `{results, envelopes}`, whose job views are completed with the envelopes in their order.
pub(super) struct Answer {
    pub(super) results: Vec<Value>,
    envelopes: std::vec::IntoIter<Value>,
}

impl Answer {
    pub(super) fn read(value: Value, what: &str) -> Result<Answer, Error> {
        let mut parts = array(value, what)?.into_iter();
        let results = array(parts.next().unwrap_or_default(), what)?;
        let envelopes = array(parts.next().unwrap_or_default(), what)?.into_iter();
        Ok(Answer { results, envelopes })
    }

    /// The next job view: `id RS field US value US … RS changed field US value US … RS failures RS result`.
    pub(super) fn record(&mut self, view: Value, what: &str) -> Result<Record, Error> {
        let view = text(view);
        let mut parts = view.split('\u{1e}');
        let mut next = || parts.next().ok_or_else(|| Error::unreadable(what));
        let id = next()?.to_owned();
        let envelope = self.envelopes.next().ok_or_else(|| Error::unreadable(what))?;
        let mut record = Record::new(id, text(envelope));
        for _ in 0..2 {
            let mut fields = next()?.split('\u{1f}');
            while let (Some(field), Some(value)) = (fields.next(), fields.next()) {
                record.set(field, value);
            }
        }
        let failures = next()?;
        if !failures.is_empty() {
            record.failures = failures.split('\u{1d}').map(str::to_owned).collect();
        }
        record.result = Some(next()?).filter(|result| !result.is_empty()).map(str::to_owned);
        Ok(record)
    }

    /// Results that are all job views.
    pub(super) fn records(mut self, what: &str) -> Result<Vec<Record>, Error> {
        let views = std::mem::take(&mut self.results);
        views.into_iter().map(|view| self.record(view, what)).collect()
    }

    /// Results that are outcomes, one for each request.
    pub(super) fn outcomes(mut self, what: &str) -> Vec<Result<Outcome, Error>> {
        let results = std::mem::take(&mut self.results);
        results.into_iter().map(|result| self.outcome(array(result, what)?, what)).collect()
    }

    /// An outcome: `{'ok', view, previous}`, `{'missing'}`, `{'conflict', state, holder}` or `{'error', text}`.
    pub(super) fn outcome(&mut self, parts: Vec<Value>, what: &str) -> Result<Outcome, Error> {
        let mut parts = parts.into_iter();
        let tag = parts.next().map(text).unwrap_or_default();
        let mut next = || parts.next().map(text).filter(|text| !text.is_empty());
        match tag.as_str() {
            "missing" => Ok(Outcome::Missing),
            "conflict" => {
                let state = next().unwrap_or_default();
                Ok(Outcome::Conflict { state, holder: next().map(|worker| crate::job::escape::unescape(&worker)) })
            }
            "error" => Err(Error::Backend(next().unwrap_or_default())),
            "ok" => {
                let view = parts.next().ok_or_else(|| Error::unreadable(what))?;
                let previous = parts.next().map(text).filter(|text| !text.is_empty());
                Ok(Outcome::Done(Box::new(self.record(view, what)?), previous))
            }
            _ => Err(Error::unreadable(what)),
        }
    }
}

/// What a verb about one job answers.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// It was done; the job afterwards, and the state before where the verb tells it.
    Done(Box<Record>, Option<String>),
    /// There is no such job.
    Missing,
    /// The job is in another state, or held by another worker.
    Conflict { state: String, holder: Option<String> },
}
