//! Workers need not wait for an interval: an empty main queue and a new job of an idle rule wake the planner.

use super::{HOUR, planning, planning_on, push, registry, rounds, rule, run, serving, stage, status, work, work_off};
use crate::support::{eventually, json};
use fairgate::domain::plan::{Batch, Pace, Rule};

/// A rule whose next scheduled round is after the end of the test.
fn hourly(batch: Batch) -> Rule {
    rule(|rule| {
        rule.pace = Pace::Every(HOUR);
        rule.batch = batch;
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dry_main_queue_gets_the_next_batch() {
    for batch in [Batch::Jobs(3), Batch::Auto] {
        let app = planning(&[hourly(batch)]).await;
        push(&app.client, "a", 20).await;
        push(&app.client, "b", 20).await;
        work_off(&app.client, 40).await;
        // An idle rule wakes up again.
        push(&app.client, "a", 20).await;
        work_off(&app.client, 20).await;
        let rounds = rounds(app.store()).await;
        assert!(rounds.iter().filter(|round| round["scheduled"] == true).count() <= 1, "{batch:?}: {rounds:?}");
        assert_eq!(status(app.store()).await.lock, None, "an idle rule holds no lock");
    }
}

/// Signals may be lost: the next check handles what they would have reported.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_signal_delays_only_until_the_next_check() {
    let rules = [hourly(Batch::Jobs(3))];
    let app = serving(&rules).await;
    stage(&app, &[("a", 12)]).await;
    let registry = registry(app.store(), &rules);
    assert_eq!(run(&registry).await.promoted, 3);
    // A process has run the scheduled round of this hour and died; then the queue ran dry without a signal.
    let _: i64 = app.redis.command(&["HSET", "fg:{default}:plan:r", "due", "9000000000000"]).await;
    assert_eq!(work(&app.client, 10).await.len(), 3);
    assert_eq!(work(&app.client, 10).await.len(), 0);
    registry.release().await;
    let planner = planning_on(&app.redis, &rules).await;
    work_off(&planner.client, 9).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_of_several_main_queues_are_served() {
    let app = planning(&[rule(|rule| {
        rule.queue = None;
        rule.pace = Pace::Every(HOUR);
        rule.batch = Batch::Jobs(2);
    })])
    .await;
    let job = |queue: &str| crate::support::json!({"type": "t.job", "args": [], "meta": {"tenant_id": "a"}, "options": {"queue": queue}});
    let jobs: Vec<_> = (0..40).map(|number| job(["x", "y"][number % 2])).collect();
    app.client.post("/v1/jobs/batch", crate::support::json!({"jobs": jobs})).await.expect(201);
    for queue in ["x", "y"] {
        let mut done = 0;
        eventually("its jobs are done", async || {
            for id in app.client.fetch(queue, 10).await.job_ids() {
                app.client.ack(&id).await.expect(200);
                done += 1;
            }
            done == 20
        })
        .await;
    }
}

/// Two rules may promote into one main queue: a rule without staged jobs does not stop the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rules_share_a_main_queue() {
    let other = Rule { name: "s".to_owned(), types: vec!["s".to_owned()], ..hourly(Batch::Jobs(3)) };
    let strict = Rule { strict_interval: true, ..hourly(Batch::Jobs(3)) };
    let app = planning(&[strict, other]).await;
    let job = crate::support::json!({"type": "s", "args": [], "meta": {"tenant_id": "a"}});
    push(&app.client, "a", 4).await;
    app.client.post("/v1/jobs/batch", crate::support::json!({"jobs": vec![job; 30]})).await.expect(201);
    work_off(&app.client, 33).await;
    assert_eq!(status(app.store()).await.staged, 1);
}

/// One request brings more jobs than a round promotes: its tenants share the first round, which starts at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_larger_than_a_round_is_shared_by_its_tenants() {
    for is_strict in [false, true] {
        let mut rule = hourly(Batch::Jobs(40));
        rule.strict_interval = is_strict;
        let app = planning(&[rule]).await;
        let tenants = ["a", "b", "c", "d"];
        let job = |tenant: &str| json!({"type": "t.job", "args": [], "meta": {"tenant_id": tenant}});
        let jobs: Vec<_> = tenants.iter().flat_map(|tenant| vec![job(tenant); 50]).collect();
        app.client.post("/v1/jobs/batch", json!({"jobs": jobs})).await.expect(201);
        let mut got = Vec::new();
        eventually("the first round is done", async || {
            got.extend(work(&app.client, 40 - got.len()).await);
            got.len() == 40
        })
        .await;
        for tenant in tenants {
            assert_eq!(got.iter().filter(|name| *name == tenant).count(), 10, "{got:?}");
        }
    }
}
