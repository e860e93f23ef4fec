//! Shapes that public OJS clients read and send, beyond those of the conformance suites.

use crate::support::{TestApp, contract, json};

#[tokio::test]
async fn an_enqueued_job_is_returned_at_top_level_and_inside_job() {
    let app = TestApp::start().await;
    let job =
        json!({"type": "mail.send", "args": [1.5], "options": {"queue": "mail", "unique": {"on_conflict": "ignore"}}});
    for status in [201, 200] {
        let answer = app.client.post("/v1/jobs", job.clone()).await.expect(status);
        for (name, value) in answer.at("/job").as_object().unwrap() {
            assert_eq!(answer.at(&format!("/{name}")), value, "{name}");
        }
        assert_eq!(answer.at("/deduplicated"), &if status == 200 { json!(true) } else { json!(null) });
    }
}

#[tokio::test]
async fn a_member_of_a_job_never_replaces_one_of_the_response() {
    let app = TestApp::start().await;
    let job = json!({"type": "mail.send", "args": [], "job": "own", "deduplicated": "own", "unique": {"on_conflict": "ignore"}});
    let made = app.client.post("/v1/jobs", job.clone()).await.expect(201);
    let again = app.client.post("/v1/jobs", job).await.expect(200);
    let shown = app.client.get(&format!("/v1/jobs/{}", made.text_at("/id"))).await.expect(200);
    assert_eq!((again.at("/deduplicated"), made.at("/deduplicated")), (&json!(true), &json!(null)));
    for answer in [made, again, shown] {
        assert_eq!((answer.at("/job/job"), answer.at("/job/deduplicated")), (&json!("own"), &json!("own")));
        assert_eq!(
            answer.text.matches("\"job\":").count(),
            2,
            "one traceparent of the response and, inside, one of the client: {}",
            answer.text
        );
    }
}

#[tokio::test]
async fn queue_statistics_are_returned_at_top_level_and_inside_stats() {
    let app = TestApp::start().await;
    app.client.enqueue_into("mail").await;
    let stats = app.client.get("/v1/queues/mail/stats").await.expect(200);
    for (name, value) in stats.at("/stats").as_object().unwrap().iter().filter(|(name, _)| *name != "queue") {
        assert_eq!(stats.at(&format!("/{name}")), value, "{name}");
    }
    assert_eq!((stats.at("/available"), stats.at("/queue/available")), (&json!(1), &json!(1)));
    assert_eq!((stats.text_at("/queue/name"), stats.text_at("/stats/queue")), ("mail", "mail"));
}

#[tokio::test]
async fn a_fetch_takes_batch_size_for_count() {
    let app = TestApp::start().await;
    for _ in 0..4 {
        app.client.enqueue_into("mail").await;
    }
    let fetch = async |more: serde_json::Value| {
        let mut body = json!({"queues": ["mail"], "worker_id": "w1"});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        app.client.post("/v1/workers/fetch", body).await
    };
    let fetched = fetch(json!({"batch_size": 2})).await.expect(200);
    assert_eq!((fetched.job_ids().len(), fetched.at("/job")), (2, &json!(null)));
    assert_eq!(fetch(json!({"batch_size": 2, "count": 1})).await.expect(200).job_ids().len(), 1);
    assert_eq!(fetch(json!({"batch_size": 0})).await.expect(400).text_at("/error/details/field"), "batch_size");
}

#[tokio::test]
async fn a_cron_takes_its_queue_at_top_level() {
    let app = TestApp::start().await;
    let cron = json!({"name": "n", "cron": "@daily", "type": "mail.send", "args": [], "queue": "mail"});
    let made = app.client.post("/v1/cron", cron).await.expect(201);
    assert_eq!((made.text_at("/cron/queue"), made.text_at("/cron/job_template/queue")), ("mail", "mail"));
    let run = app.client.post("/v1/cron/n/run", json!({})).await.expect(201);
    assert_eq!(run.text_at("/job/queue"), "mail");
    let change = Some(json!({"queue": "bulk"}).to_string());
    let changed = app.client.send("PATCH", "/v1/cron/n", change).await.expect(200);
    assert_eq!((changed.text_at("/cron/queue"), changed.text_at("/cron/type")), ("bulk", "mail.send"));
}

#[tokio::test]
async fn a_worker_reports_progress_by_body_and_in_percent() {
    let app = TestApp::start().await;
    let id = app.client.enqueue_into("mail").await;
    app.client.fetch("mail", 1).await;
    let report = json!({"job_id": id, "percentage": 25, "message": "a quarter"});
    let reported = app.client.post("/v1/workers/progress", report).await.expect(200);
    assert_eq!((reported.at("/progress"), reported.text_at("/job_id")), (&json!(0.25), id.as_str()));
    let shown = app.client.get(&format!("/v1/jobs/{id}/progress")).await.expect(200);
    assert_eq!((shown.at("/progress"), shown.text_at("/message")), (&json!(0.25), "a quarter"));
    let both = json!({"job_id": id, "percentage": 30, "progress": 0.5});
    assert_eq!(app.client.post("/v1/workers/progress", both).await.expect(200).at("/progress"), &json!(0.5));
    for (report, status, field) in [
        (json!({"percentage": 1}), 400, "job_id"),
        (json!({"job_id": id}), 400, "progress"),
        (json!({"job_id": id, "percentage": "1"}), 400, "percentage"),
    ] {
        let refused = app.client.post("/v1/workers/progress", report).await.expect(status);
        assert_eq!(refused.text_at("/error/details/field"), field);
    }
    app.client.post("/v1/workers/progress", json!({"job_id": "none", "percentage": 1})).await.expect(404);
}

/// Lists in the document with the name that each uses for its items besides `items`.
#[tokio::test]
async fn every_list_has_items() {
    let app = TestApp::start().await;
    let id = app.client.enqueue_into("mail").await;
    app.client.post("/v1/workers/register", json!({"worker_id": "w1"})).await.expect(200);
    app.client.post("/v1/cron", json!({"name": "n", "cron": "@daily", "type": "a.b"})).await.expect(201);
    app.client.fetch("mail", 1).await;
    let fatal = json!({"job_id": id, "error": {"code": "DEAD_LETTER", "message": "m"}});
    app.client.post("/v1/workers/nack", fatal).await.expect(200);
    let mut lists = 0;
    for (path, item) in contract::DOCUMENT["paths"].as_object().unwrap() {
        let answer =
            &item["get"]["responses"]["200"]["content"]["application/openjobspec+json"]["schema"]["properties"];
        let is_list = answer.get("pagination").is_some() || path == "/ojs/v1/events";
        if !is_list || path.contains("{name}") {
            continue;
        }
        let list = app.client.get(&path.replace("{id}", "acme")).await.expect(200);
        let items = list.at("/items").as_array().unwrap_or_else(|| panic!("{path}: {}", list.text)).clone();
        let same = list.body.as_object().unwrap().iter().filter(|(name, value)| *name != "items" && value.is_array());
        same.for_each(|(name, value)| assert_eq!(value.as_array().unwrap(), &items, "{path} {name}"));
        lists += 1;
    }
    assert!(lists >= 14, "{lists}");
    for (path, name) in [("queues", "queues"), ("dead-letter", "jobs"), ("cron", "cron_jobs"), ("events", "events")] {
        let list = app.client.get(&format!("/v1/{path}")).await.expect(200);
        assert!(!list.at("/items").as_array().unwrap().is_empty(), "{path}");
        assert_eq!(list.at(&format!("/{name}")), list.at("/items"), "{path}");
    }
}
