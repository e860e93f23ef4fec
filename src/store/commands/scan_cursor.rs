//! The cursor of a list that scans all keys in pages. Clients send it back to get the next page.
//!
//! There is no index of jobs or workflows, because it would slow down every enqueue. Redis' SCAN
//! returns every key that exists during the whole scan at least once, in no particular order. It
//! may return a few more keys than requested; the cursor hands those on to the next page.

use crate::domain::job::id;
use std::fmt;

/// Largest number of ids in a cursor.
const MOST_HANDED_ON: usize = 200;
const START: &str = "at-";

/// The position of a scan of all keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScanCursor {
    /// Redis' cursor; `None` if all keys have been visited.
    pub(super) scan: Option<u64>,
    /// Ids that did not fit into the last page.
    pub(super) rest: Vec<String>,
}

impl ScanCursor {
    /// The start of a scan.
    pub const BEGINNING: ScanCursor = ScanCursor { scan: Some(0), rest: Vec::new() };

    /// Parses a cursor that was formatted with `Display`.
    pub fn parse(text: &str) -> Option<ScanCursor> {
        let mut words = text.strip_prefix(START)?.split('.');
        let scan = match words.next()? {
            "end" => None,
            number => Some(number.parse().ok().filter(|number| *number > 0)?),
        };
        let rest: Vec<String> = words.map(str::to_owned).collect();
        (rest.len() <= MOST_HANDED_ON && rest.iter().all(|id| id::is_valid(id))).then_some(ScanCursor { scan, rest })
    }

    /// Returns true if nothing is left to return.
    pub(super) fn is_over(&self) -> bool {
        self.scan.is_none() && self.rest.is_empty()
    }

    /// Returns Redis' cursor as scripts take it; `None` at the end. As text, because it may exceed the
    /// whole numbers that Lua represents exactly.
    pub(super) fn word(&self) -> Option<String> {
        self.scan.map(|scan| scan.to_string())
    }

    /// Parses the cursor that a script returned.
    pub(super) fn behind(cursor: Option<&str>) -> ScanCursor {
        ScanCursor { scan: cursor.and_then(|cursor| cursor.parse().ok()), rest: Vec::new() }
    }
}

impl fmt::Display for ScanCursor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.scan {
            Some(scan) => write!(formatter, "{START}{scan}")?,
            None => write!(formatter, "{START}end")?,
        }
        self.rest.iter().try_for_each(|id| write!(formatter, ".{id}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_reads_as_it_was_printed() {
        let id = "019461a8-1a2b-7c3d-8e4f-5a6b7c8d9e0f".to_owned();
        for (scan, rest) in [(Some(7), vec![]), (Some(u64::MAX), vec![id.clone()]), (None, vec![id.clone(), id])] {
            let cursor = ScanCursor { scan, rest };
            assert_eq!(ScanCursor::parse(&cursor.to_string()), Some(cursor));
        }
        let many = format!("at-1{}", ".019461a8-1a2b-7c3d-8e4f-5a6b7c8d9e0f".repeat(201));
        for text in ["", "7", "at-", "at-0", "at--1", "at-x", "at-1.x", "at-1.", "after-5", &many] {
            assert_eq!(ScanCursor::parse(text), None, "{text}");
        }
    }
}
