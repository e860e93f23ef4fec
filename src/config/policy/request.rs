//! The policy of dispatch from JSON: the bodies of requests, and the document that processes share.

use super::{pool, read, read_fairness, read_starvation, refuse_ratio};
use crate::config::convert::Refused;
use crate::config::env::from_json;
use crate::config::problem::Problem;
use crate::config::reader::Reader;
use crate::config::report::Report;
use crate::config::tree::{Kind, Origin, Table, Value};
use crate::fair::{Clash, Policy, Pool, TenantFairness};
use crate::job::names;

/// The most queues that have a fairness of their own.
const MOST_QUEUES: usize = 1000;

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
/// as good as nothing.
pub fn pool_from_json(name: Option<&str>, json: serde_json::Value) -> Result<Pool, Vec<Problem>> {
    let mut table = table(json, "the options of a pool")?;
    let is_wrapped = table.len() == 1 && table.contains_key("pool");
    match table.get_mut("pool").filter(|_| is_wrapped).map(|value| &mut value.kind) {
        Some(Kind::Table(inner)) => complete(inner, name),
        _ => complete(&mut table, name),
    }
    let read_it = |reader: &mut Reader<'_>| {
        let pool = pool::read_pool(reader);
        if let Some(name) = name.filter(|name| reader.is_sound(&["name"]) && *name != pool.name) {
            let help = "leave it out: a pool keeps its name";
            reader.refuse("name", Refused::new(format!("\"{name}\", as the path says")).help(help));
        }
        pool
    };
    finish(&table, |reader| if is_wrapped { reader.section("pool", read_it) } else { read_it(reader) })
}

/// Reads a change of what holds for all pools and for single queues; what it does not name stays as it is.
pub fn scheduling_from_json(json: serde_json::Value, current: &Policy) -> Result<Policy, Vec<Problem>> {
    let table = table(json, "the options of scheduling")?;
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

/// The members of an object.
fn table(json: serde_json::Value, what: &str) -> Result<Table, Vec<Problem>> {
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
    drop_nulls(pool);
    if let Some(name) = name {
        let given = || Value::new(Kind::Text(name.to_owned()), Origin::Request);
        pool.entry("name".to_owned()).or_insert_with(given);
    }
}

/// In JSON, what is not there may be written `null`.
fn drop_nulls(table: &mut Table) {
    table.retain(|_, value| !matches!(value.kind, Kind::Null));
}

fn finish<T>(table: &Table, read: impl FnOnce(&mut Reader<'_>) -> T) -> Result<T, Vec<Problem>> {
    let mut report = Report::default();
    let result = Reader::root(table, &mut report, read);
    match report.finish().0 {
        problems if problems.is_empty() => Ok(result),
        problems => Err(problems),
    }
}

/// A clash of pools is told like any other mistake in a request.
impl From<Clash> for Problem {
    fn from(Clash { key, message, help }: Clash) -> Self {
        Problem { path: key.to_owned(), origin: Origin::Request, span: 0..0, message, help: Some(help) }
    }
}

#[cfg(test)]
mod tests;
