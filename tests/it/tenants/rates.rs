//! Enqueue rates of tenants.

use super::{job, start};
use crate::support::json;
use fairgate::domain::limit::Window;
use fairgate::domain::tenant::TenantLimits;

fn rate(limit: u32, period: u64) -> TenantLimits {
    TenantLimits { max_enqueue_rate: Some(Window { limit, period }), ..TenantLimits::default() }
}

#[tokio::test]
async fn no_window_holds_more_than_the_limit() {
    let app = start(&[("a", rate(3, 60_000))]).await;
    let mut accepted: Vec<i64> = Vec::new();
    for step in 0..300 {
        let answer = app.push(job("a")).await;
        match answer.status {
            201 => accepted.push(step * 1000),
            429 => assert_eq!(answer.at("/error/limit"), "max_enqueue_rate"),
            other => panic!("{other}"),
        }
        app.clock.advance(1000);
    }
    assert!(accepted.len() >= 12, "{accepted:?}");
    for (place, end) in accepted.iter().enumerate() {
        let within = accepted[..=place].iter().filter(|at| end - **at < 60_000).count();
        assert!(within <= 3, "{accepted:?}");
    }
}

#[tokio::test]
async fn retry_after_is_the_time_until_a_slot_is_free() {
    let app = start(&[("a", rate(2, 60_000))]).await;
    app.push(job("a")).await.expect(201);
    app.clock.advance(20_000);
    app.push(job("a")).await.expect(201);
    app.clock.advance(5_000);
    let refused = app.push(job("a")).await.expect(429);
    assert_eq!(refused.header("retry-after"), "35");
    assert_eq!((refused.at("/error/current"), refused.at("/error/maximum")), (&json!(2), &json!(2)));
    let two = json!({"jobs": [job("a"), job("a")]});
    let refused = app.client.post("/v1/jobs/batch", two.clone()).await.expect(429);
    assert_eq!((refused.header("retry-after"), refused.at("/error/details/index")), ("35", &json!(0)));
    app.clock.advance(35_000);
    let refused = app.client.post("/v1/jobs/batch", two.clone()).await.expect(429);
    assert_eq!((refused.header("retry-after"), refused.at("/error/details/index")), ("20", &json!(1)));
    app.clock.advance(20_000);
    app.client.post("/v1/jobs/batch", two).await.expect(201);
}

#[tokio::test]
async fn refused_jobs_do_not_count_and_windows_expire() {
    let app = start(&[("a", rate(1, 1000))]).await;
    app.push(job("a")).await.expect(201);
    for _ in 0..20 {
        app.push(job("a")).await.expect(429);
    }
    app.clock.advance(1000);
    app.push(job("a")).await.expect(201);
    let stats = app.client.get("/v1/admin/tenants/a/stats").await.expect(200);
    assert_eq!(stats.at("/limits/max_enqueue_rate"), &json!({"limit": 1, "current": 1, "period": "PT1S"}));
    app.clock.advance(3_600_000);
    app.store().retain().await.unwrap();
    assert_eq!(app.redis.keys_with("enqueues").await, Vec::<String>::new(), "expired entries are removed");
}

#[tokio::test]
async fn retry_after_of_a_full_queue_follows_its_drain_rate() {
    let limits = TenantLimits { max_queue_depth: Some(100), ..TenantLimits::default() };
    let app = start(&[("a", limits)]).await;
    let batch = |jobs: usize| json!({"jobs": vec![job("a"); jobs]});
    app.client.post("/v1/jobs/batch", batch(100)).await.expect(201);
    for _ in 0..3 {
        // Five per second leave the window.
        app.clock.advance(10_000);
        assert_eq!(app.fetch_for("a", 50).await.len(), 50);
        app.client.post("/v1/jobs/batch", batch(50)).await.expect(201);
    }
    let few = app.client.post("/v1/jobs/batch", batch(5)).await.expect(429);
    let many = app.client.post("/v1/jobs/batch", batch(100)).await.expect(429);
    let seconds = |answer: &crate::support::Answer| answer.header("retry-after").parse::<u32>().unwrap();
    assert_eq!((seconds(&few), seconds(&many)), (1, 1), "for the first job over the limit");
    assert_eq!((few.at("/error/details/index"), many.at("/error/details/index")), (&json!(0), &json!(0)));
}
