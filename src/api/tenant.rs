//! The tenant that a request names in its header.

use super::Api;
use super::problem::Problem;
use crate::job::Record;
use crate::job::invalid::{Invalid, Kind};
use crate::job::tenant;
use axum::http::HeaderMap;

/// The header, and another spelling of it.
const NAMES: [&str; 2] = ["X-OJS-Tenant", "X-OJS-Tenant-Id"];

/// The tenant that headers name, if they do.
pub(super) fn named(headers: &HeaderMap) -> Result<Option<String>, Invalid> {
    let Some((name, value)) = NAMES.into_iter().find_map(|name| Some((name, headers.get(name)?))) else {
        return Ok(None);
    };
    let text = value.to_str().unwrap_or_default();
    match tenant::is_name(text) {
        true => Ok(Some(text.to_owned())),
        false => Err(Invalid::field(name, tenant::NAME_EXPECTED, text).of_kind(Kind::Tenant)),
    }
}

/// The same for who only looks for jobs, which may be the default tenant's.
pub(super) fn wanted(headers: &HeaderMap) -> Result<Option<String>, Invalid> {
    if NAMES.iter().any(|name| headers.get(*name).is_some_and(|value| value == tenant::DEFAULT)) {
        return Ok(Some(tenant::DEFAULT.to_owned()));
    }
    named(headers)
}

/// The tenant whose jobs alone a request is about: that of the caller's key, else the one that it names.
pub(super) fn of_caller(api: &Api, headers: &HeaderMap) -> Result<Option<String>, Invalid> {
    let named = wanted(headers)?;
    Ok(api.store().scope().tenant().map(str::to_owned).or(named))
}

/// Refuses a job that is not the tenant's that the request names, as if there were none.
pub(super) fn check_owner(headers: &HeaderMap, record: &Record) -> Result<(), Problem> {
    match wanted(headers)? {
        Some(wanted) if wanted != record.tenant.as_deref().unwrap_or(tenant::DEFAULT) => {
            Err(Problem::missing("job", &record.id))
        }
        _ => Ok(()),
    }
}
