//! API keys: list, create, revoke.

use super::operation::{Operation, operation};
use super::schema::*;
use crate::auth::Role;
use serde_json::Value;

fn role() -> Value {
    enumeration(&Role::ALL.map(|(name, _)| name))
}

pub fn list_all() -> Operation {
    let key = object([
        ("id", string()),
        ("name", string()),
        ("role", role()),
        ("tenant", nullable(string())),
        ("source", enumeration(&["api", "config"])),
        ("created_at", nullable(timestamp())),
    ]);
    operation("List API keys, without the keys themselves").paged().response(
        200,
        "The metadata of the keys.",
        page_of(&[], key),
    )
}

pub fn create() -> Operation {
    let key = object([
        ("id", string()),
        ("name", string()),
        ("role", role()),
        ("tenant", nullable(string())),
        ("key", string()),
    ]);
    operation("Create an API key")
        .request_body(request([("name", pool_name()), ("role", role()), ("tenant?", printable(256))]))
        .response(201, "The key, which cannot be read again.", object([("api_key", key)]))
        .with_headers(&["Cache-Control"])
        .errors(&[409])
}

pub fn revoke() -> Operation {
    operation("Revoke an API key")
        .response(200, "The key is not valid any more.", object([("revoked", boolean()), ("id", string())]))
        .errors(&[409])
}
