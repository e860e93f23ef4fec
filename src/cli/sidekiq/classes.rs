//! Job classes of payloads.

use crate::domain::job::sidekiq::Payload;
use crate::domain::plan::TenantKey;
use crate::domain::shape::shape;
use std::collections::HashMap;

/// A class, and the number of payloads with it.
pub(super) type ClassCount = (String, usize);

/// Counts the classes of payloads, most frequent first. Payloads that no worker could run are
/// ignored.
pub(super) fn classes(payloads: &[String]) -> Vec<ClassCount> {
    let mut counts: HashMap<String, usize> = HashMap::new();
    for payload in payloads.iter().filter_map(|text| Payload::parse(text)) {
        *counts.entry(payload.class).or_default() += 1;
    }
    let mut counts: Vec<ClassCount> = counts.into_iter().collect();
    counts.sort_by(|left, right| right.1.cmp(&left.1).then_with(|| left.0.cmp(&right.0)));
    counts
}

/// If the key finds a tenant in none of the payloads, returns the class and the shape of the
/// arguments of the first one.
pub(super) fn unmatched(payloads: &[String], key: &TenantKey) -> Option<(String, String)> {
    let read: Vec<Payload<'_>> = payloads.iter().filter_map(|text| Payload::parse(text)).collect();
    let first = read.first().filter(|_| read.iter().all(|payload| key.owner(payload).is_none()))?;
    Some((first.class.clone(), shape(first.args)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_classes_and_finds_keys_that_match_nothing() {
        let payloads = [
            r#"{"class":"B","args":["x"]}"#,
            r#"{"class":"W","wrapped":"A","args":[{"id":1}]}"#,
            r#"{"class":"A","args":[2]}"#,
            "junk",
        ]
        .map(str::to_owned);
        assert_eq!(classes(&payloads), [("A".to_owned(), 2), ("B".to_owned(), 1)]);
        let unmatched = |key: &str, payloads: &[String]| unmatched(payloads, &TenantKey::parse(key).expect(key));
        assert_eq!(unmatched("args.0", &payloads), None);
        assert_eq!(unmatched("args.0.id", &payloads), None);
        assert_eq!(unmatched("args.1", &payloads), Some(("B".to_owned(), "[string]".to_owned())));
        assert_eq!(unmatched("args.1", &[]), None);
    }
}
