//! Points in time: milliseconds since the epoch internally, RFC 3339 on the wire.

use super::duration;
use jiff::Timestamp;

/// Expected value in the error for an unreadable time.
pub const EXPECTED: &str = "an RFC 3339 timestamp with a zone (2026-01-31T10:00:00Z), or a relative one such as +PT5S";

/// Expected value in the error for an unreadable time, if relative times are not accepted.
pub const ABSOLUTE_EXPECTED: &str = "an RFC 3339 timestamp with a zone (2026-01-31T10:00:00Z)";

/// A time that a client requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// Milliseconds since the epoch.
    Absolute(i64),
    /// Milliseconds after the store accepts the job, by the store's clock.
    Relative(u64),
}

impl At {
    /// Parses `2026-01-31T10:00:00Z` or `+PT5S`. Refuses a timestamp without a zone.
    pub fn parse(text: &str) -> Option<At> {
        if let Some(relative) = text.strip_prefix('+') {
            return duration::parse_ms(relative).map(At::Relative);
        }
        // jiff accepts more than RFC 3339. Accepted text is echoed to clients that may not.
        if !is_rfc3339(text) {
            return None;
        }
        text.parse::<Timestamp>().ok().map(|timestamp| At::Absolute(timestamp.as_millisecond()))
    }
}

/// Parses a timestamp with a zone into milliseconds since the epoch.
pub fn parse_rfc3339(text: &str) -> Option<i64> {
    match At::parse(text)? {
        At::Absolute(ms) => Some(ms),
        At::Relative(_) => None,
    }
}

/// Returns true for text of the form `YYYY-MM-DDThh:mm:ss[.f](Z|±hh:mm)`. Does not check that the
/// date exists.
fn is_rfc3339(text: &str) -> bool {
    let fits = |text: &str, form: &str| {
        text.len() == form.len()
            && text.bytes().zip(form.bytes()).all(|(byte, form)| match form {
                b'0' => byte.is_ascii_digit(),
                b'T' => byte.eq_ignore_ascii_case(&b'T'),
                form => byte == form,
            })
    };
    let Some((moment, rest)) = text.split_at_checked(19) else { return false };
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let zone = match rest.strip_prefix('.') {
        Some(fraction) if digits(fraction) > 0 => &fraction[digits(fraction)..],
        Some(_) => return false,
        None => rest,
    };
    fits(moment, "0000-00-00T00:00:00")
        && (zone.eq_ignore_ascii_case("Z") || fits(zone, "+00:00") || fits(zone, "-00:00"))
}

/// Appends a time such as `2026-02-12T10:30:00.123Z` to `out`.
pub fn write_rfc3339(out: &mut String, ms: i64) {
    // Days to civil date by Howard Hinnant's algorithm. This runs several times per answer, and a
    // general formatter costs more than the rest of the rendering.
    let (days, in_day) = (ms.div_euclid(86_400_000), ms.rem_euclid(86_400_000));
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_index = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_index + 2) / 5 + 1;
    let month = if month_index < 10 { month_index + 3 } else { month_index - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let (hour, minute) = (in_day / 3_600_000, in_day / 60_000 % 60);
    let (second, milli) = (in_day / 1000 % 60, in_day % 1000);

    let mut text = *b"0000-00-00T00:00:00.000Z";
    for (value, digits) in [
        (year.clamp(0, 9999), 0..4),
        (month, 5..7),
        (day, 8..10),
        (hour, 11..13),
        (minute, 14..16),
        (second, 17..19),
        (milli, 20..23),
    ] {
        let mut left = value as u32;
        for digit in text[digits].iter_mut().rev() {
            *digit = b'0' + (left % 10) as u8;
            left /= 10;
        }
    }
    out.push_str(std::str::from_utf8(&text).unwrap_or_default()); // ASCII digits and separators
}

/// Formats a time such as `2026-02-12T10:30:00.123Z`.
pub fn rfc3339(ms: i64) -> String {
    let mut text = String::with_capacity(24);
    write_rfc3339(&mut text, ms);
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_times_with_a_zone() {
        assert_eq!(At::parse("2026-02-12T10:30:00.123Z"), Some(At::Absolute(1_770_892_200_123)));
        assert_eq!(At::parse("2026-02-12T12:30:00+02:00"), Some(At::Absolute(1_770_892_200_000)));
        assert_eq!(At::parse("+PT2S"), Some(At::Relative(2000)));
        for text in [
            "2026-02-12T10:30:00",
            "2026-02-12",
            "tomorrow",
            "",
            "+",
            "+2",
            "2026-13-01T00:00:00Z",
            "2026-02-12 10:30:00Z",
            "2026-02-12T10:30:00+02",
            "2026-02-12T10:30:00,5Z",
            "2026-02-12T10:30:00.Z",
        ] {
            assert_eq!(At::parse(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn writes_what_a_calendar_library_writes(ms in 0_i64..253_402_300_799_999) {
            let timestamp = Timestamp::from_millisecond(ms).expect("in range");
            prop_assert_eq!(rfc3339(ms), format!("{timestamp:.3}"));
        }
    }
}
