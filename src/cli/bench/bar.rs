//! Something that must hold.

use serde_json::{Value, json};
use std::fmt::{self, Display, Formatter};

/// A measured value and its bound.
pub(super) struct Bar {
    what: String,
    value: f64,
    bound: f64,
    pub(super) is_met: bool,
}

impl Bar {
    pub(super) fn at_least(what: impl Into<String>, value: f64, bound: f64) -> Bar {
        Bar { what: what.into(), value, bound, is_met: value >= bound }
    }

    pub(super) fn at_most(what: impl Into<String>, value: f64, bound: f64) -> Bar {
        Bar { what: what.into(), value, bound, is_met: value <= bound }
    }

    pub(super) fn below(what: impl Into<String>, value: f64, bound: f64) -> Bar {
        Bar { what: what.into(), value, bound, is_met: value < bound }
    }

    pub(super) fn json(&self) -> Value {
        json!({"what": self.what, "value": self.value, "bound": self.bound, "met": self.is_met})
    }
}

impl Display for Bar {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let verdict = if self.is_met { "met" } else { "MISSED" };
        write!(f, "{verdict:<6}  {:<52}  {:>8.2}  (bar {:.4})", self.what, self.value, Short(self.bound))
    }
}

/// A bound without needless digits.
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
    fn bounds_belong_to_what_they_bound_except_below() {
        assert!(Bar::at_least("x", 2.0, 2.0).is_met && Bar::at_most("x", 2.0, 2.0).is_met);
        assert!(!Bar::below("x", 2.0, 2.0).is_met);
    }

    #[test]
    fn a_bar_shows_its_bound_without_needless_digits() {
        let line = Bar::at_most("a wait", 1.25, 1.5).to_string();
        assert!(line.starts_with("met") && line.ends_with("1.25  (bar 1.5)"), "{line}");
    }
}
