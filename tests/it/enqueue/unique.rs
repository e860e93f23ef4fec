//! Unique jobs: equality, states, periods, and conflicts.

use crate::support::{Answer, Client, NOON, Process, TestApp, TestRedis, eventually, json};
use futures_util::future::join_all;
use serde_json::Value;

const SECOND: i64 = 1000;

fn job(args: Value, unique: Value) -> Value {
    json!({"type": "u.job", "args": args, "options": {"queue": "q", "unique": unique}})
}

async fn push(client: &Client, job: Value) -> Answer {
    client.post("/v1/jobs", job).await
}

async fn count(client: &Client, state: &str) -> i64 {
    client.get("/v1/queues/q/stats").await.at(&format!("/queue/{state}")).as_i64().unwrap_or(0)
}

#[tokio::test]
async fn a_duplicate_is_rejected_and_names_the_first_job() {
    let app = TestApp::start().await;
    let client = &app.client;
    let first = client.enqueue(job(json!([1]), json!({"keys": ["type", "args"]}))).await;
    let refused = push(client, job(json!([1.0]), json!({"keys": ["args", "type"]}))).await.expect(409);
    assert_eq!(refused.text_at("/error/code"), "duplicate");
    assert_eq!(refused.text_at("/error/details/existing_job_id"), first);
    assert_eq!(refused.text_at("/error/details/existing_job_state"), "available");
    assert_eq!(refused.text_at("/error/details/unique_key").len(), 64);
    push(client, job(json!([2]), json!({"keys": ["type", "args"]}))).await.expect(201);
    assert_eq!(count(client, "available").await, 2);
    assert_eq!(client.job(&first).await["unique"], json!({"keys": ["type", "args"]}));
}

#[tokio::test]
async fn keys_decide_about_equality() {
    let app = TestApp::start().await;
    let full = |queue: &str, args: Value, meta: Value, unique: Value| json!({"type": "u.job", "args": args, "meta": meta, "options": {"queue": queue, "unique": unique}});
    for (index, (unique, one, other, same)) in [
        (json!({}), ("a", json!([1]), json!({})), ("b", json!([2]), json!({"x": 1})), true),
        (json!({"keys": ["queue"]}), ("c", json!([]), json!({})), ("d", json!([]), json!({})), false),
        (
            json!({"args_keys": ["id"]}),
            ("e", json!([{"id": 1, "n": 1}]), json!({})),
            ("e", json!([0, {"id": 1, "n": 2}]), json!({})),
            true,
        ),
        (
            json!({"args_keys": ["id"]}),
            ("f", json!([{"id": 11}]), json!({})),
            ("f", json!([{"id": 12}]), json!({})),
            false,
        ),
        (
            json!({"keys": ["meta"], "meta_keys": ["m"]}),
            ("g", json!([1]), json!({"m": 1})),
            ("g", json!([2]), json!({"m": 1, "n": 2})),
            true,
        ),
        (
            json!({"keys": ["meta"], "meta_keys": ["m"]}),
            ("h", json!([]), json!({"m": 5})),
            ("h", json!([]), json!({"m": 6})),
            false,
        ),
        (
            json!({"keys": ["args"]}),
            ("i", json!(["x"]), json!({"tenant_id": "a"})),
            ("i", json!(["x"]), json!({"tenant_id": "b"})),
            false,
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let text = format!("row {index}: {unique}");
        let sent = |(queue, args, meta): (&str, Value, Value)| {
            let mut job = full(queue, args, meta, unique.clone());
            job["type"] = format!("u.row{index}").into();
            job
        };
        push(&app.client, sent(one)).await.expect(201);
        assert_eq!(push(&app.client, sent(other)).await.status, if same { 409 } else { 201 }, "{text}");
    }
}

#[tokio::test]
async fn a_job_counts_in_the_states_that_the_new_one_names() {
    let all = ["available", "active", "scheduled", "retryable", "pending", "completed", "cancelled", "discarded"];
    for state in all {
        let app = TestApp::start_at(NOON).await;
        let client = &app.client;
        let mut first = job(json!([]), json!({"states": [state], "keys": ["type"]}));
        match state {
            "scheduled" => first["options"]["scheduled_at"] = "+PT1H".into(),
            "pending" => first["options"]["pending"] = true.into(),
            _ => {}
        }
        let id = client.enqueue(first).await;
        if !["available", "scheduled", "pending", "cancelled"].contains(&state) {
            client.fetch("q", 1).await;
        }
        match state {
            "completed" => _ = client.ack(&id).await.expect(200),
            "retryable" => _ = client.nack(&id).await.expect(200),
            "cancelled" => _ = client.delete(&format!("/v1/jobs/{id}")).await.expect(200),
            "discarded" => {
                let fatal = json!({"job_id": id, "error": {"message": "no", "retryable": false}});
                client.post("/v1/workers/nack", fatal).await.expect(200);
            }
            _ => {}
        }
        assert_eq!(client.state(&id).await, state);
        let others: Vec<&str> = all.into_iter().filter(|other| *other != state).collect();
        push(client, job(json!([]), json!({"states": [state]}))).await.expect(409);
        push(client, job(json!([]), json!({"states": others}))).await.expect(201);
    }
}

#[tokio::test]
async fn by_default_a_finished_job_is_no_conflict_and_leaves_nothing_behind() {
    let app = TestApp::start().await;
    let client = &app.client;
    for _ in 0..3 {
        let id = client.enqueue(job(json!([]), json!({}))).await;
        push(client, job(json!([]), json!({}))).await.expect(409);
        client.fetch("q", 1).await;
        push(client, job(json!([]), json!({}))).await.expect(409);
        client.ack(&id).await.expect(200);
    }
    assert_eq!(app.redis.keys_with("unique:").await, Vec::<String>::new());
    // A final job that still counts is forgotten when its record is removed.
    let id = client.enqueue(job(json!([]), json!({"states": ["completed"]}))).await;
    client.fetch("q", 1).await;
    client.ack(&id).await.expect(200);
    let key = app.redis.keys_with("unique:").await.pop().expect("it counts");
    assert!(app.redis.command::<i64>(&["PTTL", &key]).await > 0);
    push(client, job(json!([]), json!({"states": ["completed"]}))).await.expect(409);
}

#[tokio::test]
async fn a_period_ends_although_the_first_still_waits() {
    let app = TestApp::start_at(NOON).await;
    let client = &app.client;
    let unique = json!({"period": "PT2S"});
    client.enqueue(job(json!([]), unique.clone())).await;
    app.clock.advance(2 * SECOND - 1);
    push(client, job(json!([]), unique.clone())).await.expect(409);
    app.clock.advance(1);
    let second = client.enqueue(job(json!([]), unique.clone())).await;
    let refused = push(client, job(json!([]), unique)).await.expect(409);
    assert_eq!(refused.text_at("/error/details/existing_job_id"), second);
    // A job without a period conflicts with both; the first still conflicts when the second is gone.
    client.delete(&format!("/v1/jobs/{second}")).await.expect(200);
    push(client, job(json!([]), json!({}))).await.expect(409);
}

#[tokio::test]
async fn ignore_returns_the_existing_job() {
    let app = TestApp::start().await;
    let client = &app.client;
    let ignore = json!({"on_conflict": "ignore"});
    let first = client.enqueue(job(json!(["first"]), ignore.clone())).await;
    client.fetch("q", 1).await;
    for name in ["ignore", "use_existing"] {
        let answer = push(client, job(json!(["second"]), json!({"on_conflict": name}))).await.expect(200);
        assert_eq!(answer.at("/deduplicated"), &json!(true));
        assert_eq!((answer.text_at("/job/id"), answer.text_at("/job/state")), (first.as_str(), "active"));
        assert_eq!(answer.at("/job/args"), &json!(["first"]));
    }
    let batch = json!({"jobs": [job(json!([]), ignore.clone()), {"type": "other.job", "args": [], "queue": "q"}, job(json!([]), ignore)]});
    let answer = client.post("/v1/jobs/batch", batch).await.expect(201);
    assert_eq!(answer.at("/deduplicated"), &json!([0, 2]));
    assert_eq!((&answer.job_ids()[0], &answer.job_ids()[2]), (&first, &first));
    assert_eq!(count(client, "available").await, 1);
}

#[tokio::test]
async fn a_replaced_job_is_cancelled_wherever_it_was() {
    let app = TestApp::start_at(NOON).await;
    let client = &app.client;
    let replace = json!({"on_conflict": "replace"});
    let mut previous = client.enqueue(job(json!([0]), replace.clone())).await;
    for (number, how) in ["available", "active", "scheduled", "pending", "retryable"].into_iter().enumerate() {
        let mut next = job(json!([number + 1]), replace.clone());
        match how {
            "scheduled" => next["options"]["scheduled_at"] = "+PT1H".into(),
            "pending" => next["options"]["pending"] = true.into(),
            _ => {}
        }
        let id = client.enqueue(next).await;
        assert_eq!(client.state(&previous).await, "cancelled", "before {how}");
        match how {
            "active" => assert_eq!(client.fetch("q", 9).await.job_ids(), [id.as_str()]),
            "retryable" => {
                client.fetch("q", 9).await;
                client.nack(&id).await.expect(200);
            }
            _ => {}
        }
        assert_eq!(client.state(&id).await, how);
        previous = id;
    }
    let last = client.enqueue(job(json!(["last"]), replace)).await;
    assert_eq!(client.state(&previous).await, "cancelled");
    app.clock.advance(2 * 3600 * SECOND);
    assert_eq!(client.fetch("q", 9).await.job_ids(), [last], "the other jobs are in no queue");
    assert_eq!(count(client, "cancelled").await, 6);
}

#[tokio::test]
async fn replace_except_schedule_keeps_the_time() {
    let app = TestApp::start_at(NOON).await;
    let client = &app.client;
    let keep = json!({"on_conflict": "replace_except_schedule"});
    let mut first = job(json!([1]), keep.clone());
    first["options"]["scheduled_at"] = "2027-01-15T09:00:00Z".into();
    let first = client.enqueue(first).await;
    let mut second = job(json!([2]), keep.clone());
    second["options"]["scheduled_at"] = "2028-01-01T00:00:00Z".into();
    let answer = push(client, second).await.expect(201);
    assert_eq!(
        (answer.text_at("/job/state"), answer.text_at("/job/scheduled_at")),
        ("scheduled", "2027-01-15T09:00:00.000Z")
    );
    assert_eq!(client.state(&first).await, "cancelled");
    // The same for a job without its own time.
    let third = push(client, job(json!([3]), keep.clone())).await.expect(201);
    assert_eq!(third.text_at("/job/scheduled_at"), "2027-01-15T09:00:00.000Z");
    assert_eq!(client.job(third.text_at("/job/id")).await["scheduled_at"], "2027-01-15T09:00:00.000Z");
    app.clock.advance(3600 * SECOND);
    assert_eq!(client.fetch("q", 9).await.job_ids(), [third.text_at("/job/id")]);
    // An active job has no scheduled time to take over.
    let fourth = push(client, job(json!([4]), keep)).await.expect(201);
    assert_eq!((fourth.text_at("/job/state"), fourth.at("/job/scheduled_at")), ("available", &Value::Null));
}

#[tokio::test]
async fn a_batch_with_one_duplicate_is_rejected_as_a_whole() {
    let app = TestApp::start().await;
    let client = &app.client;
    let by_args = json!({"keys": ["args"]});
    let first = client.enqueue(job(json!([1]), by_args.clone())).await;
    let batch =
        |numbers: &[i64]| json!({"jobs": numbers.iter().map(|n| job(json!([n]), by_args.clone())).collect::<Vec<_>>()});
    let refused = client.post("/v1/jobs/batch", batch(&[2, 3, 1])).await.expect(409);
    assert_eq!(
        (refused.at("/error/details/index"), refused.text_at("/error/details/existing_job_id")),
        (&json!(2), first.as_str())
    );
    let refused = client.post("/v1/jobs/batch", batch(&[2, 3, 2])).await.expect(409);
    assert_eq!(refused.at("/error/details/index"), &json!(2), "also of one in the same batch");
    assert_eq!(count(client, "available").await, 1);
    client.post("/v1/jobs/batch", batch(&[2, 3, 4])).await.expect(201);
    assert_eq!(count(client, "available").await, 4);
}

#[tokio::test]
async fn of_many_at_once_one_is_stored() {
    let app = TestApp::start().await;
    for round in 0..5 {
        let sent = (0..64).map(|_| push(&app.client, job(json!([round]), json!({"keys": ["args"]}))));
        let statuses: Vec<u16> = join_all(sent).await.into_iter().map(|answer| answer.status).collect();
        assert_eq!(statuses.iter().filter(|status| **status == 201).count(), 1, "{statuses:?}");
        assert!(statuses.iter().all(|status| [201, 409].contains(status)));
    }
    assert_eq!(count(&app.client, "available").await, 5);
}

#[tokio::test]
async fn a_retried_dead_letter_counts_again() {
    let app = TestApp::start().await;
    let client = &app.client;
    let mut dead = job(json!([]), json!({}));
    dead["options"]["retry"] = json!({"max_attempts": 1, "on_exhaustion": "dead_letter"});
    let id = client.enqueue(dead.clone()).await;
    client.fetch("q", 1).await;
    client.nack(&id).await.expect(200);
    let other = client.enqueue(dead.clone()).await;
    client.delete(&format!("/v1/jobs/{other}")).await.expect(200);
    client.post(&format!("/v1/dead-letter/{id}/retry"), json!({})).await.expect(200);
    let refused = push(client, dead).await.expect(409);
    assert_eq!(refused.text_at("/error/details/existing_job_id"), id);
}

#[tokio::test]
async fn a_kill_within_the_period_admits_no_duplicate() {
    let redis = TestRedis::durable();
    let url = redis.url();
    let arguments = ["--redis", url.as_str()];
    let mut process = Process::serve(&arguments).await;
    let unique = json!({"period": "PT1H", "keys": ["args"]});
    let first = process.client.enqueue(job(json!([1]), unique.clone())).await;
    process.client.fetch("q", 1).await;
    process.kill();
    process.restart(&arguments);
    eventually("it is ready", async || {
        process.client.try_send("GET", "/ready", &[], None).await.is_ok_and(|answer| answer.status == 200)
    })
    .await;
    let refused = push(&process.client, job(json!([1]), unique.clone())).await.expect(409);
    assert_eq!(refused.text_at("/error/details/existing_job_id"), first);
    assert_eq!(refused.text_at("/error/details/existing_job_state"), "active");
    process.client.ack(&first).await.expect(200);
    push(&process.client, job(json!([1]), unique)).await.expect(201);
}

#[tokio::test]
async fn jobs_that_are_not_unique_cost_no_more_than_before() {
    let app = TestApp::start().await;
    app.client.enqueue_into("q").await;
    let id = app.client.enqueue_into("q").await;
    app.client.fetch("q", 2).await;
    app.client.ack(&id).await.expect(200);
    assert_eq!(app.redis.keys_with("unique").await, Vec::<String>::new());
}
