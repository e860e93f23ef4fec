//! The capacity of a pool: the number of active jobs of all its workers, and what frees it.

use super::{DispatchEnv, SECOND, from, of_pool};
use crate::support::json;
use fairgate::domain::job::Record;
use fairgate::store::{Fetch, Heartbeat};

const POOL: &str = "p";

async fn env(concurrency: usize) -> DispatchEnv {
    let pool = json!({"name": POOL, "queues": ["a", "b"], "strategy": "strict", "concurrency": concurrency});
    let env = DispatchEnv::open(json!({"pool": [pool]})).await;
    env.push("a", 30).await;
    env
}

async fn active(env: &DispatchEnv) -> u64 {
    env.pool(POOL).await.1
}

/// Fills the pool to capacity with several concurrent workers.
async fn fill(env: &DispatchEnv, concurrency: usize) -> Vec<Record> {
    let fetches = (0..4).map(|worker| env.fetch(of_pool(POOL, &format!("w{worker}"), concurrency)));
    let got = futures_util::future::join_all(fetches).await.concat();
    assert_eq!((got.len(), active(env).await), (concurrency, concurrency as u64));
    assert_eq!(env.order(of_pool(POOL, "w9", 5)).await, "");
    got
}

#[tokio::test]
async fn all_workers_together_never_exceed_the_capacity_of_the_pool() {
    let env = env(5).await;
    let got = fill(&env, 5).await;
    assert_eq!(env.order(from(&["a"], 2)).await, "aa", "others are not counted");
    for record in &got[..3] {
        env.ack(record).await;
    }
    assert_eq!(active(&env).await, 2);
    assert_eq!(env.order(of_pool(POOL, "w9", 9)).await, "aaa");
}

#[tokio::test]
async fn each_end_of_a_lease_frees_capacity() {
    let env = env(4).await;
    let client = &env.client;
    let got = fill(&env, 4).await;
    client.nack(&got[0].id).await.expect(200);
    assert_eq!(active(&env).await, 3, "nack");
    client.post("/v1/workers/nack", json!({"job_id": got[1].id, "requeue": true})).await.expect(200);
    assert_eq!(active(&env).await, 2, "handed back");
    client.delete(&format!("/v1/jobs/{}", got[2].id)).await.expect(200);
    assert_eq!(active(&env).await, 1, "cancelled");
    client.ack(&got[3].id).await.expect(200);
    assert_eq!(active(&env).await, 0, "done");

    let short = Fetch { visibility_ms: Some(1000), ..of_pool(POOL, "", 4) };
    assert_eq!(env.order(short).await, "aaaa");
    env.clock.advance(SECOND + 1);
    assert_eq!(env.order(of_pool(POOL, "", 3)).await, "aaa", "expired");
    assert_eq!(active(&env).await, 3);
    let beat = |worker: &str| Heartbeat { worker: worker.to_owned(), ..Heartbeat::default() };
    env.store().heartbeat(&beat("goes")).await.unwrap();
    env.fetch(of_pool(POOL, "goes", 4)).await;
    assert_eq!(env.store().deregister("goes").await.unwrap(), Some(1));
    assert_eq!(active(&env).await, 3, "deregistered");
    env.store().heartbeat(&beat("dies")).await.unwrap();
    env.fetch(of_pool(POOL, "dies", 4)).await;
    assert_eq!(active(&env).await, 4);
    env.clock.advance(31 * SECOND);
    env.tick().await;
    assert_eq!(active(&env).await, 3, "dead");
    // A client that disconnects before its response: its jobs are returned.
    drop(env.store().fetch(of_pool(POOL, "", 1)).await.unwrap());
    crate::support::eventually("the job is handed back", async || active(&env).await == 3).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thirty_two_workers_never_exceed_the_capacity_of_the_pool() {
    let env = env(7).await;
    env.push("b", 300).await;
    let workers = (0..32).map(|worker| {
        let (store, worker) = (env.store().clone(), format!("w{worker}"));
        tokio::spawn(async move {
            let mut done = 0;
            for turn in 0..60 {
                for record in store.fetch(of_pool(POOL, &worker, 1 + turn % 5)).await.unwrap().deliver() {
                    let seen = store.scheduling(&[POOL]).await.unwrap().pools[0].active_jobs;
                    assert!((1..=7).contains(&seen), "{seen} at once");
                    let ack = fairgate::store::Ack {
                        job_id: record.id,
                        worker: Some(worker.clone()),
                        result: None,
                        idempotency_key: None,
                    };
                    store.ack(ack).await.unwrap();
                    done += 1;
                }
            }
            done
        })
    });
    let mut done = 0;
    for worker in workers.collect::<Vec<_>>() {
        done += worker.await.unwrap();
    }
    assert!(done > 100, "{done}");
    assert_eq!(active(&env).await, 0);
}

#[tokio::test]
async fn a_full_pool_is_reported_once() {
    let env = env(3).await;
    let kind = "scheduling.pool_overloaded";
    let got = env.fetch(of_pool(POOL, "w", 2)).await;
    assert_eq!(env.event_data(kind).await, [] as [serde_json::Value; 0]);
    for _ in 0..3 {
        env.fetch(of_pool(POOL, "w", 2)).await;
    }
    let reported = json!({"pool": POOL, "active_jobs": 3, "waiting_jobs": 27});
    assert_eq!(env.event_data(kind).await, std::slice::from_ref(&reported));
    env.ack(&got[0]).await;
    env.put_pool("unrelated", json!({"queues": ["z"]})).await;
    assert_eq!(env.event_data(kind).await.len(), 1);
    env.fetch(of_pool(POOL, "w", 2)).await;
    env.fetch(of_pool(POOL, "w", 2)).await;
    assert_eq!(env.event_data(kind).await, [reported, json!({"pool": POOL, "active_jobs": 3, "waiting_jobs": 26})]);
    env.put_pool("unrelated", json!({"queues": ["y"]})).await;
    env.fetch(of_pool(POOL, "w", 2)).await;
    assert_eq!(env.event_data(kind).await.len(), 2, "nothing has changed for this pool");
}

/// A pool at capacity with no waiting jobs is busy; it is overloaded if jobs wait.
#[tokio::test]
async fn a_full_pool_is_overloaded_as_soon_as_jobs_wait() {
    let pool = json!({"name": POOL, "queues": ["a"], "concurrency": 2});
    let env = DispatchEnv::open(json!({"pool": [pool]})).await;
    env.push("a", 2).await;
    env.fetch(of_pool(POOL, "w", 5)).await;
    env.fetch(of_pool(POOL, "w", 5)).await;
    assert!(env.event_data("scheduling.pool_overloaded").await.is_empty());
    env.push("a", 4).await;
    env.fetch(of_pool(POOL, "w", 5)).await;
    env.fetch(of_pool(POOL, "w", 5)).await;
    let reported = json!({"pool": POOL, "active_jobs": 2, "waiting_jobs": 4});
    assert_eq!(env.event_data("scheduling.pool_overloaded").await, [reported]);
}
