//! The id of the tenant that a job belongs to.

use super::json::{self, Object};

/// The longest id of a tenant, in bytes: it becomes part of a key.
const LONGEST: usize = 256;

/// What an error message says about a bad id.
pub const EXPECTED: &str = "the id of a tenant: 1 to 256 bytes without control characters";

/// Whether a text can be the id of a tenant.
pub fn is_id(text: &str) -> bool {
    !text.is_empty() && text.len() <= LONGEST && !text.chars().any(char::is_control)
}

/// The id that a JSON value is: a string's content, or a number as it was written.
pub fn id(value: &str) -> Option<String> {
    match value.as_bytes().first()? {
        b'"' => json::text(value).map(|text| text.into_owned()).filter(|text| is_id(text)),
        b'-' | b'0'..=b'9' => Some(value.to_owned()).filter(|text| is_id(text)),
        _ => None,
    }
}

/// The tenant that the text of `meta` names under `tenant_id`.
pub fn of_meta(meta: &str) -> Option<String> {
    // Most jobs name none, and are not parsed again for it. A backslash may spell the name in escapes.
    if !meta.contains("tenant_id") && !meta.contains('\\') {
        return None;
    }
    id(Object::parse(meta).ok()?.get("tenant_id")?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Limits;
    use crate::job::request::{Context, parse};

    #[test]
    fn a_tenant_is_a_string_or_a_number() {
        for (meta, expected) in [
            ("{}", None),
            (r#"{"tenant_id":"acme"}"#, Some("acme")),
            (r#"{"tenant_id":"\u00e9 b"}"#, Some("é b")),
            (r#"{"tenant\u005fid":"acme"}"#, Some("acme")),
            (r#"{"tenant_id": 4.20}"#, Some("4.20")),
            (r#"{"tenant_id":-1}"#, Some("-1")),
            (r#"{"tenant_id":""}"#, None),
            (r#"{"tenant_id":null}"#, None),
            (r#"{"tenant_id":true}"#, None),
            (r#"{"tenant_id":["a"]}"#, None),
            (r#"{"tenant_id":"a\nb"}"#, None),
            (r#"{"x":{"tenant_id":"acme"}}"#, None),
            (r#"{"x":"tenant_id"}"#, None),
            ("not json: tenant_id", None),
        ] {
            assert_eq!(of_meta(meta).as_deref(), expected, "{meta}");
        }
        assert_eq!(of_meta(&format!(r#"{{"tenant_id":"{}"}}"#, "x".repeat(257))), None);
    }

    #[test]
    fn a_job_knows_its_tenant() {
        let tenant = |meta: &str| {
            let text = format!(r#"{{"type":"a","args":[],{meta}}}"#);
            parse(&text, &Limits::default(), &Context::default()).unwrap().tenant
        };
        assert_eq!(tenant(r#""meta":{"tenant_id":"acme"}"#).as_deref(), Some("acme"));
        assert_eq!(tenant(r#""options":{"metadata":{"tenant_id":7}}"#).as_deref(), Some("7"));
        assert_eq!(tenant(r#""meta":{}"#), None);
    }
}
