//! Workflows without a type, whose steps name their dependencies.

use super::*;

fn step(name: &str, needs: &[&str]) -> Value {
    let mut step = job(name);
    step["id"] = name.into();
    step["depends_on"] = json!(needs);
    step
}

fn steps(steps: &[Value]) -> Value {
    json!({"name": "by steps", "steps": steps, "options": {"queue": "q"}})
}

#[tokio::test]
async fn a_sequence_of_steps_is_a_chain() {
    let app = app().await;
    let client = &app.client;
    let mut first = step("a", &[]);
    first.as_object_mut().unwrap().remove("depends_on");
    // Steps may be given in any order.
    let body = steps(&[step("c", &["b"]), first, step("b", &["a"])]);
    let answer = client.post("/v1/workflows", body).await.expect(201);
    assert_eq!(answer.at("/id"), answer.at("/workflow/id"), "some clients read the workflow at top level");
    assert_eq!(answer.text_at("/workflow/type"), "chain");
    let id = answer.text_at("/id").to_owned();
    pass(client, "a").await;
    pass(client, "b").await;
    let last = take(client, "c").await;
    assert_eq!(last["parent_results"], json!(["a", "b"]));
    let shown = show(client, &id).await;
    let describe = |step: &Value| json!([step["id"], step["state"], step["depends_on"], step["result"]]);
    let described: Vec<Value> = shown["steps"].as_array().unwrap().iter().map(describe).collect();
    let expected = json!([["c", "active", ["b"], null], ["a", "completed", [], "a"], ["b", "completed", ["a"], "b"]]);
    assert_eq!(json!(described), expected);
    assert_eq!((&shown["steps_total"], &shown["steps_completed"]), (&json!(3), &json!(2)));
    finish(client, &last, json!(1)).await;
    assert_eq!(state(client, &id).await, "completed");
}

#[tokio::test]
async fn steps_without_dependencies_are_a_group() {
    let app = app().await;
    let client = &app.client;
    let id = begin(client, steps(&[step("a", &[]), step("b", &[])])).await;
    assert_eq!(show(client, &id).await["type"], "group");
    for job in taken(client).await {
        finish(client, &job, json!(1)).await;
    }
    let shown = show(client, &id).await;
    assert_eq!((shown["state"].as_str(), states(&shown)), (Some("completed"), vec!["completed", "completed"]));
}

#[tokio::test]
async fn layers_wait_for_the_whole_layer_before() {
    let app = app().await;
    let client = &app.client;
    // The dependency of d on a is redundant.
    let body = steps(&[step("a", &[]), step("b", &["a"]), step("c", &["a"]), step("d", &["c", "a", "b"])]);
    let id = begin(client, body).await;
    pass(client, "a").await;
    let middle = taken(client).await;
    assert_eq!(names(&middle), ["b", "c"]);
    finish(client, &middle[0], json!("b")).await;
    assert!(taken(client).await.is_empty());
    finish(client, &middle[1], json!("c")).await;
    assert_eq!(take(client, "d").await["parent_results"], json!(["a", ["b", "c"]]));
    let shown = show(client, &id).await;
    assert_eq!(shown["steps"][3]["depends_on"], json!(["b", "c"]));
    client.delete(&format!("/v1/workflows/{id}")).await.expect(200);
}

#[tokio::test]
async fn callbacks_are_known_by_their_names() {
    for names in [["on-complete", "on-success", "on-failure"], ["on_complete", "on_success", "on_failure"]] {
        let app = app().await;
        let client = &app.client;
        let called = |name: &str| {
            let mut called = step(&name.replace('-', "_"), &["a", "b"]);
            called["id"] = name.into();
            called
        };
        let mut jobs = vec![step("a", &[]), step("b", &[])];
        jobs[1]["options"]["retry"] = json!({"max_attempts": 1});
        jobs.extend(names.map(called));
        let id = begin(client, steps(&jobs)).await;
        assert_eq!(show(client, &id).await["type"], "batch");
        let taken_first = taken(client).await;
        finish(client, &taken_first[0], json!(1)).await;
        client.nack(super::id(&taken_first[1])).await.expect(200);
        let called = taken(client).await;
        assert_eq!(super::names(&called), ["on_complete", "on_failure"]);
        for job in called {
            finish(client, &job, json!(1)).await;
        }
        let shown = show(client, &id).await;
        assert_eq!(states(&shown), ["completed", "failed", "completed", "cancelled", "completed"]);
        assert_eq!(shown["state"], "completed");
    }
}
