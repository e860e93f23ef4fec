//! The body of a request to the weights webhook.

use crate::domain::tenant::Weight;
use serde::{Serialize, Serializer};

/// A request for the weights of some tenants.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Ask {
    pub queue: String,
    pub round: u64,
    pub tenants: Vec<AskedTenant>,
}

/// A tenant in a request. Unknown fields are omitted.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct AskedTenant {
    pub id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pending: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oldest_age_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub promoted_1m: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processed_1m: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub avg_runtime_ms: Option<u64>,
    /// Its current weight.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "as_number")]
    pub weight: Option<Weight>,
}

impl AskedTenant {
    /// Creates a tenant of which only the name is known.
    pub fn named(id: &str) -> AskedTenant {
        AskedTenant { id: id.to_owned(), ..AskedTenant::default() }
    }
}

fn as_number<S: Serializer>(weight: &Option<Weight>, serializer: S) -> Result<S::Ok, S::Error> {
    weight.map(Weight::as_f64).serialize(serializer)
}

/// The body of a request: the tenants and the name of the rule.
#[derive(Serialize)]
pub(super) struct Body<'a> {
    pub rule: &'a str,
    #[serde(flatten)]
    pub ask: &'a Ask,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{json, to_value};

    #[test]
    fn what_is_not_known_is_left_out() {
        let full = AskedTenant {
            id: "a".to_owned(),
            pending: Some(12),
            oldest_age_ms: Some(5120),
            active: Some(2),
            promoted_1m: Some(40),
            processed_1m: Some(38),
            avg_runtime_ms: Some(210),
            weight: Weight::of(0.5),
        };
        let ask = Ask { queue: "reports".to_owned(), round: 7, tenants: vec![full, AskedTenant::named("b")] };
        assert_eq!(
            to_value(Body { rule: "r", ask: &ask }).unwrap(),
            json!({
                "rule": "r", "queue": "reports", "round": 7,
                "tenants": [
                    {"id": "a", "pending": 12, "oldest_age_ms": 5120, "active": 2, "promoted_1m": 40,
                     "processed_1m": 38, "avg_runtime_ms": 210, "weight": 0.5},
                    {"id": "b"},
                ],
            })
        );
    }
}
