//! The rate-limit policy that a job brings along: which key it counts under, and what happens where that is used up.

use super::invalid::{Invalid, Kind};
use super::json::{self, Object};
use super::names;
use super::quota::{Quota, refused};
use std::borrow::Cow;

/// What happens to a job that its limit does not let start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnLimit {
    /// It stays available until the limit lets it.
    #[default]
    Wait,
    /// It is scheduled for the time at which the limit will let it.
    Reschedule,
    /// It is discarded.
    Drop,
}

impl OnLimit {
    /// All of them, by name.
    const NAMES: [(&'static str, OnLimit); 3] =
        [("wait", OnLimit::Wait), ("reschedule", OnLimit::Reschedule), ("drop", OnLimit::Drop)];

    /// The choice of that name.
    pub fn parse(name: &str) -> Option<OnLimit> {
        Self::NAMES.iter().find(|(known, _)| *known == name).map(|(_, choice)| *choice)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, choice)| *choice == self).map_or("wait", |(name, _)| name)
    }
}

/// A checked policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RateLimit {
    /// Whose counters it uses; those of the job's queue if there is none.
    pub key: Option<String>,
    /// What the key may do.
    pub quota: Quota,
    /// What happens to this job when the key may not.
    pub on_limit: OnLimit,
}

impl RateLimit {
    /// Reads a policy that stands at `path`.
    pub fn parse(path: &str, text: &str) -> Result<RateLimit, Invalid> {
        let object = Object::parse(text).map_err(|_| refused(path, "an object", text))?;
        let field = |name: &str| format!("{path}.{name}");
        let key = match object.get("key") {
            Some(value) => {
                let key = json::text(value).ok_or_else(|| refused(&field("key"), names::RATE_KEY_EXPECTED, value))?;
                names::check_rate_key(&field("key"), &key)?;
                Some(key.into_owned())
            }
            // Without a key, only this dialect says what is meant: the queue.
            None if object.get("max_per_second").is_some() => None,
            None => return Err(Invalid::missing(field("key"), names::RATE_KEY_EXPECTED).of_kind(Kind::Policy)),
        };
        let on_limit = match object.get("on_limit") {
            None => OnLimit::default(),
            Some(value) => json::text(value)
                .and_then(|text| OnLimit::parse(&text))
                .ok_or_else(|| refused(&field("on_limit"), "`wait`, `reschedule` or `drop`", value))?,
        };
        Ok(RateLimit { key, quota: Quota::parse(path, &object)?, on_limit })
    }

    /// The key under which a job of this queue counts.
    pub fn key_in(&self, queue: &str) -> Cow<'_, str> {
        match &self.key {
            Some(key) => Cow::Borrowed(key),
            None => Cow::Owned(format!("queue:{queue}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Limits;
    use crate::job::request::{self, Context};

    fn parse(text: &str) -> Result<RateLimit, Invalid> {
        RateLimit::parse("rate_limit", text)
    }

    #[test]
    fn a_policy_has_a_key_or_means_its_queue() {
        let limit = parse(r#"{"key":"stripe-api","concurrency":5,"rate":{"limit":100,"period":"PT1M"}}"#).unwrap();
        assert_eq!((limit.key_in("q").as_ref(), limit.on_limit), ("stripe-api", OnLimit::Wait));
        assert_eq!(limit.quota.packed(), "5 100 60000 - -");
        let limit = parse(r#"{"max_per_second":1}"#).unwrap();
        assert_eq!((limit.key.as_deref(), limit.key_in("email").as_ref()), (None, "queue:email"));
        assert_eq!(limit.quota.packed(), "- 1 1000 - -");
        assert_eq!(parse(r#"{"max_per_second":1,"key":"a:B.c"}"#).unwrap().key.as_deref(), Some("a:B.c"));
        assert!(parse(r#"{"key":"k"}"#).unwrap().quota.is_empty());
    }

    #[test]
    fn each_way_out_has_a_name() {
        for (name, choice) in OnLimit::NAMES {
            let limit = parse(&format!(r#"{{"key":"k","on_limit":"{name}"}}"#)).unwrap();
            assert_eq!((limit.on_limit, choice.name()), (choice, name));
        }
    }

    #[test]
    fn names_the_field_that_is_wrong() {
        let long = format!(r#"{{"key":"{}"}}"#, "x".repeat(257));
        for (text, field) in [
            ("[]", "rate_limit"),
            ("5", "rate_limit"),
            ("{}", "rate_limit.key"),
            (r#"{"concurrency":5}"#, "rate_limit.key"),
            (r#"{"key":null,"rate":1,"period":"second"}"#, "rate_limit.key"),
            (r#"{"key":""}"#, "rate_limit.key"),
            (r#"{"key":5}"#, "rate_limit.key"),
            (r#"{"key":"-a"}"#, "rate_limit.key"),
            (r#"{"key":"a b"}"#, "rate_limit.key"),
            (r#"{"key":"ä"}"#, "rate_limit.key"),
            (&long, "rate_limit.key"),
            (r#"{"key":"k","on_limit":"explode"}"#, "rate_limit.on_limit"),
            (r#"{"key":"k","on_limit":1}"#, "rate_limit.on_limit"),
            (r#"{"key":"k","rate":{"limit":1,"period":"x"}}"#, "rate_limit.rate.period"),
        ] {
            let problem = parse(text).unwrap_err();
            assert_eq!((problem.kind, problem.field.as_str()), (Kind::Policy, field), "{text}");
        }
    }

    #[test]
    fn a_job_has_it_at_top_level_or_among_its_options_and_shows_it_as_it_came() {
        let read = |text: &str| request::parse(text, &Limits::default(), &Context::default());
        let policy = r#"{ "key":"k", "concurrency": 1.0 }"#;
        for text in [
            format!(r#"{{"type":"a","args":[],"rate_limit":{policy}}}"#),
            format!(r#"{{"type":"a","args":[],"options":{{"rate_limit":{policy}}}}}"#),
        ] {
            let job = read(&text).unwrap();
            assert_eq!(job.rate_limit.unwrap().quota.concurrency, Some(1));
            assert_eq!(job.envelope.matches(&format!(r#","rate_limit":{policy}"#)).count(), 1, "{}", job.envelope);
        }
        assert_eq!(read(r#"{"type":"a","args":[],"rate_limit":null}"#).unwrap().rate_limit, None);
        let problem = read(r#"{"type":"a","args":[],"options":{"rate_limit":{"key":"k","concurrency":"1"}}}"#);
        assert_eq!(problem.unwrap_err().field, "options.rate_limit.concurrency");
    }
}
