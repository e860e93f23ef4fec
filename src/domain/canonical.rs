//! Canonical JSON after RFC 8785, so that equal values have equal text: sorted members, numbers as
//! JavaScript prints them, no whitespace. Strings are also normalized to Unicode form C.
//!
//! Integers that a double cannot represent keep their digits. Rounding them would make different
//! ids equal.

use super::json;
use serde_json::value::RawValue;
use std::collections::BTreeMap;

/// Appends a JSON text in canonical form. Text that is not JSON is appended unchanged.
pub fn push(out: &mut String, text: &str) {
    let text = text.trim();
    match text.as_bytes().first() {
        Some(b'{') => push_object(out, text),
        Some(b'[') => {
            let elements = json::elements(text).unwrap_or_default();
            out.push('[');
            for (index, element) in elements.into_iter().enumerate() {
                out.push_str(if index == 0 { "" } else { "," });
                push(out, element);
            }
            out.push(']');
        }
        Some(b'"') => push_text(out, &json::text(text).unwrap_or_default()),
        Some(b'-' | b'0'..=b'9') => push_number(out, text),
        _ => out.push_str(text),
    }
}

/// Appends a string in canonical form.
pub fn push_text(out: &mut String, text: &str) {
    let normalized = icu_normalizer::ComposingNormalizerBorrowed::new_nfc().normalize(text);
    out.push('"');
    for character in normalized.chars() {
        match character {
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '"' | '\\' | '\n' | '\r' | '\t' => {
                let quoted = json::quoted(&character.to_string());
                out.push_str(&quoted[1..quoted.len() - 1]);
            }
            control if control < ' ' => out.push_str(&format!("\\u{:04x}", control as u32)),
            other => out.push(other),
        }
    }
    out.push('"');
}

fn push_object(out: &mut String, text: &str) {
    // The map keeps the last of duplicate keys, like the rest of the program.
    let members: BTreeMap<String, &RawValue> = serde_json::from_str(text).unwrap_or_default();
    let normalizer = icu_normalizer::ComposingNormalizerBorrowed::new_nfc();
    let sorted = |(name, value): (&String, &&'_ RawValue)| {
        let name = normalizer.normalize(name).into_owned();
        (name.encode_utf16().collect(), name, (*value).get().to_owned())
    };
    let mut members: Vec<(Vec<u16>, String, String)> = members.iter().map(sorted).collect();
    members.sort();
    out.push('{');
    for (index, (_, name, value)) in members.into_iter().enumerate() {
        out.push_str(if index == 0 { "" } else { "," });
        push_text(out, &name);
        out.push(':');
        push(out, &value);
    }
    out.push('}');
}

fn push_number(out: &mut String, text: &str) {
    /// Smallest integer from which neighbouring integers share a double (2^53).
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let is_integer = text.bytes().all(|byte| byte == b'-' || byte.is_ascii_digit());
    match text.parse::<f64>() {
        Ok(0.0) => out.push('0'),
        Ok(number) if number.is_finite() && !(is_integer && number.abs() >= EXACT) => push_double(out, number),
        _ => out.push_str(text),
    }
}

/// Appends a finite double other than zero, formatted as in ECMAScript.
fn push_double(out: &mut String, number: f64) {
    // The shortest digits that read back to the same double, and the power of ten of the first
    // digit: `1.25e-7`.
    let shortest = format!("{:e}", number.abs());
    let (digits, power) = shortest.split_once('e').unwrap_or((&shortest, "0"));
    let (digits, power) = (digits.replace('.', ""), power.parse::<i32>().unwrap_or(0));
    if number < 0.0 {
        out.push('-');
    }
    let (count, point) = (digits.len() as i32, power + 1);
    if (count..=21).contains(&point) {
        out.push_str(&digits);
        out.push_str(&"0".repeat((point - count) as usize));
    } else if (1..=21).contains(&point) {
        let (whole, rest) = digits.split_at(point as usize);
        out.extend([whole, ".", rest]);
    } else if (-5..=0).contains(&point) {
        out.extend(["0.", &"0".repeat(-point as usize), &digits]);
    } else {
        let (first, rest) = digits.split_at(1);
        out.extend([first, if rest.is_empty() { "" } else { "." }, rest]);
        out.push_str(&format!("e{}{}", if power < 0 { '-' } else { '+' }, power.abs()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn canonical(text: &str) -> String {
        let mut out = String::new();
        push(&mut out, text);
        out
    }

    #[test]
    fn is_that_of_the_rfc() {
        // Example from RFC 8785, section 3.2.2.
        let text = r#"{ "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
            "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/", "literals": [null, true, false] }"#;
        let expected = r#"{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\u000f\nA'B\"\\\\\"/"}"#;
        assert_eq!(canonical(text), expected);
        // Section 3.2.3: sorted by UTF-16 code units. U+FB33 becomes two characters in form C and
        // sorts earlier.
        let text = r#"{"\u20ac":1,"\r":2,"\ufb33":3,"1":4,"\ud83d\ude00":5,"\u0080":6,"\u00f6":7}"#;
        let sorted = canonical(text);
        let values: Vec<&str> =
            sorted.trim_end_matches('}').split(',').filter_map(|member| member.split(':').nth(1)).collect();
        assert_eq!(values, ["2", "4", "6", "7", "3", "1", "5"], "{sorted}");
    }

    #[test]
    fn equal_values_have_equal_texts_and_others_have_not() {
        for (one, other) in [
            ("1", "1.0"),
            ("100", "1e2"),
            ("-0", "0"),
            (r#"{"a":1,"b":[ ]}"#, r#"{"b":[],"a":1}"#),
            (r#"{"a":1,"a":2}"#, r#"{"a":2}"#),
            (r#""\u0061""#, r#""a""#),
            ("\"e\u{301}\"", "\"\u{e9}\""),
        ] {
            assert_eq!(canonical(one), canonical(other), "{one} {other}");
        }
        for (one, other) in [("1", "\"1\""), ("9007199254740993", "9007199254740992"), ("null", "{}"), ("[]", "{}")] {
            assert_ne!(canonical(one), canonical(other), "{one} {other}");
        }
    }

    proptest! {
        #[test]
        fn numbers_read_back(number in proptest::num::f64::NORMAL) {
            prop_assert_eq!(canonical(&format!("{number:e}")).parse::<f64>(), Ok(number));
        }
    }
}
