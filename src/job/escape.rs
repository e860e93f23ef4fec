//! Names inside keys: percent-encoded, so that a name can neither end its own part of a key nor start another.

/// The name with everything but letters, digits and `.-_@/` percent-encoded.
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

/// The name that was encoded. What was never encoded comes back as it is.
pub fn unescape(text: &str) -> String {
    if !text.contains('%') {
        return text.to_owned();
    }
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut position = 0;
    while position < bytes.len() {
        let code = text.get(position + 1..position + 3).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match code {
            Some(byte) if bytes[position] == b'%' => {
                out.push(byte);
                position += 3;
            }
            _ => {
                out.push(bytes[position]);
                position += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn comes_back_as_it_was(name in "\\PC*") {
            let escaped = escape(&name);
            prop_assert!(!escaped.contains([':', '{', '}', '"', '\\']), "{}", escaped);
            prop_assert_eq!(unescape(&escaped), name);
        }
    }
}
