//! Ids of tenants.

use super::invalid::{Invalid, Kind};
use super::json::{self, Object};

/// Owner of jobs that name no tenant. Clients cannot name it, because it does not match the pattern
/// of names.
pub const DEFAULT: &str = "_default";

/// Maximum length of an id in bytes, because ids become part of keys.
const LONGEST: usize = 256;

/// Path of the member in which a job names its tenant.
const PATH: &str = "meta.tenant_id";

/// Expected value in the error for an invalid id.
pub const EXPECTED: &str = "the id of a tenant: 1 to 256 bytes without control characters";

/// Expected value in the error for a name that does not match the pattern.
pub const NAME_EXPECTED: &str = "the id of a tenant: a string of 1 to 256 characters of a-z, A-Z, 0-9, `.`, `_`, `:` and `-`, the first a letter or digit";

/// Returns true for a valid id, as plan rules extract it from any part of a job.
pub fn is_id(text: &str) -> bool {
    !text.is_empty() && text.len() <= LONGEST && !text.chars().any(char::is_control)
}

/// Returns true for a valid name, as clients name tenants explicitly:
/// `^[a-zA-Z0-9][a-zA-Z0-9._:-]*$`.
pub fn is_name(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"._:-".contains(&byte);
    text.len() <= LONGEST && text.starts_with(|first: char| first.is_ascii_alphanumeric()) && text.bytes().all(is_part)
}

/// Returns the tenant that a JSON value names: a string that matches the pattern of names.
pub fn named_by(value: &str) -> Option<String> {
    json::text(value).map(|text| text.into_owned()).filter(|text| is_name(text))
}

/// Extracts an id from a JSON value: the content of a string, or the digits of a number. For values
/// other than `tenant_id`, such as the number of an account in `args`.
pub fn id(value: &str) -> Option<String> {
    match value.as_bytes().first()? {
        b'"' => json::text(value).map(|text| text.into_owned()).filter(|text| is_id(text)),
        b'-' | b'0'..=b'9' => Some(value.to_owned()).filter(|text| is_id(text)),
        _ => None,
    }
}

/// Returns the value of `tenant_id` in the text of `meta`.
fn in_meta(meta: &str) -> Option<&str> {
    // Fast path: most jobs name no tenant, so their `meta` is not parsed a second time. With a
    // backslash, the name may be escaped.
    if !meta.contains("tenant_id") && !meta.contains('\\') {
        return None;
    }
    let object = Object::parse(meta).ok()?;
    object.members().find(|member| member.name == "tenant_id").map(|member| member.value)
}

/// Determines the tenant of a job: the one that the request names, which is then written into
/// `meta`, or the one in `meta`. `null` names none. Refuses contradictions.
pub fn settle(meta: String, named: Option<&str>) -> Result<(String, Option<String>), Invalid> {
    let own = in_meta(&meta);
    let Some(named) = named else {
        let Some(value) = own.filter(|value| *value != "null") else { return Ok((meta, None)) };
        let name = named_by(value).ok_or_else(|| Invalid::field(PATH, NAME_EXPECTED, value).of_kind(Kind::Tenant))?;
        return Ok((meta, Some(name)));
    };
    match own {
        Some(value) if named_by(value).as_deref() != Some(named) => {
            let expected = format!("{named:?} as in the request's header, or left out");
            Err(Invalid::field(PATH, expected, value))
        }
        Some(_) => Ok((meta, Some(named.to_owned()))),
        None => {
            let rest = meta.trim_start().strip_prefix('{').unwrap_or("}");
            let comma = if rest.trim_start().starts_with('}') { "" } else { "," };
            Ok((format!("{{\"tenant_id\":{}{comma}{rest}", json::quoted(named)), Some(named.to_owned())))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::job::RequestLimits;
    use crate::domain::job::request::{Context, parse};

    #[test]
    fn a_tenant_is_a_string_within_the_pattern() {
        let of_meta = |meta: &str| settle(meta.to_owned(), None).map(|(_, tenant)| tenant);
        for (meta, expected) in [
            ("{}", None),
            (r#"{"tenant_id":"acme"}"#, Some("acme")),
            (r#"{"tenant_id":"a.b_c:d-9"}"#, Some("a.b_c:d-9")),
            (r#"{"tenant\u005fid":"acme"}"#, Some("acme")),
            (r#"{"tenant_id":"4.20"}"#, Some("4.20")),
            (r#"{"tenant_id":null}"#, None),
            (r#"{"x":{"tenant_id":"acme"}}"#, None),
            (r#"{"x":"tenant_id"}"#, None),
            ("not json: tenant_id", None),
        ] {
            assert_eq!(of_meta(meta).unwrap().as_deref(), expected, "{meta}");
        }
        let longest = format!("\"{}\"", "x".repeat(257));
        for value in [
            r#""""#,
            "-1",
            "7",
            "4.20",
            "true",
            r#"["a"]"#,
            "{}",
            r#""a\nb""#,
            r#""é""#,
            r#"" a""#,
            r#""_default""#,
            r#"".a""#,
            r#""a b""#,
            &longest,
        ] {
            let refused = of_meta(&format!(r#"{{"tenant_id":{value}}}"#)).unwrap_err();
            assert_eq!((refused.kind, refused.field.as_str()), (Kind::Tenant, "meta.tenant_id"), "{value}");
        }
    }

    #[test]
    fn what_the_request_says_is_written_into_meta_and_the_rest_stays_as_it_was() {
        for (meta, expected) in [
            ("{}", r#"{"tenant_id":"a:1"}"#),
            ("{ }", r#"{"tenant_id":"a:1" }"#),
            (r#"{"n": 1.0,"n":2}"#, r#"{"tenant_id":"a:1","n": 1.0,"n":2}"#),
            (r#" { "x":{"tenant_id":"b"}}"#, r#"{"tenant_id":"a:1", "x":{"tenant_id":"b"}}"#),
            (r#"{"tenant_id":"a\u003a1"}"#, r#"{"tenant_id":"a\u003a1"}"#),
        ] {
            let settled = settle(meta.to_owned(), Some("a:1")).unwrap();
            assert_eq!(settled, (expected.to_owned(), Some("a:1".to_owned())), "{meta}");
        }
        for value in [r#""b""#, "null", "1", "[]"] {
            let refused = settle(format!(r#"{{"tenant_id":{value}}}"#), Some("a:1")).unwrap_err();
            assert_eq!((refused.kind, refused.field.as_str()), (Kind::Field, "meta.tenant_id"), "{value}");
        }
    }

    #[test]
    fn a_job_knows_its_tenant() {
        let tenant = |meta: &str, named: Option<&str>| {
            let text = format!(r#"{{"type":"a","args":[],{meta}}}"#);
            let context = Context { tenant: named.map(str::to_owned), ..Context::default() };
            parse(&text, &RequestLimits::default(), &context).map(|job| (job.meta().to_owned(), job.tenant))
        };
        assert_eq!(tenant(r#""meta":{"tenant_id":"acme"}"#, None).unwrap().1.as_deref(), Some("acme"));
        assert_eq!(tenant(r#""options":{"metadata":{"tenant_id":"7"}}"#, None).unwrap().1.as_deref(), Some("7"));
        assert!(
            tenant(r#""meta":{"tenant_id":7}"#, Some("7")).is_err(),
            "a number is no tenant, whatever the header says"
        );
        assert_eq!(tenant(r#""meta":{}"#, None).unwrap().1, None);
        let stamped = tenant(r#""meta":{"a":1}"#, Some("acme")).unwrap();
        assert_eq!(stamped, (r#"{"tenant_id":"acme","a":1}"#.to_owned(), Some("acme".to_owned())));
        assert!(tenant(r#""options":{"metadata":{"tenant_id":"beta"}}"#, Some("acme")).is_err());
    }
}
