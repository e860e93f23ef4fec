//! Bounds on the number of jobs in a queue, and the reaction to a full queue.

use crate::domain::invalid::Invalid;
use crate::domain::json;
use crate::domain::json::Object;

const EXPECTED: &str = "`reject`, `block` or `drop_oldest`";
const MOST: u64 = 1_000_000_000;
const DEFAULT_WARNING: f64 = 0.8;

/// Reaction to a job that exceeds a bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overflow {
    /// The job is refused.
    #[default]
    Reject,
    /// The request waits for room, and is refused if there is none in time.
    Block,
    /// The oldest waiting job makes room.
    DropOldest,
}

impl Overflow {
    /// Names of all reactions, in the order of the documentation.
    pub const NAMES: [&'static str; 3] = ["reject", "block", "drop_oldest"];
    const ALL: [Overflow; 3] = [Overflow::Reject, Overflow::Block, Overflow::DropOldest];

    /// Returns the name on the wire and in the store.
    pub fn name(self) -> &'static str {
        match self {
            Overflow::Reject => "reject",
            Overflow::Block => "block",
            Overflow::DropOldest => "drop_oldest",
        }
    }

    /// Parses the name of a reaction.
    pub fn from_name(name: &str) -> Option<Overflow> {
        Overflow::ALL.into_iter().find(|overflow| overflow.name() == name)
    }
}

/// Bound on the number of jobs in a queue.
#[derive(Clone, Debug, PartialEq)]
pub struct Bound {
    /// Maximum number of jobs that are available, scheduled or retryable.
    pub most: u64,
    pub overflow: Overflow,
    /// Fraction of `most`, from 0 to 1, from which producers receive a warning.
    pub warning: f64,
}

impl Bound {
    /// Reads `backpressure`, or `max_size` with `overflow_policy`, from a queue's configuration.
    ///
    /// Returns `None` if the configuration mentions no bound, and `Some(None)` if it removes the
    /// bound (a maximum of 0). Members that are left out keep their value from `old`.
    pub fn parse(config: &Object<'_>, old: Option<&Bound>) -> Result<Option<Option<Bound>>, Invalid> {
        let nested = match config.get("backpressure") {
            None => None,
            Some(text) => Some(Object::parse(text).map_err(|_| Invalid::field("backpressure", "an object", text))?),
        };
        if let Some(unknown) = nested
            .iter()
            .flat_map(Object::members)
            .find(|member| !["max_depth", "strategy", "warning_threshold"].contains(&&*member.name))
        {
            let field = format!("backpressure.{}", unknown.name);
            return Err(Invalid::new(crate::domain::invalid::Kind::Unsupported, field, "is not supported"));
        }
        let find = |inner: &str, outer: &str| {
            let nested = nested
                .as_ref()
                .and_then(|nested| nested.get(inner))
                .map(|value| (format!("backpressure.{inner}"), value));
            nested.or_else(|| {
                (!outer.is_empty()).then(|| config.get(outer).map(|value| (outer.to_owned(), value))).flatten()
            })
        };
        let (most, strategy, warning) =
            (find("max_depth", "max_size"), find("strategy", "overflow_policy"), find("warning_threshold", ""));
        if most.is_none() && strategy.is_none() && warning.is_none() {
            return Ok(None);
        }
        let most = match most {
            None => old.map_or(0, |old| old.most),
            Some((field, value)) => {
                let number = json::integer(value).and_then(|number| u64::try_from(number).ok());
                let number = number.filter(|number| *number <= MOST);
                number.ok_or_else(|| {
                    Invalid::field(field, format!("a whole number from 0 (no bound) to {MOST}"), value)
                })?
            }
        };
        let overflow = match strategy {
            None => old.map_or(Overflow::default(), |old| old.overflow),
            Some((field, value)) => {
                let known = json::text(value).and_then(|name| Overflow::from_name(&name));
                known.ok_or_else(|| Invalid::field(field, EXPECTED, value))?
            }
        };
        let warning = match warning {
            None => old.map_or(DEFAULT_WARNING, |old| old.warning),
            Some((field, value)) => {
                let number = json::number(value).filter(|number| (0.0..=1.0).contains(number));
                number.ok_or_else(|| Invalid::field(field, "a number from 0 to 1", value))?
            }
        };
        Ok(Some((most > 0).then_some(Bound { most, overflow, warning })))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str, old: Option<&Bound>) -> Result<Option<Option<Bound>>, Invalid> {
        Bound::parse(&Object::parse(text).unwrap(), old)
    }

    #[test]
    fn both_dialects_say_the_same_and_what_is_left_out_stays() {
        let bound = Bound { most: 10, overflow: Overflow::Block, warning: 0.8 };
        let nested = r#"{"backpressure":{"max_depth":10,"strategy":"block"}}"#;
        assert_eq!(parse(nested, None), Ok(Some(Some(bound.clone()))));
        assert_eq!(parse(r#"{"max_size":10,"overflow_policy":"block"}"#, None), Ok(Some(Some(bound.clone()))));
        let changed = parse(r#"{"backpressure":{"warning_threshold":0.5}}"#, Some(&bound));
        assert_eq!(changed, Ok(Some(Some(Bound { warning: 0.5, ..bound.clone() }))));
        assert_eq!(parse(r#"{"max_size":0}"#, Some(&bound)), Ok(Some(None)));
        assert_eq!(parse(r#"{"concurrency":1}"#, Some(&bound)), Ok(None));
    }

    #[test]
    fn names_are_read_as_they_are_written() {
        assert_eq!(Overflow::ALL.map(Overflow::name), Overflow::NAMES);
        for overflow in Overflow::ALL {
            assert_eq!(Overflow::from_name(overflow.name()), Some(overflow));
        }
        assert_eq!(Overflow::from_name("drop"), None);
    }

    #[test]
    fn says_which_field_is_wrong() {
        for (text, field) in [
            (r#"{"backpressure":1}"#, "backpressure"),
            (r#"{"backpressure":{"max_depth":-1}}"#, "backpressure.max_depth"),
            (r#"{"backpressure":{"strategy":"x"}}"#, "backpressure.strategy"),
            (r#"{"backpressure":{"warning_threshold":2}}"#, "backpressure.warning_threshold"),
            (r#"{"backpressure":{"max_size_bytes":2}}"#, "backpressure.max_size_bytes"),
            (r#"{"max_size":"a"}"#, "max_size"),
            (r#"{"overflow_policy":"x"}"#, "overflow_policy"),
        ] {
            assert_eq!(parse(text, None).expect_err(text).field, field, "{text}");
        }
    }
}
