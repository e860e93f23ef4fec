//! Events: the counterpart of `lua/lib/event.lua`, which describes their layout.

use super::wire::{FILE, GROUP, RECORD, SUBSTITUTE, UNIT};

/// An event as a script wrote it. Names are escaped.
pub struct EventFields<'t> {
    pub kind: &'t str,
    pub subject: &'t str,
    pub job_type: &'t str,
    pub queue: &'t str,
    pub trace: &'t str,
    pub tenant: Option<&'t str>,
    pub data: &'t str,
}

/// Returns the records of a stream entry, one for each event. The last one may be tenant activity.
pub fn records(entry: &str) -> std::str::Split<'_, char> {
    entry.split(RECORD)
}

/// Parses an event; `None` if the record is tenant activity.
pub fn read(record: &str) -> Option<EventFields<'_>> {
    let mut fields = record.splitn(6, UNIT);
    let mut next = || fields.next();
    let (kind, subject, job_type, queue, owner, data) = (next()?, next()?, next()?, next()?, next()?, next()?);
    let (trace, tenant) = match owner.split_once(FILE) {
        Some((trace, tenant)) => (trace, Some(tenant)),
        None => (owner, None),
    };
    Some(EventFields { kind, subject, job_type, queue, trace, tenant, data })
}

/// Returns the tenant activity in a stream entry: `tenant, kind, number, more` of each part.
pub fn activity(entry: &str) -> impl Iterator<Item = std::str::Split<'_, char>> {
    let last = records(entry).next_back().and_then(|last| last.strip_prefix(SUBSTITUTE));
    last.into_iter().flat_map(|text| text.split(FILE)).map(|part| part.split(GROUP))
}

/// Returns the parts of an event's data, which alternate between text and times in milliseconds.
pub fn data_parts(data: &str) -> std::str::Split<'_, char> {
    data.split(GROUP)
}
