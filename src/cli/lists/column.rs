//! A column of a list.

use crate::domain::words::duration;
use serde_json::Value;

/// The kind of a column's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Text,
    Number,
    /// Milliseconds, shown with the unit that suits them.
    Duration,
    /// A part of 1, shown in per cent.
    Part,
}

/// A column: its title, and the JSON pointer to its value within an item.
#[derive(Clone, Copy, Debug)]
pub(in crate::cli) struct Column {
    pub(in crate::cli) title: &'static str,
    pointer: &'static str,
    kind: Kind,
}

impl Column {
    pub(in crate::cli) const fn text(title: &'static str, pointer: &'static str) -> Column {
        Column { title, pointer, kind: Kind::Text }
    }

    pub(in crate::cli) const fn number(title: &'static str, pointer: &'static str) -> Column {
        Column { title, pointer, kind: Kind::Number }
    }

    pub(in crate::cli) const fn duration(title: &'static str, pointer: &'static str) -> Column {
        Column { title, pointer, kind: Kind::Duration }
    }

    pub(in crate::cli) const fn part(title: &'static str, pointer: &'static str) -> Column {
        Column { title, pointer, kind: Kind::Part }
    }

    pub(in crate::cli) fn is_number(&self) -> bool {
        self.kind != Kind::Text
    }

    /// Returns the value of the column for an item; null if it has none.
    pub(in crate::cli) fn find<'a>(&self, item: &'a Value) -> &'a Value {
        item.pointer(self.pointer).unwrap_or(&Value::Null)
    }

    /// Returns the text of the column for an item; `-` if it has no such value.
    pub(in crate::cli) fn value(&self, item: &Value) -> String {
        let value = self.find(item);
        match (self.kind, value, value.as_f64()) {
            (_, Value::Null, _) => "-".to_owned(),
            (Kind::Duration, _, Some(ms)) => duration(ms.round() as i64),
            (Kind::Part, _, Some(part)) => format!("{:.1} %", part * 100.0),
            (_, Value::String(text), _) => printable(text),
            (_, Value::Bool(value), _) => if *value { "yes" } else { "no" }.to_owned(),
            (_, Value::Array(values), _) => {
                let values: Vec<&str> = values.iter().filter_map(Value::as_str).collect();
                printable(&values.join(","))
            }
            (_, value, _) => value.to_string(),
        }
    }
}

/// Returns text without control characters, which a terminal would obey.
pub(in crate::cli) fn printable(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { '\u{fffd}' } else { letter }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_are_shown_as_people_read_them() {
        let item = json!({"name": "a\u{1b}[2J", "jobs": 1200, "age": 92_400, "share": 0.25, "open": true, "queues": ["a", "b"]});
        for (column, text) in [
            (Column::text("", "/name"), "a\u{fffd}[2J"),
            (Column::number("", "/jobs"), "1200"),
            (Column::duration("", "/age"), "92.4 s"),
            (Column::part("", "/share"), "25.0 %"),
            (Column::text("", "/open"), "yes"),
            (Column::text("", "/queues"), "a,b"),
            (Column::number("", "/missing"), "-"),
        ] {
            assert_eq!(column.value(&item), text);
        }
    }
}
