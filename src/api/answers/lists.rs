//! Members of lists beside their items.

use schemars::JsonSchema;
use serde::Serialize;

/// A page of a list, in both dialects.
#[derive(Serialize, JsonSchema)]
pub struct Pagination {
    pub has_more: bool,
    #[schemars(range(min = 1))]
    pub limit: usize,
    /// The `cursor` of the next page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
    pub offset: usize,
    #[schemars(range(min = 1))]
    pub page: usize,
    #[schemars(range(min = 1))]
    pub per_page: usize,
    /// Number of items on all pages.
    pub total: usize,
    /// There are more than were looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub truncated: Option<bool>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
pub struct Paged {
    pub pagination: Pagination,
}

/// A page of a list that has no total, and whose pages have no numbers.
#[derive(Serialize, JsonSchema)]
pub struct CursorPagination {
    pub has_more: bool,
    #[schemars(range(min = 1))]
    pub limit: usize,
    /// The `cursor` of the next page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
pub struct CursorPaged {
    pub pagination: CursorPagination,
}

#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
pub struct Count {
    /// Number of items on this page.
    pub count: usize,
}

#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
pub struct Truncated {
    /// True if the search stopped at its limit, so that there may be more.
    pub truncated: bool,
}
