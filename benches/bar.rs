//! A pass or fail criterion of a benchmark.

use serde_json::{Value, json};
use std::fmt::{self, Display, Formatter};

/// A measured value and the bound it must meet.
pub struct Bar {
    what: String,
    value: f64,
    bound: f64,
    pub is_met: bool,
}

impl Bar {
    pub fn at_least(what: impl Into<String>, value: f64, bound: f64) -> Bar {
        Bar { what: what.into(), value, bound, is_met: value >= bound }
    }

    pub fn at_most(what: impl Into<String>, value: f64, bound: f64) -> Bar {
        Bar { what: what.into(), value, bound, is_met: value <= bound }
    }

    pub fn below(what: impl Into<String>, value: f64, bound: f64) -> Bar {
        Bar { what: what.into(), value, bound, is_met: value < bound }
    }

    pub fn json(&self) -> Value {
        json!({"what": self.what, "value": self.value, "bound": self.bound, "met": self.is_met})
    }
}

impl Display for Bar {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let verdict = if self.is_met { "met" } else { "MISSED" };
        write!(f, "{verdict:<6}  {:<52}  {:>8.2}  (bar {:.4})", self.what, self.value, Short(self.bound))
    }
}

/// Formats a bound without unnecessary digits.
struct Short(f64);

impl Display for Short {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let text = format!("{:.2}", self.0);
        f.write_str(text.trim_end_matches('0').trim_end_matches('.'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_most_and_at_least_include_the_bound_and_below_does_not() {
        assert!(Bar::at_least("x", 2.0, 2.0).is_met && Bar::at_most("x", 2.0, 2.0).is_met);
        assert!(!Bar::below("x", 2.0, 2.0).is_met);
    }

    #[test]
    fn a_bound_is_shown_without_unnecessary_digits() {
        let line = Bar::at_most("a wait", 1.25, 1.5).to_string();
        assert!(line.starts_with("met") && line.ends_with("1.25  (bar 1.5)"), "{line}");
    }
}
