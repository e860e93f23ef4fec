//! Shares, waits and weights as the tables and pages show them.

use crate::domain::words::grouped;

/// Formats a time given in milliseconds: `0.2 ms`, `35 ms`, `1.25 s`, `12.5 s`, `350 s`.
pub(super) fn time(ms: f64) -> String {
    match ms.abs() {
        0.0 => "0 ms".to_owned(),
        // Rounding decides the unit: 999.9 ms are 1.00 s.
        short if short < 9.95 => format!("{ms:.1} ms"),
        short if short < 999.5 => format!("{ms:.0} ms"),
        long if long < 9_995.0 => format!("{:.2} s", ms / 1e3),
        long if long < 99_950.0 => format!("{:.1} s", ms / 1e3),
        _ => format!("{:.0} s", ms / 1e3),
    }
}

/// Formats a share: `12.5 %`, or `–` without one.
pub(super) fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "–".to_owned(), |share| format!("{:.1} %", share * 100.0))
}

/// Formats an index: `0.998`, or `–` without one.
pub(super) fn index(index: Option<f64>) -> String {
    index.map_or_else(|| "–".to_owned(), |index| format!("{index:.3}"))
}

/// Formats a weight: `1`, `0.5`.
pub(super) fn weight(weight: f64) -> String {
    weight.to_string()
}

/// Returns the name of an entry, with the number of tenants that it covers if there are several.
pub(super) fn tenant(name: &str, tenants: u32) -> String {
    if tenants == 1 { name.to_owned() } else { format!("{name} ×{}", grouped(u64::from(tenants))) }
}

/// Formats a difference with its sign: `+3.2 pp` (percentage points), `−120 ms`; `=` if it rounds to
/// nothing.
pub(super) fn signed(difference: f64, show: impl Fn(f64) -> String) -> String {
    let shown = show(difference.abs()).replace('%', "pp");
    match shown.contains(|digit: char| ('1'..='9').contains(&digit)) {
        false => "=".to_owned(),
        true if difference < 0.0 => format!("−{shown}"),
        true => format!("+{shown}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_have_units() {
        let times = [0.0, 0.25, 9.97, 35.4, 999.7, 1250.0, 12_540.0, 350_000.0].map(time);
        assert_eq!(times, ["0 ms", "0.2 ms", "10 ms", "35 ms", "1.00 s", "1.25 s", "12.5 s", "350 s"]);
        assert_eq!([Some(0.1254), Some(1.0), None].map(percent), ["12.5 %", "100.0 %", "–"]);
        assert_eq!((tenant("a", 1), tenant("a", 1000)), ("a".to_owned(), "a ×1,000".to_owned()));
    }

    #[test]
    fn differences_have_a_sign_or_are_equal() {
        let shown = [120.0, -1500.0, 0.0, 0.01].map(|ms| signed(ms, time));
        assert_eq!(shown, ["+120 ms", "−1.50 s", "=", "="]);
        assert_eq!(signed(-0.024, |share| percent(Some(share))), "−2.4 pp");
    }
}
