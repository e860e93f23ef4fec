//! Reports as JSON.

use crate::domain::simulation::Report;
use serde_json::{Map, Value, json};

/// Returns a report as one JSON object.
pub(super) fn report(report: &Report) -> Value {
    serde_json::to_value(report).unwrap_or_default()
}

/// Returns two reports and the difference of their numbers as one JSON object.
pub(super) fn comparison(before: &Report, after: &Report) -> Value {
    let (a, b) = (report(before), report(after));
    let named = |report: &Value, name: &Value| {
        let entries = report["tenants"].as_array()?;
        entries.iter().find(|entry| entry["name"] == *name).cloned()
    };
    let mut tenants = Vec::new();
    for entry in a["tenants"].as_array().into_iter().flatten() {
        if let Some(Value::Object(mut change)) = named(&b, &entry["name"]).and_then(|other| difference(entry, &other)) {
            change.insert("name".to_owned(), entry["name"].clone());
            tenants.push(Value::Object(change));
        }
    }
    let totals = difference(&a["totals"], &b["totals"]);
    json!({"a": a, "b": b, "difference": {"tenants": tenants, "totals": totals}})
}

/// Returns the differences of all numbers that both values have, or `None` if there are none.
fn difference(before: &Value, after: &Value) -> Option<Value> {
    match (before, after) {
        (Value::Number(before), Value::Number(after)) => {
            let exact = before.as_i64().zip(after.as_i64()).map(|(before, after)| json!(after - before));
            // Six decimals, so that a difference is not longer than its operands.
            let rounded = |before: f64, after: f64| json!(((after - before) * 1e6).round() / 1e6 + 0.0);
            exact.or_else(|| Some(rounded(before.as_f64()?, after.as_f64()?)))
        }
        (Value::Object(before), Value::Object(after)) => {
            let change = |(key, value): (&String, &Value)| Some((key.clone(), difference(value, after.get(key)?)?));
            let changes: Map<String, Value> = before.iter().filter_map(change).collect();
            (!changes.is_empty()).then_some(Value::Object(changes))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_those_of_numbers_that_both_have() {
        let before = json!({"a": 1, "b": {"c": 0.3, "d": "x"}, "e": null, "f": 5});
        let after = json!({"a": 4, "b": {"c": 0.1, "d": "y"}, "e": 1});
        assert_eq!(difference(&before, &after), Some(json!({"a": 3, "b": {"c": -0.2}})));
        assert_eq!(difference(&json!({"d": "x"}), &json!({"d": "x"})), None);
    }
}
