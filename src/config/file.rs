//! The configuration file: finds, reads and parses it into values that know their line.

use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::problem::{ConfigText, Error, Problem};
use super::tree::{Kind, Origin, Table, Value};

/// Default name of the configuration file.
pub const NAME: &str = "fairgate.toml";

/// Noun for the file in errors.
const NOUN: &str = "configuration file";

/// Reads the requested file, or `fairgate.toml` in `directory` if it exists.
pub fn read(directory: &Path, asked_for: Option<&Path>) -> Result<Option<ConfigText>, Error> {
    let path = asked_for.unwrap_or(Path::new(NAME));
    match std::fs::read(directory.join(path)) {
        Ok(bytes) => to_text(path, bytes, NOUN).map(Some),
        Err(error) if error.kind() == io::ErrorKind::NotFound && asked_for.is_none() => Ok(None),
        Err(source) => Err(Error::Unreadable { noun: NOUN, path: path.to_owned(), source }),
    }
}

/// Reads a file of another kind, which errors call by this noun.
pub fn read_existing(path: &Path, noun: &'static str) -> Result<ConfigText, Error> {
    let bytes = std::fs::read(path).map_err(|source| Error::Unreadable { noun, path: path.to_owned(), source })?;
    to_text(path, bytes, noun)
}

fn to_text(path: &Path, bytes: Vec<u8>, noun: &'static str) -> Result<ConfigText, Error> {
    match String::from_utf8(bytes) {
        Ok(text) => Ok(ConfigText { path: path.into(), text }),
        Err(error) => Err(not_utf8(path.to_owned(), &error, noun)),
    }
}

fn not_utf8(path: PathBuf, error: &std::string::FromUtf8Error, noun: &'static str) -> Error {
    let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
    Error::NotUtf8 { noun, path, line: 1 + good.iter().filter(|byte| **byte == b'\n').count() }
}

/// Parses a file. Returns the values that could be parsed, and the syntax errors.
pub fn parse(source: &ConfigText) -> (Table, Vec<Problem>) {
    let origin = |byte| Origin::File { path: source.path.clone(), line: source.line(byte) };
    let (table, errors) = DeTable::parse_recoverable(&source.text);
    let mut problems: Vec<_> = errors
        .into_iter()
        .map(|error| {
            let span = error.span().unwrap_or(0..0);
            let message = error.message().to_owned();
            Problem { path: String::new(), origin: origin(span.start), span, message, help: None }
        })
        .collect();
    // Further errors on a line mostly result from its first error.
    problems.dedup_by(|next, first| next.origin == first.origin);
    (entries(table.into_inner(), &origin), problems)
}

/// Parses the embedded defaults. Tests ensure that they have no errors.
pub fn parse_defaults(text: &str) -> Table {
    entries(DeTable::parse_recoverable(text).0.into_inner(), &|_| Origin::Default)
}

fn entries(table: DeTable<'_>, origin: &dyn Fn(usize) -> Origin) -> Table {
    // The parser inserts placeholders for values that it could not parse. They span no bytes.
    let is_real = |value: &Spanned<DeValue<'_>>| value.get_ref().is_table() || !value.span().is_empty();
    let entry = |(key, value): (Spanned<Cow<'_, str>>, _)| {
        let key_span = key.span();
        (key.into_inner().into_owned(), Value { key_span, ..convert(value, origin) })
    };
    table.into_iter().filter(|(_, value)| is_real(value)).map(entry).collect()
}

fn convert(value: Spanned<DeValue<'_>>, origin: &dyn Fn(usize) -> Origin) -> Value {
    let span = value.span();
    let kind = match value.into_inner() {
        DeValue::String(text) => Kind::Text(text.into_owned()),
        // Numbers beyond 128 bits become the largest one, which is out of every accepted range.
        DeValue::Integer(number) => {
            Kind::Integer(i128::from_str_radix(number.as_str(), number.radix()).unwrap_or(i128::MAX))
        }
        DeValue::Float(number) => Kind::Float(number.as_str().parse().unwrap_or(f64::NAN)),
        DeValue::Boolean(flag) => Kind::Bool(flag),
        DeValue::Datetime(date) => Kind::Date(date.to_string()),
        DeValue::Array(items) => Kind::List(items.into_iter().map(|item| convert(item, origin)).collect()),
        DeValue::Table(table) => Kind::Table(entries(table, origin)),
    };
    Value { kind, origin: origin(span.start), key_span: span.clone(), span }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> ConfigText {
        ConfigText { path: Path::new(NAME).into(), text: text.to_owned() }
    }

    #[test]
    fn values_know_their_line_and_their_bytes() {
        let source = source("[server]\nlisten = \"x\" # why\n\n[[plan]]\nname = \"a\"\nlist = [\n  1,\n  0x1f,\n]\n");
        let (table, problems) = parse(&source);
        assert_eq!(problems, []);
        let Kind::Table(server) = &table["server"].kind else { panic!("server is a table") };
        assert_eq!(server["listen"].origin.to_string(), "fairgate.toml:2");
        assert_eq!(&source.text[server["listen"].span.clone()], "\"x\"");
        assert_eq!(&source.text[server["listen"].key_span.clone()], "listen");
        let Kind::List(plans) = &table["plan"].kind else { panic!("plan is a list") };
        assert_eq!(plans[0].origin.to_string(), "fairgate.toml:4");
        let Kind::Table(plan) = &plans[0].kind else { panic!("an element of plan is a table") };
        let Kind::List(items) = &plan["list"].kind else { panic!("list is a list") };
        assert_eq!(
            (items[1].to_string(), items[1].origin.to_string()),
            ("31".to_owned(), "fairgate.toml:8".to_owned())
        );
    }

    #[test]
    fn reports_every_error_of_syntax_and_keeps_what_it_understood() {
        let (table, problems) = parse(&source("[a]\nx = \ny = 1\ny = 2\nz = \"unclosed\n[b]\nw = true\n"));
        let lines: Vec<_> = problems.iter().map(|problem| problem.origin.to_string()).collect();
        assert_eq!(lines, ["fairgate.toml:2", "fairgate.toml:4", "fairgate.toml:5"], "{problems:?}");
        assert_eq!(table["b"].to_string(), "{ w = true }");
    }

    #[test]
    fn tables_stand_where_they_are_first_named() {
        let source = source("\n[a.b]\nx = 1\n\n[c]\n[[d.e]]\n");
        let (table, _) = parse(&source);
        let place = |key: &str| (table[key].origin.to_string(), &source.text[table[key].key_span.clone()]);
        assert_eq!(place("a"), ("fairgate.toml:2".to_owned(), "a"));
        assert_eq!(place("c"), ("fairgate.toml:5".to_owned(), "c"));
        assert_eq!(place("d"), ("fairgate.toml:6".to_owned(), "d"));
    }

    #[test]
    fn a_missing_file_is_an_error_only_if_it_was_asked_for() {
        let home = tempfile::tempdir().expect("a directory");
        assert!(matches!(read(home.path(), None), Ok(None)));
        let error = read(home.path(), Some(Path::new("my.toml"))).expect_err("there is no such file");
        assert!(error.to_string().starts_with("cannot read the configuration file my.toml: "), "{error}");
        std::fs::write(home.path().join(NAME), "[a]\n").expect("a file");
        assert!(matches!(read(home.path(), None), Ok(Some(source)) if source.text == "[a]\n"));
    }

    #[test]
    fn a_file_that_is_no_text_says_where() {
        let home = tempfile::tempdir().expect("a directory");
        std::fs::write(home.path().join(NAME), b"[a]\nb = \"\xff\"\n").expect("a file");
        let error = read(home.path(), None).expect_err("it is not UTF-8");
        assert_eq!(
            error.to_string(),
            "the configuration file fairgate.toml is not UTF-8: line 2 contains an invalid byte"
        );
    }
}
