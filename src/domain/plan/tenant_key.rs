//! The location of the tenant id in a job or its request.

use crate::domain::job::sidekiq::Payload;
use crate::domain::json::{self, Object};
use crate::domain::tenant_id::{id, is_id};
use std::fmt;

/// The location of the tenant id in a job or its request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TenantKey {
    /// A path into `meta`: `meta.tenant_id`.
    Meta(Vec<String>),
    /// A path into `args`: `args.0.account_id`.
    Args(Vec<String>),
    /// A header of the request: `header:X-OJS-Tenant`.
    Header(String),
    /// The tenant that the caller's API key is bound to.
    ApiKey,
}

impl TenantKey {
    /// Description of valid values for error messages.
    pub const EXPECTED: &'static str =
        "meta.tenant_id, header:X-OJS-Tenant, api_key or a path into args such as args.0.account_id";

    /// Parses `meta.tenant_id`, `header:X-OJS-Tenant`, `api_key` or `args.0.account_id`.
    pub fn parse(text: &str) -> Option<TenantKey> {
        if text == "api_key" {
            return Some(TenantKey::ApiKey);
        }
        if let Some(name) = text.strip_prefix("header:") {
            let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
            return (!name.is_empty() && name.bytes().all(is_token))
                .then(|| TenantKey::Header(name.to_ascii_lowercase()));
        }
        let mut parts = text.split('.').map(str::to_owned);
        let root = parts.next()?;
        let path: Vec<String> = parts.collect();
        if path.is_empty() || path.iter().any(String::is_empty) {
            return None;
        }
        match root.as_str() {
            "meta" => Some(TenantKey::Meta(path)),
            "args" if path[0].parse::<usize>().is_ok() => Some(TenantKey::Args(path)),
            _ => None,
        }
    }

    /// Returns the string or number at the location if it is a valid tenant id.
    ///
    /// `args` and `meta` are JSON text; `header` returns a header by its lower-case name.
    pub fn tenant(&self, args: &str, meta: &str, header: impl Fn(&str) -> Option<String>) -> Option<String> {
        match self {
            TenantKey::Meta(path) => walk(meta, path).and_then(id),
            TenantKey::Args(path) => walk(args, path).and_then(id),
            TenantKey::Header(name) => header(name).filter(|text| is_id(text)),
            TenantKey::ApiKey => None,
        }
    }

    /// Returns the tenant of a Sidekiq job: the one that fairgate's middleware recorded, else the
    /// one in the payload.
    pub fn owner(&self, payload: &Payload<'_>) -> Option<String> {
        let noted = payload.note().1;
        let in_payload = || self.tenant(payload.args, payload.meta(), |_| None);
        noted.or_else(in_payload)
    }

    /// Returns the lower-case name of the header that holds the id, if it is in a header.
    pub fn header(&self) -> Option<&str> {
        match self {
            TenantKey::Header(name) => Some(name),
            _ => None,
        }
    }

    /// Returns true if the id is in the job's arguments, where only a mistake leaves it out.
    pub fn is_in_args(&self) -> bool {
        matches!(self, TenantKey::Args(_))
    }
}

fn walk<'a>(json: &'a str, path: &[String]) -> Option<&'a str> {
    let mut value = json;
    for part in path {
        value = match value.trim_start().as_bytes().first()? {
            b'{' => Object::parse(value).ok()?.get(part)?,
            b'[' => json::elements(value)?.get(part.parse::<usize>().ok()?).copied()?,
            _ => return None,
        };
    }
    Some(value)
}

impl fmt::Display for TenantKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TenantKey::Meta(path) => write!(f, "meta.{}", path.join(".")),
            TenantKey::Args(path) => write!(f, "args.{}", path.join(".")),
            TenantKey::Header(name) => write!(f, "header:{name}"),
            TenantKey::ApiKey => f.write_str("api_key"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenant(key: &str, args: &str, meta: &str) -> Option<String> {
        TenantKey::parse(key).expect(key).tenant(args, meta, |name| (name == "x-ojs-tenant").then(|| "h".to_owned()))
    }

    #[test]
    fn finds_strings_and_numbers() {
        for (key, args, meta, expected) in [
            ("meta.tenant_id", "[]", r#"{"tenant_id":"acme"}"#, Some("acme")),
            ("meta.owner.id", "[]", r#"{"owner":{"id":42}}"#, Some("42")),
            ("args.0.account_id", r#"[{"account_id":"a\u0062"}]"#, "{}", Some("ab")),
            ("args.1", r#"[1, 2.50]"#, "{}", Some("2.50")),
            ("args.0.0.k", r#"[[{"k":-7}]]"#, "{}", Some("-7")),
            ("header:X-OJS-Tenant", "[]", "{}", Some("h")),
            ("header:X-Other", "[]", "{}", None),
            ("api_key", "[]", "{}", None),
            ("args.2", "[1]", "{}", None),
            ("args.0", "[null]", "{}", None),
            ("args.0", "[true]", "{}", None),
            ("args.0", "[[]]", "{}", None),
            ("args.0.k", "[3]", "{}", None),
            ("meta.tenant_id", "[]", r#"{"tenant_id":""}"#, None),
            ("meta.tenant_id", "[]", r#"{"tenant_id":"a\u0000"}"#, None),
        ] {
            assert_eq!(tenant(key, args, meta).as_deref(), expected, "{key} in {args} {meta}");
        }
        assert_eq!(tenant("args.0", &format!("[\"{}\"]", "x".repeat(257)), "{}"), None);
    }

    #[test]
    fn a_job_of_a_sidekiq_is_its_owners() {
        for (key, text, expected) in [
            ("args.0", r#"{"class":"A","args":[7]}"#, "7"),
            ("args.0", r#"{"class":"A","args":[7],"fairgate":{"tenant":"noted"}}"#, "noted"),
            ("args.1", r#"{"class":"A","args":[7]}"#, ""),
            (
                "args.0.arguments.0",
                r#"{"class":"ActiveJob::QueueAdapters::SidekiqAdapter::JobWrapper","wrapped":"A","args":[{"job_class":"A","arguments":["acme",1]}]}"#,
                "acme",
            ),
            (
                "args.0.arguments.0._aj_globalid",
                r#"{"class":"W","wrapped":"A","args":[{"arguments":[{"_aj_globalid":"gid://app/Account/1"}]}]}"#,
                "gid://app/Account/1",
            ),
        ] {
            let payload = Payload::parse(text).expect(text);
            let owner = TenantKey::parse(key).expect(key).owner(&payload);
            assert_eq!(owner.unwrap_or_default(), expected, "{key} in {text}");
        }
    }

    #[test]
    fn refuses_what_leads_nowhere() {
        for text in ["", "meta", "meta.", "args", "args.x", "args.0.", "header:", "header:a b", "tenant", "meta..a"] {
            assert_eq!(TenantKey::parse(text), None, "{text}");
        }
        for text in ["meta.tenant_id", "args.0.account_id", "api_key", "header:x-ojs-tenant"] {
            assert_eq!(TenantKey::parse(text).expect(text).to_string(), text);
        }
    }
}
