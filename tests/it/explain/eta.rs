//! Estimates in injected time: workers fetch at a steady rate, and the starts of jobs are compared with the estimates.

use super::*;
use crate::support::Random;
use fairgate::domain::tenant::Weight;
use fairgate::store::{Begun, Why};
use std::collections::HashMap;

/// Estimates of starts, in milliseconds since the epoch.
struct Estimates {
    path: &'static str,
    made_at: i64,
    starts_at: HashMap<String, i64>,
}

impl Estimates {
    /// Asks for the estimate of some jobs.
    async fn of(path: &'static str, app: &TestApp, ids: &[String]) -> Estimates {
        let (made_at, mut starts_at) = (app.clock.now_ms(), HashMap::new());
        for id in ids {
            let shown = explain(&app.client, id).await;
            let seconds = shown.at("/eta/seconds").as_f64().unwrap_or_else(|| panic!("no estimate: {}", shown.text));
            assert!(!shown.text_at("/eta/basis").is_empty());
            starts_at.insert(id.clone(), made_at + (seconds * 1e3) as i64);
        }
        Estimates { path, made_at, starts_at }
    }

    /// Compares them with the times at which the jobs started: the median error is below a fifth of the wait.
    fn compare(&self, started: &HashMap<String, i64>) {
        let mut errors: Vec<f64> = self
            .starts_at
            .iter()
            .map(|(id, estimate)| {
                let start = started.get(id).unwrap_or_else(|| panic!("{id} did not start"));
                (estimate - start).abs() as f64 / (start - self.made_at).max(1) as f64
            })
            .collect();
        errors.sort_by(f64::total_cmp);
        let (median, worst) = (errors[errors.len() / 2], errors[errors.len() - 1]);
        println!(
            "{}: {} jobs, median error {:.1} %, worst {:.1} %",
            self.path,
            errors.len(),
            median * 1e2,
            worst * 1e2
        );
        assert!(median < 0.2, "{}: {errors:?}", self.path);
    }
}

/// Advances the clock and lets a worker take up to `count` jobs of queue `q`, which are done at once.
async fn step(app: &TestApp, ms: i64, count: usize, started: &mut HashMap<String, i64>) {
    app.advance(ms).await;
    for id in app.client.fetch("q", count).await.job_ids() {
        app.client.ack(&id).await.expect(200);
        started.insert(id, app.clock.now_ms());
    }
}

/// Chooses some of the jobs that have not started.
fn sample(ids: &[String], started: &HashMap<String, i64>, random: &mut Random, most: usize) -> Vec<String> {
    let mut left: Vec<String> = ids.iter().filter(|id| !started.contains_key(*id)).cloned().collect();
    while left.len() > most {
        left.swap_remove(random.below(left.len()));
    }
    left
}

#[tokio::test]
async fn jobs_in_a_queue_start_when_it_was_estimated() {
    let (app, mut random, mut started) = (start(|_| {}).await, Random(1), HashMap::new());
    let ids = app.enqueue_all(vec![plain("q", "acme"); 250]).await;
    for _ in 0..40 {
        step(&app, 300, 1, &mut started).await;
    }
    let estimates = Estimates::of("own queue", &app, &sample(&ids, &started, &mut random, 40)).await;
    while started.len() < ids.len() {
        step(&app, 300, 1, &mut started).await;
    }
    estimates.compare(&started);
}

#[tokio::test]
async fn staged_jobs_start_when_it_was_estimated() {
    let mut rule = Rule::new("r", &["t.*"]);
    (rule.queue, rule.planner_lock_ttl) = (Some("q".to_owned()), 600_000);
    for (tenant, weight) in [("big", 3.0), ("small", 0.5)] {
        rule.weights.fixed.insert(tenant.to_owned(), Weight::of(weight).expect("a weight"));
    }
    let plan = vec![rule.clone()];
    let app = start(|config| config.plan = plan).await;
    let (mut random, mut started) = (Random(2), HashMap::new());
    app.store().pause_rule("r", true, "test").await.expect("a reply");
    let jobs = ["big", "small", "a", "b", "c"].iter().flat_map(|tenant| vec![job(tenant); 50]);
    let ids = app.enqueue_all(jobs.collect()).await;
    app.store().pause_rule("r", false, "test").await.expect("a reply");
    // A process plans the rule: it keeps about eight jobs in the main queue.
    let begun = app.store().begin_round(&rule, "planner", Why::Run, None).await.expect("a reply");
    let Begun::Round(round) = begun else { panic!("no round: {begun:?}") };
    app.store().promote("r", &round.token, "q", 8).await.expect("a reply");
    let work = async |started: &mut HashMap<String, i64>| {
        app.store().promote("r", &round.token, "q", 1).await.expect("a reply");
        step(&app, 400, 1, started).await;
    };
    for _ in 0..60 {
        work(&mut started).await;
    }
    let estimates = Estimates::of("staging to own queue", &app, &sample(&ids, &started, &mut random, 40)).await;
    while started.len() < ids.len() {
        work(&mut started).await;
    }
    estimates.compare(&started);
}

#[tokio::test]
async fn rate_limited_jobs_start_when_it_was_estimated() {
    let (app, mut random, mut started) = (start(|_| {}).await, Random(3), HashMap::new());
    let mut limited = plain("q", "acme");
    limited["options"]["rate_limit"] = json!({"key": "mail", "rate": {"limit": 4, "period": "PT10S"}});
    let ids = app.enqueue_all(vec![limited; 60]).await;
    for _ in 0..30 {
        step(&app, 700, 3, &mut started).await;
    }
    let estimates = Estimates::of("rate limited", &app, &sample(&ids, &started, &mut random, 25)).await;
    while started.len() < ids.len() {
        step(&app, 700, 3, &mut started).await;
    }
    estimates.compare(&started);
}

#[tokio::test]
async fn scheduled_and_retried_jobs_start_when_it_was_estimated() {
    let (app, mut random, mut started) = (start(|_| {}).await, Random(4), HashMap::new());
    let mut ids = Vec::new();
    for _ in 0..20 {
        let mut job = plain("q", "acme");
        job["options"]["scheduled_at"] = json!(format!("+PT{}S", 20 + random.below(100)));
        ids.push(app.client.enqueue(job).await);
        let retry = json!({"initial_interval": format!("PT{}S", 20 + random.below(100)), "jitter": false});
        let failed = app.client.enqueue(json!({"type": "a.b", "args": [], "queue": "q", "retry": retry})).await;
        assert_eq!(app.client.fetch("q", 1).await.job_ids(), [&*failed]);
        app.client.nack(&failed).await.expect(200);
        ids.push(failed);
    }
    let estimates = Estimates::of("scheduled or retried", &app, &ids).await;
    while started.len() < ids.len() {
        step(&app, 500, 1, &mut started).await;
    }
    estimates.compare(&started);
}
