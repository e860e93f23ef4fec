//! Values that many answers share.

use crate::api::openapi::schema;
use serde::Serialize;

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
    /// A number from 0 to 1.
    Ratio(f64) => schema::ratio();
    /// The origin of a setting.
    Source(&'static str) => schema::enumeration(&["file", "api"]);
}
