//! Pools over HTTP: changes are shown, take effect at once and persist; pools from the file and from run time combine.

use crate::support::{Process, TestApp, TestRedis, eventually, json};
use fairgate::clock::Clock;
use fairgate::config::Config;
use fairgate::domain::pool::{Pool, PoolQueue, Strategy};
use fairgate::domain::tenant::Weight;
use serde_json::Value;
use std::sync::Arc;

const POOLS: &str = "/ojs/v1/admin/pools";

fn pool(name: &str, queues: &[&str]) -> Pool {
    let place = |queue: &&str| PoolQueue { queue: (*queue).to_owned(), weight: Weight::ONE };
    Pool { name: name.to_owned(), queues: queues.iter().map(place).collect(), ..Pool::default() }
}

async fn put(app: &TestApp, name: &str, body: &Value) -> crate::support::Answer {
    app.client.send("PUT", &format!("{POOLS}/{name}"), Some(body.to_string())).await
}

/// Enqueues jobs into each queue and returns the queues from which a worker of a pool gets them.
async fn order(app: &TestApp, fetch: Value) -> String {
    let answer = app.client.post("/v1/workers/fetch", fetch).await.expect(200);
    let jobs = answer.at("/jobs").as_array().cloned().unwrap_or_default();
    jobs.iter().map(|job| job["queue"].as_str().unwrap_or_default().to_owned()).collect()
}

async fn fill(app: &TestApp, queues: &[&str], jobs: usize) {
    for queue in queues {
        for _ in 0..jobs {
            app.client.enqueue_into(queue).await;
        }
    }
}

#[tokio::test]
async fn a_pool_is_shown_with_all_its_fields_and_how_busy_it_is() {
    let app = TestApp::start().await;
    let body = json!({"queues": ["a", "b"], "strategy": "weighted", "weights": {"a": 5}, "concurrency": 20,
        "starvation_prevention": {"enabled": true, "min_dispatch_ratio": 0.1},
        "tenant_fairness": {"enabled": true, "strategy": "round_robin"}});
    let added = put(&app, "general", &body).await.expect(201);
    for (field, expected) in [
        ("name", json!("general")),
        ("queues", json!(["a", "b"])),
        ("strategy", json!("weighted")),
        ("weights", json!({"a": 5, "b": 1})),
        ("concurrency", json!(20)),
        ("isolated", json!(false)),
        ("active_workers", json!(0)),
        ("active_jobs", json!(0)),
        ("source", json!("api")),
    ] {
        assert_eq!(added.at(&format!("/pool/{field}")), &expected, "{field}");
        assert_eq!(added.at(&format!("/{field}")), &expected, "{field}, beside the wrapper");
    }
    assert_eq!(added.at("/pool/starvation_prevention/min_dispatch_ratio"), &json!(0.1));
    assert_eq!(added.at("/pool/tenant_fairness/strategy"), "round-robin");

    fill(&app, &["a", "b"], 2).await;
    let worker = json!({"worker": {"id": "w1", "pool": "general", "concurrency": 10}});
    app.client.post("/v1/workers/register", worker).await.expect(200);
    let got = order(&app, json!({"pool": "general", "worker_id": "w1", "count": 3})).await;
    assert_eq!(got.len(), 3);
    order(&app, json!({"pool": "general", "worker_id": "w2"})).await;
    let shown = app.client.get(&format!("{POOLS}/general")).await.expect(200);
    assert_eq!((shown.at("/active_workers"), shown.at("/active_jobs")), (&json!(2), &json!(4)));
    let list = app.client.get(POOLS).await.expect(200);
    assert_eq!(list.at("/items/0"), shown.at("/pool"));
    assert_eq!((list.at("/pagination/total"), list.at("/items").as_array().map(Vec::len)), (&json!(1), Some(1)));

    put(&app, "general", &json!({"queues": ["a"]})).await.expect(200);
    let replaced = app.client.get(&format!("{POOLS}/general")).await.expect(200);
    assert_eq!(replaced.at("/pool/strategy"), "round-robin", "replaced as a whole");
    assert!(replaced.at("/pool/concurrency").is_null() && replaced.at("/pool/weights").is_null());
}

#[tokio::test]
async fn an_answer_can_be_sent_back_and_every_form_means_the_same() {
    let app = TestApp::start().await;
    let expected = json!({"a": 70, "b": 30});
    for (name, body) in [
        ("p1", json!({"strategy": "weighted", "queues": {"a": {"weight": 70}, "b": {"weight": 30}}})),
        ("p2", json!({"strategy": "weighted", "queues": ["a", "b"], "weights": {"a": 70, "b": 30}})),
        (
            "p3",
            json!({"pool": {"name": "p3", "strategy": "weighted", "queues": ["a", "b"], "weights": {"a": 70, "b": 30},
            "concurrency": null, "starvation_prevention": {"enabled": true, "rotation_interval": null}}}),
        ),
    ] {
        assert_eq!(put(&app, name, &body).await.expect(201).at("/pool/weights"), &expected, "{name}");
        let before = app.client.get(&format!("{POOLS}/{name}")).await.expect(200);
        for body in [&before.body, before.at("/pool"), &json!({"pool": before.at("/pool")})] {
            let after = put(&app, name, body).await.expect(200);
            assert_eq!(after.body, before.body);
        }
        let mut edited = before.body.clone();
        edited["concurrency"] = json!(9);
        let refused = put(&app, name, &edited).await.expect(422);
        assert_eq!(refused.at("/error/details/field"), "concurrency", "{}", refused.text);
    }
    let posted = app.client.post(POOLS, json!({"name": "p4", "queues": ["c"]})).await.expect(201);
    assert_eq!((posted.at("/pool/name"), posted.header("location")), (&json!("p4"), "/ojs/v1/admin/pools/p4"));
    app.client.post(POOLS, json!({"name": "p4", "queues": ["d"]})).await.expect(409);
    assert_eq!(app.client.get(&format!("{POOLS}/p4")).await.at("/queues"), &json!(["c"]), "nothing was changed");
    let page = app.client.get(&format!("{POOLS}?page=2&per_page=3")).await.expect(200);
    assert_eq!((page.at("/items/0/name"), page.at("/pagination/total")), (&json!("p4"), &json!(4)));
}

#[tokio::test]
async fn a_change_applies_to_the_next_fetch_and_emits_an_event() {
    let app = TestApp::start().await;
    put(&app, "p", &json!({"queues": ["a", "b", "c"]})).await.expect(201);
    fill(&app, &["a", "b", "c"], 9).await;
    let fetch = |count: usize| json!({"pool": "p", "worker_id": "w", "count": count});
    assert_eq!(order(&app, fetch(6)).await, "abcabc");
    put(&app, "p", &json!({"queues": ["a", "b", "c"], "strategy": "strict"})).await.expect(200);
    assert_eq!(order(&app, fetch(4)).await, "aaaa");
    put(&app, "p", &json!({"queues": ["c", "b"], "strategy": "strict", "concurrency": 12})).await.expect(200);
    assert_eq!(order(&app, fetch(9)).await, "cc", "ten are running already");
    let events = app.client.get("/v1/events?types=scheduling.rebalanced").await.expect(200);
    let strategies: Vec<(&Value, &Value)> = events
        .at("/events")
        .as_array()
        .unwrap()
        .iter()
        .map(|event| (&event["data"]["previous_strategy"], &event["data"]["new_strategy"]))
        .collect();
    let (none, turns, strict) = (json!(null), json!("round-robin"), json!("strict"));
    assert_eq!(strategies, [(&none, &turns), (&turns, &strict), (&strict, &strict)], "{}", events.text);

    let gone = app.client.delete(&format!("{POOLS}/p")).await.expect(200);
    assert_eq!((gone.at("/removed"), gone.at("/holds")), (&json!(true), &Value::Null));
    app.client.post("/v1/workers/fetch", fetch(1)).await.expect(404);
    app.client.delete(&format!("{POOLS}/p")).await.expect(404);
    assert_eq!(order(&app, json!({"queues": ["b"], "worker_id": "w9", "count": 2})).await, "bb");
}

#[tokio::test]
async fn a_worker_changes_its_pool_only_by_registering_without_active_jobs() {
    let app = TestApp::start().await;
    for name in ["a", "b"] {
        put(&app, name, &json!({"queues": [name]})).await.expect(201);
    }
    let job = app.client.enqueue_into("a").await;
    let register =
        async |pool: &str| app.client.post("/v1/workers/register", json!({"worker_id": "w", "pool": pool})).await;
    register("a").await.expect(200);
    assert_eq!(order(&app, json!({"pool": "a", "worker_id": "w"})).await, "a");
    for (path, body) in [
        ("/v1/workers/fetch", json!({"pool": "b", "worker_id": "w"})),
        ("/v1/workers/heartbeat", json!({"pool": "b", "worker_id": "w"})),
        ("/v1/workers/register", json!({"pool": "b", "worker_id": "w"})),
    ] {
        let refused = app.client.post(path, body).await.expect(409);
        assert_eq!(refused.at("/error/details/pool"), "a", "{path}");
        assert!(refused.text_at("/error/hint").contains("has no jobs"), "{path}");
    }
    app.client.ack(&job).await.expect(200);
    register("b").await.expect(200);
    let workers = async |pool: &str| app.client.get(&format!("{POOLS}/{pool}")).await.at("/active_workers").clone();
    assert_eq!((workers("a").await, workers("b").await), (json!(0), json!(1)));

    app.client.delete(&format!("{POOLS}/b")).await.expect(200);
    app.client.enqueue_into("a").await;
    assert_eq!(
        order(&app, json!({"pool": "a", "worker_id": "w"})).await,
        "a",
        "a deleted pool does not affect its former workers"
    );
    app.client.post("/v1/workers/heartbeat", json!({"pool": "a", "worker_id": "w"})).await.expect(200);
}

/// A configuration file with pools `filed` and `both`.
fn file(config: &mut Config) {
    config.policy.pools = vec![pool("filed", &["f"]), pool("both", &["x", "y"])];
}

#[tokio::test]
async fn pools_set_at_run_time_persist_and_those_of_the_file_follow_the_file() {
    let redis = Arc::new(TestRedis::start());
    let app = TestApp::start_on(Arc::clone(&redis), Clock::System, file).await;
    app.client.delete(&format!("{POOLS}/filed")).await.expect(409);
    put(&app, "both", &json!({"queues": ["z"]})).await.expect(200);
    put(&app, "added", &json!({"queues": ["n"]})).await.expect(201);
    let source = async |app: &TestApp, name: &str| {
        let shown = app.client.get(&format!("{POOLS}/{name}")).await;
        (shown.status, shown.at("/source").clone(), shown.at("/queues").clone())
    };
    assert_eq!(source(&app, "filed").await, (200, json!("file"), json!(["f"])));
    app.app.shut_down().await;

    let app = TestApp::start_on(Arc::clone(&redis), Clock::System, |config| {
        config.policy.pools =
            vec![Pool { strategy: Strategy::Strict, ..pool("filed", &["f", "g"]) }, pool("both", &["x"])];
    })
    .await;
    assert_eq!(source(&app, "filed").await, (200, json!("file"), json!(["f", "g"])), "as the file says now");
    assert_eq!(source(&app, "both").await, (200, json!("api"), json!(["z"])));
    assert_eq!(source(&app, "added").await, (200, json!("api"), json!(["n"])));
    let restored = app.client.delete(&format!("{POOLS}/both")).await.expect(200);
    assert_eq!(restored.at("/holds"), "file");
    assert_eq!(source(&app, "both").await, (200, json!("file"), json!(["x"])));
    app.app.shut_down().await;

    let app = TestApp::start_on(redis, Clock::System, |_| {}).await;
    assert_eq!(source(&app, "filed").await.0, 404, "the file's setting is removed as well");
    assert_eq!(source(&app, "added").await.0, 200);
}

#[tokio::test]
async fn processes_see_each_others_changes_and_an_emptied_redis_gets_the_files_pools() {
    let redis = Arc::new(TestRedis::start());
    let one = TestApp::start_on(Arc::clone(&redis), Clock::System, file).await;
    let other = TestApp::start_on(Arc::clone(&redis), Clock::System, file).await;
    put(&one, "added", &json!({"queues": ["n"], "strategy": "strict"})).await.expect(201);
    eventually("the other process knows the pool", async || {
        other.client.get(&format!("{POOLS}/added")).await.at("/strategy") == "strict"
    })
    .await;
    other.client.delete(&format!("{POOLS}/added")).await.expect(200);
    eventually("the first process forgets it", async || one.client.get(&format!("{POOLS}/added")).await.status == 404)
        .await;
    put(&one, "lost", &json!({"queues": ["n"]})).await.expect(201);
    let () = redis.command(&["FLUSHALL"]).await;
    for app in [&one, &other] {
        eventually("the file's pools are back, and only they", async || {
            let names = app.client.get(POOLS).await;
            names.at("/items/0/name") == "filed"
                && names.at("/items/1/name") == "both"
                && names.at("/items/2").is_null()
        })
        .await;
    }
    fill(&one, &["f"], 1).await;
    assert_eq!(order(&other, json!({"pool": "filed", "worker_id": "w"})).await, "f");
}

#[tokio::test]
async fn of_two_processes_that_add_the_same_pool_one_gets_a_conflict() {
    let redis = Arc::new(TestRedis::start());
    let one = TestApp::start_on(Arc::clone(&redis), Clock::System, |_| {}).await;
    let other = Process::serve(&["--redis", &redis.url()]).await;
    for round in 0..5 {
        let body = |queue: &str| json!({"name": format!("p{round}"), "queues": [queue]});
        let (first, second) = tokio::join!(one.client.post(POOLS, body("a")), other.client.post(POOLS, body("b")));
        let mut statuses = [first.status, second.status];
        statuses.sort_unstable();
        assert_eq!(statuses, [201, 409], "{}\n{}", first.text, second.text);
    }
}
