//! The merged configuration: a tree of values with their origins.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use super::problem::Problem;
use super::secret::redact;

/// Origin of a value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// A line of the configuration file, counted from 1.
    File { path: Arc<Path>, line: usize },
    /// An environment variable.
    Env { name: String },
    /// A command-line flag, with its dashes.
    Flag { name: String },
    /// The body of a request that changes settings at run time.
    Request,
    /// The embedded `default.toml`.
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, line } => write!(f, "{}:{line}", path.display()),
            Self::Env { name } => write!(f, "environment {name}"),
            Self::Flag { name } => write!(f, "flag {name}"),
            Self::Request => f.write_str("request"),
            Self::Default => f.write_str("default"),
        }
    }
}

/// Values by key.
pub type Table = BTreeMap<String, Value>;

/// A value with its origin and its position in the file.
#[derive(Clone)]
pub struct Value {
    /// Content of the value.
    pub kind: Kind,
    /// Origin of the value.
    pub origin: Origin,
    /// Byte range of the value in its file; empty for other origins.
    pub span: Range<usize>,
    /// Byte range of its key in the file; empty for other origins.
    pub key_span: Range<usize>,
}

/// Content of a value.
#[derive(Clone, PartialEq)]
pub enum Kind {
    /// `null`, which only JSON has and which most keys refuse.
    Null,
    Bool(bool),
    Integer(i128),
    Float(f64),
    Date(String),
    /// A string of a file, which is never converted to a number.
    Text(String),
    /// Untyped text of an environment variable or a flag, converted to the type of its key.
    Raw(String),
    List(Vec<Value>),
    /// Elements of a list by index, as set by the environment; [`settle`] converts them into a
    /// list.
    Indexed(BTreeMap<usize, Value>),
    Table(Table),
}

impl Value {
    /// Creates a value that does not come from a file.
    pub fn new(kind: Kind, origin: Origin) -> Self {
        Self { kind, origin, span: 0..0, key_span: 0..0 }
    }

    /// Returns the text of a string, typed or raw.
    pub fn text(&self) -> Option<&str> {
        match &self.kind {
            Kind::Text(text) | Kind::Raw(text) => Some(text),
            _ => None,
        }
    }

    /// Formats the value for an error message: shortened, with secrets redacted.
    pub fn found(&self) -> String {
        const LONGEST: usize = 60;
        match &self.kind {
            Kind::List(_) | Kind::Indexed(_) => "a list".to_owned(),
            Kind::Table(_) => "a table".to_owned(),
            _ => {
                let shown = self.to_string();
                match shown.char_indices().nth(LONGEST) {
                    Some((cut, _)) => format!("{}…", &shown[..cut]),
                    None => shown,
                }
            }
        }
    }
}

/// Prints TOML notation, with secrets redacted.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            Kind::Null => f.write_str("null"),
            Kind::Bool(flag) => write!(f, "{flag}"),
            Kind::Integer(number) => write!(f, "{number}"),
            Kind::Float(number) => write!(f, "{number}"),
            Kind::Date(date) => f.write_str(date),
            Kind::Raw(text) if text.parse::<bool>().is_ok() || text.parse::<f64>().is_ok() => f.write_str(text),
            Kind::Text(text) | Kind::Raw(text) => write!(f, "{:?}", redact(text).text),
            Kind::List(items) => write_joined(f, ["[", "]"], items, |f, item| write!(f, "{item}")),
            Kind::Indexed(items) => write_joined(f, ["[", "]"], items.values(), |f, item| write!(f, "{item}")),
            Kind::Table(table) => write_joined(f, ["{ ", " }"], table, |f, (key, value)| write!(f, "{key} = {value}")),
        }
    }
}

/// Implemented via `Display`, because a derived one would print secrets.
impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self} ({})", self.origin)
    }
}

/// Compares the content and ignores origin and position.
impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        self.kind == other.kind
    }
}

fn write_joined<T>(
    f: &mut fmt::Formatter<'_>,
    [open, close]: [&str; 2],
    items: impl IntoIterator<Item = T>,
    write_item: impl Fn(&mut fmt::Formatter<'_>, T) -> fmt::Result,
) -> fmt::Result {
    f.write_str(open)?;
    for (index, item) in items.into_iter().enumerate() {
        f.write_str(if index == 0 { "" } else { ", " })?;
        write_item(f, item)?;
    }
    f.write_str(close)
}

/// Merges a table over another. Values of the upper one win, and tables are merged key by key.
///
/// Elements by index change single keys in a list of tables (`FAIRGATE_TENANT__0__ID`), but replace
/// a list of plain values as a whole: `ROLES__0=api` sets that single role instead of changing the
/// first of the default roles.
pub fn merge(below: &mut Table, above: Table) {
    for (key, value) in above {
        match below.get_mut(&key) {
            Some(old) => merge_value(old, value),
            None => drop(below.insert(key, value)),
        }
    }
}

fn merge_value(old: &mut Value, new: Value) {
    if matches!(new.kind, Kind::Indexed(_))
        && let Kind::List(items) = &mut old.kind
        && items.iter().all(|item| matches!(item.kind, Kind::Table(_)))
    {
        old.kind = Kind::Indexed(std::mem::take(items).into_iter().enumerate().collect());
    }
    match (&mut old.kind, new) {
        (Kind::Table(below), Value { kind: Kind::Table(above), origin, span, key_span }) => {
            merge(below, above);
            (old.origin, old.span, old.key_span) = (origin, span, key_span);
        }
        (Kind::Indexed(below), Value { kind: Kind::Indexed(above), .. }) => {
            for (index, value) in above {
                match below.get_mut(&index) {
                    Some(old) => merge_value(old, value),
                    None => drop(below.insert(index, value)),
                }
            }
        }
        (_, new) => *old = new,
    }
}

/// Converts elements by index into lists, after all layers are merged. A gap between indexes is an
/// error.
pub fn settle(table: &mut Table, problems: &mut Vec<Problem>) {
    for (key, value) in table {
        settle_value(key, value, problems);
    }
}

fn settle_value(path: &str, value: &mut Value, problems: &mut Vec<Problem>) {
    match &mut value.kind {
        Kind::Table(table) => {
            for (key, value) in table {
                settle_value(&format!("{path}.{key}"), value, problems);
            }
        }
        Kind::Indexed(items) => {
            let gap = items.iter().zip(0..).find(|((index, _), place)| *index != place);
            if let Some(((index, item), place)) = gap {
                let message = format!("expected an element {place} before element {index}");
                let help = "indexes start at 0 and have no gaps".to_owned();
                problems.push(Problem::at(item, format!("{path}[{index}]"), message, Some(help)));
            }
            let mut items: Vec<_> = std::mem::take(items).into_values().collect();
            for (index, item) in items.iter_mut().enumerate() {
                settle_value(&format!("{path}[{index}]"), item, problems);
            }
            value.kind = Kind::List(items);
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(kind: Kind) -> Value {
        Value::new(kind, Origin::Default)
    }

    fn text(text: &str) -> Value {
        value(Kind::Text(text.to_owned()))
    }

    fn table<const N: usize>(entries: [(&str, Value); N]) -> Table {
        entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
    }

    fn settled(mut below: Table, above: Table) -> (String, Vec<Problem>) {
        let mut problems = Vec::new();
        merge(&mut below, above);
        settle(&mut below, &mut problems);
        (value(Kind::Table(below)).to_string(), problems)
    }

    #[test]
    fn tables_merge_and_the_upper_value_wins_with_its_origin() {
        let mut below = table([("s", value(Kind::Table(table([("a", text("1")), ("b", text("2"))]))))]);
        let flag = Value::new(Kind::Raw("3".to_owned()), Origin::Flag { name: "--b".to_owned() });
        merge(&mut below, table([("s", value(Kind::Table(table([("b", flag)]))))]));
        assert_eq!(format!("{:?}", below["s"]), r#"{ a = "1", b = 3 } (default)"#);
        let Kind::Table(section) = &below["s"].kind else { panic!("s is a table") };
        assert_eq!(section["b"].origin.to_string(), "flag --b");
    }

    #[test]
    fn an_index_replaces_plain_lists_and_changes_lists_of_tables() {
        let plain = table([("l", value(Kind::List(vec![text("a"), text("b")])))]);
        let over = table([("l", value(Kind::Indexed([(0, text("c"))].into())))]);
        assert_eq!(settled(plain, over).0, r#"{ l = ["c"] }"#);

        let element = |key, id| value(Kind::Table(table([(key, text(id))])));
        let tables = table([("l", value(Kind::List(vec![element("id", "a"), element("id", "b")])))]);
        let over = table([("l", value(Kind::Indexed([(1, element("weight", "2")), (2, element("id", "c"))].into())))]);
        let (merged, problems) = settled(tables, over);
        assert_eq!(merged, r#"{ l = [{ id = "a" }, { id = "b", weight = "2" }, { id = "c" }] }"#);
        assert_eq!(problems.len(), 0);
    }

    #[test]
    fn a_gap_in_a_list_is_a_problem() {
        let (_, problems) =
            settled(Table::new(), table([("l", value(Kind::Indexed([(0, text("a")), (2, text("c"))].into())))]));
        assert_eq!(problems.len(), 1);
        assert_eq!(
            (problems[0].path.as_str(), problems[0].message.as_str()),
            ("l[2]", "expected an element 1 before element 2")
        );
    }

    #[test]
    fn nothing_printed_holds_a_password() {
        let url = text("redis://:hunter2@host");
        assert_eq!(format!("{url} {url:?} {}", url.found()).matches("hunter2").count(), 0);
        assert_eq!(text(&"ä".repeat(100)).found().chars().count(), 61);
    }
}
