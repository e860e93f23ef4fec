//! Retry policies: validation, and the compact form that the store uses.

use crate::domain::duration;
use crate::domain::invalid::{Invalid, Kind};
use crate::domain::json::{self, Object};

/// Default number of attempts, including the first.
pub const DEFAULT_MAX_ATTEMPTS: u32 = 3;

/// Policy of a job without one, as answers show it.
pub const DEFAULT_JSON: &str = r#"{"max_attempts":3,"initial_interval":"PT1S","backoff_coefficient":2.0,"max_interval":"PT5M","jitter":true,"non_retryable_errors":[],"on_exhaustion":"discard"}"#;

const STRATEGIES: [&str; 5] = ["none", "constant", "linear", "exponential", "polynomial"];
const STRATEGY_NAMES: [&str; 3] = ["backoff_strategy", "backoff_type", "strategy"];
const LONGEST_POLICY: usize = 100;

/// A validated policy.
#[derive(Clone, Debug, PartialEq)]
pub struct RetryPolicy {
    /// Total number of attempts; 0 and 1 both mean one.
    pub max_attempts: u32,
    /// `strategy initial_ms coefficient max_ms jitter on_exhaustion`, parsed by
    /// `lua/queue/failure.lua`.
    pub compact: String,
    /// Error types that end the job without a retry, exact or as `prefix.*`.
    pub fatal: Vec<String>,
    /// Policy with defaults filled in, as answers show it.
    pub json: String,
}

impl RetryPolicy {
    /// Parses a policy. Missing members get their defaults, unknown ones are ignored.
    pub fn parse(path: &str, text: &str) -> Result<RetryPolicy, Invalid> {
        RetryReader { path, object: Object::parse(text).map_err(|_| refused(path, "an object", text))? }.read()
    }
}

struct RetryReader<'a> {
    path: &'a str,
    object: Object<'a>,
}

impl RetryReader<'_> {
    fn read(&self) -> Result<RetryPolicy, Invalid> {
        let max_attempts = match self.object.get("max_attempts") {
            None => DEFAULT_MAX_ATTEMPTS,
            Some(value) => json::integer(value)
                .and_then(|number| u32::try_from(number).ok())
                .ok_or_else(|| self.refuse("max_attempts", "an integer of 0 or more", value))?,
        };
        let (initial_name, initial) = self.interval("initial_interval")?;
        let initial_ms = initial.unwrap_or(1000);
        if initial_ms == 0 {
            return Err(self.refuse(initial_name, "longer than zero", "0"));
        }
        let (max_name, max) = self.interval("max_interval")?;
        // Without an explicit cap, a long first interval raises the default cap.
        let max_ms = max.unwrap_or(300_000.max(initial_ms));
        if max_ms < initial_ms {
            return Err(self.refuse(max_name, "at least as long as initial_interval", &duration::to_iso(max_ms)));
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
        let exhaustion = match self.object.get("on_exhaustion") {
            None => "discard",
            Some(r#""discard""#) => "discard",
            Some(r#""dead_letter""#) => "dead_letter",
            Some(value) => return Err(self.refuse("on_exhaustion", "`discard` or `dead_letter`", value)),
        };
        let strategy = self.strategy()?;
        let compact = format!(
            "{} {initial_ms} {coefficient} {max_ms} {} {exhaustion}",
            strategy.unwrap_or("exponential"),
            u8::from(jitter)
        );
        Ok(RetryPolicy { max_attempts, compact, json: self.merged(initial_ms, max_ms, strategy), fatal })
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

    fn strategy(&self) -> Result<Option<&'static str>, Invalid> {
        let Some((name, value)) =
            STRATEGY_NAMES.into_iter().find_map(|name| self.object.get(name).map(|value| (name, value)))
        else {
            return Ok(None);
        };
        let known = json::text(value).and_then(|text| STRATEGIES.into_iter().find(|known| *known == text));
        known
            .map(Some)
            .ok_or_else(|| self.refuse(name, "one of `none`, `constant`, `linear`, `exponential`, `polynomial`", value))
    }

    /// Merges the members that the client sent, unchanged, with the defaults.
    fn merged(&self, initial_ms: u64, max_ms: u64, strategy: Option<&str>) -> String {
        let sent = |name: &str, otherwise: &str| match self.object.get(name) {
            Some(value) => format!("\"{name}\":{value}"),
            None => format!("\"{name}\":{otherwise}"),
        };
        let iso = |ms| json::quoted(&duration::to_iso(ms));
        let mut members = vec![
            sent("max_attempts", "3"),
            sent("initial_interval", &iso(initial_ms)),
            sent("backoff_coefficient", "2.0"),
            sent("max_interval", &iso(max_ms)),
            sent("jitter", "true"),
            sent("non_retryable_errors", "[]"),
            sent("on_exhaustion", "\"discard\""),
        ];
        members.extend(strategy.map(|strategy| format!("\"backoff_strategy\":\"{strategy}\"")));
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
        let policy = RetryPolicy::parse("retry", "{}").unwrap();
        assert_eq!(policy.compact, "exponential 1000 2 300000 1 discard");
        assert_eq!(policy.json, DEFAULT_JSON);
        assert_eq!(policy.max_attempts, DEFAULT_MAX_ATTEMPTS);
    }

    #[test]
    fn keeps_what_was_sent() {
        let text = r#"{"max_attempts":5,"initial_interval_ms":1500,"backoff_coefficient":1.50,"jitter":false,
            "non_retryable_errors":["auth.*"],"on_exhaustion":"dead_letter","strategy":"linear","multiplier":9}"#;
        let policy = RetryPolicy::parse("retry", text).unwrap();
        assert_eq!(policy.compact, "linear 1500 1.5 300000 0 dead_letter");
        assert_eq!(policy.fatal, ["auth.*"]);
        assert!(policy.json.contains(r#""backoff_coefficient":1.50,"#), "{}", policy.json);
        assert!(policy.json.contains(r#""initial_interval":"PT1.5S""#), "{}", policy.json);
    }

    #[test]
    fn a_long_first_interval_raises_a_cap_that_was_not_sent() {
        let policy = RetryPolicy::parse("retry", r#"{"initial_interval":"PT1H"}"#).unwrap();
        assert!(policy.compact.contains(" 3600000 1 "), "{}", policy.compact);
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
