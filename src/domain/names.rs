//! Names that clients choose: job types, queues, workers.

use super::invalid::{Invalid, Kind};

/// Expected value in the error for an invalid job type.
pub const TYPE_EXPECTED: &str = "1 to 255 characters: words of a-z, 0-9, `_` and `-` that start with a letter, joined by dots, such as `email.send`";
/// Expected value in the error for an invalid queue name.
pub const QUEUE_EXPECTED: &str = "1 to 128 characters of a-z, 0-9, `.` and `-`, the first a letter or digit";
const WORKER_EXPECTED: &str = "1 to 256 bytes without control characters";

/// Expected value in the error for an invalid label.
pub const LABEL_EXPECTED: &str = "1 to 63 lower-case letters, digits and dashes, not starting with a dash";

/// Expected value in the error for an invalid rate-limit key.
pub const RATE_KEY_EXPECTED: &str =
    "1 to 256 characters of a-z, A-Z, 0-9, `.`, `_`, `:` and `-`, the first a letter or digit";
/// Expected value in the error for an invalid cron name. The name with the prefix `cron:` must be a
/// valid rate-limit key.
pub const CRON_EXPECTED: &str = "1 to 250 characters of a-z, 0-9, `.` and `-`, the first a letter or digit";
/// Expected value in the error for an invalid pool name.
pub const POOL_EXPECTED: &str = "1 to 63 characters of a-z, A-Z, 0-9, `.`, `_` and `-`, the first a letter or digit";

/// Returns true for a valid job type.
pub fn is_type(text: &str) -> bool {
    text.len() <= 255
        && text.split('.').all(|word| {
            word.as_bytes().first().is_some_and(u8::is_ascii_lowercase)
                && word.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-'))
        })
}

/// Returns true for a valid queue name.
pub fn is_queue(text: &str) -> bool {
    let starts_well = text.as_bytes().first().is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    starts_well && text.len() <= 128 && text.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'-'))
}

/// Returns true for a valid cron name.
pub fn is_cron(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let starts_well = text.bytes().next().is_some_and(plain);
    starts_well && text.len() <= 250 && text.bytes().all(|byte| plain(byte) || b".-".contains(&byte))
}

/// Returns true for a valid label, such as a namespace or the name of a plan rule.
pub fn is_label(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    text.len() <= 63 && text.bytes().next().is_some_and(plain) && text.bytes().all(|byte| plain(byte) || byte == b'-')
}

/// Returns true for a valid rate-limit key.
pub fn is_rate_key(text: &str) -> bool {
    text.len() <= 256 && is_word(text, b"._:-")
}

/// Returns true for a job type or a glob of types.
pub fn is_type_pattern(text: &str) -> bool {
    let in_glob = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-.*".contains(&byte);
    is_type(text) || (text.contains('*') && text.len() <= 255 && text.bytes().all(in_glob))
}

/// Returns true for a valid pool name.
pub fn is_pool(text: &str) -> bool {
    text.len() <= 63 && is_word(text, b"._-")
}

/// Returns true if a text starts with a letter or digit and consists of letters, digits and
/// `further`.
fn is_word(text: &str, further: &[u8]) -> bool {
    text.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || further.contains(&byte))
}

/// Validates a job type; the error names `field`.
pub fn check_type(field: &str, text: &str) -> Result<(), Invalid> {
    if is_type(text) { Ok(()) } else { Err(Invalid::field(field, TYPE_EXPECTED, text)) }
}

/// Validates a queue name; the error names `field`.
pub fn check_queue(field: &str, text: &str) -> Result<(), Invalid> {
    if is_queue(text) { Ok(()) } else { Err(Invalid::field(field, QUEUE_EXPECTED, text)) }
}

/// Validates a cron name; the error names `field`.
pub fn check_cron(field: &str, text: &str) -> Result<(), Invalid> {
    if is_cron(text) { Ok(()) } else { Err(Invalid::field(field, CRON_EXPECTED, text)) }
}

/// Validates a rate-limit key; the error names `field`.
pub fn check_rate_key(field: &str, text: &str) -> Result<(), Invalid> {
    if is_rate_key(text) { Ok(()) } else { Err(Invalid::field(field, RATE_KEY_EXPECTED, text).of_kind(Kind::Policy)) }
}

/// Validates the name of a worker or caller; the error names `field`.
pub fn check_worker(field: &str, text: &str) -> Result<(), Invalid> {
    if text.is_empty() || text.len() > 256 || text.chars().any(char::is_control) {
        return Err(Invalid::field(field, WORKER_EXPECTED, text));
    }
    Ok(())
}

/// Returns true if a text matches a pattern in which `*` matches any run of characters.
pub fn fits(pattern: &str, text: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut text) = text.strip_prefix(head) else { return false };
    let mut rest = rest;
    // Match each middle part at its first position, which leaves the most text for the later parts.
    while let Some((part, more)) = rest.split_once('*') {
        let Some(at) = text.find(part) else { return false };
        (text, rest) = (&text[at + part.len()..], more);
    }
    text.ends_with(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types() {
        for good in ["a", "email.send", "retry.test.attempt-counter", "a1_b.c2"] {
            assert!(is_type(good), "{good}");
        }
        for bad in ["", "Email.send", "email send", "1st", "a..b", ".a", "a.", "a@1", "a!", "-a", "é"] {
            assert!(!is_type(bad), "{bad}");
        }
        assert!(!is_type(&"a".repeat(256)));
    }

    #[test]
    fn labels() {
        for good in ["a", "0", "team-7", &"x".repeat(63)] {
            assert!(is_label(good), "{good}");
        }
        for bad in ["", "-a", "A", "a_b", "a:b", "ä", &"x".repeat(64)] {
            assert!(!is_label(bad), "{bad}");
        }
    }

    #[test]
    fn rate_keys_and_pools() {
        for good in ["a", "0", "api.stripe.com", "tenant:Acme-1:x", &"x".repeat(256)] {
            assert!(is_rate_key(good), "{good}");
        }
        for bad in ["", ".a", ":a", "a b", "a/b", "ä", &"x".repeat(257)] {
            assert!(!is_rate_key(bad), "{bad}");
        }
        assert!(is_pool("GPU_workers-1.eu") && is_pool(&"x".repeat(63)));
        for bad in ["", "-a", "a:b", "a/b", "a b", &"x".repeat(64)] {
            assert!(!is_pool(bad), "{bad}");
        }
    }

    #[test]
    fn queues() {
        for good in ["default", "a", "0", "a.b-c"] {
            assert!(is_queue(good), "{good}");
        }
        for bad in ["", "Default", "a_b", "a b", "-a", ".a", "_default", "a:b", "ä"] {
            assert!(!is_queue(bad), "{bad}");
        }
        assert!(!is_queue(&"a".repeat(129)));
    }

    #[test]
    fn globs() {
        for (pattern, text, expected) in [
            ("report.daily", "report.daily", true),
            ("report.daily", "report.dailyx", false),
            ("report.*", "report.daily", true),
            ("report.*", "report.daily.pdf", true),
            ("report.*", "report", false),
            ("*", "anything.at.all", true),
            ("*.pdf", "report.pdf", true),
            ("*.pdf", "report.pdf.x", false),
            ("a.*.z", "a.b.z", true),
            ("a.*.z", "a.z", false),
            ("a*b*c", "aXbYbc", true),
            ("a*a", "a", false),
        ] {
            assert_eq!(fits(pattern, text), expected, "{pattern} {text}");
        }
    }
}
