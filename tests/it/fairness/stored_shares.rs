//! Shares from the real scripts, compared with fluid sharing: the model of each queue checks every pick.

use super::stored::{FairQueueEnv, StoredQueue};
use super::{AHEAD, BEHIND};
use crate::support::Random;
use fairgate::domain::tenant::Weight;

/// Starts an environment in which `heavy…` has weight 100, `mixed…` from 0.05 to 1,000, `burst…` the maximum, and all
/// others 1.
async fn open_env() -> FairQueueEnv {
    let mut random = Random(9);
    let hundred = Weight::of(100.0).unwrap();
    let mut weights = vec![("heavy".to_owned(), hundred)];
    weights.extend((0..200).map(|number| (format!("heavy{number}"), hundred)));
    weights.extend((0..100).map(|number| (format!("burst{number}"), Weight::MOST)));
    weights.extend((0..60).map(|number| (format!("mixed{number}"), random.weight())));
    FairQueueEnv::open(weights).await
}

async fn arrive(stored: &mut StoredQueue<'_>, tenants: &[String], jobs: u64) {
    stored.arrive(&tenants.iter().map(|name| (name.as_str(), jobs)).collect::<Vec<_>>()).await;
}

fn numbered(name: &str, count: u64) -> Vec<String> {
    (0..count).map(|number| format!("{name}{number}")).collect()
}

#[track_caller]
fn assert_fair(stored: &StoredQueue<'_>, label: &str) {
    let (ahead, behind) = (stored.model.ahead, stored.model.behind);
    assert!(ahead <= AHEAD && behind <= BEHIND, "{label}: {ahead} ahead, {behind} behind");
}

/// Runs rounds of random size with new tenants of one or two jobs between them.
async fn churn(stored: &mut StoredQueue<'_>, name: &str, rounds: u64) {
    let mut random = Random(3);
    for _ in 0..rounds {
        let names: Vec<String> = (0..random.below(12)).map(|_| format!("{name}{}", random.below(200))).collect();
        let jobs = 1 + random.below(2) as u64;
        arrive(stored, &names, jobs).await;
        stored.promote(1 + random.below(40) as u64).await;
    }
}

#[tokio::test]
async fn one_heavy_tenant_among_a_hundred_light_ones() {
    let env = open_env().await;
    let mut stored = env.queue().await;
    arrive(&mut stored, &numbered("light", 100), 12).await;
    stored.arrive(&[("heavy", 900)]).await;
    let order = stored.promote(60).await;
    assert_eq!(order.iter().filter(|name| *name == "heavy").count(), 30);
    churn(&mut stored, "light1", 12).await;
    assert_fair(&stored, "light tenants come and go");
    churn(&mut stored, "heavy", 12).await;
    assert_fair(&stored, "heavy tenants come and go");
    stored.drain().await;
    assert_fair(&stored, "all drain");
    assert_eq!((stored.staged(), stored.keys().await), (0, Vec::<String>::new()));
}

#[tokio::test]
async fn mass_departures_and_weights_of_all_sizes() {
    let env = open_env().await;
    let mut stored = env.queue().await;
    arrive(&mut stored, &numbered("mixed", 60), 15).await;
    churn(&mut stored, "light", 10).await;
    arrive(&mut stored, &numbered("burst", 100), 1).await;
    stored.promote(150).await;
    churn(&mut stored, "heavy", 10).await;
    stored.drain().await;
    assert_fair(&stored, "mixed weights");
    assert_eq!((stored.staged(), stored.keys().await), (0, Vec::<String>::new()));
}

#[tokio::test]
async fn the_size_of_a_batch_changes_no_order() {
    let env = open_env().await;
    let mut orders = Vec::new();
    for size in [1000, 60, 7, 1] {
        let mut stored = env.queue().await;
        arrive(&mut stored, &numbered("mixed", 60), 2).await;
        arrive(&mut stored, &numbered("light", 80), 1).await;
        stored.arrive(&[("heavy", 60)]).await;
        let mut order = Vec::new();
        while stored.staged() > 0 {
            order.extend(stored.promote(size).await);
        }
        orders.push(order);
    }
    assert_eq!(orders[0].len(), 260);
    assert!(orders.iter().all(|order| *order == orders[0]));
}
