//! Values that many answers share.

use crate::api::openapi::{derived, schema};
use crate::domain::job::State;
use crate::domain::time;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use std::borrow::Cow;

/// Declares a type of values whose schema is written by hand in `openapi`.
macro_rules! described {
    ($($(#[$doc:meta])* $name:ident($inner:ty) => $schema:expr;)+) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, Serialize)]
        #[serde(transparent)]
        pub struct $name(pub $inner);

        impl schemars::JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                crate::api::openapi::derived::from_value($schema)
            }
        }
    )+};
}
pub(super) use described;

described! {
    /// The state of a job.
    JobState(State) => schema::state();
    /// JSON text from the store.
    Json(Box<RawValue>) => schema::any();
    /// The name of a cron.
    CronName(String) => schema::cron_name();
    /// The id of a job.
    JobId(String) => schema::uuid();
    /// A number from 0 to 1.
    Ratio(f64) => schema::ratio();
    /// The origin of a setting.
    Source(&'static str) => schema::enumeration(&["file", "api"]);
}

impl Json {
    /// Takes JSON text; no text, or text that is not JSON, is `null`.
    pub fn parse(text: Option<&str>) -> Json {
        let raw = text.and_then(|text| RawValue::from_string(text.to_owned()).ok());
        Json(raw.unwrap_or_else(|| RawValue::NULL.to_owned()))
    }
}

/// A point in time, in milliseconds since 1970.
#[derive(Clone, Copy, Debug)]
pub struct Timestamp(pub i64);

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&time::rfc3339(self.0))
    }
}

impl JsonSchema for Timestamp {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Timestamp".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        derived::from_value(schema::timestamp())
    }
}

/// A deletion of a job, or of a part of it.
#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
pub struct Deleted<'a> {
    pub deleted: bool,
    pub job_id: &'a str,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::response;

    #[test]
    fn json_text_stays_as_it_is_stored() {
        for (text, expected) in [(Some(r#"{"b":1.0,"a":"\u0041"}"#), r#"{"b":1.0,"a":"\u0041"}"#), (None, "null")] {
            assert_eq!(response::in_order(&Json::parse(text)), expected);
        }
        assert_eq!(response::in_order(&Json::parse(Some("{"))), "null");
    }

    #[test]
    fn a_timestamp_is_shown_in_utc() {
        assert_eq!(response::in_order(&Timestamp(1_700_000_000_123)), "\"2023-11-14T22:13:20.123Z\"");
    }
}
