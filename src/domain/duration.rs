//! Durations in ISO 8601 (`PT1M`, `P1D`, `PT0.5S`) or short form (`500ms`, `60s`, `5m`, `2h`,
//! `7d`).
//!
//! Days and weeks count 24 hours each. Years and months have no fixed length and are refused.

use jiff::{Span, SpanRelativeTo};

/// Expected value in the error for an unreadable duration.
pub const EXPECTED: &str = "a duration such as 500ms, 60s, 5m, 2h, 7d or ISO 8601 (PT1M)";

/// Short units and their milliseconds. `ms` precedes `s`, so that `5ms` is not read as `5m`
/// seconds.
const UNITS: [(&str, f64); 5] = [("ms", 1.0), ("s", 1e3), ("m", 6e4), ("h", 3.6e6), ("d", 8.64e7)];

/// Longest duration in milliseconds: a century. Longer than any sensible wait, and far from
/// overflowing a millisecond clock.
pub const LONGEST_MS: u64 = 100 * 365 * 86_400_000;

/// Parses a duration into milliseconds. Returns `None` if it is unreadable, negative or longer than
/// a century.
pub fn parse_ms(text: &str) -> Option<u64> {
    let ms = match text.as_bytes().first()? {
        b'P' | b'p' => iso_ms(text)?,
        b'0'..=b'9' => short_ms(text)?,
        _ => return None,
    };
    // Rounded up, so that a wait is never shorter than requested.
    (0.0..=LONGEST_MS as f64).contains(&ms).then(|| ms.ceil() as u64)
}

/// Like [`parse_ms`], but also accepts a sequence of short forms, such as `1h30m`.
pub fn parse_sum_ms(text: &str) -> Option<u64> {
    if let Some(ms) = parse_ms(text) {
        return Some(ms);
    }
    let mut sum = 0_u64;
    for part in text.split_inclusive(|c: char| c.is_ascii_alphabetic()) {
        // The split does not support `ms`, which ends in two letters; it is too short for a sum
        // anyway.
        sum = sum.saturating_add(parse_ms(part)?);
    }
    (sum > 0 && sum <= LONGEST_MS).then_some(sum)
}

fn iso_ms(text: &str) -> Option<f64> {
    let span: Span = text.parse().ok()?;
    if span.get_years() != 0 || span.get_months() != 0 {
        return None;
    }
    let duration = span.to_duration(SpanRelativeTo::days_are_24_hours()).ok()?;
    Some(duration.as_millis_f64())
}

fn short_ms(text: &str) -> Option<f64> {
    let (digits, factor) =
        UNITS.iter().find_map(|(unit, factor)| text.strip_suffix(unit).map(|digits| (digits.trim_end(), factor)))?;
    if !digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        return None; // `f64` would also parse "1e9" and "inf".
    }
    Some(digits.parse::<f64>().ok()? * factor)
}

/// Formats milliseconds in ISO 8601: `PT1.5S`, `PT5M`.
pub fn to_iso(ms: u64) -> String {
    match ms {
        0 => "PT0S".to_owned(),
        ms if ms.is_multiple_of(3_600_000) => format!("PT{}H", ms / 3_600_000),
        ms if ms.is_multiple_of(60_000) => format!("PT{}M", ms / 60_000),
        ms => format!("PT{}S", ms as f64 / 1000.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_people_write() {
        for (text, ms) in [
            ("500ms", 500),
            ("60s", 60_000),
            ("1.5s", 1_500),
            ("5m", 300_000),
            ("2h", 7_200_000),
            ("7d", 604_800_000),
            ("PT1M", 60_000),
            ("PT0.5S", 500),
            ("PT1H30M", 5_400_000),
            ("P1D", 86_400_000),
            ("P1W", 604_800_000),
            ("PT0S", 0),
            ("0s", 0),
        ] {
            assert_eq!(parse_ms(text), Some(ms), "{text}");
        }
    }

    #[test]
    fn refuses_the_rest() {
        for text in ["", "5", "s", "-5s", "-PT5S", "1e9s", "P1M", "P1Y", "PT", "fast", "5 parsecs", "999999999d", "١s"]
        {
            assert_eq!(parse_ms(text), None, "{text}");
        }
    }

    #[test]
    fn writes_iso_that_it_can_read_back() {
        for ms in [0, 1, 500, 1_000, 1_500, 60_000, 90_000, 3_600_000, 300_000] {
            assert_eq!(parse_ms(&to_iso(ms)), Some(ms), "{}", to_iso(ms));
        }
        assert_eq!(to_iso(300_000), "PT5M");
    }
}
