//! Changes of limits that an administrator requests.

use super::quota::refused;
use super::{LimitKey, LimitScope, Quota};
use crate::domain::invalid::{Invalid, Kind};
use crate::domain::json::{self, Object};
use crate::domain::names;
use crate::domain::time::{self, At};

/// All members with which a quota can be written.
const QUOTA: [&str; 6] = ["concurrency", "rate", "throttle", "limit", "period", "max_per_second"];
const EXPIRES: &str = "expires_at";
/// Members of answers that describe the state of a limit. A request may contain them, so that an
/// answer can be sent back; they have no effect.
const SHOWN: [&str; 8] =
    ["key", "scope", "partition", "partitions", "partitions_total", "waiting_count", "hold_until", OVERRIDE];
const OVERRIDE: &str = "override";
/// Parts of a quota, each with the members that answers show in it.
const PARTS: [(&str, &[&str]); 3] = [
    ("concurrency", &["limit", "active", "available"]),
    ("rate", &["limit", "period", "current_count", "window_resets_at"]),
    ("throttle", &["limit", "period", "next_allowed_at"]),
];

/// A validated change. Parts of the quota that it does not name stay as they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitChange {
    pub quota: Quota,
    /// End of the change; `None` if it is permanent.
    pub until: Option<At>,
    /// True if the request looks like an answer of the server. Sending an answer back unchanged has
    /// no effect.
    is_answer: bool,
}

impl LimitChange {
    /// Parses an override of the limit `key`, optionally with an end. An answer about the limit is
    /// accepted as a request.
    pub fn parse(key: &str, object: &Object<'_>) -> Result<LimitChange, Invalid> {
        let is_answer = SHOWN.iter().any(|name| object.get(name).is_some());
        if let Some(other) = object.get("key").filter(|named| json::text(named).as_deref() != Some(key)) {
            return Err(refused("key", &format!("{key:?} as in the path, or left out"), other));
        }
        let quota = read(object, &[&[EXPIRES], &SHOWN[..]].concat())?;
        if quota.is_empty() && !is_answer {
            return Err(LimitChange::is_empty());
        }
        let shown = match object.get(OVERRIDE) {
            None => None,
            Some(value) => Object::parse(value)
                .map(Some)
                .map_err(|_| refused(OVERRIDE, "an object with `expires_at`, as in answers", value))?,
        };
        let shown = shown.unwrap_or_default();
        known_members(OVERRIDE, &shown, &[EXPIRES])?;
        let until = match (object.get(EXPIRES), shown.get(EXPIRES)) {
            (Some(value), _) => Some(moment(EXPIRES, value)?),
            (None, Some(value)) => Some(moment("override.expires_at", value)?),
            (None, None) => None,
        };
        Ok(LimitChange { quota, until, is_answer })
    }

    /// Parses a permanent change. An answer about the limit is accepted as a request.
    pub fn parse_lasting(object: &Object<'_>) -> Result<LimitChange, Invalid> {
        let quota = read(object, &["queue", "source", "state"])?;
        if quota.is_empty() {
            return Err(LimitChange::is_empty());
        }
        Ok(LimitChange { quota, until: None, is_answer: false })
    }

    /// Returns true if the request is an unmodified answer, given the current quota and the end of
    /// its override.
    pub fn repeats(&self, holds: &Quota, until: Option<i64>) -> bool {
        self.is_answer && self.quota == *holds && self.until == until.map(At::Absolute)
    }

    /// Error for a change that sets no limit.
    pub fn is_empty() -> Invalid {
        Invalid::new(Kind::Policy, "", "sets no limit: add `concurrency`, `rate` or `throttle`")
    }

    /// Error for an override that ends in the past.
    pub fn is_past(received: &str) -> Invalid {
        refused(EXPIRES, "a time in the future", received)
    }
}

fn moment(field: &str, value: &str) -> Result<At, Invalid> {
    json::text(value).and_then(|text| At::parse(&text)).ok_or_else(|| refused(field, time::EXPECTED, value))
}

/// Parses a quota. Unknown members are refused, so that a typo does not look like a limit that was
/// set.
fn read(object: &Object<'_>, further: &[&str]) -> Result<Quota, Invalid> {
    known_members("", object, &[&QUOTA, further].concat())?;
    let mut text = String::from("{");
    for member in object.members() {
        let part = PARTS.iter().find(|(name, _)| *name == member.name);
        let nested = part.and_then(|(_, known)| Some((known, Object::parse(member.value).ok()?)));
        let value = match &nested {
            Some((known, nested)) => {
                known_members(&member.name, nested, known)?;
                let limit = || Invalid::missing("concurrency.limit", "an integer").of_kind(Kind::Policy);
                // Answers show the limit as an object with its usage; requests may give the number
                // alone.
                if member.name == "concurrency" { nested.get("limit").ok_or_else(limit)? } else { member.value }
            }
            None => member.value,
        };
        let comma = if text.len() > 1 { "," } else { "" };
        text.push_str(&format!("{comma}{}:{value}", member.raw_name));
    }
    text.push('}');
    let plain = Object::parse(&text).map_err(|_| refused("", "an object", &text))?;
    Quota::parse("", &plain)
}

/// Refuses members with other names than `known`.
fn known_members(path: &str, object: &Object<'_>, known: &[&str]) -> Result<(), Invalid> {
    let Some(unknown) = object.members().find(|member| !known.contains(&&*member.name)) else { return Ok(()) };
    let dot = if path.is_empty() { "" } else { "." };
    let problem = format!("is unknown; expected one of {}", known.join(", "));
    Err(Invalid::new(Kind::Policy, format!("{path}{dot}{}", unknown.name), problem))
}

/// Validates the key of a limit.
pub fn check_key(key: &LimitKey) -> Result<(), Invalid> {
    let (expected, is_good) = match key.scope {
        LimitScope::Key => (names::RATE_KEY_EXPECTED, key.is_of_jobs()),
        LimitScope::Queue => (names::QUEUE_EXPECTED, names::is_queue(&key.name)),
        LimitScope::Type => ("a job type or a glob of types", names::is_type_pattern(&key.name)),
        LimitScope::Tenant => ("a tenant and a queue that have a limit", false),
    };
    if is_good { Ok(()) } else { Err(refused("key", expected, &key.to_string())) }
}

#[cfg(test)]
mod tests {
    use super::super::Window;
    use super::*;

    fn parse(text: &str) -> Result<LimitChange, Invalid> {
        LimitChange::parse("k", &Object::parse(text).unwrap())
    }

    fn concurrency(most: u32) -> Quota {
        Quota { concurrency: Some(most), ..Quota::default() }
    }

    fn window(limit: u32, period: u64) -> Option<Window> {
        Some(Window { limit, period })
    }

    #[test]
    fn names_what_it_changes_and_until_when() {
        let change = parse(r#"{"concurrency":0,"expires_at":"+PT1M","rate":null}"#).unwrap();
        assert_eq!((change.quota, change.until), (concurrency(0), Some(At::Relative(60_000))));
        let change = parse(r#"{"limit":5,"period":"hour","expires_at":null}"#).unwrap();
        assert_eq!((change.quota, change.until), (Quota { rate: window(5, 3_600_000), ..Quota::default() }, None));
    }

    #[test]
    fn an_answer_that_is_sent_back_changes_nothing() {
        let quota = Quota { rate: window(10, 1000), ..concurrency(5) };
        let shown = r#"{"key":"k","concurrency":{"limit":5,"active":1},"rate":{"limit":10,"period":"PT1S","current_count":3},
            "waiting_count":0,"override":{"expires_at":"2026-02-12T10:30:00Z"}}"#;
        let change = parse(shown).unwrap();
        assert!(change.repeats(&quota, Some(1_770_892_200_000)));
        assert!(!change.repeats(&quota, None) && !change.repeats(&Quota::default(), Some(1_770_892_200_000)));
        assert!(parse(r#"{"key":"k","waiting_count":0}"#).unwrap().repeats(&Quota::default(), None));
        assert!(!parse(r#"{"concurrency":5}"#).unwrap().repeats(&concurrency(5), None));
    }

    #[test]
    fn a_slip_is_told() {
        for (text, field) in [
            ("{}", ""),
            (r#"{"concurrency":null}"#, ""),
            (r#"{"expires_at":"+PT1M"}"#, ""),
            (r#"{"concurency":5}"#, "concurency"),
            (r#"{"concurrency":5,"on_limit":"drop"}"#, "on_limit"),
            (r#"{"concurrency":5,"expires_at":"soon"}"#, "expires_at"),
            (r#"{"concurrency":5,"expires_at":60}"#, "expires_at"),
            (r#"{"rate":{"limit":0,"period":"PT1S"}}"#, "rate.limit"),
            (r#"{"key":"other","concurrency":5}"#, "key"),
            (r#"{"concurrency":{"most":5}}"#, "concurrency.most"),
            (r#"{"concurrency":{"active":5}}"#, "concurrency.limit"),
            (r#"{"concurrency":5,"override":{"expires_at":"soon"}}"#, "override.expires_at"),
        ] {
            let problem = parse(text).unwrap_err();
            assert_eq!((problem.kind, problem.field.as_str()), (Kind::Policy, field), "{text}");
        }
        let lasting = Object::parse(r#"{"concurrency":5,"expires_at":"+PT1M"}"#).unwrap();
        assert_eq!(LimitChange::parse_lasting(&lasting).unwrap_err().field, "expires_at");
    }

    #[test]
    fn a_key_is_a_jobs_or_one_that_the_server_makes() {
        for good in ["stripe-api", "queue:email", "tenant:acme:api", "stripe-api|tenant=acme"].map(LimitKey::key) {
            assert_eq!(check_key(&good), Ok(()), "{good}");
        }
        for bad in ["-a", "a b", "a/b", "", "x*", "#q", "type:report.*", "a|b", "-a|tenant=b"].map(LimitKey::key) {
            assert_eq!(check_key(&bad).unwrap_err().field, "key", "{bad}");
        }
        for (scope, name, is_good) in [
            (LimitScope::Queue, "email", true),
            (LimitScope::Queue, "queue:email", true),
            (LimitScope::Queue, "No", false),
            (LimitScope::Type, "report.*", true),
            (LimitScope::Type, "type:report.*", true),
            (LimitScope::Type, "a b", false),
            (LimitScope::Tenant, "acme:q", false),
        ] {
            assert_eq!(check_key(&LimitKey::of(scope, name)).is_ok(), is_good, "{name}");
        }
    }
}
