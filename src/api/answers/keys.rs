//! Answers about API keys.

use super::types::{Timestamp, described};
use crate::api::openapi::keys::role;
use schemars::JsonSchema;
use serde::Serialize;

described! {
    /// The name of a role.
    Role(&'static str) => role();
}

/// The metadata of an API key.
#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
pub struct Key {
    pub id: String,
    /// The name of the holder.
    pub name: String,
    pub role: Role,
    /// The tenant to which the key is bound, if it is bound to one.
    pub tenant: Option<String>,
    #[schemars(extend("enum" = ["api", "config"]))]
    pub source: &'static str,
    /// `null` for a key of the configuration.
    pub created_at: Option<Timestamp>,
}

/// The key that a request presents.
#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
pub struct CurrentKey {
    /// False if the server has no API keys, so that requests need none.
    pub required: bool,
    /// `null` if no key is required.
    pub id: Option<String>,
    /// The name of the holder, `null` if no key is required.
    pub name: Option<String>,
    pub role: Role,
    /// The tenant to which the key is bound, if it is bound to one.
    pub tenant: Option<String>,
}

/// A new API key.
#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
pub struct NewKey {
    pub id: String,
    pub name: String,
    pub role: Role,
    pub tenant: Option<String>,
    /// The key itself, for `Authorization: Bearer`.
    pub key: String,
}

#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
pub struct KeyCreated {
    pub api_key: NewKey,
}

#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
pub struct KeyRevoked<'a> {
    pub id: &'a str,
    pub revoked: bool,
}
