//! Stored state, decoded for operators: `fairgate debug`. Reads keys one by one, so what it shows of a busy namespace need
//! not be of one moment.

use super::codec::{record, wire};
use super::{Error, Store, reply};
use crate::domain::escape::escape;
use crate::domain::time::rfc3339;
use redis::Value as Reply;
use serde_json::{Map, Value, json};

/// Maximum number of members that are shown of one key.
const MOST_SHOWN: usize = 100;

/// The kind of thing whose stored state is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    Job,
    Queue,
    Tenant,
    Limit,
    Rule,
}

/// How the texts of a key are decoded.
#[derive(Clone, Copy)]
enum Format {
    /// Texts with separators become lists.
    Plain,
    /// The record of a job.
    Record,
    /// Names of lanes.
    Lanes,
    /// Values that consist of words, with the name of each word.
    Words(&'static [&'static str]),
}

const TENANT_COUNTS: &[&str] = &["pending", "available", "scheduled", "retryable", "active"];
const TENANT_LIMITS: &[&str] = &[
    "weight",
    "boost",
    "max_concurrency",
    "max_enqueue_rate",
    "period_ms",
    "max_queue_depth",
    "max_scheduled",
    "soft",
];
const WAITING_TENANT: &[&str] = &["weight", "state", "promoted", "since", "asked", "weight_without_throttle"];

impl Store {
    /// Returns all that is stored of a thing, by key; an empty map if nothing is.
    pub async fn stored(&self, what: Stored, name: &str) -> Result<Map<String, Value>, Error> {
        let mut shown = Map::new();
        for (key, format) in keys(what, name) {
            self.show(&mut shown, key, format).await?;
        }
        for (key, field, format) in fields(what, name) {
            self.show_field(&mut shown, key, &field, format).await?;
        }
        for (key, member) in scores(what, name) {
            self.show_score(&mut shown, key, &member).await?;
        }
        match what {
            Stored::Queue => self.show_levels(&mut shown, name).await?,
            Stored::Rule => self.show_staging(&mut shown, name).await?,
            Stored::Job | Stored::Tenant | Stored::Limit => {}
        }
        Ok(shown)
    }

    async fn ask(&self, words: &[&str], key: &str) -> Result<Reply, Error> {
        let mut command = redis::cmd(words[0]);
        command.arg(format!("{}{key}", self.core.keys.prefix)).arg(&words[1..]);
        self.core.command("debug", command).await
    }

    async fn show(&self, shown: &mut Map<String, Value>, key: String, format: Format) -> Result<(), Error> {
        let kind = reply::text(self.ask(&["TYPE"], &key).await?, "debug")?;
        let most = (MOST_SHOWN - 1).to_string();
        let (content, size) = match kind.as_str() {
            "string" => {
                let text = reply::text(self.ask(&["GET"], &key).await?, "debug")?;
                (decoded(&text, format), None)
            }
            "hash" => {
                let pairs = reply::pairs(self.ask(&["HGETALL"], &key).await?, "debug")?;
                let of_pair = |(name, value): &(String, String)| (name.clone(), decoded(value, format));
                (Value::Object(pairs.iter().take(MOST_SHOWN).map(of_pair).collect()), Some(pairs.len()))
            }
            "list" => {
                let texts = reply::texts(self.ask(&["LRANGE", "0", &most], &key).await?, "debug")?;
                let size = reply::number(self.ask(&["LLEN"], &key).await?, "debug")? as usize;
                (texts.iter().map(|text| decoded(text, format)).collect(), Some(size))
            }
            "set" => {
                let count = MOST_SHOWN.to_string();
                let texts = reply::texts(self.ask(&["SRANDMEMBER", &count], &key).await?, "debug")?;
                let size = reply::number(self.ask(&["SCARD"], &key).await?, "debug")? as usize;
                (texts.iter().map(|text| decoded(text, format)).collect(), Some(size))
            }
            "zset" => {
                let pairs = reply::texts(self.ask(&["ZRANGE", "0", &most, "WITHSCORES"], &key).await?, "debug")?;
                let size = reply::number(self.ask(&["ZCARD"], &key).await?, "debug")? as usize;
                let member = |pair: &[String]| json!({"member": decoded(&pair[0], format), "score": pair[1]});
                (pairs.chunks_exact(2).map(member).collect(), Some(size))
            }
            _ => return Ok(()),
        };
        let mut entry = Map::from_iter([("type".to_owned(), kind.into()), ("content".to_owned(), content)]);
        if let Some(size) = size {
            entry.insert("size".to_owned(), size.into());
        }
        let ttl_ms = reply::number(self.ask(&["PTTL"], &key).await?, "debug")?;
        if ttl_ms >= 0 {
            entry.insert("ttl_ms".to_owned(), ttl_ms.into());
        }
        shown.insert(key, Value::Object(entry));
        Ok(())
    }

    async fn show_field(
        &self,
        shown: &mut Map<String, Value>,
        key: &str,
        field: &str,
        format: Format,
    ) -> Result<(), Error> {
        if let value @ Reply::BulkString(_) = self.ask(&["HGET", field], key).await? {
            shown.insert(format!("{key}[{field}]"), decoded(&reply::text(value, "debug")?, format));
        }
        Ok(())
    }

    async fn show_score(&self, shown: &mut Map<String, Value>, key: &str, member: &str) -> Result<(), Error> {
        let score = reply::text(self.ask(&["ZSCORE", member], key).await?, "debug")?;
        if !score.is_empty() {
            shown.insert(format!("{key}[{member}]"), time_or_text(&score));
        }
        Ok(())
    }

    /// Shows the fair queue of each priority at which tenants take turns.
    async fn show_levels(&self, shown: &mut Map<String, Value>, queue: &str) -> Result<(), Error> {
        let lanes = reply::texts(self.ask(&["ZRANGE", "0", "-1"], &format!("ready:{queue}")).await?, "debug")?;
        for level in lanes.iter().filter_map(|lane| lane.strip_prefix('@')) {
            self.show_fair_queue(shown, &format!("level:{queue}:{level}")).await?;
        }
        Ok(())
    }

    /// Shows the fair queue of each main queue for which a rule has jobs staged.
    async fn show_staging(&self, shown: &mut Map<String, Value>, rule: &str) -> Result<(), Error> {
        let queues = reply::texts(self.ask(&["ZRANGE", "0", "-1"], &format!("plan:{rule}:queues")).await?, "debug")?;
        for queue in queues.iter().take(MOST_SHOWN) {
            self.show_fair_queue(shown, &format!("fair:{rule}:{queue}")).await?;
        }
        Ok(())
    }

    async fn show_fair_queue(&self, shown: &mut Map<String, Value>, key: &str) -> Result<(), Error> {
        self.show(shown, key.to_owned(), Format::Plain).await?;
        self.show(shown, format!("{key}:busy"), Format::Words(WAITING_TENANT)).await
    }
}

/// The keys that belong to a thing alone.
fn keys(what: Stored, name: &str) -> Vec<(String, Format)> {
    use Format::{Lanes, Plain, Record};
    let plain = |names: &[&str]| names.iter().map(|key| (key.replace('*', name), Plain)).collect::<Vec<_>>();
    let mut keys = match what {
        Stored::Job => plain(&["env:*", "err:*", "res:*", "par:*", "prog:*", "chk:*"]),
        Stored::Queue => plain(&["counts:*", "blocked:*", "policy:w:*", "promoted:*", "limit:#*", "limit:#*:at"]),
        Stored::Tenant => Vec::new(),
        Stored::Limit => plain(&["limit:*", "limit:*:run", "limit:*:at", "limit:*:tags"]),
        Stored::Rule => plain(&["plan:*", "plan:*:own", "plan:*:lock", "plan:*:queues", "plan:*:shadow", "outbox:*"]),
    };
    match what {
        Stored::Job => keys.insert(0, (format!("job:{name}"), Record)),
        Stored::Queue => keys.extend([(format!("ready:{name}"), Lanes), (format!("parked:{name}"), Plain)]),
        Stored::Tenant | Stored::Limit | Stored::Rule => {}
    }
    keys
}

/// The fields of hashes that hold many things.
fn fields(what: Stored, name: &str) -> Vec<(&'static str, String, Format)> {
    use Format::{Plain, Words};
    let field = |key, format| (key, name.to_owned(), format);
    match what {
        Stored::Job | Stored::Limit => Vec::new(),
        Stored::Queue => {
            vec![field("queues", Plain), field("paused", Plain), field("bounds", Plain), field("idle", Plain)]
        }
        Stored::Tenant => {
            let tenant = escape(name);
            let field = |key, format| (key, tenant.clone(), format);
            vec![
                field("tenants", Words(TENANT_COUNTS)),
                field("quotas", Words(TENANT_LIMITS)),
                field("tenancy", Plain),
                field("throttled", Plain),
                field("noise", Plain),
            ]
        }
        Stored::Rule => vec![field("rules", Plain)],
    }
}

/// The sorted sets that a thing may be a member of.
fn scores(what: Stored, name: &str) -> Vec<(&'static str, String)> {
    let names: &[&'static str] = match what {
        Stored::Job => &["due", "leases", "dead", "finished:completed", "finished:cancelled", "finished:discarded"],
        Stored::Queue => &["live", "starved"],
        Stored::Tenant => &["limits:stopped"],
        Stored::Limit => &["limits", "wakes"],
        Stored::Rule => &[],
    };
    let member = if what == Stored::Tenant { escape(name) } else { name.to_owned() };
    names.iter().map(|key| (*key, member.clone())).collect()
}

fn decoded(text: &str, format: Format) -> Value {
    match format {
        Format::Plain => plain(text),
        Format::Record => record::shown(text).unwrap_or_else(|| plain(text)),
        Format::Lanes => lane(text),
        Format::Words(names) => words(text, names),
    }
}

/// A text with separators as lists of lists.
fn plain(text: &str) -> Value {
    if text.contains(wire::RECORD) {
        return text.split(wire::RECORD).filter(|part| !part.is_empty()).map(plain).collect();
    }
    if text.contains(wire::UNIT) {
        return wire::values(text).map(Value::from).collect();
    }
    text.into()
}

/// The parts of a lane's name: see `lua/queue/lane.lua`.
fn lane(name: &str) -> Value {
    let mut parts = Map::from_iter([("lane".to_owned(), name.into())]);
    if let Some(priority) = name.strip_prefix("@p") {
        parts.insert("tenants_of_priority".to_owned(), priority.into());
        return Value::Object(parts);
    }
    for (index, part) in name.split(';').enumerate() {
        let (letter, value) = part.split_once('=').unwrap_or((part, ""));
        let (name, value) = match letter {
            _ if index == 0 => ("priority", part.trim_start_matches('p')),
            "k" => ("limit", value),
            "y" => ("type_limit", value),
            "o" => ("on_limit", if value == "r" { "reschedule" } else { "drop" }),
            "s" => ("has_own_slots", "true"),
            _ => ("tenant", value),
        };
        parts.insert(name.to_owned(), value.into());
    }
    Value::Object(parts)
}

fn words(text: &str, names: &[&str]) -> Value {
    let values = text.split_whitespace().filter(|word| *word != "-");
    let all = text.split_whitespace().zip(names);
    if values.clone().count() == 0 {
        return Value::Null;
    }
    Value::Object(all.filter(|(word, _)| *word != "-").map(|(word, name)| ((*name).to_owned(), word.into())).collect())
}

/// A score as a time, if it can be one.
fn time_or_text(score: &str) -> Value {
    match score.parse::<f64>() {
        Ok(ms) if (1e12..1e14).contains(&ms) => rfc3339(ms as i64).into(),
        _ => score.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn separators_become_lists() {
        let text = wire::join_records([wire::join(["a", "b"]), "c".to_owned()]);
        assert_eq!(plain(&text), json!([["a", "b"], "c"]));
        assert_eq!(plain("plain text"), json!("plain text"));
    }

    #[test]
    fn names_of_lanes_are_taken_apart() {
        let expected = json!({"lane": "p-5;k=smtp;o=r;t=acme", "priority": "-5", "limit": "smtp", "on_limit": "reschedule", "tenant": "acme"});
        assert_eq!(lane("p-5;k=smtp;o=r;t=acme"), expected);
        assert_eq!(lane("@p0"), json!({"lane": "@p0", "tenants_of_priority": "0"}));
    }

    #[test]
    fn words_get_their_names() {
        assert_eq!(
            words("0 2 - 0 1", TENANT_COUNTS),
            json!({"pending": "0", "available": "2", "retryable": "0", "active": "1"})
        );
        assert_eq!(words("- -", TENANT_LIMITS), Value::Null);
    }
}
