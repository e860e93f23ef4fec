//! Batches: all jobs at once, then callbacks.

use super::*;
use futures_util::future::join_all;

fn all_callbacks() -> Value {
    json!({"on_complete": job("complete"), "on_success": job("success"), "on_failure": job("failure")})
}

#[tokio::test]
async fn callbacks_depend_on_the_final_states_of_the_jobs() {
    let app = app().await;
    let client = &app.client;
    for (fails, expected) in [(false, ["complete", "success"]), (true, ["complete", "failure"])] {
        let id = begin(client, batch(vec![job("a"), fragile("b")], all_callbacks())).await;
        let mine = taken(client).await;
        finish(client, &mine[0], json!({"of": "a"})).await;
        assert!(taken(client).await.is_empty(), "not before all have ended");
        if fails {
            client.nack(super::id(&mine[1])).await.expect(200);
        } else {
            finish(client, &mine[1], json!(2)).await;
        }
        let callbacks = taken(client).await;
        assert_eq!(names(&callbacks), expected);
        let results = json!([{"of": "a"}, if fails { json!(null) } else { json!(2) }]);
        assert!(callbacks.iter().all(|callback| callback["parent_results"] == results), "{callbacks:?}");
        finish(client, &callbacks[0], json!(1)).await;
        assert_eq!(state(client, &id).await, "running", "a callback is not finished");
        finish(client, &callbacks[1], json!(1)).await;
        let shown = show(client, &id).await;
        assert_eq!((shown["state"].as_str(), &shown["jobs_failed"]), (Some("completed"), &json!(u8::from(fails))));
        let states =
            ["on_complete", "on_success", "on_failure"].map(|name| shown["callbacks"][name]["state"].as_str().unwrap());
        let fired = |fired: bool| if fired { "completed" } else { "cancelled" };
        assert_eq!(states, ["completed", fired(!fails), fired(fails)]);
        assert!(taken(client).await.is_empty());
    }
}

#[tokio::test]
async fn a_batch_whose_callbacks_do_not_apply_is_completed() {
    let app = app().await;
    let id = begin(&app.client, batch(jobs(&["a"]), json!({"on_failure": job("failure")}))).await;
    pass(&app.client, "a").await;
    assert_eq!(state(&app.client, &id).await, "completed");
    assert!(taken(&app.client).await.is_empty());
}

#[tokio::test]
async fn a_callback_that_fails_fails_the_batch() {
    let app = app().await;
    let callbacks = json!({"on_complete": fragile("complete"), "on_success": job("success")});
    let id = begin(&app.client, batch(jobs(&["a"]), callbacks)).await;
    pass(&app.client, "a").await;
    let mine = taken(&app.client).await;
    app.client.nack(super::id(&mine[0])).await.expect(200);
    assert_eq!(state(&app.client, &id).await, "running", "the other callback goes on");
    finish(&app.client, &mine[1], json!(1)).await;
    let shown = show(&app.client, &id).await;
    assert_eq!((shown["state"].as_str(), &shown["jobs_failed"]), (Some("failed"), &json!(0)));
}

/// Two processes, concurrent acks, each sent twice: every callback is enqueued once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callbacks_fire_once_with_concurrent_acks() {
    let first = app().await;
    let second = TestApp::start_on(first.redis.clone(), Default::default(), |_| {}).await;
    for round in 0..5 {
        let names: Vec<String> = (0..40).map(|number| format!("j{number}")).collect();
        let mut jobs: Vec<Value> = names.iter().map(|name| job(name)).collect();
        jobs.push(fragile("last"));
        let id = begin(&first.client, batch(jobs, all_callbacks())).await;
        let mine = taken(&first.client).await;
        assert_eq!(mine.len(), 41);
        let answers = mine.iter().enumerate().flat_map(|(number, job)| {
            let clients = [&first.client, &second.client];
            let key = format!("{round}-{number}");
            (0..2).map(move |turn| {
                let (client, key, job_id) =
                    (clients[(number + turn) % 2].clone(), key.clone(), super::id(job).to_owned());
                async move {
                    let (path, body) = match number {
                        40 => ("/v1/workers/nack", json!({"job_id": job_id, "error": {"message": "no"}})),
                        _ => ("/v1/workers/ack", json!({"job_id": job_id, "result": number})),
                    };
                    let headers = [("Idempotency-Key", key.as_str())];
                    client.try_send("POST", path, &headers, Some(body.to_string())).await.unwrap().expect(200);
                }
            })
        });
        join_all(answers).await;
        let callbacks = taken(&second.client).await;
        assert_eq!(super::names(&callbacks), ["complete", "failure"], "round {round}");
        for callback in &callbacks {
            assert_eq!(callback["parent_results"].as_array().unwrap().len(), 41);
            finish(&first.client, callback, json!(1)).await;
        }
        assert_eq!(state(&second.client, &id).await, "completed");
        assert!(taken(&first.client).await.is_empty());
    }
}
