//! Secrets that must not appear in logs, and redaction of text that contains them.

use crate::auth::PREFIX;
use std::fmt;
use std::ops::Range;

/// Replacement for secrets in printed text.
pub const MASK: &str = "***";

/// Names of keys whose value is redacted wherever they appear, even if fairgate does not know the
/// key.
const SECRET_KEYS: [&str; 4] = ["password", "secret", "token", "hash"];

/// A secret that prints as `***`. Use [`Secret::expose`] to read it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a secret.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns the text itself, to be sent only to the service that requires it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

/// Redacted text, with a mapping of byte positions in the original.
pub struct Redacted {
    /// Text with secrets replaced.
    pub text: String,
    hidden: Vec<Range<usize>>,
}

impl Redacted {
    /// Maps a byte position of the original. Positions inside a secret map to its start.
    pub fn position(&self, original: usize) -> usize {
        let mut moved = original;
        for range in self.hidden.iter().take_while(|range| range.start < original) {
            let end = range.end.min(original);
            moved = moved + if end == range.end { MASK.len() } else { 0 } - (end - range.start);
        }
        moved
    }
}

/// Redacts passwords in URLs, user and query of HTTP URLs, and values of keys such as `password`.
///
/// Hides too much rather than too little, because it must also work on lines that do not parse.
pub fn redact(text: &str) -> Redacted {
    let hidden = secrets(text);
    let mut shown = String::with_capacity(text.len());
    let mut from = 0;
    for range in &hidden {
        shown.push_str(&text[from..range.start]);
        shown.push_str(MASK);
        from = range.end;
    }
    shown.push_str(&text[from..]);
    Redacted { text: shown, hidden }
}

/// Returns true if a URL contains a password.
pub fn holds_password(url: &str) -> bool {
    [url_password(url), query_password(url)].into_iter().flatten().any(|range| !range.is_empty())
}

fn secrets(text: &str) -> Vec<Range<usize>> {
    let mut found: Vec<_> =
        [url_password(text), query_password(text), assignment(text)].into_iter().flatten().collect();
    found.extend(web_secrets(text).chain(api_keys(text)).filter(|range| !range.is_empty()));
    found.sort_by_key(|range| (range.start, range.end));
    found.dedup_by(|next, kept| {
        let overlap = next.start <= kept.end;
        kept.end = if overlap { kept.end.max(next.end) } else { kept.end };
        overlap
    });
    found
}

/// Finds `scheme://user:HERE@host`. The password extends to the last `@`, because it may contain an
/// `@`, a slash or a quote.
fn url_password(text: &str) -> Option<Range<usize>> {
    let authority = text.find("://")? + 3;
    let end = authority + text[authority..].rfind('@')?;
    let start = authority + text[authority..end].find(':')? + 1;
    Some(start..end)
}

/// Finds `unix:///redis.sock?pass=HERE&db=0`.
fn query_password(text: &str) -> Option<Range<usize>> {
    let start = ["?pass=", "&pass="].iter().find_map(|mark| text.find(mark).map(|at| at + mark.len()))?;
    let length = text[start..].find(['&', '"', '\'']).unwrap_or(text.len() - start);
    Some(start..start + length)
}

/// Finds `https://HERE@host/path?HERE`. Many services take a key in the query, under various names.
fn web_secrets(text: &str) -> impl Iterator<Item = Range<usize>> {
    let schemes = ["http://", "https://"].into_iter().flat_map(|scheme| text.match_indices(scheme));
    schemes.flat_map(|(at, scheme)| {
        let start = at + scheme.len();
        // A quoted URL ends at the quote, any other at the end of the text.
        let quote = text[..at].chars().next_back().filter(|before| ['"', '\''].contains(before));
        let end = quote.and_then(|quote| text[start..].find(quote)).map_or(text.len(), |length| start + length);
        let url = &text[start..end];
        let host = &url[..url.find(['/', '?', '#']).unwrap_or(url.len())];
        let query = url.find(['?', '#']).map_or(end, |at| start + at + 1);
        [start..start + host.rfind('@').unwrap_or(0), query..end]
    })
}

/// Finds `fgk_HERE` anywhere in the text.
fn api_keys(text: &str) -> impl Iterator<Item = Range<usize>> {
    text.match_indices(PREFIX).map(|(at, _)| {
        let start = at + PREFIX.len();
        let is_other = |letter: char| !letter.is_ascii_alphanumeric() && !['-', '_'].contains(&letter);
        start..text[start..].find(is_other).map_or(text.len(), |length| start + length)
    })
}

/// Finds `password = HERE`, to the end of the line.
fn assignment(text: &str) -> Option<Range<usize>> {
    // All mentions are checked, because the first may belong to another key, such as `secret_env`.
    let mentions = SECRET_KEYS.iter().flat_map(|key| text.match_indices(key).map(|(at, key)| at + key.len()));
    let values = mentions.filter_map(|after_key| {
        let value = text[after_key..].trim_start_matches(['"', '\'']).trim_start().strip_prefix('=')?.trim_start();
        Some(text.len() - value.len()..text.len())
    });
    values.min_by_key(|range| range.start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_prints_as_stars() {
        let secret = Secret::new("hunter2");
        assert_eq!(format!("{secret} {secret:?} {:?}", Some(&secret)), "*** *** Some(***)");
        assert_eq!(secret.expose(), "hunter2");
    }

    #[test]
    fn hides_what_is_secret_and_only_that() {
        for (text, shown) in [
            ("redis://localhost:6379/0", "redis://localhost:6379/0"),
            ("redis://app@host", "redis://app@host"),
            ("redis://:hunter2@host:1/0", "redis://:***@host:1/0"),
            ("redis://app:hun/t@er2@host", "redis://app:***@host"),
            ("redis+sentinel://:hunter2@a:1,b:2/m", "redis+sentinel://:***@a:1,b:2/m"),
            ("unix:///r.sock?pass=hunter2&db=1", "unix:///r.sock?pass=***&db=1"),
            (r#"url = "unix:///r.sock?db=1&pass=hunter2" # x"#, r#"url = "unix:///r.sock?db=1&pass=***" # x"#),
            ("https://h:1/w?key=hunter2&x=y", "https://h:1/w?***"),
            ("http://hunter2@h/w", "http://***@h/w"),
            ("http://h/w?a='hunter2'#x", "http://h/w?***"),
            ("http://h/w?", "http://h/w?"),
            ("fgk_aB-9_z fgk_x, fgk_", "fgk_*** fgk_***, fgk_"),
            (
                r#"a = "http://h?hunter2", b = 'https://h#hunter2' # c?d"#,
                r#"a = "http://h?***", b = 'https://h#***' # c?d"#,
            ),
            (r#"password = "hunter2""#, "password = ***"),
            (r#"store = { "token"="hunter2" }"#, r#"store = { "token"=***"#),
            (r#"password_env = "NAME""#, r#"password_env = "NAME""#),
            (r#"{ secret_env = "A", secret = "hunter2" }"#, r#"{ secret_env = "A", secret = ***"#),
            (r#"{ token = "hunter2", password = "x" }"#, "{ token = ***"),
        ] {
            assert_eq!(redact(text).text, shown);
        }
    }

    #[test]
    fn positions_follow_the_text() {
        let line = r#"url = "redis://:hunter2@host" # end"#;
        let redacted = redact(line);
        let moved = |mark: &str| redacted.position(line.find(mark).expect("mark is in the line"));
        assert_eq!(&redacted.text[moved("\"redis")..][..6], "\"redis");
        assert_eq!(&redacted.text[moved("# end")..], "# end");
        assert_eq!(&redacted.text[moved("nter2")..][..4], "***@");
    }

    #[test]
    fn knows_whether_a_url_holds_a_password() {
        assert!(holds_password("redis://:x@host") && holds_password("unix:///s?pass=x"));
        assert!(!holds_password("redis://:@host") && !holds_password("redis://app@host"));
    }
}
