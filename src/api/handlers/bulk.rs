//! Bulk requests, which change many jobs at once: their options, their filter and their response.

use crate::api::Api;
use crate::api::answers::bulk::{BulkAnswer, BulkError};
use crate::api::body::Fields;
use crate::api::error::ApiError;
use crate::domain::invalid::{Invalid, Kind};
use crate::domain::job::State;
use crate::domain::json::Object;
use crate::domain::time::At;
use crate::domain::{duration, json, time};
use futures_util::future::join_all;

/// The default number of jobs that one request changes.
const DEFAULT_LIMIT: u64 = 1000;
/// The largest number of jobs that one request changes.
pub(crate) const MOST: u64 = 10_000;
/// The number of jobs that are changed concurrently.
const CHUNK: usize = 32;
/// The number of errors that a response lists.
const MOST_ERRORS: usize = 100;

/// The options of a bulk request.
pub(crate) struct Bulk {
    /// Only count the jobs.
    pub(crate) dry_run: bool,
    pub(crate) limit: usize,
}

impl Bulk {
    /// Reads `confirm`, `dry_run` and `limit`. A request without `confirm` is refused.
    pub(crate) fn read(fields: &Fields<'_>) -> Result<Bulk, ApiError> {
        let dry_run = fields.boolean("dry_run")?.unwrap_or(false);
        if !dry_run && fields.boolean("confirm")? != Some(true) {
            let error = Invalid::new(Kind::Field, "confirm", "must be true, because this changes many jobs at once");
            return Err(
                ApiError::from(error).hint("Send `dry_run: true` for the number of jobs that would be changed.")
            );
        }
        let limit = fields.number("limit", 1)?.unwrap_or(DEFAULT_LIMIT);
        if limit > MOST {
            return Err(Invalid::field("limit", format!("1 to {MOST}"), &limit.to_string()).into());
        }
        Ok(Bulk { dry_run, limit: limit as usize })
    }

    /// Changes jobs, at most as many as the request allows, and reports the error of each that failed.
    pub(crate) async fn run<F>(
        &self,
        action: &'static str,
        api: &Api,
        ids: &[String],
        handle: fn(Api, String) -> F,
    ) -> BulkAnswer
    where
        F: Future<Output = Result<(), ApiError>>,
    {
        let matched = ids.len();
        let ids = if self.dry_run { &[] } else { &ids[..ids.len().min(self.limit)] };
        let (mut succeeded, mut failed, mut errors) = (0, 0, Vec::new());
        for chunk in ids.chunks(CHUNK) {
            let results = join_all(chunk.iter().map(|id| handle(api.clone(), id.clone()))).await;
            for (id, result) in chunk.iter().zip(results) {
                match result {
                    Ok(()) => succeeded += 1,
                    Err(error) => {
                        failed += 1;
                        if errors.len() < MOST_ERRORS {
                            errors.push(BulkError { job_id: id.clone(), error: error.message });
                        }
                    }
                }
            }
        }
        BulkAnswer {
            action,
            matched,
            succeeded,
            failed,
            remaining: matched.saturating_sub(ids.len()),
            dry_run: self.dry_run,
            errors,
            purged_count: None,
            states: None,
        }
    }
}

/// Reads the optional filter of a request.
pub(crate) fn filter<'a>(fields: &Fields<'a>) -> Result<Fields<'a>, ApiError> {
    match fields.get("filter") {
        None => Ok(Fields::of(Object::default())),
        Some(text) => Ok(Fields::of(Object::parse(text).map_err(|_| Invalid::field("filter", "an object", text))?)),
    }
}

/// Refuses members of a filter that are not known: with a typo, a filter would match more jobs than intended.
pub(crate) fn reject_unknown(fields: &Fields<'_>, known: &[&str]) -> Result<(), ApiError> {
    match fields.object().members().find(|member| !known.contains(&&*member.name)) {
        None => Ok(()),
        Some(unknown) => {
            let expected = format!("is not one of {}", known.join(", "));
            Err(Invalid::new(Kind::Field, format!("filter.{}", unknown.name), expected).into())
        }
    }
}

/// Reads a point in time, in milliseconds.
pub(crate) fn time(fields: &Fields<'_>, name: &str) -> Result<Option<i64>, ApiError> {
    let Some(text) = fields.text(name)? else { return Ok(None) };
    match At::parse(&text) {
        Some(At::Absolute(ms)) => Ok(Some(ms)),
        _ => Err(Invalid::field(name, time::ABSOLUTE_EXPECTED, &text).into()),
    }
}

/// Reads an age as a duration, and returns the point in time that long ago, in milliseconds.
pub(crate) fn older_than(api: &Api, fields: &Fields<'_>, name: &str) -> Result<Option<i64>, ApiError> {
    let Some(text) = fields.text(name)? else { return Ok(None) };
    let ms = duration::parse_ms(&text).ok_or_else(|| Invalid::field(name, duration::EXPECTED, &text))?;
    Ok(Some(api.store().clock().now_ms() - ms as i64))
}

/// Reads states: one, or an array of several.
pub(crate) fn states(fields: &Fields<'_>, name: &str) -> Result<Vec<State>, ApiError> {
    let Some(value) = fields.get(name) else { return Ok(Vec::new()) };
    let names: Option<Vec<String>> = match json::elements(value) {
        Some(elements) => elements.into_iter().map(|element| json::text(element).map(Into::into)).collect(),
        None => json::text(value).map(|text| vec![text.into_owned()]),
    };
    let states =
        names.and_then(|names| names.iter().map(|name| State::from_name(name)).collect::<Option<Vec<State>>>());
    states.ok_or_else(|| Invalid::field(name, "a job state, or an array of them", value).into())
}
