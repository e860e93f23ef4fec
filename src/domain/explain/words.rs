//! Grammar of sentences about jobs.

/// Returns a form of `to be` for a number.
pub(super) fn are(number: u64) -> &'static str {
    if number == 1 { "is" } else { "are" }
}
