//! Percent-encoding of names inside keys, so that a name cannot contain a key's separators.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use std::borrow::Cow;

/// All bytes except letters, digits and `.-_@/`. Stored keys depend on it.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'.').remove(b'-').remove(b'_').remove(b'@').remove(b'/');

/// Percent-encodes all bytes except letters, digits and `.-_@/`.
pub fn escape(name: &str) -> String {
    Cow::from(utf8_percent_encode(name, ESCAPED)).into_owned()
}

/// Decodes a name. A `%` that begins no valid code is kept.
pub fn unescape(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn keys_have_the_same_codes_as_in_earlier_versions() {
        assert_eq!(escape("aZ09.-_@/"), "aZ09.-_@/");
        assert_eq!(escape("a b:{c}%\u{e9}~"), "a%20b%3A%7Bc%7D%25%C3%A9%7E");
    }

    #[test]
    fn a_sign_without_a_code_stands_for_itself() {
        assert_eq!(unescape("a%2Fb%c3%A9%+f%4"), "a/b\u{e9}%+f%4");
    }

    proptest! {
        #[test]
        fn comes_back_as_it_was(name in "\\PC*") {
            let escaped = escape(&name);
            prop_assert!(!escaped.contains([':', '{', '}', '"', '\\']), "{}", escaped);
            prop_assert_eq!(unescape(&escaped), name);
        }
    }
}
