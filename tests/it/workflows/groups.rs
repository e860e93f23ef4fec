//! Groups: all jobs at once.

use super::*;

#[tokio::test]
async fn all_jobs_are_there_at_once_and_all_must_succeed() {
    let app = app().await;
    let client = &app.client;
    let id = begin(client, group(jobs(&["a", "b", "c"]))).await;
    let mine = taken(client).await;
    assert_eq!(names(&mine), ["a", "b", "c"]);
    for (done, job) in mine.iter().enumerate() {
        let shown = show(client, &id).await;
        assert_eq!((shown["state"].as_str(), &shown["jobs_completed"]), (Some("running"), &json!(done)));
        finish(client, job, json!(done)).await;
    }
    let shown = show(client, &id).await;
    assert_eq!(
        (shown["state"].as_str(), &shown["jobs_completed"], &shown["jobs_total"]),
        (Some("completed"), &json!(3), &json!(3))
    );
    assert_eq!(shown["jobs"][2]["result"], 2);
}

#[tokio::test]
async fn a_failed_job_fails_the_group_when_all_have_ended() {
    let app = app().await;
    let client = &app.client;
    let id = begin(client, group(vec![job("a"), fragile("b"), job("c"), job("d")])).await;
    let mine = taken(client).await;
    client.nack(super::id(&mine[1])).await.expect(200);
    client.delete(&format!("/v1/jobs/{}", super::id(&mine[3]))).await.expect(200);
    assert_eq!(state(client, &id).await, "running");
    finish(client, &mine[0], json!(1)).await;
    finish(client, &mine[2], json!(3)).await;
    let shown = show(client, &id).await;
    assert_eq!(
        (shown["state"].as_str(), states(&shown)),
        (Some("failed"), vec!["completed", "failed", "completed", "cancelled"])
    );
    assert_eq!((&shown["jobs_completed"], &shown["jobs_failed"]), (&json!(2), &json!(2)));
    assert_eq!(shown["failed_job_ids"], json!([mine[1]["id"], mine[3]["id"]]));
}
