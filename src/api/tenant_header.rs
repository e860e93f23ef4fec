//! The headers in which a request names a tenant.

use crate::domain::invalid::{Invalid, Kind};
use crate::domain::tenant_id;
use axum::http::{HeaderMap, HeaderName};

/// The header in both of its spellings.
static NAMES: [HeaderName; 2] = [HeaderName::from_static("x-ojs-tenant"), HeaderName::from_static("x-ojs-tenant-id")];
/// The spellings in error messages.
const SHOWN: [&str; 2] = ["X-OJS-Tenant", "X-OJS-Tenant-Id"];

/// Returns name and value of the header. Different values are refused, because proxies and applications disagree about which
/// of them takes precedence.
pub(super) fn value(headers: &HeaderMap) -> Result<Option<(&'static str, &str)>, Invalid> {
    let all =
        NAMES.iter().zip(SHOWN).flat_map(|(name, shown)| headers.get_all(name).iter().map(move |value| (shown, value)));
    let mut first = None;
    for (name, value) in all {
        let text = value.to_str().unwrap_or_default();
        match first {
            None => first = Some((name, text)),
            Some((_, before)) if before != text => {
                return Err(Invalid::field(name, "the same value in each occurrence", text));
            }
            Some(_) => {}
        }
    }
    Ok(first)
}

/// Returns the value of a header from which a plan rule reads the tenant.
pub(super) fn single<'h>(headers: &'h HeaderMap, name: &str) -> Result<Option<&'h str>, Invalid> {
    let mut values = headers.get_all(name).iter().map(|value| value.to_str().unwrap_or_default());
    let first = values.next();
    match values.find(|value| Some(*value) != first) {
        Some(other) => Err(Invalid::field(name, "the same value in each occurrence", other)),
        None => Ok(first.filter(|value| !value.is_empty())),
    }
}

/// Returns the tenant for new jobs, if a header names one.
pub(super) fn named(headers: &HeaderMap) -> Result<Option<String>, Invalid> {
    match value(headers)? {
        None => Ok(None),
        Some((_, text)) if tenant_id::is_name(text) => Ok(Some(text.to_owned())),
        Some((name, text)) => Err(Invalid::field(name, tenant_id::NAME_EXPECTED, text).of_kind(Kind::Tenant)),
    }
}

/// Returns the tenant whose jobs a request is about. Unlike [`named`], it may be the default tenant.
pub(super) fn selected(headers: &HeaderMap) -> Result<Option<String>, Invalid> {
    match value(headers)? {
        Some((_, text)) if text == tenant_id::DEFAULT => Ok(Some(text.to_owned())),
        _ => named(headers),
    }
}
