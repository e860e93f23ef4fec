//! Values that many answers share.

use crate::api::openapi::{derived, schema};
use crate::job::time;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Serialize, Serializer};
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
    /// The id of a job.
    JobId(String) => schema::uuid();
    /// A number from 0 to 1.
    Ratio(f64) => schema::ratio();
    /// The origin of a setting.
    Source(&'static str) => schema::enumeration(&["file", "api"]);
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
