//! Collector of errors and known keys while a configuration is read.

use std::collections::HashSet;

use super::problem::Problem;
use super::tree::{Origin, Value};

/// Collects the findings of readers. Unknown keys are judged at the end, when all known ones have
/// been collected.
#[derive(Default)]
pub struct Findings {
    problems: Vec<Problem>,
    known: Vec<String>,
    /// The same keys as a set for lookups, because a document may have thousands.
    seen: HashSet<String>,
    unknown: Vec<Unknown>,
}

/// A key that no reader asked for.
struct Unknown {
    /// Path of its table; empty at the top of the file.
    table: String,
    key: String,
    value: Value,
}

impl Findings {
    /// Creates a report that starts with the errors of an earlier step.
    pub fn new(problems: Vec<Problem>) -> Self {
        Self { problems, ..Self::default() }
    }

    /// Adds an error.
    pub fn add(&mut self, problem: Problem) {
        self.problems.push(problem);
    }

    /// Adds a key that can be set.
    pub fn know(&mut self, path: String) {
        if self.seen.insert(path.clone()) {
            self.known.push(path);
        }
    }

    /// Adds a key that no reader asked for.
    pub fn doubt(&mut self, table: &str, key: &str, value: &Value) {
        self.unknown.push(Unknown { table: table.to_owned(), key: key.to_owned(), value: value.clone() });
    }

    /// Returns true if the values of these keys are reliable. If a key was refused, or if a syntax
    /// error may hide its value, a comparison with it would produce misleading errors.
    pub fn is_sound(&self, paths: &[String]) -> bool {
        let concerns = |problem: &Problem, path: &String| problem.path.is_empty() || is_within(&problem.path, path);
        !self.problems.iter().any(|problem| paths.iter().any(|path| concerns(problem, path)))
    }

    /// Returns all errors, and all keys that can be set, in the order in which they were read.
    pub fn finish(mut self) -> (Vec<Problem>, Vec<String>) {
        let broken: Vec<Origin> = self
            .problems
            .iter()
            .filter(|problem| problem.path.is_empty())
            .map(|problem| problem.origin.clone())
            .collect();
        let unknown: Vec<_> = self.unknown.iter().map(|unknown| self.judge(unknown)).collect();
        self.problems.extend(unknown);
        // The rest of a line that does not parse is unreliable, so one error for the line is
        // enough.
        self.problems.retain(|problem| problem.path.is_empty() || !broken.contains(&problem.origin));
        (self.problems, self.known)
    }

    fn judge(&self, Unknown { table, key, value }: &Unknown) -> Problem {
        let place = match (table.as_str(), &value.origin) {
            ("", Origin::Request) => "in the request".to_owned(),
            ("", _) => "at the top of the file".to_owned(),
            (table, _) => format!("in [{table}]"),
        };
        Problem {
            path: join(table, key),
            origin: value.origin.clone(),
            span: value.key_span.clone(),
            message: format!("unknown key \"{key}\" {place}"),
            help: Some(self.suggest(table, key)),
        }
    }

    /// Suggests a key: a similar one of the same table, else a similar one elsewhere, else the list
    /// of keys.
    fn suggest(&self, table: &str, key: &str) -> String {
        let siblings: Vec<&str> = self
            .known
            .iter()
            .map(|path| split(path))
            .filter(|(home, _)| *home == table)
            .map(|(_, name)| name)
            .collect();
        if let Some(name) = nearest(key, siblings.iter().copied()) {
            return format!("did you mean \"{name}\"?");
        }
        let elsewhere =
            || self.known.iter().map(|path| split(path)).filter(|(home, _)| *home != table && !home.is_empty());
        let meant = nearest(key, elsewhere().map(|(_, name)| name));
        match elsewhere().find(|(_, name)| Some(*name) == meant) {
            Some((home, name)) => format!("did you mean [{home}] {name}?"),
            None if siblings.is_empty() => "there are no keys here".to_owned(),
            None => format!("the keys here are {}", siblings.join(", ")),
        }
    }
}

/// Returns the path of a key in a table.
pub fn join(table: &str, key: &str) -> String {
    if table.is_empty() { key.to_owned() } else { format!("{table}.{key}") }
}

/// Splits a path into table and key.
pub fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('.').unwrap_or(("", path))
}

/// Returns true if a path is that of a key, or of something inside its value.
pub fn is_within(path: &str, key: &str) -> bool {
    path.strip_prefix(key).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

/// Returns the candidate that was most likely meant: one with few typing errors, or one that starts
/// with the word.
pub fn nearest<'a>(word: &str, candidates: impl Iterator<Item = &'a str> + Clone) -> Option<&'a str> {
    let tolerated = (word.chars().count() / 3).clamp(1, 3);
    let distance = |name: &&str| strsim::damerau_levenshtein(&word.to_lowercase(), name);
    let close = candidates.clone().filter(|name| distance(name) <= tolerated).min_by_key(distance);
    close.or_else(|| (word.len() > 2).then(|| candidates.clone().find(|name| name.starts_with(word)))?)
}

#[cfg(test)]
mod tests {
    use super::super::tree::Kind;
    use super::*;

    fn value(line: usize) -> Value {
        Value::new(Kind::Bool(true), Origin::File { path: std::path::Path::new("f").into(), line })
    }

    fn report() -> Findings {
        let mut report = Findings::default();
        for path in ["server", "server.listen", "server.roles", "store", "store.namespace", "store.password_env"] {
            report.know(path.to_owned());
        }
        report
    }

    fn help(table: &str, key: &str) -> String {
        let mut report = report();
        report.doubt(table, key, &value(1));
        report.finish().0.remove(0).help.unwrap_or_default()
    }

    #[test]
    fn suggests_the_key_that_was_meant() {
        assert_eq!(help("server", "lisetn"), "did you mean \"listen\"?");
        assert_eq!(help("server", "Listen"), "did you mean \"listen\"?");
        assert_eq!(help("store", "password"), "did you mean \"password_env\"?");
        assert_eq!(help("", "sever"), "did you mean \"server\"?");
        assert_eq!(help("server", "namespace"), "did you mean [store] namespace?");
        assert_eq!(help("server", "namspace"), "did you mean [store] namespace?");
        assert_eq!(help("", "roles"), "did you mean [server] roles?");
        assert_eq!(help("server", "colour"), "the keys here are listen, roles");
    }

    #[test]
    fn one_complaint_is_enough_for_a_line_that_does_not_parse() {
        let mut report = report();
        let syntax = |line| Problem::at(&value(line), String::new(), "invalid".to_owned(), None);
        report.add(syntax(1));
        report.doubt("server", "x", &value(1));
        report.doubt("server", "y", &value(2));
        let paths: Vec<_> = report.finish().0.into_iter().map(|problem| problem.path).collect();
        assert_eq!(paths, ["", "server.y"]);
    }

    #[test]
    fn a_refused_key_or_a_broken_file_is_not_sound() {
        let paths = |path: &str| [path.to_owned()];
        let mut report = report();
        report.add(Problem::at(&value(1), "server.roles[1]".to_owned(), String::new(), None));
        assert!(!report.is_sound(&paths("server.roles")) && report.is_sound(&paths("server.listen")));
        report.add(Problem::at(&value(1), String::new(), String::new(), None));
        assert!(!report.is_sound(&paths("server.listen")));
    }
}
