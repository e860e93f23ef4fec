//! Plan rules, limits and tenants apply to the jobs of a workflow as to any other job.

use super::*;
use crate::support::eventually;
use fairgate::clock::Clock;
use fairgate::config::Role;
use fairgate::domain::plan::Rule;

fn planned(name: &str) -> Value {
    json!({"type": format!("plan.{name}"), "args": [], "options": {"queue": "q"}})
}

async fn with_rule(change: impl FnOnce(&mut Rule)) -> TestApp {
    let mut rule = Rule::new("plan", &["plan.*"]);
    change(&mut rule);
    TestApp::start_with(Clock::System, |config| {
        config.server.roles = vec![Role::Api];
        config.plan = vec![rule];
    })
    .await
}

/// Jobs staged by the rule `plan`.
async fn staged(app: &TestApp) -> u64 {
    app.store().rule_status("plan", None).await.unwrap().staged
}

#[tokio::test]
async fn planned_steps_are_staged_when_their_turn_comes() {
    let app = with_rule(|_| {}).await;
    let client = &app.client;
    // The main queue is not empty, so nothing passes through.
    client.enqueue_into("q").await;
    let steps = vec![job("a"), planned("b"), group(vec![planned("c"), planned("d")])];
    let id = begin(client, json!({"type": "chain", "steps": steps, "meta": {"tenant_id": "acme"}})).await;
    assert_eq!(staged(&app).await, 0);
    let first = client.fetch("q", 2).await.at("/jobs/1").clone();
    client.enqueue_into("q").await;
    finish(client, &first, json!("a")).await;
    assert_eq!(staged(&app).await, 1);
    let step = show(client, &id).await["steps"][1]["job_id"].as_str().unwrap().to_owned();
    let shown = client.job(&step).await;
    assert_eq!((shown["state"].as_str(), shown["x_staged"].as_bool()), (Some("pending"), Some(true)));
    let tenants = app.store().tenant_names("plan", "q", 0, 10).await.unwrap().1;
    assert_eq!(tenants, ["acme"]);
    // Activated by hand it is done, and both jobs of the group are staged.
    client.send("POST", &format!("/v1/jobs/{step}/activate"), None).await.expect(200);
    let jobs = taken(client).await;
    let job = jobs.iter().find(|job| super::id(job) == step).expect("it can run").clone();
    assert_eq!(job["parent_results"], json!(["a"]));
    client.enqueue_into("q").await;
    finish(client, &job, json!("b")).await;
    assert_eq!(staged(&app).await, 2);
    client.delete(&format!("/v1/workflows/{id}")).await.expect(200);
    assert_eq!(staged(&app).await, 0, "a cancelled workflow leaves staging");
}

#[tokio::test]
async fn a_workflow_whose_first_jobs_exceed_what_may_be_staged_is_refused_whole() {
    let app = with_rule(|rule| rule.max_staged = Some(2)).await;
    app.client.enqueue_into("q").await;
    let before = app.redis.keys_with("").await;
    let body = group(vec![planned("a"), planned("b"), planned("c")]);
    let answer = app.client.post("/v1/workflows", body).await.expect(429);
    assert_eq!(answer.text_at("/error/code"), "QUEUE_FULL");
    assert_eq!(app.redis.keys_with("").await, before, "nothing was stored");
    begin(&app.client, group(vec![planned("a"), planned("b")])).await;
    assert_eq!(staged(&app).await, 2);
}

#[tokio::test]
async fn changed_rules_apply_to_later_steps() {
    let app = with_rule(|_| {}).await;
    let other = TestApp::start_on(app.redis.clone(), Clock::System, |config| {
        config.server.roles = vec![Role::Api];
        config.plan = vec![Rule::new("plan", &["plan.*"])];
    })
    .await;
    let rule = json!({"types": ["more.*"]});
    other.client.send("PUT", "/v1/admin/planner/more", Some(rule.to_string())).await;
    app.client.enqueue_into("q").await;
    let more = json!({"type": "more.a", "args": [], "options": {"queue": "q"}});
    let id = begin(&app.client, group(vec![more])).await;
    let step = show(&app.client, &id).await["jobs"][0]["job_id"].as_str().unwrap().to_owned();
    assert_eq!(app.client.job(&step).await["x_staged"], true);
}

#[tokio::test]
async fn limits_hold_for_steps() {
    let app = app().await;
    let client = &app.client;
    let limited = |name: &str| json!({"type": format!("test.{name}"), "args": [], "options": {"queue": "q", "rate_limit": {"key": "k", "concurrency": 1}}});
    begin(client, chain(vec![job("a"), group(vec![limited("b"), limited("c")])])).await;
    pass(client, "a").await;
    let first = take(client, "b").await;
    assert!(taken(client).await.is_empty(), "the other waits for the slot");
    finish(client, &first, json!(1)).await;
    take(client, "c").await;
}

#[tokio::test]
async fn a_step_that_its_limit_drops_fails_the_workflow() {
    let app = app().await;
    let client = &app.client;
    let dropped = json!({"type": "test.b", "args": [], "options": {"queue": "q",
        "rate_limit": {"key": "k", "concurrency": 0, "on_limit": "drop"}}});
    let id = begin(client, chain(vec![job("a"), dropped, job("c")])).await;
    pass(client, "a").await;
    assert!(taken(client).await.is_empty());
    eventually("the drop is handled", async || state(client, &id).await == "failed").await;
    assert_eq!(states(&show(client, &id).await), ["completed", "failed", "cancelled"]);
}

#[tokio::test]
async fn a_workflow_whose_first_jobs_have_no_room_in_their_queue_is_refused_whole() {
    let app = app().await;
    let client = &app.client;
    let bound = json!({"backpressure": {"max_depth": 2, "strategy": "reject"}});
    client.send("PUT", "/v1/admin/queues/q/config", Some(bound.to_string())).await.expect(200);
    let refused = client.post("/v1/workflows", group(jobs(&["a", "b", "c"]))).await.expect(429);
    assert_eq!(refused.at("/error/details/bound"), &json!(2), "{}", refused.text);
    assert_eq!(app.redis.keys_with("workflow").await, Vec::<String>::new());
    // Later steps were accepted with the workflow and are always stored.
    begin(client, chain(vec![job("a"), group(jobs(&["b", "c", "d"]))])).await;
    pass(client, "a").await;
    assert_eq!(names(&taken(client).await), ["b", "c", "d"]);
}

/// An operation that ends a job without handling workflows records it for the tick.
#[tokio::test]
async fn a_step_that_a_full_queue_drops_fails_the_workflow() {
    let app = app().await;
    let client = &app.client;
    let id = begin(client, chain(jobs(&["a", "b"]))).await;
    let bound = json!({"backpressure": {"max_depth": 1, "strategy": "drop_oldest"}});
    client.send("PUT", "/v1/admin/queues/q/config", Some(bound.to_string())).await.expect(200);
    client.enqueue_into("q").await;
    eventually("the drop is handled", async || state(client, &id).await == "failed").await;
    assert_eq!(app.redis.keys_with("todo").await, Vec::<String>::new());
}
