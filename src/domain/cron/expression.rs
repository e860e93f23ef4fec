//! Translation of crontab expressions for the `cron` crate. All knowledge of how that crate differs
//! from crontab is in this module.

use cron::Schedule;

/// Expected value in the error for an unreadable expression.
pub const EXPECTED: &str = "five fields (minute hour day month weekday), six with seconds in front, or one of \
    @hourly, @daily, @midnight, @weekly, @monthly, @yearly, @annually";

const ALIASES: [(&str, &str); 7] = [
    ("@hourly", "0 * * * *"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@weekly", "0 0 * * 0"),
    ("@monthly", "0 0 1 * *"),
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
];

/// Name of each field and the values that it accepts.
const FIELDS: [(&str, &str); 6] = [
    ("second", "0 to 59"),
    ("minute", "0 to 59"),
    ("hour", "0 to 23"),
    ("day of the month", "1 to 31"),
    ("month", "1 to 12 or jan to dec"),
    ("weekday", "0 to 7, both ends Sunday, or sun to sat"),
];
const DAY: usize = 3;
const WEEKDAY: usize = 5;

const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// Parses an expression. The error says what is wrong and what is expected.
///
/// Returns two schedules if both day fields are restricted: crontab fires if either field matches,
/// while the crate would require both.
pub(super) fn schedules(expression: &str) -> Result<Vec<Schedule>, String> {
    let text = ALIASES.iter().find(|(alias, _)| alias.eq_ignore_ascii_case(expression.trim()));
    let text = text.map_or(expression, |(_, fields)| fields).to_ascii_lowercase();
    let mut fields: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
    match fields.len() {
        5 => fields.insert(0, "0".to_owned()),
        6 => {}
        1 => return Err(format!("it has one field; expected {EXPECTED}")),
        count => return Err(format!("it has {count} fields; expected {EXPECTED}")),
    }
    // Decided before weekdays are spelt out. As in crontab, `*/2` counts as unrestricted.
    let both = [DAY, WEEKDAY].iter().all(|field| !fields[*field].starts_with('*'));
    for (index, field) in fields.iter_mut().enumerate() {
        *field = check_field(index, field)?;
    }
    match both {
        true => Ok(vec![with_star(&fields, WEEKDAY)?, with_star(&fields, DAY)?]),
        false => Ok(vec![schedule(&fields)?]),
    }
}

fn with_star(fields: &[String], field: usize) -> Result<Schedule, String> {
    let mut fields = fields.to_vec();
    fields[field] = "*".to_owned();
    schedule(&fields)
}

fn schedule(fields: &[String]) -> Result<Schedule, String> {
    // The year is explicit because the crate would otherwise read leftovers of another field as the
    // year.
    format!("{} *", fields.join(" ")).parse().map_err(|_| format!("expected {EXPECTED}"))
}

/// Converts one field to the crate's syntax and checks it alone, because the crate parses across
/// spaces and does not report which field is wrong.
fn check_field(index: usize, field: &str) -> Result<String, String> {
    let (name, takes) = FIELDS[index];
    let wrong = || {
        format!(
            "\"{field}\" is not a valid {name}; expected {takes}, alone or with *, lists (1,2), ranges (1-5), steps (*/2)"
        )
    };
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"*,-/".contains(&byte);
    if !field.bytes().all(plain) {
        return Err(wrong());
    }
    let spelt = if index == WEEKDAY { spell_weekdays(field).ok_or_else(wrong)? } else { field.to_owned() };
    let mut alone = ["*"; 6];
    alone[index] = &spelt;
    schedule(&alone.map(str::to_owned)).map_err(|_| wrong())?;
    Ok(spelt)
}

/// Spells weekdays as names, because the crate numbers them differently. A range may wrap around
/// the end of the week: `fri-mon`, `5-7`.
fn spell_weekdays(field: &str) -> Option<String> {
    if field == "*" {
        return Some(field.to_owned());
    }
    let mut days = Vec::new();
    for part in field.split(',') {
        let (range, step) = part.split_once('/').map_or((part, None), |(range, step)| (range, Some(step)));
        let (first, last) = match (range, range.split_once('-')) {
            ("*", _) => (0, 6),
            (_, Some((first, last))) => (weekday(first)?, weekday(last)?),
            // As in the other fields, a step without a range continues to the end.
            (day, None) => (weekday(day)?, if step.is_some() { 6 } else { weekday(day)? }),
        };
        let last = if last < first { last + 7 } else { last };
        let step = step.map_or(Some(1), |step| step.parse().ok().filter(|step| (1..=7).contains(step)))?;
        days.extend((first..=last).step_by(step).map(|day| WEEKDAYS[day % 7]));
    }
    Some(days.join(","))
}

fn weekday(text: &str) -> Option<usize> {
    // Full names are accepted too, because the crate accepts full names of months.
    const FULL: [&str; 7] = ["sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"];
    let named = WEEKDAYS.iter().zip(FULL).position(|(short, full)| text == *short || text == full);
    named.or_else(|| text.parse().ok().filter(|day| *day <= 7))
}
