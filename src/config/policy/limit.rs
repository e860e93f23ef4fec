//! `[[limit]]`: limits of queues, job types and keys.

use std::collections::HashSet;

use super::values::Period;
use crate::config::plan::TypePattern;
use crate::config::reader::SettingsReader;
use crate::domain::limit::quota::{MOST_CONCURRENCY, MOST_STARTS};
use crate::domain::limit::{Quota, Window};
use crate::domain::names;
use crate::domain::pool::{LimitRule, LimitTarget};

const TARGETS: [&str; 3] = ["queue", "type", "key"];

/// Reads all `[[limit]]` tables.
pub fn read_limits(root: &mut SettingsReader<'_>) -> Vec<LimitRule> {
    let mut keys = HashSet::new();
    let limits = root.each("limit", |reader| {
        let rule = read_limit(reader);
        if reader.is_sound(&TARGETS) && !keys.insert(rule.key()) {
            let message = format!("another limit has the key \"{}\"", rule.key());
            reader.conflict(&TARGETS, message, Some("merge the two"));
        }
        rule
    });
    if limits.len() > LimitRule::MOST {
        let message = format!("expected at most {} limits, found {}", LimitRule::MOST, limits.len());
        root.conflict(&["limit"], message, Some("a glob of types counts as one limit"));
    }
    limits
}

fn read_limit(reader: &mut SettingsReader<'_>) -> LimitRule {
    let queue = reader.find_such("queue", names::QUEUE_EXPECTED, |text: &String| names::is_queue(text));
    let kind = reader.find("type").map(|TypePattern(pattern)| pattern);
    let key = reader.find_such("key", names::RATE_KEY_EXPECTED, |text: &String| names::is_rate_key(text));
    let quota = Quota {
        concurrency: reader.find_in("concurrency", ..=MOST_CONCURRENCY),
        rate: reader.find_section("rate", read_window),
        throttle: reader.find_section("throttle", read_window),
    };
    // Counts the keys, so that refused values count as well.
    let given: Vec<&str> = TARGETS.into_iter().filter(|name| reader.kind(name).is_some()).collect();
    match given[..] {
        [_] => {}
        [] => reader.blame("expected one of queue, type and key, found none", Some("set the target of the limit")),
        _ => {
            let message = format!("{} are both set", given[..2].join(" and "));
            reader.conflict(&given[1..], message, Some("keep one of queue, type and key"));
        }
    }
    if quota.is_empty() && !["concurrency", "rate", "throttle"].iter().any(|name| reader.kind(name).is_some()) {
        reader.blame("expected concurrency, rate or throttle, found none", Some("set at least one"));
    }
    let target = match (queue, kind) {
        (Some(queue), _) => LimitTarget::Queue(queue),
        (None, Some(pattern)) => LimitTarget::Type(pattern),
        (None, None) => LimitTarget::Key(key.unwrap_or_default()),
    };
    LimitRule { target, quota }
}

fn read_window(reader: &mut SettingsReader<'_>) -> Window {
    let limit = reader.get_in("limit", 1..=MOST_STARTS);
    let Period(period) = reader.get("period");
    Window { limit, period }
}
