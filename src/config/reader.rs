//! Reads a table of the tree into a struct. Errors are collected instead of returned, so that all
//! of them are reported at once.
//!
//! A section is a struct with a `fn read(reader: &mut SettingsReader) -> Self`; `section` and `each` pass
//! it a reader of its own table. Keys that no reader asks for are reported as unknown.

use std::collections::BTreeMap;
use std::ops::{Bound, RangeBounds};

use super::convert::{FromValue, Ranged, Refused};
use super::problem::Problem;
use super::report::{Findings, join};
use super::tree::{Kind, Origin, Table, Value};

/// Content of a section that is left out.
static EMPTY: Table = Table::new();

/// Reader of one table.
pub struct SettingsReader<'a> {
    table: &'a Table,
    path: String,
    /// The table as a value, to which errors about missing keys point. `None` at the root and if
    /// the table is left out.
    home: Option<&'a Value>,
    /// True if the table's place holds a value of another type. Missing keys are then not reported.
    spoilt: bool,
    known: Vec<String>,
    report: &'a mut Findings,
}

impl SettingsReader<'_> {
    /// Reads the root of a tree.
    pub fn root<T>(table: &Table, report: &mut Findings, read: impl FnOnce(&mut SettingsReader<'_>) -> T) -> T {
        SettingsReader { table, path: String::new(), home: None, spoilt: false, known: Vec::new(), report }.run(read)
    }

    fn run<T>(mut self, read: impl FnOnce(&mut Self) -> T) -> T {
        let result = read(&mut self);
        for (key, value) in self.table.iter().filter(|(key, _)| !self.known.contains(key)) {
            self.report.doubt(&self.path, key, value);
        }
        result
    }

    /// Reads the table `[key]`. If it is left out, reads an empty one.
    pub fn section<T>(&mut self, key: &str, read: impl FnOnce(&mut SettingsReader<'_>) -> T) -> T {
        let value = self.value(key);
        self.child(join(&self.path, key), value, read)
    }

    /// Reads the table `[key]` if it exists.
    pub fn find_section<T>(&mut self, key: &str, read: impl FnOnce(&mut SettingsReader<'_>) -> T) -> Option<T> {
        let value = self.value(key)?;
        Some(self.child(join(&self.path, key), Some(value), read))
    }

    /// Reads each `[[key]]`, with the paths `key[0]`, `key[1]` and so on.
    pub fn each<T>(&mut self, key: &str, mut read: impl FnMut(&mut SettingsReader<'_>) -> T) -> Vec<T> {
        let path = join(&self.path, key);
        let items = match self.value(key) {
            None => return Vec::new(),
            Some(Value { kind: Kind::List(items), .. }) => items,
            Some(value) => {
                self.complain(&path, value, Refused::new("a list of tables").help(format!("write [[{path}]]")));
                return Vec::new();
            }
        };
        let mut read_one = |(index, item)| self.child(format!("{path}[{index}]"), Some(item), &mut read);
        items.iter().enumerate().map(&mut read_one).collect()
    }

    /// Reads each table inside `[key]`. The user chooses the names of these tables.
    pub fn each_named<T>(
        &mut self,
        key: &str,
        mut read: impl FnMut(&mut SettingsReader<'_>, &str) -> T,
    ) -> Vec<(String, T)> {
        let path = join(&self.path, key);
        match self.value(key) {
            None => Vec::new(),
            Some(Value { kind: Kind::Table(table), .. }) => {
                let mut read_one = |(name, value): (&String, _)| {
                    (name.clone(), self.child(join(&path, name), Some(value), |reader| read(reader, name)))
                };
                table.iter().map(&mut read_one).collect()
            }
            Some(value) => {
                self.complain(&path, value, Refused::new("a table"));
                Vec::new()
            }
        }
    }

    fn child<T>(&mut self, path: String, value: Option<&Value>, read: impl FnOnce(&mut SettingsReader<'_>) -> T) -> T {
        let table = match value {
            None => Some(&EMPTY),
            Some(Value { kind: Kind::Table(table), .. }) => Some(table),
            Some(value) => {
                self.complain(&path, value, Refused::new("a table"));
                None
            }
        };
        let spoilt = table.is_none();
        let report = &mut *self.report;
        SettingsReader { table: table.unwrap_or(&EMPTY), path, home: value, spoilt, known: Vec::new(), report }
            .run(read)
    }

    /// Reads an optional key.
    pub fn find<T: FromValue>(&mut self, key: &str) -> Option<T> {
        let value = self.value(key)?;
        self.convert(&join(&self.path, key), value)
    }

    /// Reads a required key. A refused value becomes `T::default()`, which is never used because
    /// the load fails.
    pub fn get<T: FromValue + Default>(&mut self, key: &str) -> T {
        self.get_such(key, "", |_| true)
    }

    /// Reads an optional key whose value must be in a range.
    pub fn find_in<T: Ranged>(&mut self, key: &str, range: impl RangeBounds<T>) -> Option<T> {
        let expected = format!("{} {}", T::NOUN, show_range(&range));
        self.find_such(key, &expected, |value| range.contains(value))
    }

    /// Reads a required key whose value must be in a range.
    pub fn get_in<T: Ranged>(&mut self, key: &str, range: impl RangeBounds<T>) -> T {
        self.find_in(key, range).unwrap_or_else(|| self.missing(key))
    }

    /// Reads an optional key whose value must pass a test.
    pub fn find_such<T: FromValue>(&mut self, key: &str, expected: &str, passes: impl Fn(&T) -> bool) -> Option<T> {
        let read = self.find(key)?;
        if passes(&read) {
            return Some(read);
        }
        self.refuse(key, Refused::new(expected));
        None
    }

    /// Reads a required key whose value must pass a test.
    pub fn get_such<T: FromValue + Default>(&mut self, key: &str, expected: &str, passes: impl Fn(&T) -> bool) -> T {
        self.find_such(key, expected, passes).unwrap_or_else(|| self.missing(key))
    }

    /// Reads a required list.
    pub fn list<T: FromValue>(&mut self, key: &str) -> Vec<T> {
        self.find_list(key).unwrap_or_else(|| {
            self.complain_missing(key);
            Vec::new()
        })
    }

    /// Reads an optional list. Text from the environment or flags may separate the elements by
    /// commas.
    pub fn find_list<T: FromValue>(&mut self, key: &str) -> Option<Vec<T>> {
        let path = join(&self.path, key);
        let split;
        let items = match self.value(key)? {
            Value { kind: Kind::List(items), .. } => items,
            value @ Value { kind: Kind::Raw(text), .. } if !text.starts_with('[') => {
                split = split_commas(text, value);
                &split
            }
            value => {
                let odd =
                    matches!(value.kind, Kind::Raw(_)).then(|| "it starts like JSON, but does not parse".to_owned());
                self.complain(&path, value, Refused { expected: "a list".to_owned(), help: odd });
                &Vec::new()
            }
        };
        let read = |(index, item)| self.convert(&format!("{path}[{index}]"), item);
        Some(items.iter().enumerate().filter_map(read).collect())
    }

    /// Reads an optional table whose keys the user chooses.
    pub fn map<T: FromValue>(&mut self, key: &str) -> BTreeMap<String, T> {
        let path = join(&self.path, key);
        match self.value(key) {
            None => BTreeMap::new(),
            Some(Value { kind: Kind::Table(table), .. }) => {
                let read = |(name, value): (&String, _)| Some((name.clone(), self.convert(&join(&path, name), value)?));
                table.iter().filter_map(read).collect()
            }
            Some(value) => {
                self.complain(&path, value, Refused::new("a table"));
                BTreeMap::new()
            }
        }
    }

    /// Returns true if the key has the JSON value `null`.
    pub fn is_null(&mut self, key: &str) -> bool {
        matches!(self.value(key), Some(Value { kind: Kind::Null, .. }))
    }

    /// Refuses the value of a key for a reason beyond its type.
    pub fn refuse(&mut self, key: &str, refused: Refused) {
        if let Some(value) = self.table.get(key) {
            self.complain(&join(&self.path, key), value, refused);
        }
    }

    /// Refuses an element of a list for a reason beyond its type.
    pub fn refuse_item(&mut self, key: &str, index: usize, refused: Refused) {
        if let Some(Kind::List(items)) = self.kind(key)
            && let Some(value) = items.get(index)
        {
            self.complain(&format!("{}[{index}]", join(&self.path, key)), value, refused);
        }
    }

    /// Refuses the name of an entry in a table whose keys the user chooses.
    pub fn refuse_name(&mut self, key: &str, name: &str, Refused { expected, help }: Refused) {
        if let Some(Kind::Table(table)) = self.kind(key)
            && let Some(value) = table.get(name)
        {
            let path = join(&join(&self.path, key), name);
            let message = format!("expected {expected}, found {name:?}");
            let problem = Problem::at(value, path, message, help);
            self.report.add(Problem { span: value.key_span.clone(), ..problem });
        }
    }

    /// Reports an error about the table as a whole.
    pub fn blame(&mut self, message: impl Into<String>, help: Option<&str>) {
        let root = Value::new(Kind::Bool(false), Origin::Default);
        let home = self.home.unwrap_or(&root);
        self.report.add(Problem::at(home, self.path.clone(), message.into(), help.map(str::to_owned)));
    }

    /// Reports that keys contradict each other, at the first of them that is not a default.
    pub fn conflict(&mut self, keys: &[&str], message: impl Into<String>, help: Option<&str>) {
        let set = |key: &&&str| self.table.get(**key).is_some_and(|value| value.origin != Origin::Default);
        let Some(key) = keys.iter().find(set).or(keys.first()) else { return };
        if let Some(value) = self.table.get(*key) {
            self.report.add(Problem::at(value, join(&self.path, key), message.into(), help.map(str::to_owned)));
        }
    }

    /// Returns true if these keys have no errors, so that their values can be compared.
    pub fn is_sound(&self, keys: &[&str]) -> bool {
        let paths: Vec<_> = keys.iter().map(|key| join(&self.path, key)).collect();
        !self.spoilt && self.report.is_sound(&paths)
    }

    /// Returns the origin of a key's value.
    pub fn origin(&self, key: &str) -> Option<&Origin> {
        self.table.get(key).map(|value| &value.origin)
    }
}

impl<'a> SettingsReader<'a> {
    /// Returns the raw value of a key, even if it was refused.
    pub fn kind(&self, key: &str) -> Option<&'a Kind> {
        self.table.get(key).map(|value| &value.kind)
    }

    /// Returns the text of a key, even if it was refused.
    pub fn text(&self, key: &str) -> Option<&'a str> {
        self.table.get(key)?.text()
    }

    fn value(&mut self, key: &str) -> Option<&'a Value> {
        self.known.push(key.to_owned());
        self.report.know(join(&self.path, key));
        self.table.get(key)
    }
}

impl SettingsReader<'_> {
    fn convert<T: FromValue>(&mut self, path: &str, value: &Value) -> Option<T> {
        let mut refused = match T::from_value(value) {
            Ok(read) => return Some(read),
            Err(refused) => refused,
        };
        if let Kind::Text(text) = &value.kind
            && T::from_value(&Value::new(Kind::Raw(text.clone()), Origin::Default)).is_ok()
        {
            refused = refused.help(format!("remove the quotes: {text}"));
        }
        if matches!(value.kind, Kind::Null) {
            refused = refused.help("leave the key out instead");
        }
        self.complain(path, value, refused);
        None
    }

    fn complain(&mut self, path: &str, value: &Value, Refused { expected, help }: Refused) {
        let message = format!("expected {expected}, found {}", value.found());
        self.report.add(Problem::at(value, path.to_owned(), message, help));
    }

    /// Returns the default for a value that is absent or was refused, and reports an absent one.
    fn missing<T: Default>(&mut self, key: &str) -> T {
        if !self.table.contains_key(key) {
            self.complain_missing(key);
        }
        T::default()
    }

    fn complain_missing(&mut self, key: &str) {
        if !self.is_sound(&[key]) {
            return;
        }
        let root = Value::new(Kind::Bool(false), Origin::Default);
        let path = join(&self.path, key);
        self.report.add(Problem::at(self.home.unwrap_or(&root), path, "expected a value, found none".to_owned(), None));
    }
}

fn split_commas(text: &str, whole: &Value) -> Vec<Value> {
    let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
    items.map(|item| Value::new(Kind::Raw(item.to_owned()), whole.origin.clone())).collect()
}

fn show_range<T: Ranged>(range: &impl RangeBounds<T>) -> String {
    let lower = match range.start_bound() {
        Bound::Included(least) => Some(format!("of at least {}", least.show())),
        Bound::Excluded(limit) => Some(format!("above {}", limit.show())),
        Bound::Unbounded => None,
    };
    let upper = match range.end_bound() {
        Bound::Included(most) => Some(format!("at most {}", most.show())),
        Bound::Excluded(limit) => Some(format!("below {}", limit.show())),
        Bound::Unbounded => None,
    };
    [lower, upper].into_iter().flatten().collect::<Vec<_>>().join(" and ")
}

#[cfg(test)]
mod tests;
