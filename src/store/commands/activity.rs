//! Tenant activity. Scripts write it to the event stream with the events of a call; this module
//! sums it into buckets of one minute and one hour. The activity of queues is counted from the
//! events themselves.

use super::codec::event;
use super::queue_activity::QueueActivity;
use super::script::ACTIVITY_ADD;
use super::statistics::TenantActivity;
use super::{Error, Store, reply};
use redis::Value;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Number of stream entries that one XRANGE reads.
const ENTRIES: usize = 500;
/// Number of tenants and queues after which a portion is written.
const NAMES: usize = 500;
/// Largest number of pages that one run reads; the next run reads the rest.
const MOST_PAGES: usize = 400;
pub(super) const MS_A_MINUTE: i64 = 60_000;
const MINUTES_AN_HOUR: i64 = 60;
/// The name under which buckets keep the activity of all tenants.
const ALL: &str = "*";

/// Activity of consecutive stream entries, as many as fit into one call.
#[derive(Default)]
struct Portion {
    /// Id of the last entry in this portion.
    last: String,
    /// Number of tenants and queues in this portion, each counted once per minute.
    names: usize,
    /// Activity of queues, by minute.
    queues: BTreeMap<i64, HashMap<String, QueueActivity>>,
    /// Activity by minute and by tenant. Tenant names are escaped, as scripts write them.
    sums: BTreeMap<i64, HashMap<String, TenantActivity>>,
}

impl Portion {
    fn add(&mut self, entry: Entry) {
        self.last = entry.id;
        let minute = entry.ms.div_euclid(MS_A_MINUTE);
        for (queue, activity) in entry.queues {
            let of_minute = self.queues.entry(minute).or_default();
            self.names += usize::from(!of_minute.contains_key(&queue));
            of_minute.entry(queue).or_default().add(activity);
        }
        if entry.activity.is_empty() {
            return;
        }
        let of_minute = self.sums.entry(minute).or_default();
        for (tenant, did) in entry.activity {
            for name in [&tenant, ALL] {
                if let Some(sum) = of_minute.get_mut(name) {
                    sum.add(&did);
                } else {
                    self.names += 1;
                    of_minute.insert(name.to_owned(), did);
                }
            }
        }
    }
}

/// Parses one part of an entry's activity into the tenant's name and its activity.
fn read<'t>(mut words: impl Iterator<Item = &'t str>) -> Option<(String, TenantActivity)> {
    let (tenant, kind) = (words.next()?, words.next()?);
    let mut number = || words.next()?.parse().ok();
    let (jobs, more) = (number()?, number()?);
    let did = match kind {
        "s" => TenantActivity { enqueued: jobs, pushes: more, ..TenantActivity::default() },
        "c" => TenantActivity { completed: jobs, worker_ms: more, ..TenantActivity::default() },
        "f" => TenantActivity { failed: jobs, ..TenantActivity::default() },
        _ => return None,
    };
    Some((tenant.to_owned(), did))
}

/// The activity of tenants and queues in a stream entry.
#[derive(Debug, Default, PartialEq)]
struct Entry {
    id: String,
    ms: i64,
    /// Activity by tenant.
    activity: Vec<(String, TenantActivity)>,
    /// Activity by queue.
    queues: Vec<(String, QueueActivity)>,
}

impl Entry {
    fn read(entry: Value) -> Result<Entry, Error> {
        let [id, fields] = reply::parts(entry, "activity")?;
        let mut read = Entry { id: reply::text(id, "activity")?, ..Entry::default() };
        let mut fields = reply::array(fields, "activity")?.into_iter();
        while let (Some(name), Some(value)) = (fields.next(), fields.next()) {
            match name {
                Value::BulkString(name) if name == b"t" => read.ms = reply::number(value, "activity")?,
                Value::BulkString(name) if name == b"e" => {
                    let records = reply::text(value, "activity")?;
                    read.activity = event::activity(&records).filter_map(self::read).collect();
                    for event in event::records(&records).filter_map(event::read) {
                        let Some(activity) = QueueActivity::of_event(&event) else { continue };
                        match read.queues.iter_mut().find(|(known, _)| known == event.queue) {
                            Some((_, sum)) => sum.add(activity),
                            None => read.queues.push((event.queue.to_owned(), activity)),
                        }
                    }
                }
                _ => {}
            }
        }
        Ok(read)
    }
}

#[derive(Serialize)]
struct ActivityAdd<'a> {
    before: &'a str,
    after: &'a str,
    minutes: Vec<AddedMinute>,
}

/// The new values of the buckets of a minute and its hour.
#[derive(Default, Serialize)]
struct AddedMinute {
    minute: i64,
    hour: i64,
    tenants: Vec<AddedTenant>,
    queues: Vec<(String, String)>,
    flows: Vec<(String, String)>,
}

#[derive(Serialize)]
struct AddedTenant {
    name: String,
    minute: String,
    hour: String,
    score: u64,
}

impl Store {
    /// Sums the activity that scripts have recorded since the last call. Returns false if activity
    /// is not recorded. Calls may run concurrently: each stream entry is counted exactly once.
    pub(super) async fn sum_activity(&self) -> Result<bool, Error> {
        let mut command = redis::cmd("HEXISTS");
        command.arg(self.core.keys.state()).arg("throttled");
        if reply::number(self.core.command("fold", command).await?, "activity")? == 0 {
            return Ok(false);
        }
        for _ in 0..MOST_PAGES {
            let mut command = redis::cmd("GET");
            command.arg(self.core.keys.folded());
            let mut folded = reply::text(self.core.command("fold", command).await?, "activity")?;
            let mut command = redis::cmd("XRANGE");
            let from = if folded.is_empty() { "-".to_owned() } else { format!("({folded}") };
            command.arg(self.core.keys.events()).arg(from).arg("+").arg("COUNT").arg(ENTRIES);
            let page = reply::array(self.core.command("fold", command).await?, "activity")?;
            let is_last = page.len() < ENTRIES;
            let mut entries = page.into_iter().map(Entry::read).peekable();
            while entries.peek().is_some() {
                let mut portion = Portion::default();
                while portion.names < NAMES {
                    let Some(entry) = entries.next() else { break };
                    portion.add(entry?);
                }
                let last = portion.last.clone();
                if !self.write_activity(&folded, portion).await? {
                    break; // another caller has summed these entries
                }
                folded = last;
            }
            if is_last {
                break;
            }
        }
        Ok(true)
    }

    /// Adds a portion to the buckets. Returns false, and writes nothing, if another caller has
    /// written since `folded` was read.
    async fn write_activity(&self, folded: &str, portion: Portion) -> Result<bool, Error> {
        let mut hours: HashMap<(i64, String), TenantActivity> = HashMap::new();
        let in_portion: BTreeSet<i64> = portion.sums.keys().chain(portion.queues.keys()).copied().collect();
        let (none, no_queues) = (HashMap::new(), HashMap::new());
        let mut minutes = Vec::new();
        for minute in in_portion {
            let sums = portion.sums.get(&minute).unwrap_or(&none);
            let hour = minute.div_euclid(MINUTES_AN_HOUR);
            let names: Vec<&String> = sums.keys().collect();
            let in_minute = self.activity_of(self.core.keys.activity('m', minute), &names).await?;
            let in_hour = self.activity_of(self.core.keys.activity('h', hour), &names).await?;
            let mut added = AddedMinute { minute, hour, ..AddedMinute::default() };
            for ((name, mut of_minute), of_hour) in names.into_iter().zip(in_minute).zip(in_hour) {
                of_minute.add(&sums[name]);
                // Several minutes of a portion may be in the same hour; each of them writes the
                // hour's sum so far.
                let of_hour = hours.entry((hour, name.clone())).or_insert(of_hour);
                of_hour.add(&sums[name]);
                added.tenants.push(AddedTenant {
                    name: name.clone(),
                    minute: of_minute.text(),
                    hour: of_hour.text(),
                    score: of_minute.busyness(),
                });
            }
            let queues = portion.queues.get(&minute).unwrap_or(&no_queues);
            let names: Vec<&str> = queues.keys().map(String::as_str).collect();
            for (name, mut sum) in names.iter().zip(self.queue_activity_in(minute, &names).await?) {
                let more = queues[*name];
                sum.add(more);
                // A value that does not change is not written.
                if more.has_ended() {
                    added.queues.push(((*name).to_owned(), sum.ended_text()));
                }
                if more.has_flow() {
                    added.flows.push(((*name).to_owned(), sum.flow_text()));
                }
            }
            minutes.push(added);
        }
        let args = ActivityAdd { before: folded, after: &portion.last, minutes };
        ACTIVITY_ADD.call_packed(&self.core, &args).await
    }

    pub(super) async fn activity_of(&self, key: String, names: &[&String]) -> Result<Vec<TenantActivity>, Error> {
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let mut command = redis::cmd("HMGET");
        command.arg(key).arg(names);
        let texts = reply::texts(self.core.command("fold", command).await?, "activity")?;
        Ok(texts.iter().map(|text| TenantActivity::read(text)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::super::codec::wire::{self, GROUP, SUBSTITUTE};
    use super::*;

    fn entry(id: &str, ms: i64, activity: &str) -> Entry {
        let activity = activity.split(';').filter_map(|part| read(part.split(' '))).collect();
        Entry { id: id.to_owned(), ms, activity, queues: Vec::new() }
    }

    #[test]
    fn entries_are_added_up_by_minute_and_tenant() {
        let mut portion = Portion::default();
        for entry in [
            entry("1-0", 420_000, "a s 2 1;b s 1 1;?;b x 1 1"),
            entry("2-0", 479_999, "a c 1 30;a f 1 0"),
            entry("3-0", 480_000, "a s 1 1"),
            entry("4-0", 480_000, ""),
        ] {
            portion.add(entry);
        }
        let did = |enqueued, pushes, completed, failed, worker_ms| TenantActivity {
            enqueued,
            pushes,
            completed,
            failed,
            worker_ms,
        };
        assert_eq!((portion.last.as_str(), portion.names, portion.sums.len()), ("4-0", 5, 2));
        assert_eq!(portion.sums[&7]["a"], did(2, 1, 1, 1, 30));
        assert_eq!(portion.sums[&7][ALL], did(3, 2, 1, 1, 30));
        assert_eq!(portion.sums[&8]["a"], did(1, 1, 0, 0, 0));
    }

    #[test]
    fn activity_of_queues_is_counted_by_minute() {
        let record = |kind: &str, queue: &str, data: &str| wire::join([kind, "id", "type", queue, "", data]);
        let records = [
            record("job.enqueued", "mail", ""),
            record("job.completed", "mail", "\"duration_ms\":30"),
            record("job.discarded", "mail", ""),
            record("job.completed", "acme/bulk", ""),
            record("job.started", "mail", ""),
            format!("{SUBSTITUTE}a{GROUP}c{GROUP}1{GROUP}30"),
        ];
        let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let fields = [text("t"), text("420000"), text("e"), text(&wire::join_records(records))];
        let mut portion = Portion::default();
        for id in ["1-0", "2-0"] {
            let entry = Value::Array(vec![text(id), Value::Array(fields.to_vec())]);
            portion.add(Entry::read(entry).unwrap());
        }
        let of_minute = &portion.queues[&7];
        let mail = &of_minute["mail"];
        assert_eq!((mail.ended.completed, mail.ended.discarded), (2, 2));
        assert_eq!((mail.arrived, mail.attempts, mail.run_ms), (2, 2, 60));
        assert_eq!(of_minute["acme/bulk"].ended.completed, 2);
        assert_eq!((of_minute.len(), portion.names), (2, 4), "two queues, a tenant and all tenants");
    }
}
