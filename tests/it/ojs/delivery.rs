//! Jobs are delivered to the other server unchanged, in fair order, and only as many as its workers need.

use super::*;
use fairgate::config::ByteSize;
use std::time::Duration;
use wiremock::matchers::{method, path};
use wiremock::{Mock, MockServer, ResponseTemplate};

#[tokio::test]
async fn jobs_arrive_in_balanced_order_and_unchanged() {
    let remote = TestApp::start().await;
    let app = before(&[by_hand(6)], Ojs::at(&url_of(&remote))).await;
    let (of_a, of_b) = (push(&app.client, "a", 4).await, push(&app.client, "b", 2).await);
    let odd = r#"{"type":"t.odd","args":[1.0,{"b":1e308}],"meta":{"tenant_id":"c"},"x_mine":[],
        "options":{"priority":7,"tags":["x"],"timeout_ms":5000,"retry":{"max_attempts":9}}}"#;
    let odd = app.client.send("POST", "/v1/jobs", Some(odd.to_owned())).await.expect(201);
    let odd = odd.header("location").rsplit('/').next().expect("an id").to_owned();
    let staged = app.client.job(&of_a[0]).await;
    assert_eq!((&staged["state"], &staged["x_staged"]), (&json!("pending"), &json!(true)));
    app.client.get("/v1/jobs/none").await.expect(404);

    let round = run(&app.client).await;
    assert_eq!((&round["outcome"], &round["promoted"]), (&json!("promoted"), &json!(6)), "{round}");
    assert_eq!(run(&app.client).await["promoted"], 1);
    let jobs = remote.client.fetch("heavy", 10).await.body;
    let ids: Vec<String> =
        jobs["jobs"].as_array().unwrap().iter().map(|job| job["id"].as_str().unwrap().to_owned()).collect();
    // The job of high priority is the first of its tenant; the others take turns.
    assert_eq!(ids[0], odd);
    let names: Vec<&str> = ids[1..].iter().map(|id| if of_a.contains(id) { "a" } else { "b" }).collect();
    assert_eq!(names, ["a", "b", "a", "b", "a", "a"]);
    assert!(of_b.iter().all(|id| ids.contains(id)));
    let there = remote.client.get(&format!("/v1/jobs/{odd}")).await.expect(200);
    assert!(there.text.contains(r#""args":[1.0,{"b":1e308}]"#), "{}", there.text);
    let there = there.at("/job");
    assert_eq!((&there["priority"], &there["x_mine"], &there["tags"]), (&json!(7), &json!([]), &json!(["x"])));
    assert_eq!((&there["timeout_ms"], &there["retry"]["max_attempts"]), (&json!(5000), &json!(9)));
    let left = app.client.job(&of_a[0]).await;
    assert_eq!((&left["state"], &left["x_promoted_to"]), (&json!("available"), &json!("jobs")));
    assert_eq!(app.client.delete(&format!("/v1/jobs/{}", of_a[0])).await.status, 409);
    let stats = stats(&app.client).await;
    assert_eq!(stats["main_queue"]["kind"], "ojs");
    assert_eq!(
        (&stats["main_queue"]["undelivered"], &stats["main_queue"]["health"]["state"]),
        (&json!(0), &json!("ok"))
    );
}

#[tokio::test]
async fn the_gate_uses_the_statistics_of_the_server() {
    let remote = TestApp::start().await;
    let app = before(
        &[rule(|rule| {
            (rule.batch, rule.strict_interval, rule.pace) = (Batch::Jobs(2), true, Pace::Every(HOUR));
            (rule.max_depth, rule.latency_threshold) = (3, 1500);
        })],
        Ojs::at(&url_of(&remote)),
    )
    .await;
    push(&app.client, "a", 9).await;
    assert_eq!(run(&app.client).await["promoted"], 2);
    // Jobs pushed since the last poll count.
    assert_eq!(run(&app.client).await["promoted"], 1);
    assert_eq!(run(&app.client).await["reason"], "depth");
    eventually("the oldest job has waited for too long", async || run(&app.client).await["reason"] == "latency").await;
    let reported = stats(&app.client).await;
    assert_eq!((&reported["main_queue"]["depth"], &reported["gate"]["open"]), (&json!(3), &json!(false)));
    remote.client.fetch("heavy", 3).await;
    remote.client.post("/v1/queues/heavy/pause", json!({})).await.expect(200);
    eventually("it is paused", async || run(&app.client).await["reason"] == "queue_paused").await;
    remote.client.post("/v1/queues/heavy/resume", json!({})).await.expect(200);
    eventually("it goes on", async || run(&app.client).await["promoted"] == 2).await;
    assert_eq!(stats(&app.client).await["main_queue"]["active"], 3);
}

#[tokio::test]
async fn auto_keeps_workers_busy_although_it_looks_once_a_second() {
    let remote = TestApp::start().await;
    let app = before(&[rule(|_| {})], Ojs::at(&url_of(&remote))).await;
    push(&app.client, "a", 60).await;
    let mut done = 0;
    eventually("all are done", async || {
        for id in remote.client.fetch("heavy", 5).await.job_ids() {
            remote.client.ack(&id).await.expect(200);
            done += 1;
        }
        done == 60
    })
    .await;
}

#[tokio::test]
async fn schedules_and_expiries_act_on_either_side() {
    let remote = TestApp::start().await;
    let app = before(&[often()], Ojs::at(&url_of(&remote))).await;
    let soon = app.client.enqueue(json!({"type": "t.job", "args": [], "options": {"delay_until": "+PT0.3S"}})).await;
    assert_eq!(app.client.state(&soon).await, "scheduled");
    let short = json!({"type": "t.job", "args": [], "options": {"expires_at": "+PT60S"}});
    let short = app.client.enqueue(short).await;
    eventually("both are there", async || {
        let ids = [&soon, &short].map(|id| format!("/v1/jobs/{id}"));
        remote.client.get(&ids[0]).await.status == 200 && remote.client.get(&ids[1]).await.status == 200
    })
    .await;
    let (soon, short) = (remote.client.job(&soon).await, remote.client.job(&short).await);
    assert_eq!((&soon["state"], &short["state"]), (&json!("available"), &json!("available")));
    assert!(short["expires_at"].as_str() > short["created_at"].as_str(), "{short}");
}

#[tokio::test]
async fn jobs_rejected_by_the_server_are_reported() {
    let remote = TestApp::start_with(Clock::System, |config| {
        (config.limits.max_envelope, config.limits.max_meta) = (ByteSize::kib(2), ByteSize::kib(1));
    })
    .await;
    let app = before(&[by_hand(10)], Ojs::at(&url_of(&remote))).await;
    let unique = json!({"type": "t.one", "args": [], "options": {"queue": "heavy", "unique": {"keys": ["type"]}}});
    let there = remote.client.enqueue(unique.clone()).await;
    let (like, fine) = (app.client.enqueue(unique).await, push(&app.client, "a", 2).await);
    let large = app.client.enqueue(json!({"type": "t.large", "args": ["x".repeat(3000)]})).await;
    assert_eq!(run(&app.client).await["promoted"], 4);
    assert_eq!(remote.client.fetch("heavy", 10).await.job_ids(), [&[there][..], &fine].concat());
    let (like, refused) = (app.client.job(&like).await, app.client.job(&large).await);
    assert_eq!((&like["state"], &like["error"]["code"]), (&json!("discarded"), &json!("duplicate")));
    assert_eq!((&refused["state"], &refused["error"]["code"]), (&json!("discarded"), &json!("envelope_too_large")));
    assert_eq!(refused.get("x_promoted_to"), None);
    let dead = app.client.get("/v1/dead-letter").await.expect(200);
    assert_eq!(dead.job_ids(), [large.as_str()], "the other job is in its queue");
    let stats = stats(&app.client).await;
    assert_eq!(
        (&stats["main_queue"]["health"]["refused_total"], &stats["main_queue"]["undelivered"]),
        (&json!(2), &json!(0))
    );
    let events = app.client.get("/v1/events?types=job.discarded,dead_letter.added").await.expect(200);
    assert_eq!(events.at("/events").as_array().map(Vec::len), Some(3), "{}", events.text);
    app.assert_consistent().await;

    // A retried job takes the same path again.
    app.client.post(&format!("/v1/dead-letter/{large}/retry"), json!({})).await.expect(200);
    assert_eq!(app.client.job(&large).await["x_staged"], true);
    assert_eq!(run(&app.client).await["promoted"], 1);
    assert_eq!(app.client.job(&large).await["errors"].as_array().map(Vec::len), Some(2));
}

#[tokio::test]
async fn a_server_is_asked_about_a_queue_once_a_second_at_most() {
    let server = MockServer::start().await;
    let manifest = json!({"specversion": "1.0", "implementation": {"name": "x"}, "conformance_level": 4});
    let asked = async |at: &str| {
        let requests = server.received_requests().await.unwrap_or_default();
        requests.iter().filter(|request| request.url.path() == at).count()
    };
    Mock::given(path("/ojs/manifest"))
        .respond_with(ResponseTemplate::new(200).set_body_json(manifest))
        .mount(&server)
        .await;
    let queue = json!({"counts": {"available": 99999}, "oldest_available_at": "2026-01-01T00:00:00Z"});
    Mock::given(method("GET")).respond_with(ResponseTemplate::new(200).set_body_json(queue)).mount(&server).await;
    let app = before(&[rule(|rule| rule.pace = Pace::Every(20))], Ojs::at(&server.uri())).await;
    push(&app.client, "a", 3).await;
    let started = std::time::Instant::now();
    eventually("many rounds", async || stats(&app.client).await["rounds"]["total"].as_u64() > Some(60)).await;
    let most = started.elapsed().as_secs() as usize + 2;
    let asked_queue = asked("/ojs/v1/admin/queues/heavy").await;
    assert!((1..=most).contains(&asked_queue), "{asked_queue} in {:?}", started.elapsed());
    assert_eq!(asked("/ojs/manifest").await, 1);
    assert_eq!(stats(&app.client).await["staged"]["jobs"], 3);
    assert!(started.elapsed() > Duration::from_millis(500));
}
