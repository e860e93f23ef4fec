//! Jobs that need not wait: nobody is staged, and the main queue has room.

use super::{SECOND, Site, planned};
use crate::support::json;
use fairgate::fairness::{Batch, Weight};
use fairgate::store::{Begun, Why};
use serde_json::Value;

#[tokio::test]
async fn a_lone_job_is_available_at_once_and_the_second_waits_for_a_round() {
    let site = Site::open().await;
    let created = site.app.client.post("/v1/jobs", planned("a")).await.expect(201);
    assert_eq!((created.text_at("/job/state"), created.at("/job").get("x_staged")), ("available", None));
    let second = site.push("a").await;
    assert!(site.is_staged(&second).await);
    // Workers are quick, but a tenant that waits is not overtaken.
    site.app.client.fetch("default", 1).await;
    let third = site.push("b").await;
    assert!(site.is_staged(&third).await);
    assert_eq!(site.round(1).await, 1);
    assert_eq!(site.state(&second).await, "available");
    assert!(site.is_staged(&third).await);
}

/// Pushes jobs of tenants in one request: whether each of them is staged.
async fn push_together(site: &Site, jobs: &[Value]) -> Vec<bool> {
    let answer = site.app.client.post("/v1/jobs/batch", json!({"jobs": jobs})).await.expect(201);
    (0..jobs.len()).map(|place| answer.text_at(&format!("/jobs/{place}/state")) == "pending").collect()
}

#[tokio::test]
async fn a_batch_passes_only_if_all_of_it_fits() {
    let site = Site::with(|rule| rule.batch = Batch::Jobs(3)).await;
    let [a, b] = [planned("a"), planned("b")];
    assert_eq!(push_together(&site, &[a.clone(), b.clone(), a.clone(), b.clone()]).await, [true; 4]);
    assert_eq!((site.staged().await, site.round(9).await), (4, 4));
    site.app.client.fetch("default", 9).await;
    site.app.clock.advance(SECOND);
    assert_eq!(push_together(&site, &[a.clone(), b.clone(), a.clone()]).await, [false; 3]);
    assert_eq!(push_together(&site, &[a.clone(), b.clone()]).await, [true; 2], "nothing is left of the interval");
}

/// Jobs of a request for other queues, without a rule or for later do not count.
#[tokio::test]
async fn what_goes_elsewhere_or_later_needs_no_room() {
    let site = Site::with(|rule| rule.max_depth = 1).await;
    let in_queue = |queue: &str| json!({"type": "test.job", "args": [], "queue": queue, "meta": {"tenant_id": "a"}});
    let mut later = in_queue("x");
    later["scheduled_at"] = json!("+PT1H");
    let other = json!({"type": "other.job", "args": [], "queue": "x"});
    let jobs = [in_queue("x"), later, in_queue("y"), other, in_queue("y")];
    assert_eq!(push_together(&site, &jobs).await, [false, false, true, false, true]);
}

#[tokio::test]
async fn a_strict_interval_is_woken_for_what_is_left_of_its_batch() {
    let site = Site::with(|rule| (rule.batch, rule.strict_interval) = (Batch::Jobs(3), true)).await;
    site.push("a").await;
    assert_eq!(push_together(&site, &vec![planned("a"); 3]).await, [true; 3], "one too many");
    let Begun::Round(round) = site.begin(Why::Wake).await else { panic!("two more may go") };
    assert_eq!((round.scheduled, round.room), (false, 2));
    assert_eq!(site.fly(round, 9).await, 2);
    assert!(matches!(site.begin(Why::Wake).await, Begun::Early { .. }));
}

#[tokio::test]
async fn nothing_passes_by_a_held_tenant_or_a_paused_rule() {
    let site = Site::with(|rule| _ = rule.weights.fixed.insert("held".to_owned(), Weight::HELD)).await;
    let held = site.push("held").await;
    assert!(site.is_staged(&held).await);
    let other = site.push("other").await;
    assert!(!site.is_staged(&other).await, "others do not wait for a tenant that is held");
    site.app.client.fetch("default", 1).await;

    site.app.app.store.pause_rule("plan", true, "test").await.unwrap();
    let paused = site.push("other").await;
    assert!(site.is_staged(&paused).await);
    assert_eq!(site.begin(Why::Tick).await, Begun::Paused);
    assert_eq!(site.begin(Why::Run).await, Begun::Paused);
    site.app.app.store.pause_rule("plan", false, "test").await.unwrap();
    assert_eq!((site.round(9).await, site.staged().await), (1, 1));
    assert!(site.is_staged(&held).await);
}

#[tokio::test]
async fn nothing_passes_a_closed_gate() {
    let old = Site::with(|rule| (rule.batch, rule.latency_threshold) = (Batch::Jobs(100), 5000)).await;
    old.push("a").await;
    old.app.clock.advance(5 * SECOND);
    let young = old.push("a").await;
    old.app.clock.advance(1);
    let late = old.push("a").await;
    assert_eq!((old.is_staged(&young).await, old.is_staged(&late).await), (false, true));
    let deep = Site::with(|rule| (rule.batch, rule.max_depth) = (Batch::Jobs(100), 2)).await;
    let ids = [deep.push("a").await, deep.push("a").await, deep.push("a").await];
    assert_eq!((deep.is_staged(&ids[1]).await, deep.is_staged(&ids[2]).await), (false, true));
}

#[tokio::test]
async fn a_strict_interval_is_never_exceeded() {
    let site = Site::with(|rule| (rule.batch, rule.strict_interval) = (Batch::Jobs(3), true)).await;
    let client = &site.app.client;
    let mut staged = Vec::new();
    for _ in 0..5 {
        staged.push(site.is_staged(&site.push("a").await).await);
    }
    assert_eq!(staged, [false, false, false, true, true]);
    // A dry main queue changes nothing.
    assert_eq!(client.fetch("default", 9).await.job_ids().len(), 3);
    for why in [Why::Tick, Why::Wake] {
        assert_eq!(site.begin(why).await, Begun::Early { due: super::NOON + SECOND, now: super::NOON });
    }
    site.app.clock.advance(SECOND);
    let Begun::Round(round) = site.begin(Why::Tick).await else { panic!("its time has come") };
    assert_eq!((round.scheduled, round.room), (true, 3));
    assert_eq!(site.fly(round, 9).await, 2);
    // The rest of the interval's batch may pass.
    let (third, fourth) = (site.push("a").await, site.push("a").await);
    assert_eq!((site.is_staged(&third).await, site.is_staged(&fourth).await), (false, true));
    assert_eq!(client.fetch("default", 9).await.job_ids().len(), 3);
    assert_eq!(site.begin(Why::Wake).await, Begun::Early { due: super::NOON + 2 * SECOND, now: super::NOON + SECOND });
}

/// However jobs, workers and rounds mix: what workers get is at most a batch an interval.
#[tokio::test]
async fn strict_intervals_bound_what_workers_get() {
    let site = Site::with(|rule| (rule.batch, rule.strict_interval) = (Batch::Jobs(4), true)).await;
    let mut got = Vec::new();
    for step in 0..40 {
        for _ in 0..[0, 3, 1, 0, 2][step % 5] {
            site.push(["a", "b"][step % 2]).await;
        }
        for why in [Why::Tick, Why::Wake] {
            if let Begun::Round(round) = site.begin(why).await {
                site.fly(round, 100).await;
            }
        }
        let fetched = site.app.client.fetch("default", 50).await.job_ids().len();
        got.extend(std::iter::repeat_n(site.app.clock.now_ms(), fetched));
        site.app.clock.advance(250);
    }
    assert!(got.len() >= 30, "{} in ten seconds", got.len());
    // Nine in a row are of three intervals at least, and so span a whole one.
    for nine in got.windows(9) {
        assert!(nine[8] - nine[0] >= SECOND, "{got:?}");
    }
}

#[tokio::test]
async fn without_a_strict_interval_a_dry_queue_lets_one_pass() {
    let site = Site::with(|rule| rule.batch = Batch::Jobs(2)).await;
    let ids = [site.push("a").await, site.push("a").await];
    assert!(!site.is_staged(&ids[0]).await && !site.is_staged(&ids[1]).await);
    site.app.client.fetch("default", 2).await;
    let (third, fourth) = (site.push("a").await, site.push("a").await);
    assert_eq!((site.is_staged(&third).await, site.is_staged(&fourth).await), (false, true));
    assert!(matches!(site.begin(Why::Wake).await, Begun::Round(_)), "and wakes the planner");
}
