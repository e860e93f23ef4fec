//! Retry policies of jobs.

use crate::domain::duration;
use crate::domain::invalid::{Invalid, Kind};
use crate::domain::json::{self, Object};

/// Default number of attempts, including the first.
pub const DEFAULT_MAX_ATTEMPTS: u32 = 3;

/// Policy of a job without one, as answers show it.
pub const DEFAULT_JSON: &str = r#"{"max_attempts":3,"initial_interval":"PT1S","backoff_coefficient":2.0,"max_interval":"PT5M","jitter":true,"non_retryable_errors":[],"on_exhaustion":"discard"}"#;

const STRATEGY_NAMES: [&str; 3] = ["backoff_strategy", "backoff_type", "strategy"];
const LONGEST_POLICY: usize = 100;

/// Growth of the delay from attempt to attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Backoff {
    None,
    Constant,
    Linear,
    #[default]
    Exponential,
    Polynomial,
}

impl Backoff {
    const ALL: [Backoff; 5] =
        [Backoff::None, Backoff::Constant, Backoff::Linear, Backoff::Exponential, Backoff::Polynomial];

    /// Parses the name of a strategy.
    pub fn from_name(name: &str) -> Option<Backoff> {
        Self::ALL.into_iter().find(|backoff| backoff.name() == name)
    }

    /// Returns the name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Backoff::None => "none",
            Backoff::Constant => "constant",
            Backoff::Linear => "linear",
            Backoff::Exponential => "exponential",
            Backoff::Polynomial => "polynomial",
        }
    }
}

/// End of a job that has used up its attempts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Exhaustion {
    #[default]
    Discard,
    DeadLetter,
}

impl Exhaustion {
    /// Returns the name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Exhaustion::Discard => "discard",
            Exhaustion::DeadLetter => "dead_letter",
        }
    }
}

/// A validated policy. Intervals are in milliseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct RetryPolicy {
    /// Total number of attempts; 0 and 1 both mean one.
    pub max_attempts: u32,
    pub backoff: Backoff,
    pub initial: u64,
    pub coefficient: f64,
    /// Longest interval.
    pub max: u64,
    pub jitter: bool,
    pub on_exhaustion: Exhaustion,
    /// Error types that end the job without a retry, exact or as `prefix.*`.
    pub fatal: Vec<String>,
}

impl RetryPolicy {
    /// Parses a policy. Missing members get their defaults, unknown ones are ignored. Also returns the
    /// policy with defaults filled in, as answers show it.
    pub fn parse(path: &str, text: &str) -> Result<(RetryPolicy, String), Invalid> {
        RetryReader { path, object: Object::parse(text).map_err(|_| refused(path, "an object", text))? }.read()
    }
}

struct RetryReader<'a> {
    path: &'a str,
    object: Object<'a>,
}

impl RetryReader<'_> {
    fn read(&self) -> Result<(RetryPolicy, String), Invalid> {
        let max_attempts = match self.object.get("max_attempts") {
            None => DEFAULT_MAX_ATTEMPTS,
            Some(value) => json::integer(value)
                .and_then(|number| u32::try_from(number).ok())
                .ok_or_else(|| self.refuse("max_attempts", "an integer of 0 or more", value))?,
        };
        let (initial_name, initial) = self.interval("initial_interval")?;
        let initial = initial.unwrap_or(1000);
        if initial == 0 {
            return Err(self.refuse(initial_name, "longer than zero", "0"));
        }
        let (max_name, max) = self.interval("max_interval")?;
        // Without an explicit cap, a long first interval raises the default cap.
        let max = max.unwrap_or(300_000.max(initial));
        if max < initial {
            return Err(self.refuse(max_name, "at least as long as initial_interval", &duration::to_iso(max)));
        }
        let coefficient = match self.object.get("backoff_coefficient") {
            None => 2.0,
            Some(value) => json::number(value)
                .filter(|number| (1.0..=1e6).contains(number))
                .ok_or_else(|| self.refuse("backoff_coefficient", "a number from 1.0 to 1000000", value))?,
        };
        let jitter = match self.object.get("jitter") {
            None => true,
            Some(value) => json::boolean(value).ok_or_else(|| self.refuse("jitter", "true or false", value))?,
        };
        let fatal = self.fatal()?;
        let on_exhaustion = match self.object.get("on_exhaustion") {
            None => Exhaustion::Discard,
            Some(r#""discard""#) => Exhaustion::Discard,
            Some(r#""dead_letter""#) => Exhaustion::DeadLetter,
            Some(value) => return Err(self.refuse("on_exhaustion", "`discard` or `dead_letter`", value)),
        };
        let named = self.backoff()?;
        let (json, backoff) = (self.merged(initial, max, named), named.unwrap_or_default());
        Ok((RetryPolicy { max_attempts, backoff, initial, coefficient, max, jitter, on_exhaustion, fatal }, json))
    }

    /// Parses an interval in ISO 8601 or short form, or as milliseconds in the member `NAME_ms`.
    /// Returns the member that was used.
    fn interval(&self, name: &'static str) -> Result<(&'static str, Option<u64>), Invalid> {
        let twin = if name == "initial_interval" { "initial_interval_ms" } else { "max_interval_ms" };
        if let Some(value) = self.object.get(name) {
            let ms = json::text(value).and_then(|text| duration::parse_ms(&text));
            return ms.map(|ms| (name, Some(ms))).ok_or_else(|| self.refuse(name, duration::EXPECTED, value));
        }
        let Some(value) = self.object.get(twin) else { return Ok((name, None)) };
        let ms = json::integer(value).and_then(|number| u64::try_from(number).ok());
        let ms = ms.filter(|ms| *ms <= duration::LONGEST_MS);
        ms.map(|ms| (twin, Some(ms))).ok_or_else(|| self.refuse(twin, "milliseconds, at most a century", value))
    }

    fn fatal(&self) -> Result<Vec<String>, Invalid> {
        let name = "non_retryable_errors";
        let Some(value) = self.object.get(name) else { return Ok(Vec::new()) };
        let elements = json::elements(value).filter(|elements| elements.len() <= LONGEST_POLICY);
        let entries = elements.and_then(|elements| {
            elements
                .into_iter()
                .map(|element| json::text(element).filter(|text| is_class(text)).map(Into::into))
                .collect::<Option<Vec<String>>>()
        });
        entries.ok_or_else(|| self.refuse(name, "at most 100 non-empty strings", value))
    }

    fn backoff(&self) -> Result<Option<Backoff>, Invalid> {
        let Some((name, value)) =
            STRATEGY_NAMES.into_iter().find_map(|name| self.object.get(name).map(|value| (name, value)))
        else {
            return Ok(None);
        };
        let known = json::text(value).and_then(|text| Backoff::from_name(&text));
        known
            .map(Some)
            .ok_or_else(|| self.refuse(name, "one of `none`, `constant`, `linear`, `exponential`, `polynomial`", value))
    }

    /// Merges the members that the client sent, unchanged, with the defaults.
    fn merged(&self, initial: u64, max: u64, backoff: Option<Backoff>) -> String {
        let sent = |name: &str, otherwise: &str| match self.object.get(name) {
            Some(value) => format!("\"{name}\":{value}"),
            None => format!("\"{name}\":{otherwise}"),
        };
        let iso = |ms| json::quoted(&duration::to_iso(ms));
        let mut members = vec![
            sent("max_attempts", "3"),
            sent("initial_interval", &iso(initial)),
            sent("backoff_coefficient", "2.0"),
            sent("max_interval", &iso(max)),
            sent("jitter", "true"),
            sent("non_retryable_errors", "[]"),
            sent("on_exhaustion", "\"discard\""),
        ];
        members.extend(backoff.map(|backoff| format!("\"backoff_strategy\":\"{}\"", backoff.name())));
        format!("{{{}}}", members.join(","))
    }

    fn refuse(&self, name: &str, expected: &str, value: &str) -> Invalid {
        refused(&format!("{}.{name}", self.path), expected, value)
    }
}

/// Returns true for a valid error class. Control characters are refused because they separate
/// classes in the store.
fn is_class(text: &str) -> bool {
    !text.is_empty() && text.len() <= 255 && !text.chars().any(char::is_control)
}

fn refused(field: &str, expected: &str, value: &str) -> Invalid {
    Invalid::field(field, expected, value).of_kind(Kind::Policy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fills_in_the_defaults() {
        let (policy, json) = RetryPolicy::parse("retry", "{}").unwrap();
        let expected = RetryPolicy {
            max_attempts: DEFAULT_MAX_ATTEMPTS,
            backoff: Backoff::Exponential,
            initial: 1000,
            coefficient: 2.0,
            max: 300_000,
            jitter: true,
            on_exhaustion: Exhaustion::Discard,
            fatal: Vec::new(),
        };
        assert_eq!((policy, json.as_str()), (expected, DEFAULT_JSON));
    }

    #[test]
    fn keeps_what_was_sent() {
        let text = r#"{"max_attempts":5,"initial_interval_ms":1500,"backoff_coefficient":1.50,"jitter":false,
            "non_retryable_errors":["auth.*"],"on_exhaustion":"dead_letter","strategy":"linear","multiplier":9}"#;
        let (policy, json) = RetryPolicy::parse("retry", text).unwrap();
        assert_eq!((policy.max_attempts, policy.backoff, policy.initial), (5, Backoff::Linear, 1500));
        assert_eq!((policy.coefficient, policy.max, policy.jitter), (1.5, 300_000, false));
        assert_eq!((policy.on_exhaustion, policy.fatal), (Exhaustion::DeadLetter, vec!["auth.*".to_owned()]));
        assert!(json.contains(r#""backoff_coefficient":1.50,"#), "{json}");
        assert!(json.contains(r#""initial_interval":"PT1.5S""#), "{json}");
    }

    #[test]
    fn a_long_first_interval_raises_a_cap_that_was_not_sent() {
        let (policy, _) = RetryPolicy::parse("retry", r#"{"initial_interval":"PT1H"}"#).unwrap();
        assert_eq!((policy.initial, policy.max), (3_600_000, 3_600_000));
    }

    #[test]
    fn names_the_field_that_is_wrong() {
        for (text, field) in [
            (r#"{"max_attempts":-1}"#, "retry.max_attempts"),
            (r#"{"max_attempts":"3"}"#, "retry.max_attempts"),
            (r#"{"initial_interval":"soon"}"#, "retry.initial_interval"),
            (r#"{"initial_interval":"PT0S"}"#, "retry.initial_interval"),
            (r#"{"initial_interval_ms":-5}"#, "retry.initial_interval_ms"),
            (r#"{"max_interval":"PT0.5S"}"#, "retry.max_interval"),
            (r#"{"backoff_coefficient":0.5}"#, "retry.backoff_coefficient"),
            (r#"{"jitter":"yes"}"#, "retry.jitter"),
            (r#"{"non_retryable_errors":[""]}"#, "retry.non_retryable_errors"),
            (r#"{"on_exhaustion":"explode"}"#, "retry.on_exhaustion"),
            (r#"{"backoff_strategy":"random"}"#, "retry.backoff_strategy"),
            ("[]", "retry"),
        ] {
            let problem = RetryPolicy::parse("retry", text).unwrap_err();
            assert_eq!((problem.kind, problem.field.as_str()), (Kind::Policy, field), "{text}");
        }
    }
}
