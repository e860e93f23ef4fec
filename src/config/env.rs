//! Settings from the environment and from flags, as untyped text with a path.

use super::problem::Problem;
use super::tree::{Kind, Origin, Table, Value, merge};

/// Prefix of all settings in the environment.
pub const PREFIX: &str = "FAIRGATE_";

/// Largest magnitude up to which each whole number has its own float (2^53).
const LARGEST_EXACT: f64 = 9_007_199_254_740_992.0;

/// Collects the settings from the environment: `FAIRGATE_SERVER__LISTEN` is `server.listen`.
///
/// A variable without `__` is not a setting but may hold a secret that a key names;
/// `unknown_variable.rs` checks those.
pub fn layer(env: &[(String, String)]) -> (Table, Vec<Problem>) {
    let mut problems = Vec::new();
    let mut table = Table::new();
    // Sorted by name, so that the result does not depend on the order of the environment.
    let mut settings: Vec<_> = env.iter().filter_map(|(name, text)| Some((name, path(name)?, text))).collect();
    settings.sort();
    for (name, path, text) in settings {
        let origin = Origin::Env { name: name.clone() };
        if path.iter().any(String::is_empty) {
            let message = "expected a name such as FAIRGATE_SERVER__LISTEN, found an empty part".to_owned();
            problems.push(Problem { path: path.join("."), origin, span: 0..0, message, help: None });
            continue;
        }
        merge(&mut table, nest(&path, text, &origin));
    }
    (table, problems)
}

/// A setting from a flag of the command line.
#[derive(Clone, Debug)]
pub struct Flag {
    /// Path of the key that it sets.
    pub path: String,
    pub value: String,
    /// Name of the flag.
    pub name: String,
}

/// Builds the layer of the flags.
pub fn flag_layer(flags: &[Flag]) -> Table {
    let mut table = Table::new();
    for Flag { path, value: text, name } in flags {
        let path: Vec<_> = path.split('.').map(str::to_owned).collect();
        merge(&mut table, nest(&path, text, &Origin::Flag { name: name.clone() }));
    }
    table
}

fn path(name: &str) -> Option<Vec<String>> {
    let path = name.strip_prefix(PREFIX)?;
    path.contains("__").then(|| path.split("__").map(str::to_ascii_lowercase).collect())
}

/// Builds a table with one value at the end of a path.
fn nest(path: &[String], text: &str, origin: &Origin) -> Table {
    let mut value = value(text, origin);
    let mut rest = path;
    while let [outer @ .., key] = rest
        && !outer.is_empty()
    {
        let kind = match key.parse::<usize>() {
            Ok(index) => Kind::Indexed([(index, value)].into()),
            Err(_) => Kind::Table([(key.clone(), value)].into()),
        };
        value = Value::new(kind, origin.clone());
        rest = outer;
    }
    rest.first().map(|key| (key.clone(), value)).into_iter().collect()
}

/// Parses a value. Lists and tables may be given as JSON. Text that does not parse stays text,
/// because `[::1]:8080` is an address.
fn value(text: &str, origin: &Origin) -> Value {
    let json = if text.starts_with(['[', '{']) { serde_json::from_str(text).ok() } else { None };
    json.map_or_else(|| Value::new(Kind::Raw(text.to_owned()), origin.clone()), |json| from_json(json, origin))
}

/// Converts a JSON value.
pub fn from_json(json: serde_json::Value, origin: &Origin) -> Value {
    use serde_json::Value as Json;
    let kind = match json {
        Json::Null => Kind::Null,
        Json::Bool(flag) => Kind::Bool(flag),
        Json::Number(number) => match (number.as_i128(), number.as_f64().unwrap_or(f64::NAN)) {
            (Some(number), _) => Kind::Integer(number),
            // JSON has only one type of numbers, so 5.0 is a whole number.
            (None, float) if float.fract() == 0.0 && float.abs() < LARGEST_EXACT => Kind::Integer(float as i128),
            (None, float) => Kind::Float(float),
        },
        Json::String(text) => Kind::Text(text),
        Json::Array(items) => Kind::List(items.into_iter().map(|item| from_json(item, origin)).collect()),
        Json::Object(entries) => {
            Kind::Table(entries.into_iter().map(|(key, value)| (key, from_json(value, origin))).collect())
        }
    };
    Value::new(kind, origin.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_number_is_one_however_json_writes_it() {
        let kind = |text: &str| from_json(serde_json::from_str(text).unwrap(), &Origin::Request).kind;
        for text in ["5", "5.0", "5e0", "0.5e1"] {
            assert!(matches!(kind(text), Kind::Integer(5)), "{text}");
        }
        assert!(matches!(kind("-0.0"), Kind::Integer(0)));
        for text in ["5.5", "1e300", "9007199254740993.0"] {
            assert!(matches!(kind(text), Kind::Float(_)), "{text}");
        }
    }

    fn shown(env: &[(&str, &str)]) -> String {
        let env: Vec<_> = env.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
        let (mut table, mut problems) = layer(&env);
        super::super::tree::settle(&mut table, &mut problems);
        assert_eq!(problems, []);
        Value::new(Kind::Table(table), Origin::Default).to_string()
    }

    #[test]
    fn only_names_with_the_prefix_and_a_double_underscore_are_settings() {
        let env = [("FAIRGATE_KEY", "x"), ("SERVER__LISTEN", "x"), ("FAIRGATE_SERVER__TEST_DIRECTIVES", "true")];
        assert_eq!(shown(&env), "{ server = { test_directives = true } }");
    }

    #[test]
    fn lists_come_by_index_or_as_json() {
        let env = [("FAIRGATE_SERVER__ROLES__1", "planner"), ("FAIRGATE_SERVER__ROLES__0", "api")];
        assert_eq!(shown(&env), r#"{ server = { roles = ["api", "planner"] } }"#);
        assert_eq!(shown(&[("FAIRGATE_SERVER__ROLES", r#"["api", 1]"#)]), r#"{ server = { roles = ["api", 1] } }"#);
        let env = [("FAIRGATE_TENANT__0__ID", "a"), ("FAIRGATE_TENANT__0__LIMITS", r#"{"max": 2.5}"#)];
        assert_eq!(shown(&env), r#"{ tenant = [{ id = "a", limits = { max = 2.5 } }] }"#);
    }

    #[test]
    fn text_that_only_looks_like_json_stays_text() {
        assert_eq!(shown(&[("FAIRGATE_SERVER__LISTEN", "[::1]:80")]), r#"{ server = { listen = "[::1]:80" } }"#);
        assert_eq!(shown(&[("FAIRGATE_A__B", "[nil]")]), r#"{ a = { b = "[nil]" } }"#);
    }

    #[test]
    fn an_empty_part_is_a_problem() {
        let (table, problems) = layer(&[("FAIRGATE_SERVER__".to_owned(), "x".to_owned())]);
        assert!(table.is_empty());
        assert_eq!(problems[0].origin.to_string(), "environment FAIRGATE_SERVER__");
    }

    #[test]
    fn flags_are_named_as_the_origin() {
        let [path, value, name] = ["server.listen", "[::1]:80", "--listen"].map(str::to_owned);
        let table = flag_layer(&[Flag { path, value, name }]);
        assert_eq!(format!("{:?}", table["server"]), r#"{ listen = "[::1]:80" } (flag --listen)"#);
    }
}
