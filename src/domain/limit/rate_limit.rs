//! Rate-limit policies of jobs: the key that a job counts under, its quota, and the reaction to an
//! exhausted quota.

use super::quota::refused;
use super::{LimitKey, Quota};
use crate::domain::invalid::{Invalid, Kind};
use crate::domain::json::{self, Object};
use crate::domain::{names, tenant_id};

/// Reaction to a job that its limit does not allow to start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnLimit {
    /// The job stays available until the limit allows it to start.
    #[default]
    Wait,
    /// The job is scheduled for the time at which the limit will allow it to start.
    Reschedule,
    /// The job is discarded.
    Drop,
}

impl OnLimit {
    /// All values with their names on the wire.
    const NAMES: [(&'static str, OnLimit); 3] =
        [("wait", OnLimit::Wait), ("reschedule", OnLimit::Reschedule), ("drop", OnLimit::Drop)];

    /// Parses the name of a value.
    pub fn parse(name: &str) -> Option<OnLimit> {
        Self::NAMES.iter().find(|(known, _)| *known == name).map(|(_, choice)| *choice)
    }

    /// Returns the name on the wire.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, choice)| *choice == self).map_or("wait", |(name, _)| name)
    }
}

/// The group of jobs with the same key that share its counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Partition {
    /// All jobs with the key.
    #[default]
    Global,
    /// The jobs of one tenant.
    Tenant,
    /// The jobs in one queue.
    Queue,
    /// The jobs of one type.
    Type,
}

impl Partition {
    /// Names of all values, in the order of the documentation.
    pub const NAMES: [&'static str; 4] = ["global", "tenant", "queue", "type"];
    const ALL: [Partition; 4] = [Partition::Global, Partition::Tenant, Partition::Queue, Partition::Type];

    /// Parses the name of a value.
    pub fn parse(name: &str) -> Option<Partition> {
        Self::ALL.into_iter().find(|partition| partition.name() == name)
    }

    /// Returns the name on the wire.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}

/// A validated policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RateLimit {
    /// Key of the counters; `None` for the counters of the job's queue.
    pub key: Option<LimitKey>,
    /// Dimension that partitions the key.
    pub scope: Partition,
    /// Limits of the key.
    pub quota: Quota,
    /// Reaction if the limits do not allow this job to start.
    pub on_limit: OnLimit,
}

impl RateLimit {
    /// Parses the policy at `path`.
    pub fn parse(path: &str, text: &str) -> Result<RateLimit, Invalid> {
        let object = Object::parse(text).map_err(|_| refused(path, "an object", text))?;
        let field = |name: &str| format!("{path}.{name}");
        let key = match object.get("key") {
            Some(value) => {
                let key = json::text(value).ok_or_else(|| refused(&field("key"), names::RATE_KEY_EXPECTED, value))?;
                names::check_rate_key(&field("key"), &key)?;
                Some(LimitKey::key(&key))
            }
            // Only `max_per_second` may come without a key; it then limits the queue.
            None if object.get("max_per_second").is_some() => None,
            None => return Err(Invalid::missing(field("key"), names::RATE_KEY_EXPECTED).of_kind(Kind::Policy)),
        };
        let on_limit = match object.get("on_limit") {
            None => OnLimit::default(),
            Some(value) => json::text(value)
                .and_then(|text| OnLimit::parse(&text))
                .ok_or_else(|| refused(&field("on_limit"), "`wait`, `reschedule` or `drop`", value))?,
        };
        let scope = match object.get("scope") {
            None => Partition::default(),
            Some(value) => json::text(value)
                .and_then(|text| Partition::parse(&text))
                .ok_or_else(|| refused(&field("scope"), "`global`, `tenant`, `queue` or `type`", value))?,
        };
        // The limit of a queue cannot be partitioned.
        if key.is_none() && !matches!(scope, Partition::Global | Partition::Queue) {
            return Err(refused(&field("scope"), "left out, or sent together with a `key`", scope.name()));
        }
        Ok(RateLimit { key, scope, quota: Quota::parse(path, &object)?, on_limit })
    }

    /// Returns the key of the policy, or that of the queue, without partition.
    pub fn key_in(&self, queue: &str) -> LimitKey {
        self.key.clone().unwrap_or_else(|| LimitKey::queue(queue))
    }

    /// Returns the key under which a job of this tenant, queue and type counts, including the
    /// partition.
    pub fn key_of(&self, tenant: Option<&str>, queue: &str, kind: &str) -> LimitKey {
        let key = self.key_in(queue);
        let name = match self.scope {
            _ if self.key.is_none() => return key,
            Partition::Global => return key,
            Partition::Tenant => tenant.unwrap_or(tenant_id::DEFAULT),
            Partition::Queue => queue,
            Partition::Type => kind,
        };
        key.divided(self.scope, name)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Window;
    use super::*;
    use crate::domain::job::RequestLimits;
    use crate::domain::job::request::{self, Context};

    fn parse(text: &str) -> Result<RateLimit, Invalid> {
        RateLimit::parse("rate_limit", text)
    }

    #[test]
    fn a_policy_has_a_key_or_means_its_queue() {
        let limit = parse(r#"{"key":"stripe-api","concurrency":5,"rate":{"limit":100,"period":"PT1M"}}"#).unwrap();
        assert_eq!((limit.key_in("q"), limit.on_limit), (LimitKey::key("stripe-api"), OnLimit::Wait));
        assert_eq!((limit.quota.concurrency, limit.quota.rate), (Some(5), Some(Window { limit: 100, period: 60_000 })));
        let limit = parse(r#"{"max_per_second":1}"#).unwrap();
        assert_eq!((&limit.key, limit.key_in("email")), (&None, LimitKey::queue("email")));
        assert_eq!(limit.quota.rate, Some(Window { limit: 1, period: 1000 }));
        assert_eq!(parse(r#"{"max_per_second":1,"key":"a:B.c"}"#).unwrap().key, Some(LimitKey::key("a:B.c")));
        assert!(parse(r#"{"key":"k"}"#).unwrap().quota.is_empty());
    }

    #[test]
    fn a_scope_divides_the_key() {
        let shown = |scope: &str, tenant: Option<&str>| {
            let limit = parse(&format!(r#"{{"key":"k","concurrency":1{scope}}}"#)).unwrap();
            limit.key_of(tenant, "mail", "mail.send").to_string()
        };
        assert_eq!(shown("", Some("acme")), "k");
        assert_eq!(shown(r#","scope":"global""#, Some("acme")), "k");
        assert_eq!(shown(r#","scope":"tenant""#, Some("a:b")), "k|tenant=a%3Ab");
        assert_eq!(shown(r#","scope":"tenant""#, None), "k|tenant=_default");
        assert_eq!(shown(r#","scope":"queue""#, None), "k|queue=mail");
        assert_eq!(shown(r#","scope":"type""#, None), "k|type=mail.send");
        let of_queue = parse(r#"{"max_per_second":1,"scope":"queue"}"#).unwrap();
        assert_eq!(of_queue.key_of(Some("acme"), "mail", "a"), LimitKey::queue("mail"));
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
            (r#"{"key":"k","scope":"worker"}"#, "rate_limit.scope"),
            (r#"{"key":"k","scope":1}"#, "rate_limit.scope"),
            (r#"{"max_per_second":1,"scope":"tenant"}"#, "rate_limit.scope"),
            (r#"{"key":"k|tenant=a"}"#, "rate_limit.key"),
            (r#"{"key":"k","rate":{"limit":1,"period":"x"}}"#, "rate_limit.rate.period"),
        ] {
            let problem = parse(text).unwrap_err();
            assert_eq!((problem.kind, problem.field.as_str()), (Kind::Policy, field), "{text}");
        }
    }

    #[test]
    fn a_job_has_it_at_top_level_or_among_its_options_and_shows_it_as_it_came() {
        let read = |text: &str| request::parse(text, &RequestLimits::default(), &Context::default());
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
