//! Pages of lists, in both dialects of OJS: `limit` with `offset` or `cursor`, and `page` with `per_page`.

use super::problem::Problem;
use crate::job::invalid::Invalid;
use crate::job::tenant;
use crate::store::ScanCursor;

/// The parameters of a request's query.
pub(super) struct Query(Vec<(String, String)>);

impl Query {
    pub(super) fn of(uri: &axum::http::Uri) -> Self {
        let query = uri.query().unwrap_or_default();
        Query(form_urlencoded::parse(query.as_bytes()).into_owned().collect())
    }

    /// The last value under a name; an empty one counts as absent.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let (_, value) = self.0.iter().rev().find(|(key, _)| key == name)?;
        (!value.is_empty()).then_some(value)
    }

    /// The parts of a comma-separated value.
    pub(super) fn list(&self, name: &str) -> Vec<String> {
        let parts = self.get(name).unwrap_or_default().split(',');
        parts.map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned).collect()
    }

    pub(super) fn number(&self, name: &str, least: usize, most: usize) -> Result<Option<usize>, Problem> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let number = value.parse().ok().filter(|number| (least..=most).contains(number));
        let expected = || format!("a whole number from {least} to {most}");
        number.map(Some).ok_or_else(|| Invalid::field(name, expected(), value).into())
    }

    /// The tenant whose jobs or workflows alone are asked for.
    pub(super) fn tenant(&self) -> Result<Option<String>, Problem> {
        let Some(id) = self.get("tenant") else { return Ok(None) };
        match id == tenant::DEFAULT || tenant::is_id(id) {
            true => Ok(Some(id.to_owned())),
            false => Err(Invalid::field("tenant", tenant::EXPECTED, id).into()),
        }
    }

    /// A point in time, in milliseconds.
    pub(super) fn time(&self, name: &str) -> Result<Option<i64>, Problem> {
        use crate::job::time::At;
        let Some(value) = self.get(name) else { return Ok(None) };
        match At::parse(value) {
            Some(At::Absolute(ms)) => Ok(Some(ms)),
            _ => Err(Invalid::field(name, "an RFC 3339 timestamp with a zone", value).into()),
        }
    }
}

/// A page of a list that goes on by cursor only: it has no total, and pages have no numbers.
pub(super) struct CursorPage {
    pub(super) cursor: ScanCursor,
    pub(super) limit: usize,
}

impl CursorPage {
    /// The page that a query asks for.
    pub(super) fn of(query: &Query) -> Result<CursorPage, Problem> {
        for (name, first) in [("offset", "0"), ("page", "1")] {
            if let Some(other) = query.get(name).filter(|value| *value != first) {
                let invalid = Invalid::field(name, "left out: this list goes on behind a `cursor`", other);
                return Err(Problem::from(invalid).hint("Send the `next_cursor` of the last answer as `cursor`."));
            }
        }
        let name = if query.get("limit").is_some() { "limit" } else { "per_page" };
        let limit = query.number(name, 1, FURTHEST)?.unwrap_or(50).min(200);
        let cursor = match query.get("cursor") {
            None => ScanCursor::BEGINNING,
            Some(cursor) => ScanCursor::parse(cursor)
                .ok_or_else(|| Invalid::field("cursor", "a `next_cursor` of an earlier answer", cursor))?,
        };
        Ok(CursorPage { cursor, limit })
    }

    /// `pagination` of an answer behind which the list goes on, or ends.
    pub(super) fn describe(limit: usize, next: Option<&ScanCursor>) -> serde_json::Value {
        let mut pagination = serde_json::json!({"has_more": next.is_some(), "limit": limit});
        if let Some(next) = next {
            pagination["next_cursor"] = next.to_string().into();
        }
        pagination
    }
}

/// Which part of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Page {
    pub(super) offset: usize,
    pub(super) limit: usize,
}

/// Far enough for any list that a person pages through, and small enough to multiply.
pub(super) const FURTHEST: usize = 10_000_000;

impl Page {
    /// The page that a query asks for. A limit above the most is clamped.
    pub(super) fn of(query: &Query) -> Result<Page, Problem> {
        if query.get("page").is_some() || query.get("per_page").is_some() {
            let limit = query.number("per_page", 1, FURTHEST)?.unwrap_or(20).min(100);
            let page = query.number("page", 1, FURTHEST)?.unwrap_or(1);
            return Ok(Page { offset: (page - 1) * limit, limit });
        }
        let limit = query.number("limit", 1, FURTHEST)?.unwrap_or(50).min(200);
        let offset = match query.get("cursor") {
            Some(cursor) => cursor
                .strip_prefix("after-")
                .and_then(|offset| offset.parse().ok())
                .filter(|offset| *offset <= FURTHEST)
                .ok_or_else(|| Invalid::field("cursor", "a `next_cursor` of an earlier answer", cursor))?,
            None => query.number("offset", 0, FURTHEST)?.unwrap_or(0),
        };
        Ok(Page { offset, limit })
    }

    /// The same where the admin API pages: twenty at a time, unless it is asked for in the other dialect.
    pub(super) fn of_admin(query: &Query) -> Result<Page, Problem> {
        let page = Self::of(query)?;
        let says = ["limit", "offset", "cursor", "page", "per_page"].into_iter().any(|name| query.get(name).is_some());
        Ok(if says { page } else { Page { limit: 20, ..page } })
    }

    /// `pagination` of an answer with this page of `total` items.
    pub(super) fn describe(self, total: usize) -> serde_json::Value {
        let end = self.offset.saturating_add(self.limit);
        let has_more = end < total;
        let mut pagination = serde_json::json!({
            "total": total,
            "has_more": has_more,
            "limit": self.limit,
            "offset": self.offset,
            "page": self.offset / self.limit + 1,
            "per_page": self.limit,
        });
        if has_more {
            pagination["next_cursor"] = format!("after-{end}").into();
        }
        pagination
    }
}
