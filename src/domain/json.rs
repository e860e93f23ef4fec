//! JSON as text. Values of clients are never decoded and encoded again, which would change `1.0`,
//! big integers, duplicate keys and escapes. They are cut out of the request and copied into
//! answers unchanged.

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt::{self, Write};

/// Members of a JSON object in their order, with values as text. The last of duplicate keys counts.
#[derive(Debug, Default)]
pub struct Object<'a> {
    members: Vec<Member<'a>>,
}

/// One member, with its name decoded, and its name and value as they were written.
#[derive(Debug)]
pub struct Member<'a> {
    pub name: Cow<'a, str>,
    pub raw_name: &'a str,
    pub value: &'a str,
}

impl<'a> Object<'a> {
    /// Parses an object. The error contains the position.
    pub fn parse(text: &'a str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }

    /// Returns the text of a member's value. An explicit `null` counts as absent.
    pub fn get(&self, name: &str) -> Option<&'a str> {
        let member = self.members.iter().rev().find(|member| member.name == name)?;
        (member.value != "null").then_some(member.value)
    }

    /// Returns the members that count: only the last of duplicates.
    pub fn members(&self) -> impl Iterator<Item = &Member<'a>> {
        self.members.iter().enumerate().filter_map(|(index, member)| {
            let repeated = self.members[index + 1..].iter().any(|later| later.name == member.name);
            (!repeated).then_some(member)
        })
    }

    /// Returns the name of a member that makes the object nest deeper than `most` levels.
    pub fn too_deep(&self, most: usize) -> Option<&str> {
        // Fast path: most values have fewer brackets in total than the permitted depth.
        let has_many = |value: &str| value.bytes().filter(|byte| matches!(byte, b'[' | b'{')).count() + 1 > most;
        let is_too_deep = |value: &str| has_many(value) && depth(value) + 1 > most;
        self.members.iter().find(|member| is_too_deep(member.value)).map(|member| member.name.as_ref())
    }

    /// Returns true if the object has no members.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }
}

impl<'de> Deserialize<'de> for Object<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = Object<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object<'de>, A::Error> {
                let mut members = Vec::with_capacity(8);
                while let Some((raw_name, value)) = map.next_entry::<&RawValue, &RawValue>()? {
                    let raw_name = raw_name.get();
                    let name = if raw_name.contains('\\') {
                        serde_json::from_str::<String>(raw_name).map_err(serde::de::Error::custom)?.into()
                    } else {
                        Cow::Borrowed(&raw_name[1..raw_name.len() - 1])
                    };
                    members.push(Member { name, raw_name, value: value.get() });
                }
                Ok(Object { members })
            }
        }
        deserializer.deserialize_map(Members)
    }
}

/// Splits an array into the texts of its elements; `None` if the value is not an array.
pub fn elements(text: &str) -> Option<Vec<&str>> {
    let elements: Vec<&RawValue> = serde_json::from_str(text).ok()?;
    Some(elements.into_iter().map(RawValue::get).collect())
}

/// Decodes a string; `None` if the value is not a string.
pub fn text(value: &str) -> Option<Cow<'_, str>> {
    let inner = value.strip_prefix('"')?.strip_suffix('"')?;
    if inner.contains('\\') { serde_json::from_str(value).ok().map(Cow::Owned) } else { Some(Cow::Borrowed(inner)) }
}

/// Decodes an integer. `3.0` counts as one, because JSON does not distinguish the two.
pub fn integer(value: &str) -> Option<i64> {
    if let Ok(integer) = value.parse() {
        return Some(integer);
    }
    let number = number(value)?;
    (number.fract() == 0.0 && number.abs() < 9e15).then_some(number as i64)
}

/// Decodes a finite number.
pub fn number(value: &str) -> Option<f64> {
    serde_json::from_str::<f64>(value).ok().filter(|number| number.is_finite())
}

/// Decodes a boolean.
pub fn boolean(value: &str) -> Option<bool> {
    value.parse().ok()
}

/// Appends a JSON string.
pub fn push_text(out: &mut String, text: &str) {
    if text.bytes().all(|byte| byte >= 0x20 && byte != b'"' && byte != b'\\') {
        out.push('"');
        out.push_str(text);
        out.push('"');
        return;
    }
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            // Writing to a String cannot fail.
            control if control < ' ' => _ = write!(out, "\\u{:04x}", control as u32),
            other => out.push(other),
        }
    }
    out.push('"');
}

/// Formats a JSON string.
pub fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    push_text(&mut out, text);
    out
}

/// Returns the nesting depth of arrays and objects in a JSON text.
pub fn depth(text: &str) -> usize {
    let (mut depth, mut deepest, mut in_string, mut escaped) = (0_usize, 0, false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'[' | b'{' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_values_as_they_were_written() {
        let object = Object::parse(
            r#"{"a": [1.0,1e400, {"x":1,"x":2}], "b":"\u00e9", "\u0063":null, "a2" : 12345678901234567890 }"#,
        )
        .unwrap();
        assert_eq!(object.get("a"), Some(r#"[1.0,1e400, {"x":1,"x":2}]"#));
        assert_eq!(object.get("b"), Some(r#""\u00e9""#));
        assert_eq!(object.get("c"), None, "null counts as absent");
        assert_eq!(object.get("a2"), Some("12345678901234567890"));
        assert_eq!(object.members().nth(2).unwrap().raw_name, r#""\u0063""#);
    }

    #[test]
    fn the_last_duplicate_counts() {
        let object = Object::parse(r#"{"a":1,"b":2,"\u0061":3}"#).unwrap();
        assert_eq!(object.get("a"), Some("3"));
        assert_eq!(object.members().map(|member| member.value).collect::<Vec<_>>(), ["2", "3"]);
    }

    #[test]
    fn measures_depth_outside_strings() {
        assert_eq!(depth(r#"{"a":[1,{"b":"[[[\"["}]}"#), 3);
        assert_eq!(depth("1"), 0);
    }

    #[test]
    fn writes_strings_that_read_back() {
        for string in ["", "plain", "q\"b\\s", "tab\tnew\nline\u{1}", "é 😀"] {
            assert_eq!(serde_json::from_str::<String>(&quoted(string)).unwrap(), string);
        }
    }
}
