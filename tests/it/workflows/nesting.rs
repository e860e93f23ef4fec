//! Chains, groups and batches inside each other.

use super::*;

#[tokio::test]
async fn a_group_is_a_step_with_an_array_as_result() {
    let app = app().await;
    let client = &app.client;
    let id = begin(client, chain(vec![job("a"), group(jobs(&["b", "c"])), job("d")])).await;
    pass(client, "a").await;
    let both = taken(client).await;
    assert_eq!(names(&both), ["b", "c"]);
    assert!(both.iter().all(|job| job["parent_results"] == json!(["a"])), "{both:?}");
    // Results are in the order of the jobs, not of their completion.
    finish(client, &both[1], json!("c")).await;
    assert!(taken(client).await.is_empty());
    finish(client, &both[0], json!("b")).await;
    let last = take(client, "d").await;
    assert_eq!(last["parent_results"], json!(["a", ["b", "c"]]));
    finish(client, &last, json!("d")).await;
    let shown = show(client, &id).await;
    assert_eq!(
        (shown["state"].as_str(), &shown["steps_total"], &shown["steps_completed"]),
        (Some("completed"), &json!(3), &json!(3))
    );
    assert_eq!(shown["steps"][1]["jobs_completed"], 2);
    assert_eq!(states(&shown["steps"][1]), ["completed", "completed"]);
    assert_eq!(shown["metadata"]["job_count"], 4);
}

#[tokio::test]
async fn three_levels_pass_results_up_and_down() {
    let app = app().await;
    let client = &app.client;
    let inner = chain(jobs(&["b", "c"]));
    let middle = batch(vec![inner, job("d")], json!({"on_complete": job("e")}));
    let id = begin(client, chain(vec![job("a"), middle, job("f")])).await;
    pass(client, "a").await;
    let two = taken(client).await;
    assert_eq!(names(&two), ["b", "d"]);
    assert!(two.iter().all(|job| job["parent_results"] == json!(["a"])));
    finish(client, &two[0], json!("b")).await;
    finish(client, &two[1], json!("d")).await;
    let after = take(client, "c").await;
    assert_eq!(after["parent_results"], json!(["a", "b"]), "a chain inside a chain goes on with what came before");
    finish(client, &after, json!("c")).await;
    let callback = take(client, "e").await;
    assert_eq!(callback["parent_results"], json!(["c", "d"]), "a chain gives what its last step gave");
    assert_eq!(state(client, &id).await, "running");
    finish(client, &callback, json!("e")).await;
    let last = take(client, "f").await;
    assert_eq!(last["parent_results"], json!(["a", ["c", "d"]]));
    finish(client, &last, json!("f")).await;
    assert_eq!(state(client, &id).await, "completed");
}

#[tokio::test]
async fn an_inner_failure_fails_the_outer_workflow() {
    let app = app().await;
    let client = &app.client;
    let inner = chain(vec![fragile("b"), job("never")]);
    let id = begin(client, chain(vec![job("a"), group(vec![inner, job("c")]), job("later")])).await;
    pass(client, "a").await;
    let two = taken(client).await;
    assert_eq!(names(&two), ["b", "c"]);
    client.nack(super::id(&two[0])).await.expect(200);
    assert_eq!(state(client, &id).await, "running", "the other job of the group goes on");
    finish(client, &two[1], json!("c")).await;
    let shown = show(client, &id).await;
    assert_eq!((shown["state"].as_str(), states(&shown)), (Some("failed"), vec!["completed", "failed", "cancelled"]));
    assert_eq!(states(&shown["steps"][1]), ["failed", "completed"]);
    assert_eq!(states(&shown["steps"][1]["jobs"][0]), ["failed", "cancelled"]);
    assert!(taken(client).await.is_empty());
}
