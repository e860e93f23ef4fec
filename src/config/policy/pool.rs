//! `[[pool]]`: the queues that the workers of a pool serve, and their order.

use std::collections::{BTreeMap, HashSet};

use super::values::{QueueName, Share};
use super::{read_fairness, read_starvation};
use crate::config::convert::Refused;
use crate::config::reader::SettingsReader;
use crate::config::report::nearest;
use crate::config::tree::Kind;
use crate::domain::fairness::TenantFairness;
use crate::domain::limit::quota;
use crate::domain::pool::{Pool, PoolQueue, PoolValidator, Starvation};
use crate::domain::tenant::Weight;
use crate::domain::{names, tenant_id};

/// Reads all `[[pool]]` tables and checks them against each other.
pub fn read_pools(root: &mut SettingsReader<'_>, starvation: &Starvation) -> Vec<Pool> {
    let mut validator = PoolValidator::new(starvation);
    root.each("pool", |reader| {
        let pool = read_pool(reader);
        if reader.is_sound(&["name", "queues"]) {
            for conflict in validator.add(&pool) {
                reader.conflict(&[conflict.key], conflict.message, Some(&conflict.help));
            }
        }
        pool
    })
}

/// Reads one pool.
pub fn read_pool(reader: &mut SettingsReader<'_>) -> Pool {
    let name = reader.get_such("name", names::POOL_EXPECTED, |name: &String| names::is_pool(name));
    let queues = read_queues(reader);
    // The number of queues is unknown if the list was refused.
    let count = reader.is_sound(&["queues"]).then_some(queues.len());
    let concurrency = reader.find("concurrency").filter(|most| {
        let fits = (1..=quota::MOST_CONCURRENCY).contains(most);
        if !fits {
            let expected = format!("a whole number of at least 1 and at most {}", quota::MOST_CONCURRENCY);
            reader.refuse("concurrency", Refused::new(expected).help("leave it out for no limit"));
        }
        fits
    });
    let tenant = reader.find("tenant").filter(|tenant: &String| {
        let is_id = tenant_id::is_id(tenant);
        if !is_id {
            reader.refuse("tenant", Refused::new(tenant_id::EXPECTED));
        }
        is_id
    });
    let pool = Pool {
        tenant: None,
        name,
        queues,
        strategy: reader.find("strategy").unwrap_or_default(),
        concurrency,
        isolated: reader.find("isolated").unwrap_or_default(),
        starvation: reader
            .find_section("starvation_prevention", |reader| read_starvation(reader, &Starvation::default(), count)),
        tenant_fairness: reader
            .find_section("tenant_fairness", |reader| read_fairness(reader, &TenantFairness::default())),
    };
    match tenant {
        Some(tenant) => pool.of_tenant(&tenant),
        None => pool,
    }
}

/// Reads `queues`: a list with an optional `weights` table, or an object with the weight of each
/// queue.
fn read_queues(reader: &mut SettingsReader<'_>) -> Vec<PoolQueue> {
    let is_object = matches!(reader.kind("queues"), Some(Kind::Table(_)));
    let queues = if is_object { read_object(reader) } else { read_list(reader) };
    let weights: BTreeMap<String, Share> = reader.map("weights");
    if reader.is_sound(&["queues"]) {
        match queues.len() {
            0 => reader.conflict(&["queues"], "expected at least one queue, found none", None),
            1..=Pool::MOST_QUEUES => {}
            many => {
                let message = format!("expected at most {} queues, found {many}", Pool::MOST_QUEUES);
                reader.conflict(&["queues"], message, Some("distribute them over several pools"));
            }
        }
    }
    if is_object && reader.kind("weights").is_some() {
        reader.conflict(&["weights"], "queues already contains weights", Some("keep one of the two"));
        return queues;
    }
    weigh(reader, queues, weights)
}

fn read_list(reader: &mut SettingsReader<'_>) -> Vec<PoolQueue> {
    let names: Vec<QueueName> = reader.list("queues");
    if reader.is_sound(&["queues"]) {
        let mut seen = HashSet::new();
        for (index, QueueName(name)) in names.iter().enumerate() {
            if !seen.insert(name) {
                reader.refuse_item("queues", index, Refused::new("a queue that is not listed yet"));
            }
        }
    }
    names.into_iter().map(|QueueName(queue)| PoolQueue { queue, weight: Weight::ONE }).collect()
}

fn read_object(reader: &mut SettingsReader<'_>) -> Vec<PoolQueue> {
    let places = reader.each_named("queues", |reader, _| reader.find("weight").unwrap_or_default());
    for (name, _) in places.iter().filter(|(name, _)| !names::is_queue(name)) {
        reader.refuse_name("queues", name, Refused::new(names::QUEUE_EXPECTED));
    }
    places.into_iter().map(|(queue, Share(weight))| PoolQueue { queue, weight }).collect()
}

/// Assigns weights to queues. A weight for a queue that is not in the pool is an error, because it
/// is most likely a typo.
fn weigh(
    reader: &mut SettingsReader<'_>,
    queues: Vec<PoolQueue>,
    mut weights: BTreeMap<String, Share>,
) -> Vec<PoolQueue> {
    let names: Vec<String> = queues.iter().map(|place| place.queue.clone()).collect();
    let weighed = queues.into_iter().map(|place| match weights.remove(&place.queue) {
        Some(Share(weight)) => PoolQueue { weight, ..place },
        None => place,
    });
    let weighed = weighed.collect();
    if reader.is_sound(&["queues"]) {
        for name in weights.keys() {
            let refused = Refused::new("a queue of the pool");
            let meant = nearest(name, names.iter().map(String::as_str));
            let help =
                meant.map_or_else(|| "add it to queues".to_owned(), |meant| format!("did you mean \"{meant}\"?"));
            reader.refuse_name("weights", name, refused.help(help));
        }
    }
    weighed
}
