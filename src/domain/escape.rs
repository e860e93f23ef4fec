//! Percent-encoding of names inside keys, so that a name cannot contain a key's separators.

/// Percent-encodes all bytes except letters, digits and `.-_@/`.
pub fn escape(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'-' | b'_' | b'@' | b'/' => out.push(char::from(byte)),
            other => {
                out.push('%');
                for digit in [other >> 4, other & 15] {
                    out.push(char::from(b"0123456789ABCDEF"[usize::from(digit)]));
                }
            }
        }
    }
    out
}

/// Decodes a name. Text without valid codes is returned unchanged.
pub fn unescape(text: &str) -> String {
    if !text.contains('%') {
        return text.to_owned();
    }
    String::from_utf8_lossy(&decode(text)).into_owned()
}

/// Decodes percent-encoded text into bytes. A `%` that begins no valid code is kept.
pub fn decode(text: &str) -> Vec<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, behind)) = rest.split_first() {
        let code = match (first, behind) {
            (b'%', [high, low, ..]) => digit(*high).zip(digit(*low)),
            _ => None,
        };
        out.push(code.map_or(first, |(high, low)| high << 4 | low));
        rest = &behind[if code.is_some() { 2 } else { 0 }..];
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_sign_without_a_code_stands_for_itself() {
        assert_eq!(decode("a%2Fb%c3%A9%+f%4"), "a/b\u{e9}%+f%4".as_bytes());
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
