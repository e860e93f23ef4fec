//! Explanations against reality: random jobs wait for random reasons. The test removes exactly the obstacle that the
//! explanation names, with nothing but what the explanation says, until the job starts.

use super::*;
use crate::support::Random;
use fairgate::domain::tenant::{TenantLimits, TenantRule, TenantSettings};

const JOBS: usize = 1000;
const TASKS: usize = 4;
/// More steps than a job has obstacles.
const MOST_STEPS: usize = 16;

/// A server with pools, tenants and a rule to choose from. It does nothing in the background.
async fn world() -> TestApp {
    let mut rule = Rule::new("r", &["t.*"]);
    rule.max_depth = 3;
    let app = start(|config| {
        let limits = TenantLimits { max_concurrency: Some(1), ..TenantLimits::default() };
        let terms = TenantSettings { limits, ..TenantSettings::default() };
        (config.plan, config.tenant) = (vec![rule], vec![TenantRule { id: "cap-*".to_owned(), terms }]);
    })
    .await;
    for pool in 0..4 {
        let queues: Vec<String> = (0..JOBS / TASKS).map(|number| format!("pool{pool}-{number}")).take(60).collect();
        put(&app, &format!("/v1/admin/pools/p{pool}"), json!({"queues": queues, "concurrency": 1})).await.expect(201);
    }
    app
}

/// Changes the weights of the rule.
async fn weigh(app: &TestApp, weights: Value) {
    let rule = json!({"types": ["t.*"], "max_depth": 3, "weights": {"static": weights}});
    put(app, "/v1/admin/planner/r", rule).await.expect(200);
}

/// A job and the obstacles that were put in its way.
struct Target {
    id: String,
    queue: String,
    pool: Option<String>,
    obstacles: Vec<&'static str>,
    /// Other staged jobs, which no process promotes.
    rivals: Vec<String>,
}

impl Target {
    async fn fetch(&self, app: &TestApp, count: usize) -> Vec<String> {
        let mut body = json!({"queues": [self.queue], "count": count, "worker_id": format!("w-{}", self.queue)});
        if let Some(pool) = &self.pool {
            body["pool"] = json!(pool);
        }
        app.client.post("/v1/workers/fetch", body).await.expect(200).job_ids()
    }
}

/// Creates a job with random obstacles in one of fairgate's own queues.
async fn queued(app: &TestApp, random: &mut Random, number: usize) -> Target {
    let mut obstacles = Vec::new();
    let mut wants = |name: &'static str, one_in: usize| {
        let is_wanted = random.below(one_in) == 0;
        obstacles.extend(is_wanted.then_some(name));
        is_wanted
    };
    let (pooled, capped, limited) = (wants("pool", 3), wants("tenant", 3), wants("limit", 3));
    let (rated, paused, behind) = (wants("rate", 4), wants("pause", 3), wants("behind", 3));
    let (later, pending) = (wants("schedule", 5), wants("pending", 8));
    let (pool, place) = (random.below(4), random.below(60));
    let queue = if pooled { format!("pool{pool}-{place}") } else { format!("q{number}") };
    let tenant = format!("{}-{number}", if capped { "cap" } else { "free" });
    let mut target = plain(&queue, &tenant);
    let other = |queue: &str, tenant: &str, limit: Value| {
        let mut job = plain(queue, tenant);
        job["options"]["rate_limit"] = limit;
        job
    };
    let mut holders = Vec::new();
    let key = json!({"key": format!("k{number}"), "concurrency": 1});
    if limited {
        target["options"]["rate_limit"] = key.clone();
        holders.push(other(&format!("h{number}"), "else", key));
    } else if rated {
        let key = json!({"key": format!("k{number}"), "rate": {"limit": 1, "period": "PT1M"}});
        target["options"]["rate_limit"] = key.clone();
        holders.push(other(&format!("h{number}"), "else", key));
    }
    if capped {
        holders.push(plain(&format!("h{number}"), &tenant));
    }
    for holder in holders {
        app.client.enqueue(holder).await;
    }
    app.client.fetch(&format!("h{number}"), 9).await;
    if pooled {
        let holder = format!("pool{pool}-{}", (place + 1) % 60);
        app.client.enqueue_into(&holder).await;
        let body = json!({"queues": [holder], "pool": format!("p{pool}"), "worker_id": format!("w-{holder}")});
        assert_eq!(app.client.post("/v1/workers/fetch", body).await.expect(200).job_ids().len(), 1);
    }
    if behind {
        for _ in 0..1 + random.below(3) {
            app.client.enqueue_into(&queue).await;
        }
    }
    if later {
        target["options"]["scheduled_at"] = json!(format!("+PT{}S", 1 + random.below(100)));
    } else if pending {
        target["options"]["pending"] = json!(true);
    }
    let id = app.client.enqueue(target).await;
    if paused {
        app.client.post(&format!("/v1/queues/{queue}/pause"), json!({})).await.expect(200);
    }
    Target { id, queue, pool: pooled.then(|| format!("p{pool}")), obstacles, rivals: Vec::new() }
}

/// Creates a job that failed and waits for its next attempt.
async fn retried(app: &TestApp, random: &mut Random, number: usize) -> Target {
    let queue = format!("q{number}");
    let retry = json!({"initial_interval": format!("PT{}S", 1 + random.below(50)), "jitter": false});
    let id = app.client.enqueue(json!({"type": "a.b", "args": [], "queue": queue, "retry": retry})).await;
    app.client.fetch(&queue, 1).await;
    app.client.nack(&id).await.expect(200);
    Target { id, queue, pool: None, obstacles: vec!["retry"], rivals: Vec::new() }
}

/// Creates a staged job with random obstacles.
async fn staged(app: &TestApp, random: &mut Random, number: usize) -> Target {
    let (queue, tenant) = (format!("s{number}"), format!("staged-{number}"));
    let (mut obstacles, mut rivals) = (vec!["rule_paused"], Vec::new());
    if random.below(3) == 0 {
        obstacles.push("held");
        weigh(app, json!({(tenant.clone()): 0})).await;
    }
    if random.below(2) == 0 {
        obstacles.push("gate");
        for _ in 0..3 + random.below(3) {
            app.client.enqueue_into(&queue).await;
        }
    }
    app.client.post("/v1/admin/planner/r/pause", json!({})).await.expect(200);
    let job =
        |tenant: &str| json!({"type": "t.job", "args": [], "options": {"queue": queue}, "meta": {"tenant_id": tenant}});
    if random.below(2) == 0 {
        obstacles.push("turn");
        for other in 0..random.below(4) {
            rivals.push(app.client.enqueue(job(&format!("rival-{other}"))).await);
        }
        rivals.push(app.client.enqueue(job(&tenant)).await);
    }
    let id = app.client.enqueue(job(&tenant)).await;
    if random.below(2) == 0 {
        app.client.post("/v1/admin/planner/r/resume", json!({})).await.expect(200);
    }
    if random.below(4) == 0 {
        obstacles.push("pause");
        app.client.post(&format!("/v1/queues/{queue}/pause"), json!({})).await.expect(200);
    }
    Target { id, queue, pool: None, obstacles, rivals }
}

/// Removes the obstacle that an explanation names. Returns true if the job is active then.
async fn release(app: &TestApp, target: &Target, shown: &Answer) -> bool {
    let client = &app.client;
    let name = shown.at("/binding").as_str().unwrap_or_default();
    let binding = if name.is_empty() { Value::Null } else { check(shown, name).clone() };
    let is_staged = shown.at("/position/in") == "staging";
    match name {
        "queue_paused" => {
            client.post(&format!("/v1/queues/{}/resume", target.queue), json!({})).await.expect(200);
        }
        "limit" | "tenant_concurrency" | "pool" => {
            let holder = binding["holders"][0]["job_id"].as_str().expect("a holder");
            client.ack(holder).await.expect(200);
        }
        "schedule" | "retry" | "rate_limit" => {
            let until = binding["until"].as_str().and_then(fairgate::domain::time::At::parse);
            let Some(fairgate::domain::time::At::Absolute(until)) = until else { panic!("no time: {}", shown.text) };
            app.advance(until - app.clock.now_ms()).await;
        }
        "activation" => _ = client.post(&format!("/v1/jobs/{}/activate", target.id), json!({})).await.expect(200),
        "rule_paused" => _ = client.post("/v1/admin/planner/r/resume", json!({})).await.expect(200),
        "tenant_weight" => {
            weigh(app, json!({})).await;
            run_round(app).await;
        }
        "gate" | "fair_turn" | "queue_order" | "workers" => {
            let before = shown.at("/position/jobs_before").as_u64().unwrap_or(0).max(1);
            let jobs = if name == "gate" { binding["figures"]["depth"].as_u64().expect("a depth") } else { before };
            let taken = target.fetch(app, jobs as usize).await;
            for id in taken.iter().filter(|id| **id != target.id) {
                client.ack(id).await.expect(200);
            }
            if is_staged {
                run_round(app).await;
            }
            return taken.contains(&target.id);
        }
        "" if is_staged => run_round(app).await,
        "" => return target.fetch(app, 1).await.contains(&target.id),
        other => panic!("unexpected {other}: {}", shown.text),
    }
    false
}

/// Fails if `waiting_for` names another reason.
async fn agree(app: &TestApp, id: &str, shown: &Answer) {
    let named = app.client.get(&format!("/v1/jobs/{id}")).await.expect(200).at("/waiting_for/reason").clone();
    let binding = shown.at("/binding").as_str().unwrap_or_default();
    let expected = match binding {
        "queue_paused" | "schedule" | "retry" | "activation" if shown.at("/position/in") != "staging" => {
            match binding {
                "schedule" => "scheduled",
                same => same,
            }
        }
        "limit" | "rate_limit" => "rate_limit",
        "tenant_concurrency" => "tenant_limit",
        _ => return,
    };
    assert_eq!(named, expected, "{}", shown.text);
}

/// Removes obstacles until the job starts. Returns the names of those that were named, or an error.
async fn follow(app: &TestApp, target: &Target) -> Result<Vec<String>, String> {
    let mut named: Vec<String> = Vec::new();
    for _ in 0..MOST_STEPS {
        let shown = explain(&app.client, &target.id).await;
        if shown.at("/state") == "active" {
            return Ok(named);
        }
        if named.len().is_multiple_of(2) {
            agree(app, &target.id, &shown).await;
        }
        let name = shown.at("/binding").as_str().unwrap_or("none").to_owned();
        let is_counted = ["fair_turn", "queue_order", "gate", "workers"].contains(&name.as_str());
        if named.last() == Some(&name) && !is_counted && name != "none" {
            return Err(format!("{name} was released and still binds: {}", shown.text));
        }
        // The obstacle is real: a fetch does not get the job. It may take jobs before it.
        if named.len().is_multiple_of(2) && !is_counted && name != "none" {
            let taken = target.fetch(app, 1).await;
            if taken.contains(&target.id) {
                return Err(format!("a fetch got it in spite of {name}: {}", shown.text));
            }
            for id in &taken {
                app.client.ack(id).await.expect(200);
            }
        }
        named.push(name);
        if release(app, target, &shown).await {
            app.client.ack(&target.id).await.expect(200);
            return Ok(named);
        }
    }
    Err(format!("it did not start after {named:?}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn releasing_the_obstacle_that_is_named_moves_a_job_on() {
    let tasks = (0..TASKS as u64).map(|seed| {
        tokio::spawn(async move {
            let (app, mut random) = (world().await, Random(seed + 1));
            let (mut failures, mut counts) = (Vec::new(), std::collections::BTreeMap::<String, usize>::new());
            for number in 0..JOBS / TASKS {
                let target = match random.below(10) {
                    0..6 => queued(&app, &mut random, number).await,
                    6 => retried(&app, &mut random, number).await,
                    _ => staged(&app, &mut random, number).await,
                };
                match follow(&app, &target).await {
                    Ok(named) => named.into_iter().for_each(|name| *counts.entry(name).or_default() += 1),
                    Err(why) => failures.push(format!("seed {seed} job {number} {:?}: {why}", target.obstacles)),
                }
                // The next job finds nothing of this one. Some of the others have ended.
                for id in target.rivals.iter().chain([&target.id]) {
                    app.client.delete(&format!("/v1/jobs/{id}")).await;
                }
                app.client.post("/v1/admin/planner/r/resume", json!({})).await.expect(200);
            }
            app.assert_consistent().await;
            (failures, counts)
        })
    });
    let (mut failures, mut counts) = (Vec::new(), std::collections::BTreeMap::<String, usize>::new());
    for done in futures_util::future::join_all(tasks).await {
        let (failed, counted) = done.expect("no panic");
        failures.extend(failed);
        counted.into_iter().for_each(|(name, times)| *counts.entry(name).or_default() += times);
    }
    println!("{} of {JOBS} jobs moved on; explanations named {counts:?}", JOBS - failures.len());
    assert!(failures.len() * 100 <= JOBS, "{}", failures.join("\n"));
    for name in ["queue_paused", "limit", "rate_limit", "tenant_concurrency", "pool", "schedule", "retry", "activation"]
    {
        assert!(counts.contains_key(name), "{name} was never named: {counts:?}");
    }
    for name in ["rule_paused", "tenant_weight", "gate", "fair_turn", "queue_order"] {
        assert!(counts.contains_key(name), "{name} was never named: {counts:?}");
    }
}
