//! Known faults of similar planners, tested on the real scripts.

use super::stored::FairQueueEnv;
use fairgate::domain::tenant::Weight;

fn count(order: &[String], name: &str) -> usize {
    order.iter().filter(|other| *other == name).count()
}

#[tokio::test]
async fn a_tenant_that_cannot_be_served_does_not_pin_the_clock() {
    let env = FairQueueEnv::open([("never".to_owned(), Weight::HELD)]).await;
    let mut stored = env.queue().await;
    stored.arrive(&[("never", 7), ("a", 50), ("b", 50)]).await;
    stored.promote(10).await;
    assert_eq!(stored.model.queue.clock(), 5.0);
    assert_eq!(stored.drain().await.len(), 90);
    assert_eq!((stored.staged(), stored.promote(5).await), (7, Vec::new()));
    stored.reweigh(&[("never", Weight::ONE)]).await;
    assert_eq!(stored.drain().await, ["never"; 7]);
    assert_eq!(stored.keys().await, Vec::<String>::new());
}

#[tokio::test]
async fn five_hundred_held_tenants_do_not_hide_runnable_ones() {
    let held: Vec<String> = (0..500).map(|number| format!("held{number}")).collect();
    let env = FairQueueEnv::open(held.iter().map(|name| (name.clone(), Weight::HELD))).await;
    let mut stored = env.queue().await;
    stored.arrive(&held.iter().map(|name| (name.as_str(), 1)).collect::<Vec<_>>()).await;
    stored.arrive(&[("z", 4), ("y", 4)]).await;
    assert_eq!(stored.promote(3).await, ["y", "z", "y"]);
    // Tenants held while they wait, among others that wait.
    stored.reweigh(&held.iter().map(|name| (name.as_str(), Weight::MOST)).collect::<Vec<_>>()).await;
    assert!(stored.promote(5).await.iter().all(|name| name.starts_with("held")));
    stored.reweigh(&held.iter().map(|name| (name.as_str(), Weight::HELD)).collect::<Vec<_>>()).await;
    assert_eq!(stored.drain().await, ["z", "y", "z", "y", "z"]);
    assert_eq!(stored.staged(), 495);
    let names: Vec<&str> = held.iter().map(String::as_str).collect();
    for name in names {
        stored.cancel(name, 0).await;
    }
    assert_eq!((stored.staged(), stored.keys().await), (0, Vec::<String>::new()));
}

#[tokio::test]
async fn a_drained_tenant_comes_back_without_credit() {
    let env = FairQueueEnv::open([]).await;
    let mut stored = env.queue().await;
    stored.arrive(&[("a", 200), ("b", 1)]).await;
    stored.promote(60).await;
    stored.arrive(&[("b", 60)]).await;
    assert_eq!(count(&stored.promote(20).await, "b"), 10, "an absence gives no more than the share");
    // A tenant that enqueues one job at a time has no advantage either.
    let mut dripping = env.queue().await;
    dripping.arrive(&[("a", 100)]).await;
    let mut got = 0;
    for _ in 0..60 {
        if dripping.model.queue.tenant("b").is_none_or(|tenant| tenant.jobs == 0) {
            dripping.arrive(&[("b", 1)]).await;
        }
        got += count(&dripping.promote(1).await, "b");
    }
    assert_eq!(got, 30);
}

#[tokio::test]
async fn holding_cancelling_and_activating_gain_nothing() {
    let env = FairQueueEnv::open([]).await;
    let mut stored = env.queue().await;
    stored.arrive(&[("a", 200), ("b", 200)]).await;
    let mut got = 0;
    for turn in 0..60 {
        let served = stored.promote(1).await;
        if served == ["b"] {
            got += 1;
            stored.reweigh(&[("b", Weight::HELD)]).await;
            stored.reweigh(&[("b", Weight::ONE)]).await;
        }
        match turn % 10 {
            4 => stored.cancel("b", 1).await,
            8 => stored.activate("b", 0).await,
            _ => {}
        }
    }
    assert_eq!(got, 30);
}
