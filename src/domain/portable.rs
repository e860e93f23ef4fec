//! Checks that JSON can be parsed by every client: numbers within the range of a double, and text
//! without lone surrogates.
//!
//! Values are stored and returned as they were written, together with values of other jobs. A
//! client whose parser rejects one of them loses the whole response. Therefore values that parsers
//! disagree about are refused on input.

use super::invalid::{Invalid, Kind};
use super::json;
use std::ops::Range;

/// A number with fewer digits than this and no exponent fits a double.
const SAFE_DIGITS: usize = 300;
/// A number of at most this length with a two-digit exponent fits a double.
const SAFE_LENGTH: usize = 200;

/// Refuses JSON that some clients cannot parse; the error has the path of the first such value.
/// Text that is not JSON passes, because its parser reports a better error.
pub fn check(text: &str) -> Result<(), Invalid> {
    match first_fault(text.as_bytes()) {
        None => Ok(()),
        Some(_) if serde_json::from_str::<serde::de::IgnoredAny>(text).is_err() => Ok(()),
        Some(fault) => Err(describe(text, fault)),
    }
}

/// Returns the range of the first string or number that some clients cannot parse.
fn first_fault(text: &[u8]) -> Option<Range<usize>> {
    let mut at = 0;
    loop {
        let start = at;
        at = stop(text, start);
        if at - start >= SAFE_DIGITS
            && let Some(fault) = long_numbers(text, start..at).find(|number| !fits_double(&text[number.clone()]))
        {
            return Some(fault);
        }
        match text.get(at)? {
            b'"' => {
                let string = scan_string(text, at);
                if string.has_lone_surrogate {
                    return Some(at..string.end);
                }
                at = string.end;
            }
            // The exponent of a number, as opposed to the letter e in `true` or `false`.
            _ if at > 0 && text[at - 1].is_ascii_digit() => {
                let number = number_around(text, at);
                if !fits_double(&text[number.clone()]) {
                    return Some(number);
                }
                at = number.end;
            }
            _ => at += 1,
        }
    }
}

/// Returns the next position outside of strings that needs a closer look: a quote or an exponent.
fn stop(text: &[u8], start: usize) -> usize {
    let is_stop = |byte: &u8| matches!(byte, b'"' | b'e' | b'E');
    next(text, start, is_stop, |far| memchr::memchr3(b'"', b'e', b'E', far)).unwrap_or(text.len())
}

/// Finds the next wanted byte. Most are near, where a plain loop is faster than `search`.
#[inline]
fn next(
    text: &[u8],
    start: usize,
    is_wanted: impl Fn(&u8) -> bool,
    search: impl FnOnce(&[u8]) -> Option<usize>,
) -> Option<usize> {
    const NEAR: usize = 24;
    let (near, far) = text.get(start..)?.split_at_checked(NEAR).unwrap_or((text.get(start..)?, &[]));
    match near.iter().position(is_wanted) {
        Some(distance) => Some(start + distance),
        None => search(far).map(|distance| start + NEAR + distance),
    }
}

/// Finds numbers that may exceed a double by their number of digits alone. The step is short enough
/// that no such number lies between two probes.
fn long_numbers(text: &[u8], gap: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    gap.step_by(SAFE_DIGITS / 2).filter(|place| is_number(&text[*place])).map(|place| number_around(text, place))
}

struct ScannedString {
    /// Position behind the closing quote.
    end: usize,
    has_lone_surrogate: bool,
}

/// Scans a string whose opening quote is at `start`.
fn scan_string(text: &[u8], start: usize) -> ScannedString {
    let mut at = start + 1;
    let mut has_lone_surrogate = false;
    let is_special = |byte: &u8| matches!(byte, b'"' | b'\\');
    while let Some(found) = next(text, at, is_special, |far| memchr::memchr2(b'"', b'\\', far)) {
        at = found;
        if text[at] == b'"' {
            return ScannedString { end: at + 1, has_lone_surrogate };
        }
        at += match (unit(text, at), unit(text, at + 6)) {
            (Some(0xD800..0xDC00), Some(0xDC00..0xE000)) => 12,
            (Some(0xD800..0xE000), _) => {
                has_lone_surrogate = true;
                6
            }
            // Any other escape. The digits of a `\u` contain neither quote nor backslash.
            _ => 2,
        };
    }
    ScannedString { end: text.len(), has_lone_surrogate }
}

/// Decodes the UTF-16 code unit of the escape `\uXXXX` at this position.
fn unit(text: &[u8], at: usize) -> Option<u16> {
    let digits = text.get(at..at + 6)?.strip_prefix(b"\\u")?;
    digits.iter().try_fold(0, |unit, digit| Some(unit << 4 | char::from(*digit).to_digit(16)? as u16))
}

fn is_number(byte: &u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E')
}

/// Returns the range of the number that contains the byte at this position.
fn number_around(text: &[u8], at: usize) -> Range<usize> {
    let start = text[..at].iter().rposition(|byte| !is_number(byte)).map_or(0, |place| place + 1);
    let end = text[at..].iter().position(|byte| !is_number(byte)).map_or(text.len(), |length| at + length);
    start..end
}

fn fits_double(number: &[u8]) -> bool {
    let exponent = match number.iter().position(|byte| matches!(byte, b'e' | b'E')) {
        None if number.len() < SAFE_DIGITS => return true,
        None => 0,
        Some(at) => number.len() - at - 1,
    };
    if exponent <= 2 && number.len() < SAFE_LENGTH {
        return true;
    }
    // Malformed numbers pass; the JSON parser reports them.
    std::str::from_utf8(number).ok().and_then(|text| text.parse::<f64>().ok()).is_none_or(f64::is_finite)
}

/// One step of a path into arrays and objects.
enum Step<'a> {
    Index(usize),
    /// A member, by its name as it was written; `None` before the name is read.
    Member(Option<&'a str>),
}

/// Describes the value at `fault` in a valid JSON text.
fn describe(text: &str, fault: Range<usize>) -> Invalid {
    let bytes = text.as_bytes();
    let mut steps: Vec<Step<'_>> = Vec::new();
    let mut at = 0;
    while at < fault.start {
        match bytes[at] {
            b'"' => {
                let end = scan_string(bytes, at).end;
                if let Some(Step::Member(name @ None)) = steps.last_mut() {
                    *name = Some(&text[at..end]);
                }
                at = end;
                continue;
            }
            b'[' => steps.push(Step::Index(0)),
            b'{' => steps.push(Step::Member(None)),
            b']' | b'}' => _ = steps.pop(),
            b',' => match steps.last_mut() {
                Some(Step::Index(index)) => *index += 1,
                Some(Step::Member(name)) => *name = None,
                None => {}
            },
            _ => {}
        }
        at += 1;
    }
    let (path, received) = (path(&steps), &text[fault.clone()]);
    let invalid = match (bytes[fault.start], steps.last()) {
        (b'"', Some(Step::Member(None))) => {
            Invalid::new(Kind::Payload, path, "has a member whose name contains a lone surrogate")
        }
        (b'"', _) => Invalid::field(path, "text without lone surrogates", received),
        _ => Invalid::field(path, "a number within the range of a double", received),
    };
    let index = match &steps[..] {
        [Step::Member(Some("\"jobs\"")), Step::Index(index), ..] => Some(*index),
        _ => None,
    };
    Invalid { index, ..invalid }
}

fn path(steps: &[Step<'_>]) -> String {
    let mut path = String::new();
    for step in steps {
        match step {
            Step::Index(index) => path.push_str(&format!("[{index}]")),
            Step::Member(None) => {}
            Step::Member(Some(name)) => {
                let name = json::text(name).unwrap_or_default();
                path.push_str(if path.is_empty() { "" } else { "." });
                path.push_str(&super::invalid::shorten(&name));
            }
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn refused(text: &str) -> Invalid {
        check(text).expect_err(text)
    }

    #[test]
    fn what_every_client_reads_passes() {
        let long = format!("[{}]", "9".repeat(308));
        for text in [
            "{}",
            "[1.0,-0,0.10,1e2,1E+308,-1.7976931348623157e308,1e-400,123456789012345678901234567890]",
            "[0.0000000000000000000000000000000000000000000000000000000000000000000000000000001e320]",
            "[true,false,null,{\"e\":true}]",
            long.as_str(),
            &format!("[{}e-10]", "9".repeat(310)),
            &format!("[{}1]", "1,".repeat(1000)),
            r#"["\ud83d\ude00","\\ud800","\u00e9\u0000","1e400","a\"1e400"]"#,
            r#"{"\ud83d\ude00":1,"a":{"a":1,"a":2}}"#,
            // Not JSON, so this check passes.
            "[1e400",
            "1e400 1e400",
            r#"["\ud800"#,
            r#"["\"#,
            "-",
            "",
        ] {
            assert_eq!(check(text), Ok(()), "{text}");
        }
    }

    #[test]
    fn the_path_of_the_first_fault_is_told() {
        let long = format!(r#"{{"a":{}}}"#, "9".repeat(310));
        for (text, path) in [
            (r#"{"args":[{"amount":1e400}]}"#, "args[0].amount"),
            (r#"{"args":["x",[1,2],{"a":[{}, -1E999]}]}"#, "args[2].a[1]"),
            (r#"{"a":{"b":[1]},"meta":{"d":"x\ud800y"}}"#, "meta.d"),
            (r#"{"a":"\udc00"}"#, "a"),
            (r#"{"a":"\ud800\ud83d\ude00"}"#, "a"),
            (r#"{"a":"\ud83d","b":1}"#, "a"),
            (r#"{"\u0061":"\uDBFF"}"#, "a"),
            (r#"{"jobs":[{"args":[]},{"args":[1.8e308]}]}"#, "jobs[1].args[0]"),
            (r#"{"a":{"b":{"\ud800":1}}}"#, "a.b"),
            (r#"{"a":1,"\ud800":1}"#, ""),
            (long.as_str(), "a"),
            (&format!("[{}{}]", "1,".repeat(1000), "9".repeat(310)), "[1000]"),
            ("1e400", ""),
        ] {
            assert_eq!(refused(text).field, path, "{text}");
        }
        assert_eq!(refused(r#"{"jobs":[{"args":[]},{"args":[1e400]}]}"#).index, Some(1));
        assert_eq!(refused(r#"{"a":[1e400]}"#).to_string(), "`a[0]` must be a number within the range of a double.");
    }

    proptest! {
        /// serde_json parses numbers and text as strictly as most clients.
        #[test]
        fn what_passes_is_what_a_parser_of_values_reads(text in r#"\[("(\\u[dD][89abcdefABCDEF0-7][0-9a-f]{2}|\\[\\nu]|x|1e999)*"|-?[1-9][0-9]{0,320}(\.[0-9]{1,3})?([eE][-+]?[0-9]{1,4})?)\]"#) {
            prop_assume!(serde_json::from_str::<serde::de::IgnoredAny>(&text).is_ok());
            prop_assert_eq!(check(&text).is_ok(), serde_json::from_str::<serde_json::Value>(&text).is_ok());
        }
    }
}
