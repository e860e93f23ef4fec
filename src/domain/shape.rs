//! Shapes of JSON values: keys and types without the values, which may be secret. Used in messages.

use serde_json::Value;

/// Limits of a shape: nesting depth, members and elements per level, and characters per key.
const DEPTH: usize = 4;
const MOST_MEMBERS: usize = 20;
const MOST_ELEMENTS: usize = 10;
const LONGEST_KEY: usize = 40;

/// Formats the shape of a JSON text: `[{account_id: number}, string]`.
pub fn shape(json: &str) -> String {
    let mut text = String::new();
    match serde_json::from_str(json) {
        Ok(value) => push_shape(&mut text, &value, DEPTH),
        Err(_) => text.push_str("not JSON"),
    }
    text
}

fn push_shape(text: &mut String, value: &Value, depth: usize) {
    match value {
        Value::Null => text.push_str("null"),
        Value::Bool(_) => text.push_str("boolean"),
        Value::Number(_) => text.push_str("number"),
        Value::String(_) => text.push_str("string"),
        Value::Array(_) if depth == 0 => text.push_str("[…]"),
        Value::Object(_) if depth == 0 => text.push_str("{…}"),
        Value::Array(items) => {
            text.push('[');
            for (index, item) in items.iter().take(MOST_ELEMENTS).enumerate() {
                text.push_str(if index == 0 { "" } else { ", " });
                push_shape(text, item, depth - 1);
            }
            text.push_str(if items.len() > MOST_ELEMENTS { ", …]" } else { "]" });
        }
        Value::Object(members) => {
            text.push('{');
            for (index, (name, member)) in members.iter().take(MOST_MEMBERS).enumerate() {
                text.push_str(if index == 0 { "" } else { ", " });
                text.extend(name.chars().take(LONGEST_KEY));
                text.push_str(": ");
                push_shape(text, member, depth - 1);
            }
            text.push_str(if members.len() > MOST_MEMBERS { ", …}" } else { "}" });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_keys_and_types_and_no_values() {
        for (json, expected) in [
            ("[]", "[]"),
            (r#"["hunter2", 4111, true, null, {}]"#, "[string, number, boolean, null, {}]"),
            (r#"[{"account_id": 7, "card": {"number": "x"}}]"#, "[{account_id: number, card: {number: string}}]"),
            (r#"[[[[["x"]]]]]"#, "[[[[[…]]]]]"),
            (
                "[1,1,1,1,1,1,1,1,1,1,1]",
                "[number, number, number, number, number, number, number, number, number, number, …]",
            ),
            ("hunter2", "not JSON"),
        ] {
            assert_eq!(shape(json), expected);
        }
    }

    #[test]
    fn is_bounded() {
        let wide: Vec<String> = (0..1000).map(|n| format!("\"{}{n}\": {{\"a\": [1]}}", "k".repeat(100))).collect();
        assert!(shape(&format!("[{{{}}}]", wide.join(","))).len() < 2000);
    }
}
