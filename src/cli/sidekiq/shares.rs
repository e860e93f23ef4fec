//! Tenants of the jobs in a queue, with their current positions and those they would have if
//! tenants took turns.

use crate::domain::fairness::FairQueue;
use crate::domain::job::sidekiq::Payload;
use crate::domain::plan::TenantKey;
use crate::domain::tenant::Weight;
use crate::domain::tenant_id::DEFAULT;
use std::collections::HashMap;

/// The jobs of one tenant in a queue.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Share {
    pub(super) tenant: String,
    pub(super) jobs: usize,
    /// Position of the first job, and mean position of all jobs, counted from 1: current, and in
    /// turns.
    pub(super) first: (usize, usize),
    pub(super) mean: (f64, f64),
}

/// Computes the shares of tenants, those with most jobs first. The payloads are in the order in
/// which workers take them.
pub(super) fn shares(payloads: &[String], key: &TenantKey) -> Vec<Share> {
    let owners: Vec<String> = payloads.iter().map(|payload| owner(payload, key)).collect();
    let mut queue = FairQueue::new();
    for owner in &owners {
        queue.arrive(owner, Weight::ONE, 1);
    }
    let mut fair: HashMap<String, Vec<usize>> = HashMap::new();
    for place in 1..=owners.len() {
        if let Some(owner) = queue.pick() {
            fair.entry(owner.to_string()).or_default().push(place);
        }
    }
    let mut places: HashMap<String, Vec<usize>> = HashMap::new();
    owners.into_iter().enumerate().for_each(|(at, owner)| places.entry(owner).or_default().push(at + 1));
    let mean = |places: &[usize]| places.iter().sum::<usize>() as f64 / places.len().max(1) as f64;
    let mut shares: Vec<Share> = places
        .into_iter()
        .map(|(tenant, now)| {
            let then = fair.get(&tenant).map_or(&[][..], Vec::as_slice);
            let first = |places: &[usize]| places.first().copied().unwrap_or(0);
            Share { jobs: now.len(), first: (first(&now), first(then)), mean: (mean(&now), mean(then)), tenant }
        })
        .collect();
    shares.sort_by(|left, right| right.jobs.cmp(&left.jobs).then_with(|| left.tenant.cmp(&right.tenant)));
    shares
}

fn owner(payload: &str, key: &TenantKey) -> String {
    Payload::parse(payload).and_then(|payload| key.owner(&payload)).unwrap_or_else(|| DEFAULT.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_behind_a_crowd_is_second_when_they_take_turns() {
        let payload = |tenant: &str| format!(r#"{{"class":"A","args":["{tenant}"]}}"#);
        let mut payloads = vec![payload("noisy"); 9];
        payloads.push(payload("quiet"));
        let shares = shares(&payloads, &TenantKey::parse("args.0").expect("a key"));
        let noisy = Share { tenant: "noisy".to_owned(), jobs: 9, first: (1, 1), mean: (5.0, 53.0 / 9.0) };
        let quiet = Share { tenant: "quiet".to_owned(), jobs: 1, first: (10, 2), mean: (10.0, 2.0) };
        assert_eq!(shares, [noisy, quiet]);
        assert_eq!(super::shares(&["junk".to_owned()], &TenantKey::ApiKey)[0].tenant, DEFAULT);
    }
}
