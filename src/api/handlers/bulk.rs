//! Doing something to many jobs at once: what is asked for, how many at most, and what became of it.

use crate::api::Api;
use crate::api::body::Fields;
use crate::api::error::ApiError;
use crate::job::invalid::{Invalid, Kind};
use crate::job::json::Object;
use crate::job::time::{self, At};
use crate::job::{State, duration, json};
use futures_util::future::join_all;
use serde_json::{Value, json};

/// Jobs that one request handles, unless it says otherwise, and at most.
const USUAL: u64 = 1000;
pub(crate) const MOST: u64 = 10_000;
/// Jobs handled at once.
const PORTION: usize = 32;
/// Errors that an answer lists.
const MOST_ERRORS: usize = 100;

/// A request about many jobs.
pub(crate) struct Bulk {
    /// Only tell how many there are.
    pub(crate) dry_run: bool,
    pub(crate) limit: usize,
}

impl Bulk {
    /// Reads `confirm`, `dry_run` and `limit`. Whoever does not confirm gets nothing done.
    pub(crate) fn read(fields: &Fields<'_>) -> Result<Bulk, ApiError> {
        let dry_run = fields.boolean("dry_run")?.unwrap_or(false);
        if !dry_run && fields.boolean("confirm")? != Some(true) {
            let problem = Invalid::new(Kind::Field, "confirm", "must be true, because this changes many jobs at once");
            return Err(ApiError::from(problem).hint("`dry_run: true` tells how many jobs it would be."));
        }
        let limit = fields.number("limit", 1)?.unwrap_or(USUAL);
        if limit > MOST {
            return Err(Invalid::field("limit", format!("1 to {MOST}"), &limit.to_string()).into());
        }
        Ok(Bulk { dry_run, limit: limit as usize })
    }

    /// Handles jobs, as many as the request allows, and tells of each that failed why.
    pub(crate) async fn run<F>(&self, action: &str, api: &Api, ids: &[String], handle: fn(Api, String) -> F) -> Value
    where
        F: Future<Output = Result<(), ApiError>>,
    {
        let matched = ids.len();
        let ids = if self.dry_run { &[] } else { &ids[..ids.len().min(self.limit)] };
        let (mut succeeded, mut failed, mut errors) = (0, 0, Vec::new());
        for portion in ids.chunks(PORTION) {
            let results = join_all(portion.iter().map(|id| handle(api.clone(), id.clone()))).await;
            for (id, result) in portion.iter().zip(results) {
                match result {
                    Ok(()) => succeeded += 1,
                    Err(problem) => {
                        failed += 1;
                        if errors.len() < MOST_ERRORS {
                            errors.push(json!({"job_id": id, "error": problem.message}));
                        }
                    }
                }
            }
        }
        json!({
            "action": action,
            "matched": matched,
            "succeeded": succeeded,
            "failed": failed,
            "remaining": matched.saturating_sub(ids.len()),
            "dry_run": self.dry_run,
            "errors": errors,
        })
    }
}

/// The filter of a request, which may be missing.
pub(crate) fn filter<'a>(fields: &Fields<'a>) -> Result<Fields<'a>, ApiError> {
    match fields.get("filter") {
        None => Ok(Fields::of(Object::default())),
        Some(text) => Ok(Fields::of(Object::parse(text).map_err(|_| Invalid::field("filter", "an object", text))?)),
    }
}

/// A slip in a filter must not become more jobs than were meant.
pub(crate) fn only(fields: &Fields<'_>, known: &[&str]) -> Result<(), ApiError> {
    match fields.object().members().find(|member| !known.contains(&&*member.name)) {
        None => Ok(()),
        Some(unknown) => {
            let problem = format!("is none of {}", known.join(", "));
            Err(Invalid::new(Kind::Field, format!("filter.{}", unknown.name), problem).into())
        }
    }
}

/// A point in time under a name, in milliseconds.
pub(crate) fn time(fields: &Fields<'_>, name: &str) -> Result<Option<i64>, ApiError> {
    let Some(text) = fields.text(name)? else { return Ok(None) };
    match At::parse(&text) {
        Some(At::Absolute(ms)) => Ok(Some(ms)),
        _ => Err(Invalid::field(name, time::ABSOLUTE_EXPECTED, &text).into()),
    }
}

/// The moment before which something is older than a duration under a name.
pub(crate) fn older_than(api: &Api, fields: &Fields<'_>, name: &str) -> Result<Option<i64>, ApiError> {
    let Some(text) = fields.text(name)? else { return Ok(None) };
    let ms = duration::parse_ms(&text).ok_or_else(|| Invalid::field(name, duration::EXPECTED, &text))?;
    Ok(Some(api.store().clock().now_ms() - ms as i64))
}

/// States under a name: one, or several as an array.
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
