//! Quotas: how many jobs may run at once, and how many may start in a period.

use crate::domain::duration;
use crate::domain::invalid::{Invalid, Kind};
use crate::domain::json::{self, Object};
use serde::Deserialize;
use serde_json::{Map, Value};

/// Maximum of a concurrency limit.
pub const MOST_CONCURRENCY: u32 = 1_000_000;
/// Maximum number of starts per period.
pub const MOST_STARTS: u32 = 1_000_000_000;
/// Longest period in milliseconds. Each start is remembered for that long.
pub const LONGEST_PERIOD: u64 = 31 * 86_400_000;
/// Expected value in the error for an unreadable period.
pub const PERIOD_EXPECTED: &str =
    "second, minute, hour, day or a duration such as PT1M or 60s, longer than zero and at most 31 days";

const WORDS: [(&str, u64); 4] = [("second", 1_000), ("minute", 60_000), ("hour", 3_600_000), ("day", 86_400_000)];
/// Period of `max_per_second`, in milliseconds.
const SECOND: u64 = 1_000;

/// Maximum number of starts in a period, which is in milliseconds.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
pub struct Window {
    pub limit: u32,
    pub period: u64,
}

/// Limits that apply together. An absent one does not limit.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub struct Quota {
    /// Maximum number of active jobs; 0 pauses.
    pub concurrency: Option<u32>,
    /// Starts in any sliding window of the period; bursts are allowed.
    pub rate: Option<Window>,
    /// Starts spaced evenly over the period.
    pub throttle: Option<Window>,
}

impl Window {
    /// Parses a period into milliseconds: a word such as `minute`, or a duration of more than zero
    /// and at most 31 days.
    pub fn parse_period(text: &str) -> Option<u64> {
        let word = WORDS.iter().find(|(word, _)| *word == text).map(|(_, ms)| *ms);
        word.or_else(|| duration::parse_ms(text)).filter(|ms| (1..=LONGEST_PERIOD).contains(ms))
    }

    /// Formats the window as answers show it.
    pub fn to_json(self) -> Value {
        serde_json::json!({"limit": self.limit, "period": duration::to_iso(self.period)})
    }
}

impl Quota {
    /// Returns true if nothing is limited.
    pub fn is_empty(&self) -> bool {
        *self == Quota::default()
    }

    /// Formats the quota as answers show it. Absent limits are left out.
    pub fn to_json(&self) -> Map<String, Value> {
        let mut members = Map::new();
        members.extend(self.concurrency.map(|most| ("concurrency".to_owned(), most.into())));
        members.extend(self.rate.map(|window| ("rate".to_owned(), window.to_json())));
        members.extend(self.throttle.map(|window| ("throttle".to_owned(), window.to_json())));
        members
    }

    /// Parses the quota members of the object at `path`. `null` counts as absent, and other members
    /// are ignored.
    ///
    /// The rate has three forms: `rate: {limit, period}`, `rate: n` or `limit: n` with a `period`
    /// next to it, and `max_per_second: n`. Only one of them may be present.
    pub fn parse(path: &str, object: &Object<'_>) -> Result<Quota, Invalid> {
        let reader = QuotaReader { path, object };
        let concurrency = reader.integer("concurrency", 0, MOST_CONCURRENCY)?;
        Ok(Quota { concurrency, rate: reader.rate()?, throttle: reader.nested("throttle")? })
    }
}

struct QuotaReader<'a> {
    path: &'a str,
    object: &'a Object<'a>,
}

impl QuotaReader<'_> {
    fn rate(&self) -> Result<Option<Window>, Invalid> {
        let forms: Vec<&str> =
            ["rate", "limit", "max_per_second"].into_iter().filter(|name| self.object.get(name).is_some()).collect();
        if let [first, second, ..] = forms[..] {
            return Err(self.conflict(second, &format!("is another form of `{first}`: keep one of the two")));
        }
        let is_nested = self.object.get("rate").is_some_and(|value| value.starts_with('{'));
        match forms[..] {
            ["rate"] if is_nested => {
                self.no_period("conflicts with the period inside `rate`: keep one of the two")?;
                self.nested("rate")
            }
            ["max_per_second"] => {
                self.no_period("conflicts with `max_per_second`: keep one of the two")?;
                let limit = self.integer("max_per_second", 1, MOST_STARTS)?;
                Ok(limit.map(|limit| Window { limit, period: SECOND }))
            }
            [name] => self.window(name),
            _ => {
                self.no_period("requires a limit: add `rate`")?;
                Ok(None)
            }
        }
    }

    /// Parses `{limit, period}` in the member `name`.
    fn nested(&self, name: &str) -> Result<Option<Window>, Invalid> {
        let Some(value) = self.object.get(name) else { return Ok(None) };
        let path = self.field(name);
        let object = Object::parse(value).map_err(|_| refused(&path, "an object with a limit and a period", value))?;
        QuotaReader { path: &path, object: &object }.window("limit")
    }

    /// Parses the limit in the member `name` and the `period` next to it.
    fn window(&self, name: &str) -> Result<Option<Window>, Invalid> {
        let limit = self.integer(name, 1, MOST_STARTS)?.ok_or_else(|| self.missing(name, &starts(1, MOST_STARTS)))?;
        let value = self.object.get("period").ok_or_else(|| self.missing("period", PERIOD_EXPECTED))?;
        let period = json::text(value).and_then(|text| Window::parse_period(&text));
        let period = period.ok_or_else(|| refused(&self.field("period"), PERIOD_EXPECTED, value))?;
        Ok(Some(Window { limit, period }))
    }

    fn integer(&self, name: &str, least: u32, most: u32) -> Result<Option<u32>, Invalid> {
        let Some(value) = self.object.get(name) else { return Ok(None) };
        let number = json::integer(value).and_then(|number| u32::try_from(number).ok());
        let number = number.filter(|number| (least..=most).contains(number));
        number.map(Some).ok_or_else(|| refused(&self.field(name), &starts(least, most), value))
    }

    fn no_period(&self, problem: &str) -> Result<(), Invalid> {
        if self.object.get("period").is_some() { Err(self.conflict("period", problem)) } else { Ok(()) }
    }

    fn conflict(&self, name: &str, problem: &str) -> Invalid {
        Invalid::new(Kind::Policy, self.field(name), problem)
    }

    fn missing(&self, name: &str, expected: &str) -> Invalid {
        Invalid::missing(self.field(name), expected).of_kind(Kind::Policy)
    }

    fn field(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }
}

fn starts(least: u32, most: u32) -> String {
    format!("an integer from {least} to {most}")
}

/// Creates an error for an invalid value of a policy.
pub(super) fn refused(field: &str, expected: &str, value: &str) -> Invalid {
    Invalid::field(field, expected, value).of_kind(Kind::Policy)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::option::of;
    use proptest::prelude::*;

    fn parse(text: &str) -> Result<Quota, Invalid> {
        Quota::parse("rate_limit", &Object::parse(text).unwrap())
    }

    fn window(limit: u32, period: u64) -> Option<Window> {
        Some(Window { limit, period })
    }

    #[test]
    fn reads_every_dialect() {
        let minute = r#""period":"PT1M""#;
        for (text, concurrency, rate, throttle) in [
            ("{}".to_owned(), None, None, None),
            (r#"{"concurrency":5,"key":"k","on_limit":"x"}"#.to_owned(), Some(5), None, None),
            (r#"{"concurrency":0}"#.to_owned(), Some(0), None, None),
            (r#"{"concurrency":null,"rate":null,"throttle":null,"period":null}"#.to_owned(), None, None, None),
            (format!(r#"{{"concurrency":5,"rate":{{"limit":100,{minute}}}}}"#), Some(5), window(100, 60_000), None),
            (r#"{"throttle":{"limit":10,"period":"PT1S"}}"#.to_owned(), None, None, window(10, 1000)),
            (
                r#"{"rate":{"limit":1,"period":"60s"},"throttle":{"limit":2.0,"period":"hour"}}"#.to_owned(),
                None,
                window(1, 60_000),
                window(2, 3_600_000),
            ),
            (r#"{"rate":1,"period":"second"}"#.to_owned(), None, window(1, 1000), None),
            (r#"{"rate":7,"period":"PT0.5S"}"#.to_owned(), None, window(7, 500), None),
            (r#"{"limit":1000,"period":"day"}"#.to_owned(), None, window(1000, 86_400_000), None),
            (r#"{"max_per_second":3}"#.to_owned(), None, window(3, 1000), None),
            (
                r#"{"max_per_second":3,"concurrency":1,"throttle":{"limit":1,"period":"P31D"}}"#.to_owned(),
                Some(1),
                window(3, 1000),
                window(1, LONGEST_PERIOD),
            ),
        ] {
            let expected = Quota { concurrency, rate, throttle };
            assert_eq!(expected.is_empty(), expected == Quota::default());
            assert_eq!(parse(&text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn names_the_field_that_is_wrong() {
        for (text, field, part) in [
            (r#"{"concurrency":-1}"#, "concurrency", "must be an integer from 0 to 1000000"),
            (r#"{"concurrency":1000001}"#, "concurrency", "must be an integer from 0 to 1000000"),
            (r#"{"concurrency":1.5}"#, "concurrency", "must be an integer"),
            (r#"{"concurrency":"5"}"#, "concurrency", "must be an integer"),
            (r#"{"concurrency":{"limit":5}}"#, "concurrency", "must be an integer"),
            (r#"{"rate":{"limit":0,"period":"PT1S"}}"#, "rate.limit", "must be an integer from 1 to 1000000000"),
            (r#"{"rate":{"limit":4294967297,"period":"PT1S"}}"#, "rate.limit", "must be an integer from 1"),
            (r#"{"rate":{"period":"PT1S"}}"#, "rate.limit", "is required"),
            (r#"{"rate":{"limit":1}}"#, "rate.period", "is required"),
            (r#"{"rate":{"limit":1,"period":"PT0S"}}"#, "rate.period", "must be second, minute, hour, day or"),
            (r#"{"rate":{"limit":1,"period":"P32D"}}"#, "rate.period", "at most 31 days"),
            (r#"{"rate":{"limit":1,"period":60}}"#, "rate.period", "must be second"),
            (r#"{"rate":{"limit":1,"period":"fortnight"}}"#, "rate.period", "must be second"),
            (r#"{"rate":[]}"#, "rate", "must be an integer"),
            (r#"{"rate":"5"}"#, "rate", "must be an integer"),
            (r#"{"rate":5}"#, "period", "is required"),
            (r#"{"rate":0,"period":"second"}"#, "rate", "must be an integer from 1"),
            (r#"{"throttle":5}"#, "throttle", "must be an object with a limit and a period"),
            (r#"{"throttle":{"limit":1,"period":"P1M"}}"#, "throttle.period", "must be second"),
            (r#"{"limit":5}"#, "period", "is required"),
            (r#"{"period":"PT1S"}"#, "period", "requires a limit"),
            (r#"{"max_per_second":0}"#, "max_per_second", "must be an integer from 1"),
            (r#"{"max_per_second":0.5}"#, "max_per_second", "must be an integer from 1"),
            (r#"{"max_per_second":1,"period":"hour"}"#, "period", "conflicts with `max_per_second`"),
            (
                r#"{"max_per_second":1,"rate":{"limit":1,"period":"PT1S"}}"#,
                "max_per_second",
                "is another form of `rate`",
            ),
            (r#"{"limit":1,"rate":1,"period":"PT1S"}"#, "limit", "is another form of `rate`"),
            (
                r#"{"rate":{"limit":1,"period":"PT1S"},"period":"PT1S"}"#,
                "period",
                "conflicts with the period inside `rate`",
            ),
        ] {
            let problem = parse(text).unwrap_err();
            assert_eq!((problem.kind, problem.field), (Kind::Policy, format!("rate_limit.{field}")), "{text}");
            assert!(problem.problem.contains(part), "{text}: {}", problem.problem);
        }
        let problem = Quota::parse("", &Object::parse(r#"{"rate":{"limit":1}}"#).unwrap()).unwrap_err();
        assert_eq!(problem.field, "rate.period");
    }

    #[test]
    fn shows_only_what_is_set() {
        let quota = parse(r#"{"concurrency":5,"throttle":{"limit":10,"period":"100ms"}}"#).unwrap();
        let expected = serde_json::json!({"concurrency": 5, "throttle": {"limit": 10, "period": "PT0.1S"}});
        assert_eq!(Value::Object(quota.to_json()), expected);
    }

    proptest! {
        #[test]
        fn what_a_quota_prints_reads_as_that_quota(
            concurrency in of(0..=MOST_CONCURRENCY),
            [rate, throttle] in proptest::array::uniform2(of((1..=MOST_STARTS, 1..=LONGEST_PERIOD))),
        ) {
            let window = |(limit, period)| Window { limit, period };
            let quota = Quota { concurrency, rate: rate.map(window), throttle: throttle.map(window) };
            prop_assert_eq!(parse(&Value::Object(quota.to_json()).to_string()), Ok(quota));
        }
    }
}
