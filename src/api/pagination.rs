//! Pagination of lists, in both dialects of OJS: `limit` with `offset` or `cursor`, and `page` with `per_page`.

use super::answers::lists::{CursorPaged, CursorPagination, Pagination};
use super::error::ApiError;
use crate::domain::invalid::Invalid;
use crate::domain::tenant_id;
use crate::store::ScanCursor;

/// The parameters of a request's query.
pub(super) struct Query(Vec<(String, String)>);

impl Query {
    pub(super) fn parse(uri: &axum::http::Uri) -> Self {
        let query = uri.query().unwrap_or_default();
        Query(form_urlencoded::parse(query.as_bytes()).into_owned().collect())
    }

    /// Returns the last value of a parameter; an empty value counts as absent.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let (_, value) = self.0.iter().rev().find(|(key, _)| key == name)?;
        (!value.is_empty()).then_some(value)
    }

    /// Returns the parts of a comma-separated value.
    pub(super) fn list(&self, name: &str) -> Vec<String> {
        let parts = self.get(name).unwrap_or_default().split(',');
        parts.map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned).collect()
    }

    /// Returns a whole number from `least` to `most`.
    pub(super) fn number(&self, name: &str, least: usize, most: usize) -> Result<Option<usize>, ApiError> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let number = value.parse().ok().filter(|number| (least..=most).contains(number));
        let expected = || format!("a whole number from {least} to {most}");
        number.map(Some).ok_or_else(|| Invalid::field(name, expected(), value).into())
    }

    /// Returns the tenant to which the list is restricted.
    pub(super) fn tenant(&self) -> Result<Option<String>, ApiError> {
        let Some(id) = self.get("tenant") else { return Ok(None) };
        match id == tenant_id::DEFAULT || tenant_id::is_id(id) {
            true => Ok(Some(id.to_owned())),
            false => Err(Invalid::field("tenant", tenant_id::EXPECTED, id).into()),
        }
    }

    /// Returns a point in time, in milliseconds.
    pub(super) fn time(&self, name: &str) -> Result<Option<i64>, ApiError> {
        use crate::domain::time::At;
        let Some(value) = self.get(name) else { return Ok(None) };
        match At::parse(value) {
            Some(At::Absolute(ms)) => Ok(Some(ms)),
            _ => Err(Invalid::field(name, "an RFC 3339 timestamp with a zone", value).into()),
        }
    }
}

/// A page of a list that is paged by cursor only. Such a list has no total, and its pages have no numbers.
pub(super) struct CursorPage {
    pub(super) cursor: ScanCursor,
    pub(super) limit: usize,
}

impl CursorPage {
    /// Reads the page that a query asks for.
    pub(super) fn from_query(query: &Query) -> Result<CursorPage, ApiError> {
        for (name, first) in [("offset", "0"), ("page", "1")] {
            if let Some(other) = query.get(name).filter(|value| *value != first) {
                let invalid = Invalid::field(name, "left out, because this list is paged by `cursor`", other);
                return Err(ApiError::from(invalid).hint("Send the `next_cursor` of the last response as `cursor`."));
            }
        }
        let name = if query.get("limit").is_some() { "limit" } else { "per_page" };
        let limit = query.number(name, 1, MOST_ITEMS)?.unwrap_or(50).min(200);
        let cursor = match query.get("cursor") {
            None => ScanCursor::BEGINNING,
            Some(cursor) => ScanCursor::parse(cursor)
                .ok_or_else(|| Invalid::field("cursor", "a `next_cursor` of an earlier response", cursor))?,
        };
        Ok(CursorPage { cursor, limit })
    }

    /// Describes this page, with the cursor of the next page unless this page is the last.
    pub(super) fn describe(limit: usize, next: Option<&ScanCursor>) -> CursorPaged {
        let next_cursor = next.map(ScanCursor::to_string);
        CursorPaged { pagination: CursorPagination { has_more: next.is_some(), limit, next_cursor } }
    }
}

/// A part of a list, by the number of items before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Page {
    pub(super) offset: usize,
    pub(super) limit: usize,
}

/// The largest offset, limit or page number: enough for any list, and small enough to multiply without overflow.
pub(super) const MOST_ITEMS: usize = 10_000_000;

impl Page {
    /// Reads the page that a query asks for. A limit that is too large is clamped.
    pub(super) fn from_query(query: &Query) -> Result<Page, ApiError> {
        if query.get("page").is_some() || query.get("per_page").is_some() {
            let limit = query.number("per_page", 1, MOST_ITEMS)?.unwrap_or(20).min(100);
            let page = query.number("page", 1, MOST_ITEMS)?.unwrap_or(1);
            return Ok(Page { offset: (page - 1) * limit, limit });
        }
        let limit = query.number("limit", 1, MOST_ITEMS)?.unwrap_or(50).min(200);
        let offset = match query.get("cursor") {
            Some(cursor) => cursor
                .strip_prefix("after-")
                .and_then(|offset| offset.parse().ok())
                .filter(|offset| *offset <= MOST_ITEMS)
                .ok_or_else(|| Invalid::field("cursor", "a `next_cursor` of an earlier response", cursor))?,
            None => query.number("offset", 0, MOST_ITEMS)?.unwrap_or(0),
        };
        Ok(Page { offset, limit })
    }

    /// Like [`Page::from_query`], with the default limit of the admin API: 20.
    pub(super) fn from_admin_query(query: &Query) -> Result<Page, ApiError> {
        let page = Self::from_query(query)?;
        let is_given =
            ["limit", "offset", "cursor", "page", "per_page"].into_iter().any(|name| query.get(name).is_some());
        Ok(if is_given { page } else { Page { limit: 20, ..page } })
    }

    /// Describes this page of `total` items.
    pub(super) fn describe(self, total: usize) -> Pagination {
        let end = self.offset.saturating_add(self.limit);
        Pagination {
            total,
            has_more: end < total,
            limit: self.limit,
            offset: self.offset,
            page: self.offset / self.limit + 1,
            per_page: self.limit,
            next_cursor: (end < total).then(|| format!("after-{end}")),
            truncated: None,
        }
    }
}
