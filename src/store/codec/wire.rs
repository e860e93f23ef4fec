//! Texts of several values: the counterpart of `lua/lib/wire.lua`. JSON and names contain no
//! control characters, so separators are not escaped.

use crate::domain::time::At;

/// Separates the values of a text.
pub const UNIT: char = '\u{1f}';
/// Separates texts that contain [`UNIT`].
pub const RECORD: char = '\u{1e}';
/// Separates the items of a list within a value.
pub const GROUP: char = '\u{1d}';
/// Separates the items of a list within a value that may contain [`GROUP`], and a tenant from the
/// name of its worker.
pub const FILE: char = '\u{1c}';
/// Begins the record of a call's tenant activity, which follows the events of the call.
pub const SUBSTITUTE: char = '\u{1a}';

/// Joins values into one text.
pub fn join<S: AsRef<str>>(values: impl IntoIterator<Item = S>) -> String {
    join_with(UNIT, values)
}

/// Joins texts that contain [`UNIT`].
pub fn join_records<S: AsRef<str>>(texts: impl IntoIterator<Item = S>) -> String {
    join_with(RECORD, texts)
}

fn join_with<S: AsRef<str>>(separator: char, texts: impl IntoIterator<Item = S>) -> String {
    let mut joined = String::new();
    for (index, text) in texts.into_iter().enumerate() {
        if index > 0 {
            joined.push(separator);
        }
        joined.push_str(text.as_ref());
    }
    joined
}

/// Returns the values of a text.
pub fn values(text: &str) -> std::str::Split<'_, char> {
    text.split(UNIT)
}

/// Appends a further field of a job: `name US value US`.
pub fn push_field(text: &mut String, name: &str, value: &str) {
    text.push_str(name);
    text.push(UNIT);
    text.push_str(value);
    text.push(UNIT);
}

impl At {
    /// Encodes the time: milliseconds, or `+` and milliseconds from now.
    pub(in crate::store) fn argument(self) -> String {
        match self {
            At::Absolute(ms) => ms.to_string(),
            At::Relative(ms) => format!("+{ms}"),
        }
    }
}

/// Formats pairs of values as scripts iterate over them: `first US second RS …`.
pub fn pairs<S: AsRef<str>>(pairs: impl IntoIterator<Item = (S, S)>) -> String {
    pairs.into_iter().map(|(first, second)| format!("{}{UNIT}{}{RECORD}", first.as_ref(), second.as_ref())).collect()
}
