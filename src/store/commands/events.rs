//! The event log. Scripts write one stream entry per call. An event's id encodes its entry and its
//! position in it, so that a reader can continue exactly after the last event it saw.

use super::codec::{self, tenant::own_worker};
use super::script::EVENT_EMIT;
use super::{Error, Store, reply};
use crate::domain::escape::unescape;
use crate::domain::tenant::Scope;
use crate::domain::tenant_id::DEFAULT;
use redis::Value;
use serde::Serialize;
use uuid::Uuid;

/// Number of stream entries that one call reads.
const PORTION: usize = 200;
/// Largest number of stream entries that one request scans. A reader with a rare filter continues
/// from the returned cursor.
const MOST_ENTRIES: usize = 20_000;

/// An event, as the log has it.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    pub id: String,
    pub kind: String,
    pub time: i64,
    /// The id or name of the job, worker, plan rule or other object of the event.
    pub subject: String,
    pub job_type: String,
    pub queue: String,
    pub trace: String,
    /// The tenant of the event's job or workflow; `None` for other events.
    pub tenant: Option<String>,
    /// Further members as JSON, without braces.
    pub data: String,
}

/// A filter for events. An empty list admits all.
#[derive(Clone, Debug, Default)]
pub struct EventFilter {
    /// Event types, or prefixes of types followed by `*`.
    pub types: Vec<String>,
    pub queues: Vec<String>,
    pub job_types: Vec<String>,
    /// Ids of jobs.
    pub jobs: Vec<String>,
}

impl EventFilter {
    fn admits(&self, scope: &Scope, event: &Event) -> bool {
        let named = |list: &[String], value: &str| list.is_empty() || list.iter().any(|wanted| wanted == value);
        let kind = self.types.is_empty()
            || self.types.iter().any(|wanted| match wanted.strip_suffix('*') {
                Some(prefix) => event.kind.starts_with(prefix),
                None => *wanted == event.kind,
            });
        let in_queue = |wanted: &String| scope.qualified(wanted) == event.queue;
        kind && (self.queues.is_empty() || self.queues.iter().any(in_queue))
            && named(&self.job_types, &event.job_type)
            && named(&self.jobs, &event.subject)
    }
}

/// A page of events. The cursor points after the last event, or after the last one that was
/// scanned.
#[derive(Clone, Debug, PartialEq)]
pub struct EventPage {
    pub events: Vec<Event>,
    pub cursor: Option<String>,
    pub has_more: bool,
}

/// The order in which events are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventOrder {
    OldestFirst,
    NewestFirst,
}

impl EventOrder {
    fn command(self) -> &'static str {
        match self {
            EventOrder::OldestFirst => "XRANGE",
            EventOrder::NewestFirst => "XREVRANGE",
        }
    }

    /// The id at which Redis begins to read.
    fn first(self) -> &'static str {
        if self == EventOrder::OldestFirst { "-" } else { "+" }
    }

    fn last(self) -> &'static str {
        if self == EventOrder::OldestFirst { "+" } else { "-" }
    }

    /// Returns the position after all events of a stream entry.
    fn behind(self, entry_id: &str) -> Option<LogPosition> {
        match self {
            EventOrder::OldestFirst => LogPosition::end_of(entry_id),
            EventOrder::NewestFirst => LogPosition::end_of(entry_id).map(|place| LogPosition { position: 0, ..place }),
        }
    }

    fn comes_behind(self, place: &LogPosition, other: &LogPosition) -> bool {
        match self {
            EventOrder::OldestFirst => place > other,
            EventOrder::NewestFirst => place < other,
        }
    }
}

/// The position of an event in the log: its stream entry, and its index in the entry. Ordered as
/// the log is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct LogPosition {
    ms: u64,
    entry: u64,
    position: u16,
}

impl LogPosition {
    /// Returns the id `evt_<uuidv7>`: 48 bits of time, 42 of the entry's number, 16 of the index in
    /// the entry.
    fn id(self) -> String {
        // The version and variant bits are fixed, so the 58 bits spread over the 74 that a UUIDv7
        // leaves free.
        let packed = (u128::from(self.entry) << 16) | u128::from(self.position);
        let (high, low) = (((packed >> 62) & 0xfff) as u16, (packed & ((1 << 62) - 1)) as u64);
        let id = Uuid::from_u128(
            (u128::from(self.ms) << 80) | (7 << 76) | (u128::from(high) << 64) | (0b10 << 62) | u128::from(low),
        );
        format!("evt_{id}")
    }

    /// Returns the position after the last event of a stream entry.
    fn end_of(entry_id: &str) -> Option<LogPosition> {
        let (ms, entry) = entry_id.split_once('-')?;
        Some(LogPosition { ms: ms.parse().ok()?, entry: entry.parse().ok()?, position: u16::MAX })
    }

    fn parse(id: &str) -> Option<LogPosition> {
        let bits = Uuid::try_parse(id.strip_prefix("evt_")?).ok()?.as_u128();
        let packed = (((bits >> 64) & 0xfff) << 62) | (bits & ((1 << 62) - 1));
        let place = LogPosition { ms: (bits >> 80) as u64, entry: (packed >> 16) as u64, position: packed as u16 };
        (place.id() == id).then_some(place)
    }
}

#[derive(Serialize)]
struct EventEmit<'a> {
    kind: &'a str,
    subject: &'a str,
    data: &'a str,
}

impl Store {
    /// Emits an event that is not about a job. `data` are JSON members.
    pub async fn announce(&self, kind: &str, subject: &str, data: &str) -> Result<(), Error> {
        let _emitted: bool = EVENT_EMIT.call_packed(&self.core, &EventEmit { kind, subject, data }).await?;
        Ok(())
    }

    /// Returns true if the scope includes the event: a tenant sees only events about its own jobs.
    fn may_see(&self, event: &Event) -> bool {
        self.scope == Scope::ALL || event.tenant.is_some() && self.scope.admits(event.tenant.as_deref())
    }

    /// Returns the id of the newest event, if there is one.
    pub async fn last_event(&self) -> Result<Option<String>, Error> {
        let mut command = redis::cmd("XREVRANGE");
        command.arg(self.core.keys.events()).arg("+").arg("-").arg("COUNT").arg(1);
        let newest = reply::array(self.core.command("events", command).await?, "events")?;
        let Some(entry) = newest.into_iter().next() else { return Ok(None) };
        Ok(LogPosition::end_of(&read_entry(entry, EventOrder::OldestFirst, None)?.0).map(LogPosition::id))
    }

    /// Returns the events after `after`, oldest first; `None` if `after` is not an event id.
    pub async fn events(
        &self,
        filter: &EventFilter,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Option<EventPage>, Error> {
        self.events_in(EventOrder::OldestFirst, filter, after, limit).await
    }

    /// Returns the events after `after` in the given order; `None` if `after` is not an event id.
    pub async fn events_in(
        &self,
        order: EventOrder,
        filter: &EventFilter,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Option<EventPage>, Error> {
        let after = match after.map(LogPosition::parse) {
            Some(None) => return Ok(None),
            Some(place) => place,
            None => None,
        };
        let mut from = after.map_or_else(|| order.first().to_owned(), |place| format!("{}-{}", place.ms, place.entry));
        let (mut events, mut cursor) = (Vec::new(), None);
        for _ in 0..MOST_ENTRIES / PORTION {
            let mut command = redis::cmd(order.command());
            command.arg(self.core.keys.events()).arg(&from).arg(order.last()).arg("COUNT").arg(PORTION);
            let entries = reply::array(self.core.command("events", command).await?, "events")?;
            let exhausted = entries.len() < PORTION;
            for entry in entries {
                let (id, found) = read_entry(entry, order, after)?;
                from = format!("({id}");
                cursor = order.behind(&id).map(LogPosition::id);
                let seen = found.into_iter().filter(|event| filter.admits(&self.scope, event) && self.may_see(event));
                events.extend(seen.map(|event| {
                    let queue = self.scope.unqualified(&event.queue).unwrap_or(&event.queue).to_owned();
                    Event { queue, ..event }
                }));
            }
            if events.len() > limit {
                events.truncate(limit);
                let cursor = events.last().map(|event: &Event| event.id.clone());
                return Ok(Some(EventPage { events, cursor, has_more: true }));
            }
            if exhausted {
                return Ok(Some(EventPage { events, cursor, has_more: false }));
            }
        }
        Ok(Some(EventPage { events, cursor, has_more: true }))
    }
}

/// Parses a stream entry. Returns its id and its events after `after` in the given order.
fn read_entry(entry: Value, order: EventOrder, after: Option<LogPosition>) -> Result<(String, Vec<Event>), Error> {
    let mut parts = reply::array(entry, "events")?.into_iter();
    let id = reply::text(parts.next().unwrap_or_default(), "events")?;
    let fields = reply::texts(parts.next().unwrap_or_default(), "events")?;
    let field = |name: &str| fields.chunks_exact(2).find(|pair| pair[0] == name).map_or("", |pair| pair[1].as_str());
    let (ms, entry) = id.split_once('-').ok_or_else(|| Error::unreadable("events"))?;
    let (ms, entry) = (reply::parse(ms, "events")?, reply::parse(entry, "events")?);
    let time = reply::parse(field("t"), "events")?;
    let places = (0..=u16::MAX).map(|position| LogPosition { ms, entry, position });
    let records = codec::event::records(field("e")).zip(places);
    let is_behind = |place: &LogPosition| after.is_none_or(|after| order.comes_behind(place, &after));
    let behind = records.filter(|(_, place)| is_behind(place));
    let mut events: Vec<Event> = behind.filter_map(|(record, place)| read_event(record, place, time)).collect();
    if order == EventOrder::NewestFirst {
        events.reverse();
    }
    Ok((id.clone(), events))
}

fn read_event(record: &str, place: LogPosition, time: i64) -> Option<Event> {
    let fields = codec::event::read(record)?;
    let has_owner = !fields.job_type.is_empty() || fields.kind.starts_with("workflow.");
    Some(Event {
        id: place.id(),
        kind: fields.kind.to_owned(),
        time,
        subject: own_worker(&unescape(fields.subject)).to_owned(),
        job_type: fields.job_type.to_owned(),
        queue: fields.queue.to_owned(),
        trace: fields.trace.to_owned(),
        tenant: has_owner.then(|| unescape(fields.tenant.unwrap_or(DEFAULT))),
        data: fields.data.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_id_tells_its_place(ms in 0_u64..1 << 48, entry in 0_u64..1 << 42, position: u16) {
            let place = LogPosition { ms, entry, position };
            let id = place.id();
            prop_assert!(crate::domain::job::id::is_valid(id.trim_start_matches("evt_")), "{}", id);
            prop_assert_eq!(LogPosition::parse(&id), Some(place));
        }
    }

    #[test]
    fn other_texts_are_no_place() {
        for text in
            ["", "evt_", "evt_1", "f47ac10b-58cc-4372-a567-0e02b2c3d479", "evt_f47ac10b-58cc-4372-a567-0e02b2c3d479"]
        {
            assert_eq!(LogPosition::parse(text), None, "{text}");
        }
    }
}
