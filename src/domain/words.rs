//! Numbers and durations as people read them, for sentences, tables and pages.

/// Returns a number with its noun in singular or plural: `1 queue`, `1,200 jobs`, `2 processes`.
pub fn counted(number: u64, noun: &str) -> String {
    let ending = match noun.ends_with('s') {
        _ if number == 1 => "",
        true => "es",
        false => "s",
    };
    format!("{} {noun}{ending}", grouped(number))
}

/// Returns a number with commas between thousands.
pub fn grouped(number: u64) -> String {
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

/// Returns a duration in one or two units: `350 ms`, `12.3 s`, `92 s`, `4 min 5 s`, `3 h 20 min`,
/// `2 d`.
pub fn duration(ms: i64) -> String {
    let ms = ms.max(0);
    match ms {
        0..1000 => format!("{ms} ms"),
        1000..120_000 => format!("{} s", (ms / 100) as f64 / 10.0),
        120_000..3_600_000 => two_units(ms / 1000, 60, "min", "s"),
        3_600_000..172_800_000 => two_units(ms / 60_000, 60, "h", "min"),
        _ => two_units(ms / 3_600_000, 24, "d", "h"),
    }
}

/// Returns an amount of the smaller unit in both units, without the smaller one if it is zero.
fn two_units(amount: i64, size: i64, large: &str, small: &str) -> String {
    match amount % size {
        0 => format!("{} {large}", amount / size),
        rest => format!("{} {large} {rest} {small}", amount / size),
    }
}

/// Returns a rate with two significant digits: `2.35/s`, `23/s`.
pub fn per_second(rate: f64) -> String {
    if rate >= 10.0 { format!("{rate:.0}/s") } else { format!("{rate:.2}/s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nouns_follow_their_numbers() {
        for (number, noun, expected) in [
            (0, "job", "0 jobs"),
            (1, "queue", "1 queue"),
            (1200, "job", "1,200 jobs"),
            (1_234_567, "queue", "1,234,567 queues"),
            (1, "process", "1 process"),
            (3, "process", "3 processes"),
        ] {
            assert_eq!(counted(number, noun), expected);
        }
    }

    #[test]
    fn durations_are_short_and_exact_enough() {
        for (ms, text) in [
            (-5, "0 ms"),
            (350, "350 ms"),
            (12_345, "12.3 s"),
            (92_000, "92 s"),
            (119_999, "119.9 s"),
            (240_000, "4 min"),
            (245_000, "4 min 5 s"),
            (3_600_000, "1 h"),
            (12_000_000, "3 h 20 min"),
            (172_800_000, "2 d"),
            (180_000_000, "2 d 2 h"),
        ] {
            assert_eq!(duration(ms), text);
        }
    }

    #[test]
    fn rates_have_two_digits() {
        assert_eq!([per_second(2.345), per_second(23.45)], ["2.35/s", "23/s"]);
    }
}
