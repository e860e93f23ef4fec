//! Cron expressions in a time zone.
//!
//! A schedule is evaluated in local wall-clock time, and each hit is then converted to an instant.
//! A time that daylight saving skips has no instant and does not fire; a time that it repeats fires
//! at its first instant only.

use super::expression;
use chrono::{DateTime, Datelike, LocalResult, NaiveDateTime, Offset, TimeDelta, TimeZone};
use chrono_tz::{TZ_VARIANTS, Tz};
use cron::Schedule;

/// Expected value in the error for an unknown time zone.
pub const TIMEZONE_EXPECTED: &str = "an IANA time zone such as UTC or Europe/Berlin";

/// A cron expression in a time zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cron {
    /// Two schedules if both day fields are restricted: crontab fires if either field matches,
    /// while the crate would require both.
    schedules: Vec<Schedule>,
    zone: Tz,
}

/// A moment at which a cron needs attention: it fires, or daylight saving skips one of its times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Wake {
    /// Milliseconds since the epoch.
    pub at: i64,
    /// True if the cron does not fire because daylight saving skips this time.
    pub is_left_out: bool,
}

impl Cron {
    /// Parses an expression. The error says what is wrong and what is expected.
    pub fn parse(expression: &str, timezone: &str) -> Result<Cron, String> {
        let zone = parse_zone(timezone)?;
        let cron = Cron { schedules: expression::schedules(expression)?, zone };
        // Counted from the epoch, the 130 years that the crate covers contain each date on each
        // weekday.
        match cron.next_after(0) {
            Some(_) => Ok(cron),
            None => Err("no date matches it; check the day against the month".to_owned()),
        }
    }

    /// Returns the first time after `ms`, both in milliseconds since the epoch; `None` after the
    /// year 2100.
    pub fn next_after(&self, ms: i64) -> Option<i64> {
        let after = DateTime::from_timestamp_millis(ms.max(-1)).filter(|time| time.year() <= 2100)?;
        let local = after.with_timezone(&self.zone).naive_local().and_utc();
        let first = |schedule: &Schedule| {
            let hits = schedule.after(&local).filter_map(|hit| self.instant(hit.naive_utc()));
            // In the repeated hour, the wall clock shows times whose only instant has already
            // passed.
            hits.map(|hit| hit.timestamp_millis()).find(|hit| *hit > ms)
        };
        self.schedules.iter().filter_map(first).min()
    }

    /// Returns the first moment after `ms` at which the cron fires or at which daylight saving
    /// skips one of its times. If both coincide, the cron fires.
    pub fn next_wake(&self, ms: i64) -> Option<Wake> {
        let after = DateTime::from_timestamp_millis(ms.max(-1)).filter(|time| time.year() <= 2100)?;
        let local = after.with_timezone(&self.zone).naive_local().and_utc();
        let wake = |hit: NaiveDateTime| match self.instant(hit) {
            Some(instant) => Wake { at: instant.timestamp_millis(), is_left_out: false },
            None => Wake { at: self.gap_end(hit), is_left_out: true },
        };
        let first =
            |schedule: &Schedule| schedule.after(&local).map(|hit| wake(hit.naive_utc())).find(|wake| wake.at > ms);
        let wake = self.schedules.iter().filter_map(first).min()?;
        Some(Wake { is_left_out: wake.is_left_out && self.next_after(ms) != Some(wake.at), ..wake })
    }

    /// Returns the moment at which the clock was put forward past `local`, a local time that does
    /// not exist.
    fn gap_end(&self, local: NaiveDateTime) -> i64 {
        let offset = |utc: NaiveDateTime| self.zone.offset_from_utc_datetime(&utc).fix().local_minus_utc();
        let before = offset(local - TimeDelta::days(1));
        // Converted with the offset from before the change, the skipped time lies in the first
        // hours after it.
        let after = local - TimeDelta::seconds(before.into());
        let (mut low, mut high) = (after - TimeDelta::seconds((offset(after) - before).max(0).into()), after);
        while high - low > TimeDelta::seconds(1) {
            let middle = low + TimeDelta::seconds((high - low).num_seconds() / 2);
            if offset(middle) == before { low = middle } else { high = middle }
        }
        high.and_utc().timestamp_millis()
    }

    fn instant(&self, local: NaiveDateTime) -> Option<DateTime<Tz>> {
        match self.zone.from_local_datetime(&local) {
            LocalResult::Single(instant) | LocalResult::Ambiguous(instant, _) => Some(instant),
            LocalResult::None => None,
        }
    }
}

/// Checks that a time zone exists; the error suggests a similar name.
pub fn check_timezone(name: &str) -> Result<(), String> {
    parse_zone(name).map(drop)
}

fn parse_zone(name: &str) -> Result<Tz, String> {
    name.parse().map_err(|_| {
        let distance = |zone: &&str| strsim::damerau_levenshtein(&name.to_lowercase(), &zone.to_lowercase());
        let zones = TZ_VARIANTS.iter().map(|zone| zone.name());
        match zones.min_by_key(distance).filter(|zone| distance(zone) <= name.len() / 4) {
            Some(zone) => format!("unknown time zone \"{name}\"; did you mean \"{zone}\"?"),
            None => format!("unknown time zone \"{name}\"; expected {TIMEZONE_EXPECTED}"),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::time::{At, rfc3339};

    fn ms(text: &str) -> i64 {
        match At::parse(text) {
            Some(At::Absolute(ms)) => ms,
            _ => panic!("{text}"),
        }
    }

    /// Returns the next `count` times after `after`, formatted without milliseconds.
    fn times(expression: &str, zone: &str, after: &str, count: usize) -> Vec<String> {
        let cron = Cron::parse(expression, zone).unwrap_or_else(|message| panic!("{expression}: {message}"));
        let next = |at: &i64| cron.next_after(*at);
        std::iter::successors(Some(ms(after)), next)
            .skip(1)
            .take(count)
            .map(|at| rfc3339(at).replace(".000Z", "Z"))
            .collect()
    }

    #[test]
    fn reads_what_crontab_reads() {
        // 2026-01-01 is a Thursday.
        for (expression, expected) in [
            ("*/5 * * * *", "2026-01-01T00:05:00Z"),
            ("30 * * * * *", "2026-01-01T00:00:30Z"),
            ("5/20 * * * *", "2026-01-01T00:05:00Z"),
            ("0 12 * * *", "2026-01-01T12:00:00Z"),
            ("  0   12  *  *  * ", "2026-01-01T12:00:00Z"),
            ("0 0 1 FEB *", "2026-02-01T00:00:00Z"),
            ("0 0 29 2 *", "2028-02-29T00:00:00Z"),
            ("0 0 31 4,5 *", "2026-05-31T00:00:00Z"),
            ("0 0 * * 0", "2026-01-04T00:00:00Z"),
            ("0 0 * * 7", "2026-01-04T00:00:00Z"),
            ("0 0 * * Sun", "2026-01-04T00:00:00Z"),
            ("0 0 * * sunday", "2026-01-04T00:00:00Z"),
            ("0 0 * * 1", "2026-01-05T00:00:00Z"),
            ("0 0 * * 6-7", "2026-01-03T00:00:00Z"),
            ("0 0 * * MON-fri", "2026-01-02T00:00:00Z"),
            ("0 0 * * sat-mon", "2026-01-03T00:00:00Z"),
            ("0 0 * * 1-5/2", "2026-01-02T00:00:00Z"),
            ("0 0 * * */2", "2026-01-03T00:00:00Z"),
            ("0 0 * * 2/2", "2026-01-03T00:00:00Z"),
            ("@hourly", "2026-01-01T01:00:00Z"),
            ("@daily", "2026-01-02T00:00:00Z"),
            ("@Midnight", "2026-01-02T00:00:00Z"),
            ("@weekly", "2026-01-04T00:00:00Z"),
            ("@monthly", "2026-02-01T00:00:00Z"),
            ("@yearly", "2027-01-01T00:00:00Z"),
            ("@annually", "2027-01-01T00:00:00Z"),
        ] {
            assert_eq!(times(expression, "UTC", "2026-01-01T00:00:00Z", 1), [expected], "{expression}");
        }
    }

    #[test]
    fn either_day_field_will_do_if_both_are_restricted() {
        let days = |expression| times(expression, "UTC", "2026-01-01T00:00:00Z", 4);
        assert_eq!(
            days("0 0 13 * 5"),
            ["2026-01-02T00:00:00Z", "2026-01-09T00:00:00Z", "2026-01-13T00:00:00Z", "2026-01-16T00:00:00Z"]
        );
        // A Friday the 13th matches both fields and counts once.
        assert_eq!(
            times("0 0 13 * 5", "UTC", "2026-02-06T00:00:00Z", 2),
            ["2026-02-13T00:00:00Z", "2026-02-20T00:00:00Z"]
        );
        assert_eq!(days("0 0 */2 * 5")[..2], ["2026-01-09T00:00:00Z", "2026-01-23T00:00:00Z"]);
    }

    #[test]
    fn whoever_has_a_time_in_the_gap_is_woken_at_its_end() {
        for (expression, zone, after, at, is_left_out) in [
            ("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", "2026-03-29T01:00:00Z", true),
            ("0 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", "2026-03-29T01:00:00Z", true),
            ("30 2 * * *", "Europe/Berlin", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z", false),
            ("*/30 * * * *", "Europe/Berlin", "2026-03-29T00:30:00Z", "2026-03-29T01:00:00Z", false),
            ("0 0 30 12 *", "Pacific/Apia", "2011-12-01T00:00:00Z", "2011-12-30T10:00:00Z", true),
            ("15 2 * * *", "Australia/Lord_Howe", "2026-10-03T00:00:00Z", "2026-10-03T15:30:00Z", true),
            ("30 2 * * *", "America/New_York", "2026-03-08T00:00:00Z", "2026-03-08T07:00:00Z", true),
            ("30 2 * * *", "UTC", "2026-03-29T01:00:00Z", "2026-03-29T02:30:00Z", false),
        ] {
            let ms = |text: &str| text.parse::<DateTime<chrono::Utc>>().unwrap().timestamp_millis();
            let wake = Cron::parse(expression, zone).unwrap().next_wake(ms(after));
            assert_eq!(wake, Some(Wake { at: ms(at), is_left_out }), "{expression} {zone}");
        }
    }

    #[test]
    fn a_time_in_the_gap_is_skipped_and_one_in_the_fold_comes_once() {
        for (expression, zone, after, expected) in [
            // Berlin 2026: 02:00 to 03:00 is missing on March 29 and occurs twice on October 25.
            ("30 2 * * *", "Europe/Berlin", "2026-03-27T12:00:00Z", ["2026-03-28T01:30:00Z", "2026-03-30T00:30:00Z"]),
            ("0 3 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", ["2026-03-29T01:00:00Z", "2026-03-30T01:00:00Z"]),
            ("*/30 * * * *", "Europe/Berlin", "2026-03-29T00:30:00Z", ["2026-03-29T01:00:00Z", "2026-03-29T01:30:00Z"]),
            ("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"]),
            ("*/30 * * * *", "Europe/Berlin", "2026-10-25T00:00:00Z", ["2026-10-25T00:30:00Z", "2026-10-25T02:00:00Z"]),
            // `after` lies in the second of the two repeated hours.
            ("30 2 * * *", "Europe/Berlin", "2026-10-25T01:10:00Z", ["2026-10-26T01:30:00Z", "2026-10-27T01:30:00Z"]),
            // New York 2026: 02:00 to 03:00 is missing on March 8; 01:00 to 02:00 occurs twice on
            // November 1.
            (
                "30 2 * * *",
                "America/New_York",
                "2026-03-07T12:00:00Z",
                ["2026-03-09T06:30:00Z", "2026-03-10T06:30:00Z"],
            ),
            (
                "30 1 * * *",
                "America/New_York",
                "2026-10-31T12:00:00Z",
                ["2026-11-01T05:30:00Z", "2026-11-02T06:30:00Z"],
            ),
            (
                "0 9 * * 1-5",
                "America/New_York",
                "2026-03-06T20:00:00Z",
                ["2026-03-09T13:00:00Z", "2026-03-10T13:00:00Z"],
            ),
        ] {
            assert_eq!(times(expression, zone, after, 2), expected, "{expression} in {zone} after {after}");
        }
    }

    #[test]
    fn the_next_time_is_later_to_the_millisecond() {
        let cron = Cron::parse("* * * * * *", "UTC").unwrap();
        assert_eq!([-1, 0, 1, 999, 1000].map(|at| cron.next_after(at)), [0, 1000, 1000, 1000, 2000].map(Some));
        assert_eq!([i64::MIN, i64::MAX, 9_000_000_000_000_000].map(|at| cron.next_after(at)), [Some(0), None, None]);
    }

    #[test]
    fn says_what_is_wrong_and_what_would_do() {
        for (expression, part) in [
            ("", "it has 0 fields; expected five fields (minute hour"),
            ("* * * *", "it has 4 fields"),
            ("* * * * * * *", "it has 7 fields"),
            ("@fortnightly", "it has one field; expected"),
            ("61 * * * *", "\"61\" is not a valid minute; expected 0 to 59"),
            ("* 24 * * *", "\"24\" is not a valid hour"),
            ("* * 0 * *", "\"0\" is not a valid day of the month; expected 1 to 31"),
            ("* * * 13 *", "\"13\" is not a valid month"),
            ("* * * * 8", "\"8\" is not a valid weekday; expected 0 to 7"),
            ("* * * * mun", "\"mun\" is not a valid weekday"),
            ("* * ? * *", "\"?\" is not a valid day of the month"),
            ("*/0 * * * *", "\"*/0\" is not a valid minute"),
            ("* * * * */0", "\"*/0\" is not a valid weekday"),
            ("5* 5- 5 * *", "\"5*\" is not a valid minute"),
            ("99999999999 * * * *", "is not a valid minute"),
            ("0 0 30 2 *", "no date matches it"),
        ] {
            let message = Cron::parse(expression, "UTC").expect_err(expression);
            assert!(message.contains(part), "{expression}: {message}");
        }
        let zone = |name| Cron::parse("@daily", name).expect_err(name);
        assert_eq!(zone("Europe/Berln"), "unknown time zone \"Europe/Berln\"; did you mean \"Europe/Berlin\"?");
        assert_eq!(zone("europe/berlin"), "unknown time zone \"europe/berlin\"; did you mean \"Europe/Berlin\"?");
        assert!(zone("Mars").ends_with("expected an IANA time zone such as UTC or Europe/Berlin"), "{}", zone("Mars"));
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "[0-9*,/@a-z? -]{0,30}", ms in proptest::num::i64::ANY) {
            if let Ok(cron) = Cron::parse(&text, "Europe/Berlin") {
                proptest::prop_assert!(cron.next_after(ms).is_none_or(|next| next > ms));
            }
        }
    }
}
