//! Errors in a configuration, and their display: all at once, each with its line.

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::secret::redact;
use super::tree::{Origin, Value};

/// Reason why a configuration could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file does not exist or cannot be read.
    #[error("cannot read the {noun} {}: {source}", path.display())]
    Unreadable { noun: &'static str, path: PathBuf, source: std::io::Error },
    /// The file is not UTF-8.
    #[error("the {noun} {} is not UTF-8: line {line} contains an invalid byte", path.display())]
    NotUtf8 { noun: &'static str, path: PathBuf, line: usize },
    /// The content has errors.
    #[error(transparent)]
    Mistakes(#[from] Mistakes),
}

/// One error in a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Path of the key, such as `server.listen` or `plan[0].queue`; empty if the file does not
    /// parse.
    pub path: String,
    /// Origin of the value.
    pub origin: Origin,
    /// Bytes to underline, if the value comes from a file.
    pub span: Range<usize>,
    /// Expected and found value.
    pub message: String,
    /// Suggested correction.
    pub help: Option<String>,
}

impl Problem {
    /// Creates an error about a value.
    pub fn at(value: &Value, path: String, message: String, help: Option<String>) -> Self {
        Self { path, origin: value.origin.clone(), span: value.span.clone(), message, help }
    }
}

/// Converts the reason for which a stored document does not parse.
impl From<serde_json::Error> for Problem {
    fn from(error: serde_json::Error) -> Self {
        Self { path: String::new(), origin: Origin::Request, span: 0..0, message: error.to_string(), help: None }
    }
}

/// Text of a configuration file, kept for quotations in messages.
#[derive(Clone)]
pub struct ConfigText {
    /// Path as the user wrote it.
    pub path: Arc<Path>,
    /// Complete text.
    pub text: String,
}

/// Prints only the path, because the text may contain secrets.
impl fmt::Debug for ConfigText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ConfigText({})", self.path.display())
    }
}

impl ConfigText {
    /// Returns the line that contains a byte, counted from 1.
    pub fn line(&self, byte: usize) -> usize {
        1 + self.text.as_bytes().iter().take(byte).filter(|byte| **byte == b'\n').count()
    }

    /// Returns the line that contains a span, and the part of the span inside that line. Secrets
    /// are redacted.
    fn quote(&self, span: &Range<usize>) -> (String, Range<usize>) {
        let start = boundary(&self.text, span.start);
        let from = self.text[..start].rfind('\n').map_or(0, |newline| newline + 1);
        let to = self.text[start..].find('\n').map_or(self.text.len(), |newline| start + newline);
        let line = self.text[from..to].trim_end();
        let redacted = redact(line);
        let within = |byte: usize| redacted.position(boundary(line, byte.saturating_sub(from)));
        let marked = within(start)..within(span.end);
        (redacted.text, marked)
    }
}

/// Returns the nearest character boundary at or before `byte`.
fn boundary(text: &str, byte: usize) -> usize {
    (0..=byte.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

/// All errors of a load, ordered by file, environment and flags.
#[derive(Debug)]
pub struct Mistakes {
    problems: Vec<Problem>,
    source: Option<ConfigText>,
}

impl Mistakes {
    /// Sorts the errors of a load. `source` is the file to quote from.
    pub fn new(mut problems: Vec<Problem>, source: Option<ConfigText>) -> Self {
        problems.sort_by(|a, b| (&a.origin, a.span.start).cmp(&(&b.origin, b.span.start)));
        Self { problems, source }
    }

    /// Returns the errors, at least one.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    fn write(&self, f: &mut fmt::Formatter<'_>, problem: &Problem) -> fmt::Result {
        let colon = if problem.path.is_empty() { "" } else { ": " };
        writeln!(f, "error: {}{colon}{}", problem.path, problem.message)?;
        let mut gutter = 1;
        match (&problem.origin, &self.source) {
            (Origin::File { line, .. }, Some(source)) => {
                gutter = line.to_string().len();
                let (text, marked) = source.quote(&problem.span);
                // Tabs are kept, so that the carets align with the value at any tab width.
                let indent: String = text[..marked.start].chars().map(|c| if c == '\t' { c } else { ' ' }).collect();
                let carets = "^".repeat(text[marked.clone()].chars().count().max(1));
                writeln!(f, "{:gutter$}--> {}:{}", "", problem.origin, indent.chars().count() + 1)?;
                writeln!(f, "{:gutter$} |", "")?;
                writeln!(f, "{line} | {text}")?;
                writeln!(f, "{:gutter$} | {indent}{carets}", "")?;
            }
            (Origin::Default, _) => {}
            (origin, _) => writeln!(f, "{:gutter$}--> {origin}", "")?,
        }
        problem.help.iter().try_for_each(|help| writeln!(f, "{:gutter$} = help: {help}", ""))?;
        writeln!(f)
    }

    /// Lists the origins of the errors: `fairgate.toml and the environment`.
    fn places(&self) -> String {
        let mut places: Vec<String> = Vec::new();
        for problem in &self.problems {
            let place = match &problem.origin {
                Origin::File { path, .. } => path.display().to_string(),
                Origin::Env { .. } => "the environment".to_owned(),
                Origin::Flag { .. } => "the flags".to_owned(),
                Origin::Request => "the request".to_owned(),
                Origin::Default => "the configuration".to_owned(),
            };
            if !places.contains(&place) {
                places.push(place);
            }
        }
        places.join(" and ")
    }
}

impl std::error::Error for Mistakes {}

impl fmt::Display for Mistakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for problem in &self.problems {
            self.write(f, problem)?;
        }
        let plural = if self.problems.len() == 1 { "" } else { "s" };
        write!(f, "{} error{plural} in {}", self.problems.len(), self.places())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> ConfigText {
        ConfigText { path: Path::new("fairgate.toml").into(), text: text.to_owned() }
    }

    fn problem(source: &ConfigText, marked: &str, help: Option<&str>) -> Problem {
        let start = source.text.find(marked).expect("the text holds the mark");
        Problem {
            path: "server.listen".to_owned(),
            origin: Origin::File { path: source.path.clone(), line: source.line(start) },
            span: start..start + marked.len(),
            message: "expected x, found y".to_owned(),
            help: help.map(str::to_owned),
        }
    }

    #[test]
    fn shows_the_line_with_carets_below_the_value() {
        let source = source("\n[server]\nlisten = \"localhost\" # ü\n");
        let problems = vec![problem(&source, "\"localhost\"", Some("try z"))];
        let expected = "\
error: server.listen: expected x, found y
 --> fairgate.toml:3:10
  |
3 | listen = \"localhost\" # ü
  |          ^^^^^^^^^^^
  = help: try z

1 error in fairgate.toml";
        assert_eq!(Mistakes::new(problems, Some(source)).to_string(), expected);
    }

    #[test]
    fn sorts_by_line_and_says_where_the_mistakes_are() {
        let source = source("a = 1\nb = 2\n");
        let env = Problem { origin: Origin::Env { name: "FAIRGATE_A__B".to_owned() }, ..problem(&source, "1", None) };
        let problems = vec![env, problem(&source, "2", None), problem(&source, "1", None)];
        let text = Mistakes::new(problems, Some(source)).to_string();
        let places: Vec<_> = text.lines().filter(|line| line.contains("-->")).collect();
        assert_eq!(places, [" --> fairgate.toml:1:5", " --> fairgate.toml:2:5", " --> environment FAIRGATE_A__B"]);
        assert!(text.ends_with("\n3 errors in fairgate.toml and the environment"), "{text}");
    }

    #[test]
    fn spans_that_end_elsewhere_are_cut_to_their_line() {
        let source = source("a = [\n  1,\n]\n");
        let end = source.text.len();
        let whole = Problem { span: 4..end + 7, ..problem(&source, "[", None) };
        let past =
            Problem { span: end..end, origin: Origin::File { path: source.path.clone(), line: 4 }, ..whole.clone() };
        let text = Mistakes::new(vec![whole, past], Some(source)).to_string();
        assert!(text.contains("1 | a = [\n  |     ^\n") && text.contains("4 | \n  | ^\n"), "{text}");
    }

    #[test]
    fn a_quoted_line_holds_no_password() {
        let source = source("password = \"hunter2\"\nurl = \"redis://:hunter2@h\" # x");
        let problems = vec![problem(&source, "password", None), problem(&source, "\"redis://:hunter2@h\"", None)];
        let text = Mistakes::new(problems, Some(source)).to_string();
        assert!(!text.contains("hunter2"), "{text}");
        assert!(text.contains("2 | url = \"redis://:***@h\" # x\n  |       ^^^^^^^^^^^^^^^^\n"), "{text}");
    }
}
