//! The tenant that a request names in its header.

use crate::job::invalid::{Invalid, Kind};
use crate::job::tenant;
use axum::http::{HeaderMap, HeaderName};

/// The header, and another spelling of it.
static NAMES: [HeaderName; 2] = [HeaderName::from_static("x-ojs-tenant"), HeaderName::from_static("x-ojs-tenant-id")];
/// How messages call them.
const SHOWN: [&str; 2] = ["X-OJS-Tenant", "X-OJS-Tenant-Id"];

/// The name and the value of the header. Proxies and applications disagree about which of two counts, so two that differ are
/// refused.
pub(super) fn value(headers: &HeaderMap) -> Result<Option<(&'static str, &str)>, Invalid> {
    let all =
        NAMES.iter().zip(SHOWN).flat_map(|(name, shown)| headers.get_all(name).iter().map(move |value| (shown, value)));
    let mut first = None;
    for (name, value) in all {
        let text = value.to_str().unwrap_or_default();
        match first {
            None => first = Some((name, text)),
            Some((_, before)) if before != text => {
                return Err(Invalid::field(name, "the same wherever it stands", text));
            }
            Some(_) => {}
        }
    }
    Ok(first)
}

/// The value of a header in which a plan rule looks for a tenant.
pub(super) fn single<'h>(headers: &'h HeaderMap, name: &str) -> Result<Option<&'h str>, Invalid> {
    let mut values = headers.get_all(name).iter().map(|value| value.to_str().unwrap_or_default());
    let first = values.next();
    match values.find(|value| Some(*value) != first) {
        Some(other) => Err(Invalid::field(name, "the same wherever it stands", other)),
        None => Ok(first.filter(|value| !value.is_empty())),
    }
}

/// The tenant that headers name, if they do.
pub(super) fn named(headers: &HeaderMap) -> Result<Option<String>, Invalid> {
    match value(headers)? {
        None => Ok(None),
        Some((_, text)) if tenant::is_name(text) => Ok(Some(text.to_owned())),
        Some((name, text)) => Err(Invalid::field(name, tenant::NAME_EXPECTED, text).of_kind(Kind::Tenant)),
    }
}

/// The same for who only looks for jobs, which may be the default tenant's.
pub(super) fn selected(headers: &HeaderMap) -> Result<Option<String>, Invalid> {
    match value(headers)? {
        Some((_, text)) if text == tenant::DEFAULT => Ok(Some(text.to_owned())),
        _ => named(headers),
    }
}
