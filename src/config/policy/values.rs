//! Types of values that only the dispatch policy has, with their error messages.

use crate::config::convert::{FromValue, Refused};
use crate::config::report::nearest;
use crate::config::tree::Value;
use crate::domain::fairness::TenantStrategy;
use crate::domain::limit::Window;
use crate::domain::limit::quota;
use crate::domain::names;
use crate::domain::pool::Strategy;
use crate::domain::tenant::Weight;

/// A weight greater than 0, so that each listed queue or tenant gets a share.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Share(pub Weight);

impl FromValue for Share {
    fn from_value(value: &Value) -> Result<Self, Refused> {
        let refused = || Refused::new(format!("a number from {} to {}", Weight::LEAST, Weight::MOST));
        let number = f64::from_value(value).map_err(|_| refused())?;
        // `Weight::of` clamps. In a file, a weight out of range is an error.
        let fits = (Weight::LEAST.as_f64()..=Weight::MOST.as_f64()).contains(&number);
        Weight::of(number).filter(|_| fits).map(Self).ok_or_else(refused)
    }
}

impl FromValue for Strategy {
    fn from_value(value: &Value) -> Result<Self, Refused> {
        value.text().and_then(Strategy::parse).ok_or_else(|| unknown(value, &Strategy::NAMES))
    }
}

impl FromValue for TenantStrategy {
    fn from_value(value: &Value) -> Result<Self, Refused> {
        value.text().and_then(TenantStrategy::parse).ok_or_else(|| unknown(value, &TenantStrategy::NAMES))
    }
}

fn unknown(value: &Value, names: &[&str]) -> Refused {
    let refused = Refused::new(format!("one of {}", names.join(", ")));
    match value.text().and_then(|text| nearest(text, names.iter().copied())) {
        Some(name) => refused.help(format!("did you mean \"{name}\"?")),
        None => refused,
    }
}

/// The name of a queue.
pub struct QueueName(pub String);

impl FromValue for QueueName {
    fn from_value(value: &Value) -> Result<Self, Refused> {
        let name = value.text().filter(|text| names::is_queue(text));
        name.map(|name| Self(name.to_owned())).ok_or_else(|| Refused::new(names::QUEUE_EXPECTED))
    }
}

/// Period of a rate, in milliseconds.
#[derive(Default)]
pub struct Period(pub u64);

impl FromValue for Period {
    fn from_value(value: &Value) -> Result<Self, Refused> {
        let period = value.text().and_then(Window::parse_period);
        period.map(Self).ok_or_else(|| Refused::new(quota::PERIOD_EXPECTED))
    }
}
