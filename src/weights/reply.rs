//! The answer of the webhook: `{"weights": {id: number}}`. Each number is validated separately.

use crate::domain::tenant::Weight;
use serde_json::value::RawValue;
use std::collections::{BTreeMap, HashSet};

/// Maximum number of invalid values in an outcome; the rest is only counted.
const MOST_INVALID: usize = 20;
/// Maximum number of characters shown of an invalid value.
const MOST_SHOWN: usize = 40;

/// A parsed answer. Tenants that it omits, or whose value is invalid, keep their last good weight.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReceivedWeights {
    pub weights: Vec<(String, Weight)>,
    /// Tenants with invalid values and the reasons, at most 20.
    pub invalid: Vec<(String, String)>,
    /// Total number of invalid values.
    pub invalid_total: u64,
    /// Number of tenants in the answer that were not requested.
    pub unknown: u64,
    /// Number of requested tenants that are not in the answer.
    pub missing: u64,
}

impl ReceivedWeights {
    /// Returns true if the answer counts as a success. One with only invalid values does not renew
    /// the age of weights.
    pub fn is_usable(&self) -> bool {
        !self.weights.is_empty() || self.invalid_total == 0
    }

    /// Returns the reason why an answer cannot be used at all.
    pub fn complaint(&self) -> Option<String> {
        let (tenant, reason) = self.invalid.first().filter(|_| !self.is_usable())?;
        Some(format!("the response contains no valid weight; first problem, for tenant {tenant:?}: {reason}"))
    }
}

/// A JSON object with values as text. A value such as `1e999` must not invalidate the others, and
/// an array must not be accepted as an object.
type Members<'a> = BTreeMap<String, &'a RawValue>;

/// Parses an answer. Returns an error if the answer as a whole is invalid.
pub(super) fn read(body: &[u8], asked: &HashSet<&str>) -> Result<ReceivedWeights, String> {
    let answer: Members =
        serde_json::from_slice(body).map_err(|error| format!("the body is not a JSON object: {error}"))?;
    let weights = answer.get("weights").ok_or("the body has no member \"weights\"")?;
    let weights: Members =
        serde_json::from_str(weights.get()).map_err(|error| format!("\"weights\" is not an object: {error}"))?;
    let mut outcome = ReceivedWeights::default();
    for (tenant, value) in weights {
        if !asked.contains(tenant.as_str()) {
            outcome.unknown += 1;
            continue;
        }
        match weight(value.get()) {
            Some(weight) => outcome.weights.push((tenant, weight)),
            None => {
                outcome.invalid_total += 1;
                if outcome.invalid.len() < MOST_INVALID {
                    let shown: String = value.get().chars().take(MOST_SHOWN).collect();
                    outcome.invalid.push((tenant, format!("expected a finite number of 0 or more, found {shown}")));
                }
            }
        }
    }
    outcome.missing = (asked.len() as u64).saturating_sub(outcome.weights.len() as u64 + outcome.invalid_total);
    Ok(outcome)
}

/// Returns the text of each value of a readable answer, by tenant.
pub(super) fn values(body: &[u8]) -> BTreeMap<String, String> {
    let answer: Members = serde_json::from_slice(body).unwrap_or_default();
    let weights: Members =
        answer.get("weights").and_then(|text| serde_json::from_str(text.get()).ok()).unwrap_or_default();
    weights.into_iter().map(|(tenant, value)| (tenant, value.get().chars().take(MOST_SHOWN).collect())).collect()
}

fn weight(json: &str) -> Option<Weight> {
    // Rust parses every JSON number, but neither strings, `null` nor objects; `NaN` is not valid
    // JSON.
    Weight::of(json.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &str, asked: &[&str]) -> Result<ReceivedWeights, String> {
        super::read(body.as_bytes(), &asked.iter().copied().collect())
    }

    #[test]
    fn each_value_is_judged_alone() {
        let body = r#"{"weights": {"a": 2, "b": -1, "c": 1e999, "d": "3", "e": null, "f": true, "g": [1], "h": -1e999,
            "i": 0, "j": 1e9, "k": 1e-9, "l": -0.0, "x": 5, "y": "z"}, "more": NULLS}"#
            .replace("NULLS", "[null]");
        let asked = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m"];
        let outcome = read(&body, &asked).unwrap();
        let weights: Vec<_> = outcome.weights.iter().map(|(id, weight)| (id.as_str(), weight.thousandths())).collect();
        assert_eq!(weights, [("a", 2000), ("i", 0), ("j", 1_000_000), ("k", 50), ("l", 0)]);
        let invalid: Vec<_> = outcome.invalid.iter().map(|(id, _)| id.as_str()).collect();
        assert_eq!(invalid, ["b", "c", "d", "e", "f", "g", "h"]);
        assert_eq!(outcome.invalid[1].1, "expected a finite number of 0 or more, found 1e999");
        assert_eq!((outcome.invalid_total, outcome.unknown, outcome.missing), (7, 2, 1));
        assert!(outcome.is_usable());
    }

    #[test]
    fn what_has_another_shape_is_refused_as_a_whole() {
        for body in [
            "",
            "<html><body>It works!</body></html>",
            r#"{"weights": {"a": 1"#,
            r#"{"weights": {"a": NaN}}"#,
            r#"{"weights": {"a": Infinity}}"#,
            r#"{"weights": {"a": +1}}"#,
            r#"{"weights": {"a": 01}}"#,
            r#"{"weights": {"a": 1}} trailing"#,
            r#"{"weights": [1]}"#,
            r#"{"weights": null}"#,
            r#"[{"a": 1}]"#,
            r#"{"a": 1}"#,
            "null",
            "1",
        ] {
            assert!(read(body, &["a"]).is_err(), "{body}");
        }
        assert!(super::read(b"{\"weights\": {\"a\": \"\xff\"}}", &HashSet::from(["a"])).is_err());
    }

    #[test]
    fn what_is_kept_of_a_bad_answer_is_bounded() {
        let ids: Vec<String> = (0..100).map(|id| format!("tenant-{id}")).collect();
        let long = "ü".repeat(10_000);
        let members: Vec<String> = ids.iter().map(|id| format!("\"{id}\": \"{long}\"")).collect();
        let asked: Vec<&str> = ids.iter().map(String::as_str).collect();
        let outcome = read(&format!("{{\"weights\": {{{}}}}}", members.join(",")), &asked).unwrap();
        assert_eq!((outcome.invalid.len(), outcome.invalid_total), (20, 100));
        assert!(outcome.invalid.iter().all(|(_, reason)| reason.chars().count() < 100));
        assert!(!outcome.is_usable());
        assert!(read(r#"{"weights": {}}"#, &asked).unwrap().is_usable(), "an empty answer is valid");
    }
}
