//! API keys: list, make, revoke.

use super::operation::{Operation, op};
use super::schema::*;
use crate::auth::Role;
use serde_json::Value;

fn role() -> Value {
    one_of(&Role::ALL.map(|(name, _)| name))
}

pub fn list_all() -> Operation {
    let key = object([
        ("id", text()),
        ("name", text()),
        ("role", role()),
        ("tenant", or_null(text())),
        ("source", one_of(&["api", "config"])),
        ("created_at", or_null(time())),
    ]);
    op("All API keys: what is known about them, which is not the keys").paged().gives(200, "Keys.", page_of(&[], key))
}

pub fn create() -> Operation {
    let key =
        object([("id", text()), ("name", text()), ("role", role()), ("tenant", or_null(text())), ("key", text())]);
    op("Make an API key")
        .takes(request([("name", pool_name()), ("role", role()), ("tenant?", plain(256))]))
        .gives(201, "The key, for the only time.", object([("api_key", key)]))
        .with_headers(&["Cache-Control"])
        .fails(&[409])
}

pub fn revoke() -> Operation {
    op("Revoke an API key")
        .gives(200, "It opens nothing from now on.", object([("revoked", flag()), ("id", text())]))
        .fails(&[409])
}
