//! The policy of dispatch from JSON: the bodies of requests, and the document that processes share.

use super::{pool, read, read_fairness, read_starvation, refuse_ratio};
use crate::config::convert::Refused;
use crate::config::env::from_json;
use crate::config::problem::Problem;
use crate::config::reader::Reader;
use crate::config::report::Report;
use crate::config::tree::{Kind, Origin, Table, Value};
use crate::fairness::{Policy, Pool, PoolConflict, TenantFairness};
use crate::job::names;

/// The most queues that have a fairness of their own.
const MOST_QUEUES: usize = 1000;

/// What answers tell and nobody can set. It may come back with an answer that is sent as a request.
const READ_ONLY: [&str; 3] = ["active_workers", "active_jobs", "source"];

/// Reads what [`Policy::to_json`] prints.
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

/// Reads a pool from the body of a request; `name` is what the path says, if it does. Reports every mistake, each with
/// the path of its key in the body. Whether it goes with other pools is for [`Policy::set_pool`] to say.
///
/// The body may be wrapped in `pool`; `queues` is a list with `weights` beside it, or `{"a": {"weight": 5}}`; `null` is
/// as good as nothing. An answer about a pool is a body as well.
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
        // An answer says everything twice.
        table.retain(|key, value| same.get(key) != Some(value));
        let message = |key: &str| format!("does not say what `pool` says about `{key}`");
        let other = table.iter().filter(|(key, _)| *key != "pool");
        let keep = || Some("send only `pool`, or only what stands beside it".to_owned());
        let differing: Vec<_> =
            other.map(|(key, value)| Problem::at(value, key.clone(), message(key), keep())).collect();
        if !differing.is_empty() {
            return Err(differing);
        }
    } else if !is_wrapped {
        complete(&mut table, name);
    }
    let read_it = |reader: &mut Reader<'_>| {
        let pool = pool::read_pool(reader);
        if let Some(name) = name.filter(|name| reader.is_sound(&["name"]) && *name != pool.own_name()) {
            let help = "leave it out: a pool keeps its name";
            reader.refuse("name", Refused::new(format!("\"{name}\", as the path says")).help(help));
        }
        pool
    };
    finish(&table, |reader| if is_wrapped { reader.section("pool", read_it) } else { read_it(reader) })
}

/// Reads a change of what holds for all pools and for single queues; what it does not name, or names `null`, stays as it
/// is, except `enabled` of tenant fairness, which `null` leaves to the isolation. An answer is a body as well.
pub fn scheduling_from_json(json: serde_json::Value, current: &Policy) -> Result<Policy, Vec<Problem>> {
    let mut table = table(json, "the options of scheduling")?;
    // The `null` of a queue says something.
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

/// Reads `queues`, by name; a `tenant_fairness` of `null` takes a queue's own away.
fn read_queues(reader: &mut Reader<'_>, policy: &mut Policy) {
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
        let message = format!("expected at most {MOST_QUEUES} queues of their own, found {}", policy.queues.len());
        reader.conflict(&["queues"], message, Some("set what most of them share in tenant_fairness"));
    }
}

/// The members of a JSON object.
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

/// Takes away what only answers have.
fn tidy(table: &mut Table) {
    table.retain(|key, _| !READ_ONLY.contains(&key.as_str()));
    drop_nulls(table);
}

/// In JSON, what is not there may be written `null`.
fn drop_nulls(table: &mut Table) {
    table.retain(|_, value| !matches!(value.kind, Kind::Null));
    for section in ["starvation_prevention", "priority_aging", "tenant_fairness"] {
        if let Some(Value { kind: Kind::Table(inner), .. }) = table.get_mut(section) {
            // The `null` of this one leaves it to the isolation.
            let enabled = if section == "tenant_fairness" { inner.remove_entry("enabled") } else { None };
            drop_nulls(inner);
            inner.extend(enabled);
        }
    }
}

/// Reads a table, or tells every mistake in it.
pub fn finish<T>(table: &Table, read: impl FnOnce(&mut Reader<'_>) -> T) -> Result<T, Vec<Problem>> {
    let mut report = Report::default();
    let result = Reader::root(table, &mut report, read);
    match report.finish().0 {
        problems if problems.is_empty() => Ok(result),
        problems => Err(problems),
    }
}

/// A conflict of pools is told like any other mistake in a request.
impl From<PoolConflict> for Problem {
    fn from(PoolConflict { key, message, help }: PoolConflict) -> Self {
        Problem { path: key.to_owned(), origin: Origin::Request, span: 0..0, message, help: Some(help) }
    }
}

#[cfg(test)]
mod tests;
