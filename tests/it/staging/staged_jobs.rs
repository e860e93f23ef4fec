//! Staged jobs as clients see them.

use super::{SECOND, StagingEnv, id_of, planned};
use crate::support::json;

/// The text of `args` and `meta`.
fn raw(text: &str) -> &str {
    let start = text.find("\"args\":").expect("args");
    &text[start..start + text[start..].find(",\"priority\":").expect("priority follows meta")]
}

#[tokio::test]
async fn the_envelope_keeps_its_bytes_through_staging() {
    let env = StagingEnv::busy(|_| {}).await;
    let client = &env.client;
    for args in [
        "[1.0]",
        "[1e308,-0,0.10]",
        r#"[{"a":1,"a":2,"b":{}}]"#,
        r#"["\u00e9\ud83d\ude00\/","é😀/","\u0000\u001f"]"#,
        "[ 1 ,\t2 ,\n3 ]",
        "[12345678901234567890123]",
    ] {
        let meta = r#"{"tenant_id":"\u0061cme","n":1.50,"n":2}"#;
        let body = format!(r#"{{"type":"test.bytes","args":{args},"meta":{meta}}}"#);
        let created = client.send("POST", "/v1/jobs", Some(body)).await.expect(201);
        let (id, expected) = (id_of(&created), format!("\"args\":{args},\"meta\":{meta}"));
        assert!(created.text.contains("\"state\":\"pending\"") && created.text.contains("\"x_staged\":true"));
        assert_eq!(raw(&created.text), expected, "created");
        assert_eq!(raw(&client.get(&format!("/v1/jobs/{id}")).await.text), expected, "shown");
        let activated = client.post(&format!("/v1/jobs/{id}/activate"), json!({})).await.expect(200);
        assert_eq!(raw(&activated.text), expected, "activated");
        client.delete(&format!("/v1/jobs/{id}")).await.expect(200);

        let body = format!(r#"{{"type":"test.bytes","queue":"bytes","args":{args},"meta":{meta}}}"#);
        let passed = client.send("POST", "/v1/jobs", Some(body.clone())).await.expect(201);
        let staged = client.send("POST", "/v1/jobs", Some(body)).await.expect(201);
        assert_eq!((raw(&passed.text), raw(&staged.text)), (expected.as_str(), expected.as_str()));
        assert_eq!(env.round(1).await, 1);
        for _ in 0..2 {
            assert_eq!(raw(&client.fetch("bytes", 1).await.text), expected, "fetched");
        }
    }
}

#[tokio::test]
async fn a_long_envelope_is_staged_too() {
    let env = StagingEnv::busy(|_| {}).await;
    let long = "x".repeat(20_000);
    let mut job = planned("acme");
    job["args"] = json!([long]);
    let id = env.client.enqueue(job).await;
    assert!(env.is_staged(&id).await);
    assert_eq!(env.client.job(&id).await["args"][0], long);
    assert_eq!(env.round(1).await, 1);
    assert_eq!(env.client.fetch("default", 2).await.at("/jobs/1/args/0"), &json!(long));
}

#[tokio::test]
async fn a_staged_job_is_pending_until_a_round_promotes_it() {
    let env = StagingEnv::busy(|_| {}).await;
    let client = &env.client;
    let created = client.post("/v1/jobs", planned("acme")).await.expect(201);
    assert_eq!((created.text_at("/job/state"), created.at("/job/x_staged")), ("pending", &json!(true)));
    let id = created.text_at("/job/id").to_owned();
    let counts = env.counts("default").await;
    assert_eq!((counts.at("/stats/pending"), counts.at("/stats/available")), (&json!(1), &json!(1)));
    assert_eq!(client.fetch("default", 5).await.job_ids().len(), 1, "workers get what is promoted");
    assert_eq!(env.round(5).await, 1);
    let job = client.job(&id).await;
    assert_eq!((&job["state"], job.get("x_staged")), (&json!("available"), None));
    assert_eq!(client.fetch("default", 5).await.job_ids(), [id.as_str()]);
    client.ack(&id).await.expect(200);
    let counts = env.counts("default").await;
    assert_eq!((counts.at("/stats/pending"), counts.at("/stats/completed")), (&json!(0), &json!(1)));
    assert_eq!((env.staged().await, env.tenant_keys().await), (0, Vec::new()));
}

#[tokio::test]
async fn priorities_hold_inside_a_tenant() {
    let env = StagingEnv::busy(|_| {}).await;
    let mut ids = Vec::new();
    for priority in [0, 7, -3, 7] {
        let mut job = planned("acme");
        job["options"] = json!({"priority": priority});
        ids.push(env.client.enqueue(job).await);
    }
    for place in [1, 3, 0, 2] {
        assert_eq!(env.round(1).await, 1);
        assert_eq!(env.state(&ids[place]).await, "available");
    }
}

#[tokio::test]
async fn cancelling_leaves_nothing_behind() {
    let env = StagingEnv::busy(|_| {}).await;
    let ids = [env.push("a").await, env.push("a").await, env.push("b").await];
    for (left, id) in [(2, &ids[0]), (1, &ids[2]), (0, &ids[1])] {
        let cancelled = env.client.delete(&format!("/v1/jobs/{id}")).await.expect(200);
        assert_eq!(cancelled.text_at("/job/state"), "cancelled");
        assert_eq!(cancelled.text_at("/job/previous_state"), "pending");
        assert_eq!(cancelled.at("/job").get("x_staged"), None);
        let counts = env.counts("default").await;
        assert_eq!((counts.at("/stats/pending"), env.staged().await), (&json!(left), left));
    }
    assert_eq!(env.counts("default").await.at("/stats/cancelled"), &json!(3));
    assert_eq!((env.tenant_keys().await, env.round(9).await), (Vec::new(), 0));
    env.client.delete(&format!("/v1/jobs/{}", ids[0])).await.expect(409);
}

#[tokio::test]
async fn a_staged_job_can_be_activated_by_hand() {
    let env = StagingEnv::busy(|_| {}).await;
    let (first, second) = (env.push("a").await, env.push("a").await);
    let answer = env.client.post(&format!("/v1/jobs/{second}/activate"), json!({})).await.expect(200);
    assert_eq!((answer.text_at("/job/state"), answer.at("/job").get("x_staged")), ("available", None));
    assert!(env.is_staged(&first).await);
    assert_eq!((env.staged().await, env.round(9).await), (1, 1));
    let fetched = env.client.fetch("default", 9).await.job_ids();
    assert_eq!(fetched[1..], [second, first]);
    assert_eq!(env.tenant_keys().await, Vec::<String>::new());
}

#[tokio::test]
async fn a_job_that_its_client_made_pending_is_staged_when_it_is_activated() {
    let env = StagingEnv::busy(|_| {}).await;
    let mut job = planned("a");
    job["options"] = json!({"pending": true});
    let id = env.client.enqueue(job).await;
    assert_eq!((env.state(&id).await.as_str(), env.is_staged(&id).await), ("pending", false));
    assert_eq!(env.round(9).await, 0);
    let path = format!("/v1/jobs/{id}/activate");
    let answer = env.client.post(&path, json!({})).await.expect(200);
    assert_eq!((answer.text_at("/job/state"), answer.at("/job/x_staged")), ("pending", &json!(true)));
    let counts = env.counts("default").await;
    assert_eq!((counts.at("/stats/pending"), env.staged().await), (&json!(1), 1));
    assert_eq!(env.round(9).await, 1);
    assert_eq!(env.state(&id).await, "available");
}

#[tokio::test]
async fn a_job_expires_in_staging() {
    let env = StagingEnv::busy(|_| {}).await;
    let mut job = planned("a");
    job["expires_at"] = json!("+PT5S");
    let (expiring, other) = (env.client.enqueue(job).await, env.push("b").await);
    env.clock.advance(5 * SECOND - 1);
    env.tick().await;
    assert!(env.is_staged(&expiring).await);
    env.clock.advance(1);
    env.tick().await;
    assert_eq!((env.state(&expiring).await.as_str(), env.staged().await), ("discarded", 1));
    assert_eq!(env.tenants("default").await, ["b"]);
    assert_eq!(env.round(9).await, 1);
    assert_eq!(env.state(&other).await, "available");
    assert_eq!(env.tenant_keys().await, Vec::<String>::new());
    assert_eq!(env.counts("default").await.at("/stats/pending"), &json!(0));
}
