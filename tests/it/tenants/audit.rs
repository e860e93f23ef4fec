//! Wrong counts of tenants are found and repaired.

use super::{job, later, start, start_with};
use fairgate::store::AuditMode;

#[tokio::test]
async fn wrong_counts_are_found_and_repaired() {
    let app = start(&[]).await;
    app.push(job("a")).await.expect(201);
    app.push(job("b")).await.expect(201);
    app.push(later("b")).await.expect(201);
    app.fetch_for("a", 1).await;
    app.assert_consistent().await;
    app.redis.command::<()>(&["HSET", "fg:{default}:tenants", "b", "0 5 0 0 0"]).await;
    app.redis.command::<()>(&["HSET", "fg:{default}:tenants", "ghost", "0 0 0 0 3"]).await;
    let found = app.store().audit(AuditMode::Repair, 5000, async || ()).await.unwrap().differences;
    let names: Vec<&str> = found.iter().map(|difference| difference.name.as_str()).collect();
    assert_eq!(names, ["b available", "b scheduled", "ghost active", "*"], "{found:?}");
    app.assert_consistent().await;
    let b = app.jobs_of("b").await;
    assert_eq!((b.available, b.scheduled, app.jobs_of("ghost").await.total()), (1, 1, 0));
}

#[tokio::test]
async fn staged_jobs_that_were_not_counted_are_found() {
    let app = start_with(&[], |config| config.plan = vec![fairgate::domain::plan::Rule::new("r", &["t.job"])]).await;
    app.client.post("/v1/admin/planner/r/pause", crate::support::json!({})).await.expect(200);
    for priority in [0, 7] {
        let mut job = job("a");
        job["options"] = crate::support::json!({"priority": priority});
        app.push(job).await.expect(201);
    }
    app.assert_consistent().await;
    app.redis.command::<()>(&["HSET", "fg:{default}:tenants", "a", "0 1 0 0 0"]).await;
    let found = app.store().audit(AuditMode::Repair, 5000, async || ()).await.unwrap().differences;
    let names: Vec<&str> = found.iter().map(|difference| difference.name.as_str()).collect();
    assert_eq!(names, ["a available", "*"], "{found:?}");
    assert_eq!(app.jobs_of("a").await.pending, 2);
    app.assert_consistent().await;
}
