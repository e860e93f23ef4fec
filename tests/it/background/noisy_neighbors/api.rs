//! Noisy-neighbour state of a tenant over HTTP.

use super::*;

#[tokio::test]
async fn a_verdict_comes_with_its_evidence() {
    let env = NeighborEnv::open().await;
    env.flood().await;
    env.look_for(20).await;
    let loud = env.client.get("/v1/admin/tenants/loud/noise").await.expect(200);
    for (pointer, value) in [
        ("/tenant_id", json!("loud")),
        ("/noisy", json!(true)),
        ("/throttled", json!(true)),
        ("/verdict/evidence/0/signal", json!("queue_depth_ratio")),
        ("/verdict/evidence/0/value", json!(2000.0)),
        ("/verdict/evidence/0/compared_with", json!(40.0)),
        ("/verdict/evidence/0/ratio", json!(50.0)),
        ("/verdict/evidence/0/threshold", json!(10.0)),
        ("/verdict/evidence/1/signal", json!("enqueue_rate_ratio")),
        ("/verdict/waiting_tenants", json!(4)),
        ("/verdict/hurt/0/waiting", json!(40)),
        ("/throttle/action", json!("weight_reduced")),
        ("/throttle/effective_weight", json!(0.2)),
        ("/figures/depth", json!(2000)),
        ("/thresholds/active_ratio", json!(0.5)),
    ] {
        assert_eq!(*loud.at(pointer), value, "{pointer} of {}", loud.text);
    }
    let calm = env.client.get("/v1/admin/tenants/a/noise").await.expect(200);
    assert_eq!(
        (calm.at("/noisy"), calm.at("/verdict"), calm.at("/throttle")),
        (&json!(false), &Value::Null, &Value::Null)
    );
    let nobody = env.client.get("/v1/admin/tenants/nobody/noise").await.expect(200);
    assert_eq!((nobody.at("/noisy"), nobody.at("/figures/depth")), (&json!(false), &json!(0)));
}

#[tokio::test]
async fn a_tenant_is_released_once() {
    let env = NeighborEnv::open().await;
    env.flood().await;
    env.look_for(20).await;
    let reset = env.client.post("/v1/admin/tenants/loud/noise/reset", json!({})).await.expect(200);
    assert_eq!((reset.at("/released"), reset.at("/throttled")), (&json!(true), &json!(false)));
    assert!(reset.at("/spared_until").is_string());
    let again = env.client.post("/v1/admin/tenants/loud/noise/reset", json!({})).await.expect(200);
    assert_eq!(again.at("/released"), &json!(false));
    let reported = env.throttle_events().await;
    assert_eq!((reported.len(), &reported[1].1["reason"]), (2, &json!("manual_reset")));
}

#[tokio::test]
async fn an_idle_server_and_unusual_names_are_handled() {
    let env = NeighborEnv::open().await;
    let idle = env.client.get("/v1/admin/tenants/x/noise").await.expect(200);
    assert_eq!((idle.at("/noisy"), idle.at("/enabled")), (&json!(false), &json!(true)));
    let reset = env.client.post("/v1/admin/tenants/x/noise/reset", json!({})).await.expect(200);
    assert_eq!(reset.at("/released"), &json!(false));
    env.client.get("/v1/admin/tenants/a%0Ab/noise").await.expect(400);
    env.client.get(&format!("/v1/admin/tenants/{}/noise", "x".repeat(257))).await.expect(400);
    env.client.get("/v1/admin/tenants/a%20b%3A%C3%A9/noise").await.expect(200);
    env.client.delete("/v1/admin/tenants/x/noise").await.expect(405);
}

#[tokio::test]
async fn a_release_can_be_repeated_without_any_activity() {
    let app = TestApp::start().await;
    for _ in 0..3 {
        let reset = app.client.post("/v1/admin/tenants/x/noise/reset", json!({})).await.expect(200);
        assert_eq!((reset.at("/released"), reset.at("/spared_until").is_string()), (&json!(false), true));
    }
}
