//! API keys: list, create, revoke.

use super::operation::{Operation, operation};
use super::schema::*;
use crate::api::answers::keys::{CurrentKey, Key, KeyCreated, KeyRevoked};
use crate::auth::Role;
use serde_json::Value;

/// The name of a role.
pub fn role() -> Value {
    enumeration(&Role::ALL.map(|(name, _)| name))
}

pub fn list_all() -> Operation {
    operation("List API keys, without the keys themselves").paged().page::<Key>(&[], "The metadata of the keys.")
}

pub fn current() -> Operation {
    operation("Show the role and the tenant of the key that the request presents")
        .description("A server without API keys returns the role `admin`, because every request may do everything.")
        .answer::<CurrentKey>(200, "The key.")
}

pub fn create() -> Operation {
    operation("Create an API key")
        .request_body(request([("name", pool_name()), ("role", role()), ("tenant?", printable(256))]))
        .answer::<KeyCreated>(201, "The key, which cannot be read again.")
        .with_headers(&["Cache-Control"])
        .errors(&[409])
}

pub fn revoke() -> Operation {
    operation("Revoke an API key").answer::<KeyRevoked>(200, "The key is not valid any more.").errors(&[409])
}
