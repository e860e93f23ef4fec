//! Numbers as people read them.

/// Returns a number of things: `1 job`, `1,200 jobs`.
pub(super) fn count(number: u64, noun: &str) -> String {
    format!("{} {noun}{}", grouped(number), if number == 1 { "" } else { "s" })
}

/// Returns a number with commas between thousands.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Returns a duration with the unit that suits it: `350 ms`, `92 s`, `4 min`, `3 h`, `2 d`.
pub(super) fn duration(ms: u64) -> String {
    const SECOND: u64 = 1000;
    const MINUTE: u64 = 60 * SECOND;
    const HOUR: u64 = 60 * MINUTE;
    const DAY: u64 = 24 * HOUR;
    match ms {
        0..SECOND => format!("{ms} ms"),
        SECOND..120_000 => format!("{} s", ms / SECOND),
        120_000..7_200_000 => format!("{} min", ms / MINUTE),
        7_200_000..172_800_000 => format!("{} h", ms / HOUR),
        _ => format!("{} d", ms / DAY),
    }
}

/// Returns a rate: `no jobs`, `0.4 jobs/s`, `120 jobs/s`.
pub(super) fn rate(per_second: f64) -> String {
    match per_second {
        rate if rate <= 0.0 => "no jobs".to_owned(),
        rate if rate < 10.0 => format!("{rate:.1} jobs/s"),
        rate => format!("{rate:.0} jobs/s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_and_have_units() {
        assert_eq!(
            [count(1, "job"), count(1200, "job"), count(1_234_567, "job")],
            ["1 job", "1,200 jobs", "1,234,567 jobs"]
        );
        let durations = [0, 999, 92_000, 119_999, 240_000, 7_199_999, 7_200_000, 172_800_000].map(duration);
        assert_eq!(durations, ["0 ms", "999 ms", "92 s", "119 s", "4 min", "119 min", "2 h", "2 d"]);
        assert_eq!([0.0, 0.44, 3.0, 99.6].map(rate), ["no jobs", "0.4 jobs/s", "3.0 jobs/s", "100 jobs/s"]);
    }
}
