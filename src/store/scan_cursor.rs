//! The cursor of a list that scans all keys in pages; clients send it back to go on.
//!
//! There is no index of jobs or workflows, because it would cost every enqueue. Redis' SCAN visits everything that is there during the
//! whole scan at least once, in no order. It gives a few keys more than it is asked for; a page hands those on to the next one.

use crate::job::id;
use std::fmt;

/// Ids that a cursor may hand on.
const MOST_HANDED_ON: usize = 200;
const START: &str = "at-";

/// A place in a scan of all keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScanCursor {
    /// Redis' own cursor; `None` if all keys were visited.
    pub(super) scan: Option<u64>,
    /// Ids that were found and did not fit into the last page.
    pub(super) rest: Vec<String>,
}

impl ScanCursor {
    /// The beginning of a scan.
    pub const BEGINNING: ScanCursor = ScanCursor { scan: Some(0), rest: Vec::new() };

    /// Parses a cursor as it was printed.
    pub fn parse(text: &str) -> Option<ScanCursor> {
        let mut words = text.strip_prefix(START)?.split('.');
        let scan = match words.next()? {
            "end" => None,
            number => Some(number.parse().ok().filter(|number| *number > 0)?),
        };
        let rest: Vec<String> = words.map(str::to_owned).collect();
        (rest.len() <= MOST_HANDED_ON && rest.iter().all(|id| id::is_valid(id))).then_some(ScanCursor { scan, rest })
    }

    /// True if nothing is left to be shown.
    pub(super) fn is_over(&self) -> bool {
        self.scan.is_none() && self.rest.is_empty()
    }

    /// Redis' cursor as scripts take it.
    pub(super) fn word(&self) -> String {
        self.scan.map(|scan| scan.to_string()).unwrap_or_default()
    }

    /// The place behind the keys that a script has visited.
    pub(super) fn behind(cursor: &str) -> ScanCursor {
        ScanCursor { scan: cursor.parse().ok(), rest: Vec::new() }
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
