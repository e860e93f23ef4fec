//! What tenants get from the real scripts, measured against fluid sharing: the bench beside each queue checks every pick.

use super::live::{FairQueueEnv, Live};
use super::{AHEAD, BEHIND};
use fairgate::fairness::Weight;

/// Numbers that look random and are the same in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// `heavy` and the names that begin so weigh 100, `mixed…` anything from 0.05 to 1,000, `burst…` the most; all others 1.
async fn open_env() -> FairQueueEnv {
    let mut dice = Dice(9);
    let hundred = Weight::of(100.0).unwrap();
    let mut weights = vec![("heavy".to_owned(), hundred)];
    weights.extend((0..200).map(|number| (format!("heavy{number}"), hundred)));
    weights.extend((0..100).map(|number| (format!("burst{number}"), Weight::MOST)));
    weights.extend((0..60).map(|number| {
        let power = -1.3 + 4.3 * dice.below(10_000) as f64 / 10_000.0;
        (format!("mixed{number}"), Weight::of(10f64.powf(power)).unwrap())
    }));
    FairQueueEnv::open(weights).await
}

async fn arrive(live: &mut Live<'_>, tenants: &[String], jobs: u64) {
    live.arrive(&tenants.iter().map(|name| (name.as_str(), jobs)).collect::<Vec<_>>()).await;
}

fn numbered(name: &str, count: u64) -> Vec<String> {
    (0..count).map(|number| format!("{name}{number}")).collect()
}

#[track_caller]
fn assert_fair(live: &Live<'_>, label: &str) {
    let (ahead, behind) = (live.bench.ahead, live.bench.behind);
    assert!(ahead <= AHEAD && behind <= BEHIND, "{label}: {ahead} ahead, {behind} behind");
}

/// Rounds of random size, between which new tenants come with a job or two.
async fn churn(live: &mut Live<'_>, name: &str, rounds: u64) {
    let mut dice = Dice(3);
    for _ in 0..rounds {
        let names: Vec<String> = (0..dice.below(12)).map(|_| format!("{name}{}", dice.below(200))).collect();
        let jobs = 1 + dice.below(2);
        arrive(live, &names, jobs).await;
        live.promote(1 + dice.below(40)).await;
    }
}

#[tokio::test]
async fn one_heavy_tenant_among_a_hundred_light_ones() {
    let env = open_env().await;
    let mut live = env.queue().await;
    arrive(&mut live, &numbered("light", 100), 12).await;
    live.arrive(&[("heavy", 900)]).await;
    let order = live.promote(60).await;
    assert_eq!(order.iter().filter(|name| *name == "heavy").count(), 30);
    churn(&mut live, "light1", 12).await;
    assert_fair(&live, "light tenants come and go");
    churn(&mut live, "heavy", 12).await;
    assert_fair(&live, "heavy tenants come and go");
    live.drain().await;
    assert_fair(&live, "all drain");
    assert_eq!((live.staged(), live.keys().await), (0, Vec::<String>::new()));
}

#[tokio::test]
async fn crowds_that_leave_at_once_and_weights_of_all_sizes() {
    let env = open_env().await;
    let mut live = env.queue().await;
    arrive(&mut live, &numbered("mixed", 60), 15).await;
    churn(&mut live, "light", 10).await;
    arrive(&mut live, &numbered("burst", 100), 1).await;
    live.promote(150).await;
    churn(&mut live, "heavy", 10).await;
    live.drain().await;
    assert_fair(&live, "mixed weights");
    assert_eq!((live.staged(), live.keys().await), (0, Vec::<String>::new()));
}

#[tokio::test]
async fn the_size_of_a_batch_changes_no_order() {
    let env = open_env().await;
    let mut orders = Vec::new();
    for size in [1000, 60, 7, 1] {
        let mut live = env.queue().await;
        arrive(&mut live, &numbered("mixed", 60), 2).await;
        arrive(&mut live, &numbered("light", 80), 1).await;
        live.arrive(&[("heavy", 60)]).await;
        let mut order = Vec::new();
        while live.staged() > 0 {
            order.extend(live.promote(size).await);
        }
        orders.push(order);
    }
    assert_eq!(orders[0].len(), 260);
    assert!(orders.iter().all(|order| *order == orders[0]));
}
