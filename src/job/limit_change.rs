//! What an admin says about a limit, as a request brings it.

use super::invalid::{Invalid, Kind};
use super::json::{self, Object};
use super::quota::refused;
use super::time::{self, At};
use super::{Quota, names};

/// Every way to write a quota.
const QUOTA: [&str; 6] = ["concurrency", "rate", "throttle", "limit", "period", "max_per_second"];
const EXPIRES: &str = "expires_at";

/// A checked change: only what it names is limited anew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitChange {
    pub quota: Quota,
    /// When it is over; never, if there is no time.
    pub until: Option<At>,
}

impl LimitChange {
    /// Reads an override, which may be over at some time.
    pub fn parse(object: &Object<'_>) -> Result<LimitChange, Invalid> {
        let until = match object.get(EXPIRES) {
            None => None,
            Some(value) => {
                let at = json::text(value).and_then(|text| At::parse(&text));
                Some(at.ok_or_else(|| refused(EXPIRES, time::EXPECTED, value))?)
            }
        };
        Ok(LimitChange { quota: read(object, &[EXPIRES])?, until })
    }

    /// Reads what holds until somebody changes it. An answer about it is a request as well.
    pub fn parse_lasting(object: &Object<'_>) -> Result<LimitChange, Invalid> {
        Ok(LimitChange { quota: read(object, &["queue", "source", "state"])?, until: None })
    }

    /// An override that would be over before it begins.
    pub fn is_past(received: &str) -> Invalid {
        refused(EXPIRES, "a time that is still to come", received)
    }
}

fn read(object: &Object<'_>, further: &[&str]) -> Result<Quota, Invalid> {
    // A slip must not pass for a limit that was set.
    if let Some(unknown) = object.members().find(|member| !QUOTA.iter().chain(further).any(|name| *name == member.name))
    {
        let names = QUOTA.iter().chain(further).copied().collect::<Vec<_>>().join(", ");
        return Err(Invalid::new(Kind::Policy, unknown.name.clone(), format!("is none of {names}")));
    }
    let quota = Quota::parse("", object)?;
    if quota.is_empty() {
        return Err(Invalid::new(Kind::Policy, "", "names no limit: give `concurrency`, `rate` or `throttle`"));
    }
    Ok(quota)
}

/// Checks the key under which something is to be limited.
pub fn check_key(key: &str) -> Result<(), Invalid> {
    if names::is_limit_key(key) { Ok(()) } else { Err(refused("key", names::RATE_KEY_EXPECTED, key)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<LimitChange, Invalid> {
        LimitChange::parse(&Object::parse(text).unwrap())
    }

    #[test]
    fn names_what_it_changes_and_until_when() {
        let change = parse(r#"{"concurrency":0,"expires_at":"+PT1M","rate":null}"#).unwrap();
        assert_eq!((change.quota.packed().as_str(), change.until), ("0 - - - -", Some(At::Relative(60_000))));
        let change = parse(r#"{"limit":5,"period":"hour","expires_at":null}"#).unwrap();
        assert_eq!((change.quota.packed().as_str(), change.until), ("- 5 3600000 - -", None));
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
        ] {
            let problem = parse(text).unwrap_err();
            assert_eq!((problem.kind, problem.field.as_str()), (Kind::Policy, field), "{text}");
        }
        let lasting = Object::parse(r#"{"concurrency":5,"expires_at":"+PT1M"}"#).unwrap();
        assert_eq!(LimitChange::parse_lasting(&lasting).unwrap_err().field, "expires_at");
    }

    #[test]
    fn a_key_is_a_jobs_or_one_that_the_server_makes() {
        for good in ["stripe-api", "queue:email", "type:report.*", "tenant:acme:api"] {
            assert_eq!(check_key(good), Ok(()), "{good}");
        }
        for bad in ["-a", "a b", "a/b", "", "x*"] {
            assert_eq!(check_key(bad).unwrap_err().field, "key", "{bad}");
        }
    }
}
