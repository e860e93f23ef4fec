//! Numbers in sentences.

/// Returns a duration as people read it, such as `350 ms`, `12.3 s`, `4 min 5 s` or `3 h 20 min`.
pub(super) fn duration(ms: i64) -> String {
    let ms = ms.max(0);
    let (seconds, minutes, hours) = (ms / 1000, ms / 60_000, ms / 3_600_000);
    match ms {
        0..1000 => format!("{ms} ms"),
        1000..60_000 => format!("{:.1} s", ms as f64 / 1e3),
        60_000..3_600_000 => format!("{minutes} min {} s", seconds % 60),
        _ => format!("{hours} h {} min", minutes % 60),
    }
}

/// Returns a number with its noun in singular or plural.
pub(super) fn counted(number: u64, noun: &str) -> String {
    let ending = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{ending}")
}

/// Returns a form of `to be` for a number.
pub(super) fn are(number: u64) -> &'static str {
    if number == 1 { "is" } else { "are" }
}

/// Returns a rate with two significant digits.
pub(super) fn per_second(rate: f64) -> String {
    if rate >= 10.0 { format!("{rate:.0}/s") } else { format!("{rate:.2}/s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_short_and_exact_enough() {
        for (ms, text) in
            [(-5, "0 ms"), (350, "350 ms"), (12_345, "12.3 s"), (245_000, "4 min 5 s"), (12_000_000, "3 h 20 min")]
        {
            assert_eq!(duration(ms), text);
        }
    }

    #[test]
    fn nouns_follow_their_numbers() {
        assert_eq!([counted(1, "job"), counted(0, "job"), counted(2, "job")], ["1 job", "0 jobs", "2 jobs"]);
        assert_eq!((are(1), are(2)), ("is", "are"));
        assert_eq!((per_second(2.345), per_second(23.45)), ("2.35/s".to_owned(), "23/s".to_owned()));
    }
}
