//! The dispatch policy in JSON: bodies of requests, and the document that processes share.

use super::{pool, read, read_fairness, read_starvation, refuse_ratio};
use crate::config::convert::Refused;
use crate::config::env::from_json;
use crate::config::problem::Problem;
use crate::config::reader::SettingsReader;
use crate::config::report::Findings;
use crate::config::tree::{Kind, Origin, Table, Value};
use crate::domain::fairness::TenantFairness;
use crate::domain::names;
use crate::domain::pool::{Policy, Pool, PoolConflict};

/// Maximum number of queues with fairness settings of their own.
const MOST_QUEUES: usize = 1000;

/// Members of answers that cannot be set. Requests may contain them, so that an answer can be sent
/// back.
const READ_ONLY: [&str; 3] = ["active_workers", "active_jobs", "source"];

/// Reads the output of [`Policy::to_json`].
pub fn policy_from_json(json: serde_json::Value) -> Result<Policy, Vec<Problem>> {
    let mut table = table(json, "a policy")?;
    if let Some(Value { kind: Kind::List(pools), .. }) = table.get_mut("pool") {
        for pool in pools {
            if let Kind::Table(pool) = &mut pool.kind {
                drop_nulls(pool);
            }
        }
    }
    finish(&table, |reader| {
        let mut policy = read(reader);
        read_queues(reader, &mut policy);
        policy
    })
}

/// Reads a pool from the body of a request; `name` is the name in the path, if there is one.
/// Returns all errors, each with the path of its key in the body. [`Policy::set_pool`] checks the
/// pool against the others.
///
/// The body may be wrapped in `pool`. `queues` is a list with an optional `weights` table, or an
/// object such as `{"a": {"weight": 5}}`. `null` counts as absent. An answer about a pool is
/// accepted as a body.
pub fn pool_from_json(name: Option<&str>, json: serde_json::Value) -> Result<Pool, Vec<Problem>> {
    let mut table = table(json, "the options of a pool")?;
    tidy(&mut table);
    let is_wrapped = match table.get("pool").map(|value| &value.kind) {
        Some(Kind::Table(_)) => true,
        Some(_) => table.len() == 1,
        None => false,
    };
    if let Some(Value { kind: Kind::Table(inner), .. }) = table.get_mut("pool") {
        tidy(inner);
        let same = inner.clone();
        complete(inner, name);
        // An answer contains all members twice.
        table.retain(|key, value| same.get(key) != Some(value));
        let message = |key: &str| format!("contradicts `pool`: the values of `{key}` differ");
        let other = table.iter().filter(|(key, _)| *key != "pool");
        let keep = || Some("send only `pool`, or only the other members".to_owned());
        let differing: Vec<_> =
            other.map(|(key, value)| Problem::at(value, key.clone(), message(key), keep())).collect();
        if !differing.is_empty() {
            return Err(differing);
        }
    } else if !is_wrapped {
        complete(&mut table, name);
    }
    let read_it = |reader: &mut SettingsReader<'_>| {
        let pool = pool::read_pool(reader);
        if let Some(name) = name.filter(|name| reader.is_sound(&["name"]) && *name != pool.own_name()) {
            let help = "leave it out: the name of a pool cannot change";
            reader.refuse("name", Refused::new(format!("\"{name}\" as in the path")).help(help));
        }
        pool
    };
    finish(&table, |reader| if is_wrapped { reader.section("pool", read_it) } else { read_it(reader) })
}

/// Reads a change of the settings for all pools and for single queues. Members that are absent or
/// `null` stay as they are, except `enabled` of tenant fairness, whose `null` restores the default
/// of the isolation. An answer is accepted as a body.
pub fn scheduling_from_json(json: serde_json::Value, current: &Policy) -> Result<Policy, Vec<Problem>> {
    let mut table = table(json, "the options of scheduling")?;
    // The `null` of a queue has a meaning, so it must not be dropped.
    let queues = table.remove("queues").filter(|queues| !matches!(queues.kind, Kind::Null));
    tidy(&mut table);
    table.extend(queues.map(|queues| ("queues".to_owned(), queues)));
    finish(&table, |reader| {
        let mut policy = current.clone();
        policy.starvation = reader.section("starvation_prevention", |reader| {
            let starvation = read_starvation(reader, &current.starvation, None);
            let inherits = |pool: &&Pool| pool.starvation.is_none() && !starvation.fits(pool.queues.len());
            if let Some(pool) = current.pools.iter().find(inherits) {
                refuse_ratio(reader, &starvation, pool.queues.len(), &format!("pool \"{}\"", pool.name));
            }
            starvation
        });
        policy.tenant_fairness =
            reader.section("tenant_fairness", |reader| read_fairness(reader, &current.tenant_fairness));
        read_queues(reader, &mut policy);
        policy
    })
}

/// Reads `queues` by name. A `tenant_fairness` of `null` removes a queue's own settings.
fn read_queues(reader: &mut SettingsReader<'_>, policy: &mut Policy) {
    const KEY: &str = "tenant_fairness";
    let changes = reader.each_named("queues", |reader, name| {
        if reader.is_null(KEY) {
            return Some(None);
        }
        let base = policy.queues.get(name).cloned().unwrap_or_default();
        reader.find_section(KEY, |reader| read_fairness(reader, &base)).map(Some)
    });
    for (name, change) in changes {
        if !names::is_queue(&name) {
            reader.refuse_name("queues", &name, Refused::new(names::QUEUE_EXPECTED));
        }
        match change {
            Some(Some(fairness)) => drop::<Option<TenantFairness>>(policy.queues.insert(name, fairness)),
            Some(None) => drop(policy.queues.remove(&name)),
            None => {}
        }
    }
    if policy.queues.len() > MOST_QUEUES {
        let message =
            format!("expected at most {MOST_QUEUES} queues with their own settings, found {}", policy.queues.len());
        reader.conflict(&["queues"], message, Some("put the settings that most queues share into tenant_fairness"));
    }
}

/// Returns the members of a JSON object.
pub fn table(json: serde_json::Value, what: &str) -> Result<Table, Vec<Problem>> {
    let body = from_json(json, &Origin::Request);
    match body.kind {
        Kind::Table(table) => Ok(table),
        _ => {
            let message = format!("expected an object with {what}, found {}", body.found());
            Err(vec![Problem::at(&body, String::new(), message, None)])
        }
    }
}

fn complete(pool: &mut Table, name: Option<&str>) {
    if let Some(name) = name {
        let given = || Value::new(Kind::Text(name.to_owned()), Origin::Request);
        pool.entry("name".to_owned()).or_insert_with(given);
    }
}

/// Removes members that only answers have.
fn tidy(table: &mut Table) {
    table.retain(|key, _| !READ_ONLY.contains(&key.as_str()));
    drop_nulls(table);
}

/// Removes members that are `null`, which counts as absent in JSON.
fn drop_nulls(table: &mut Table) {
    table.retain(|_, value| !matches!(value.kind, Kind::Null));
    for section in ["starvation_prevention", "priority_aging", "tenant_fairness"] {
        if let Some(Value { kind: Kind::Table(inner), .. }) = table.get_mut(section) {
            // Here, `null` restores the default of the isolation.
            let enabled = if section == "tenant_fairness" { inner.remove_entry("enabled") } else { None };
            drop_nulls(inner);
            inner.extend(enabled);
        }
    }
}

/// Reads a table, or returns all errors in it.
pub fn finish<T>(table: &Table, read: impl FnOnce(&mut SettingsReader<'_>) -> T) -> Result<T, Vec<Problem>> {
    let mut report = Findings::default();
    let result = SettingsReader::root(table, &mut report, read);
    match report.finish().0 {
        problems if problems.is_empty() => Ok(result),
        problems => Err(problems),
    }
}

/// Converts a conflict between pools into an error of a request.
impl From<PoolConflict> for Problem {
    fn from(PoolConflict { key, message, help }: PoolConflict) -> Self {
        Problem { path: key.to_owned(), origin: Origin::Request, span: 0..0, message, help: Some(help) }
    }
}

#[cfg(test)]
mod tests;
