//! Events about tenants have the tenant as a member.

use super::{job, start};
use crate::support::json;
use fairgate::domain::tenant::TenantLimits;

#[tokio::test]
async fn an_event_of_a_tenant_has_its_tenant_id_and_no_job_id() {
    let limits = TenantLimits { max_queue_depth: Some(1), ..TenantLimits::default() };
    let app = start(&[("acme", limits)]).await;
    app.push(job("acme")).await.expect(201);
    app.push(job("acme")).await.expect(429);
    app.put("/v1/admin/tenants/acme/limits", json!({"max_queue_depth": 5})).await.expect(200);
    app.client.delete("/v1/admin/tenants/acme?force=true").await.expect(200);
    for kind in ["created", "limit_exceeded", "changed", "removed"] {
        let events = app.events(&format!("tenant.{kind}")).await;
        assert_eq!(events.len(), 1, "tenant.{kind}");
        let (subject, data) = (&events[0]["subject"], events[0]["data"].as_object().unwrap());
        assert_eq!((subject, data.get("tenant_id")), (&json!("acme"), Some(&json!("acme"))), "{data:?}");
        assert!(!data.contains_key("job_id"), "{data:?}");
    }
}
