//! Every route with every kind of key. A route that is missing in this table fails the test.

use super::{guarded, secret};
use crate::support::json;
use fairgate::api::{Access, routes};
use fairgate::auth::Role;
use std::collections::BTreeSet;

/// Method, path and access: letters of roles, `-` for everybody, `t` if keys of a tenant are accepted for its own data.
const MATRIX: &[(&str, &str, &str)] = &[
    ("GET", "/ojs/manifest", "-"),
    ("GET", "/ojs/v1/health", "-"),
    ("GET", "/health", "-"),
    ("GET", "/healthz", "-"),
    ("GET", "/ready", "-"),
    ("GET", "/readyz", "-"),
    ("GET", "/openapi.json", "-"),
    ("GET", "/docs", "-"),
    ("GET", "/docs/errors", "-"),
    ("GET", "/docs/script.js", "-"),
    ("GET", "/docs/style.css", "-"),
    ("GET", "/", "-"),
    ("GET", "/dashboard/{file}", "-"),
    ("GET", "/metrics", "oa"),
    ("POST", "/ojs/v1/jobs", "pat"),
    ("GET", "/ojs/v1/jobs", "oat"),
    ("POST", "/ojs/v1/jobs/batch", "pat"),
    ("GET", "/ojs/v1/jobs/{id}", "pwoat"),
    ("GET", "/ojs/v1/jobs/{id}/explain", "oat"),
    ("DELETE", "/ojs/v1/jobs/{id}", "pat"),
    ("POST", "/ojs/v1/jobs/{id}/cancel", "pat"),
    ("POST", "/ojs/v1/jobs/{id}/activate", "pat"),
    ("POST", "/ojs/v1/jobs/{id}/ack", "wat"),
    ("POST", "/ojs/v1/jobs/{id}/nack", "wat"),
    ("POST", "/ojs/v1/workers/fetch", "wat"),
    ("POST", "/ojs/v1/workers/ack", "wat"),
    ("POST", "/ojs/v1/workers/nack", "wat"),
    ("POST", "/ojs/v1/workers/progress", "wat"),
    ("POST", "/ojs/v1/workers/heartbeat", "wat"),
    ("POST", "/ojs/v1/workers/register", "wat"),
    ("DELETE", "/ojs/v1/workers/{id}", "wat"),
    ("GET", "/ojs/v1/queues", "oat"),
    ("GET", "/ojs/v1/queues/{name}", "oat"),
    ("GET", "/ojs/v1/queues/{name}/stats", "oat"),
    ("GET", "/ojs/v1/dead-letter", "oat"),
    ("GET", "/ojs/v1/dead-letter/stats", "oat"),
    ("GET", "/ojs/v1/dead-letter/{id}", "oat"),
    ("DELETE", "/ojs/v1/dead-letter/{id}", "at"),
    ("POST", "/ojs/v1/dead-letter/{id}/retry", "at"),
    ("POST", "/ojs/v1/workflows", "pat"),
    ("GET", "/ojs/v1/workflows", "oat"),
    ("GET", "/ojs/v1/workflows/{id}", "pwoat"),
    ("GET", "/ojs/v1/workflows/{id}/progress", "pwoat"),
    ("DELETE", "/ojs/v1/workflows/{id}", "pat"),
    ("GET", "/ojs/v1/events", "oat"),
    ("GET", "/ojs/v1/events/stream", "oat"),
    ("GET", "/ojs/v1/rate-limits", "oat"),
    ("GET", "/ojs/v1/rate-limits/{key}", "oat"),
    ("PUT", "/ojs/v1/rate-limits/{key}", "at"),
    ("DELETE", "/ojs/v1/rate-limits/{key}", "at"),
    ("GET", "/ojs/v1/admin/jobs/{id}", "oat"),
    ("GET", "/ojs/v1/admin/planner", "oa"),
    ("GET", "/ojs/v1/admin/planner/events", "oa"),
    ("GET", "/ojs/v1/admin/planner/{name}", "oa"),
    ("PUT", "/ojs/v1/admin/planner/{name}", "a"),
    ("DELETE", "/ojs/v1/admin/planner/{name}", "a"),
    ("GET", "/ojs/v1/admin/planner/{name}/events", "oa"),
    ("GET", "/ojs/v1/admin/planner/{name}/rounds", "oa"),
    ("GET", "/ojs/v1/admin/planner/{name}/tenants", "oa"),
    ("GET", "/ojs/v1/admin/planner/{name}/preview", "oa"),
    ("GET", "/ojs/v1/admin/planner/{name}/shadow", "oa"),
    ("GET", "/ojs/v1/admin/sidekiq/jobs/{id}", "oa"),
    ("POST", "/ojs/v1/admin/planner/{name}/run", "a"),
    ("POST", "/ojs/v1/admin/planner/{name}/pause", "oa"),
    ("POST", "/ojs/v1/admin/planner/{name}/resume", "oa"),
    ("GET", "/ojs/v1/admin/pools", "oa"),
    ("POST", "/ojs/v1/admin/pools", "a"),
    ("GET", "/ojs/v1/admin/pools/{name}", "oa"),
    ("PUT", "/ojs/v1/admin/pools/{name}", "a"),
    ("DELETE", "/ojs/v1/admin/pools/{name}", "a"),
    ("GET", "/ojs/v1/admin/scheduling/stats", "oa"),
    ("GET", "/ojs/v1/admin/scheduling/config", "oa"),
    ("PUT", "/ojs/v1/admin/scheduling/config", "a"),
    ("GET", "/ojs/v1/admin/tenants/{id}/noise", "oa"),
    ("POST", "/ojs/v1/admin/tenants/{id}/noise/reset", "a"),
    ("GET", "/ojs/v1/admin/queues/{name}/rate-limit", "oa"),
    ("PUT", "/ojs/v1/admin/queues/{name}/rate-limit", "a"),
    ("DELETE", "/ojs/v1/admin/queues/{name}/rate-limit", "a"),
    ("POST", "/ojs/v1/jobs/results", "pwoat"),
    ("GET", "/ojs/v1/jobs/{id}/result", "pwoat"),
    ("GET", "/ojs/v1/jobs/{id}/progress", "pwoat"),
    ("PUT", "/ojs/v1/jobs/{id}/progress", "wat"),
    ("GET", "/ojs/v1/jobs/{id}/checkpoint", "woat"),
    ("PUT", "/ojs/v1/jobs/{id}/checkpoint", "wat"),
    ("POST", "/ojs/v1/jobs/{id}/checkpoint", "wat"),
    ("DELETE", "/ojs/v1/jobs/{id}/checkpoint", "wat"),
    ("POST", "/ojs/v1/workers/beat", "wat"),
    ("GET", "/ojs/v1/workers/{id}/health", "woa"),
    ("POST", "/ojs/v1/queues/{name}/pause", "oa"),
    ("POST", "/ojs/v1/queues/{name}/resume", "oa"),
    ("GET", "/ojs/v1/queues/{name}/config", "oa"),
    ("PUT", "/ojs/v1/queues/{name}/config", "a"),
    ("DELETE", "/ojs/v1/dead-letter", "at"),
    ("POST", "/ojs/v1/dead-letter/retry", "at"),
    ("GET", "/ojs/v1/cron", "oa"),
    ("POST", "/ojs/v1/cron", "pa"),
    ("GET", "/ojs/v1/cron/{name}", "oa"),
    ("PATCH", "/ojs/v1/cron/{name}", "pa"),
    ("DELETE", "/ojs/v1/cron/{name}", "pa"),
    ("GET", "/ojs/v1/cron/{name}/next", "oa"),
    ("POST", "/ojs/v1/cron/{name}/run", "pa"),
    ("POST", "/ojs/v1/cron-preview", "pwoa"),
    ("GET", "/ojs/v1/admin/health-report", "oa"),
    ("GET", "/ojs/v1/admin/history", "oa"),
    ("GET", "/ojs/v1/admin/autoscale", "oa"),
    ("GET", "/ojs/v1/admin/autoscale/{name}", "oa"),
    ("GET", "/ojs/v1/admin/stats", "oa"),
    ("GET", "/ojs/v1/admin/queues", "oa"),
    ("GET", "/ojs/v1/admin/queues/{name}", "oa"),
    ("DELETE", "/ojs/v1/admin/queues/{name}/jobs", "a"),
    ("GET", "/ojs/v1/admin/queues/{name}/config", "oa"),
    ("PUT", "/ojs/v1/admin/queues/{name}/config", "a"),
    ("POST", "/ojs/v1/admin/queues/{name}/pause", "oa"),
    ("POST", "/ojs/v1/admin/queues/{name}/resume", "oa"),
    ("GET", "/ojs/v1/admin/dead-letter", "oat"),
    ("DELETE", "/ojs/v1/admin/dead-letter", "at"),
    ("GET", "/ojs/v1/admin/dead-letter/stats", "oat"),
    ("POST", "/ojs/v1/admin/dead-letter/retry", "at"),
    ("GET", "/ojs/v1/admin/dead-letter/{id}", "oat"),
    ("DELETE", "/ojs/v1/admin/dead-letter/{id}", "at"),
    ("POST", "/ojs/v1/admin/dead-letter/{id}/retry", "at"),
    ("GET", "/ojs/v1/admin/jobs", "oa"),
    ("POST", "/ojs/v1/admin/jobs/{id}/cancel", "at"),
    ("POST", "/ojs/v1/admin/jobs/{id}/retry", "at"),
    ("POST", "/ojs/v1/admin/jobs/bulk/retry", "a"),
    ("POST", "/ojs/v1/admin/jobs/bulk/cancel", "a"),
    ("POST", "/ojs/v1/admin/jobs/bulk/delete", "a"),
    ("GET", "/ojs/v1/admin/workers", "oa"),
    ("GET", "/ojs/v1/admin/workers/{id}", "oa"),
    ("DELETE", "/ojs/v1/admin/workers/{id}", "a"),
    ("POST", "/ojs/v1/admin/workers/{id}/quiet", "oa"),
    ("POST", "/ojs/v1/admin/workers/{id}/resume", "oa"),
    ("POST", "/ojs/v1/admin/workers/{id}/terminate", "a"),
    ("GET", "/ojs/v1/webhooks/subscriptions", "oa"),
    ("POST", "/ojs/v1/webhooks/subscriptions", "a"),
    ("GET", "/ojs/v1/webhooks/subscriptions/{id}", "oa"),
    ("PATCH", "/ojs/v1/webhooks/subscriptions/{id}", "a"),
    ("DELETE", "/ojs/v1/webhooks/subscriptions/{id}", "a"),
    ("POST", "/ojs/v1/webhooks/subscriptions/{id}/rotate-secret", "a"),
    ("GET", "/ojs/v1/webhooks/deliveries", "oa"),
    ("GET", "/ojs/v1/webhooks/deliveries/{id}", "oa"),
    ("POST", "/ojs/v1/webhooks/deliveries/{id}/retry", "a"),
    ("GET", "/ojs/v1/admin/tenants", "oa"),
    ("GET", "/ojs/v1/admin/tenants/{id}", "oa"),
    ("PUT", "/ojs/v1/admin/tenants/{id}", "a"),
    ("DELETE", "/ojs/v1/admin/tenants/{id}", "a"),
    ("PUT", "/ojs/v1/admin/tenants/{id}/limits", "a"),
    ("GET", "/ojs/v1/admin/tenants/{id}/stats", "oat"),
    ("GET", "/ojs/v1/admin/tenants/{id}/jobs", "oat"),
    ("GET", "/ojs/v1/admin/keys/current", "pwoat"),
    ("GET", "/ojs/v1/admin/keys", "a"),
    ("POST", "/ojs/v1/admin/keys", "a"),
    ("DELETE", "/ojs/v1/admin/keys/{id}", "a"),
];

fn letters(access: Access) -> String {
    let of = |roles: &[Role]| roles.iter().map(|role| &role.name()[..1]).collect::<String>();
    match access {
        Access::Public => "-".to_owned(),
        Access::Namespaced(roles) | Access::Global(roles) => of(roles),
        Access::Scoped(roles) => of(roles) + "t",
    }
}

#[test]
fn the_matrix_names_every_route_and_matches_the_route_table() {
    let table: BTreeSet<_> =
        routes().into_iter().map(|route| (route.method, route.path, letters(route.access))).collect();
    let matrix = MATRIX.iter().map(|(method, path, who)| ((*method).to_owned(), *path, (*who).to_owned()));
    assert_eq!(table, matrix.collect(), "left: what the server does; right: what this test expects");
    assert_eq!(routes().len(), MATRIX.len());
}

/// Sends a request without reading the body of a stream, which never ends.
async fn ask(http: &reqwest::Client, base: &str, method: &str, path: &str, key: Option<&str>) -> Seen {
    let method = reqwest::Method::from_bytes(method.as_bytes()).unwrap();
    let mut request = http.request(method.clone(), format!("{base}{path}"));
    request = key.into_iter().fold(request, |request, key| request.bearer_auth(key));
    if matches!(method.as_str(), "POST" | "PUT" | "PATCH") {
        // A valid body, because an invalid one would be rejected before the job is looked up.
        let body = if path.contains("/jobs/") { r#"{"progress":0.5,"state":{}}"# } else { "{}" };
        request = request.header("content-type", "application/json").body(body);
    }
    let response = request.send().await.unwrap();
    let status = response.status().as_u16();
    let challenge = response.headers().get("www-authenticate").map(|value| value.to_str().unwrap().to_owned());
    let text = if status >= 400 { response.text().await.unwrap() } else { String::new() };
    let body: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
    Seen { status, challenge, code: body["error"]["code"].as_str().unwrap_or_default().to_owned(), body }
}

struct Seen {
    status: u16,
    challenge: Option<String>,
    code: String,
    body: serde_json::Value,
}

impl Seen {
    /// Returns true if the handler was reached: its 404 names the missing resource, unlike the 404 of the router and of
    /// authorization.
    fn reached(&self) -> bool {
        self.status != 401
            && self.status != 403
            && (self.status != 404 || self.body["error"]["details"]["resource_type"].is_string())
    }
}

#[tokio::test]
async fn every_route_accepts_only_the_intended_keys() {
    let app = guarded().await;
    let http = fairgate::weights::client_builder().timeout(std::time::Duration::from_secs(30)).build().unwrap();
    let base = app.client.base();
    let admin = super::caller(&app, "admin");
    let job = |tenant: &str| json!({"type": "t", "args": [], "meta": {"tenant_id": tenant}});
    for (method, path, who) in MATRIX {
        // A job of acme that no other request has changed.
        let id = admin.enqueue(job("acme")).await;
        let path = path.replace("{id}", &id).replace("{name}", "none").replace("{key}", "none");
        let what = |name: &str, seen: &Seen| format!("{method} {path} as {name}: {} {}", seen.status, seen.body);

        for (name, key) in [("nobody", None), ("somebody", Some(secret("wrong")))] {
            let seen = ask(&http, base, method, &path, key.as_deref()).await;
            match *who {
                "-" => assert!(seen.reached() && seen.challenge.is_none(), "{}", what(name, &seen)),
                _ => {
                    assert_eq!((seen.status, seen.code.as_str()), (401, "unauthorized"), "{}", what(name, &seen));
                    let challenge = seen.challenge.unwrap();
                    assert!(challenge.starts_with("Bearer realm="), "{challenge}");
                    assert_eq!(challenge.contains("invalid_token"), key.is_some());
                }
            }
        }
        for (role, _) in Role::ALL {
            let may = *who == "-" || who.contains(&role[..1]);
            for name in [format!("beta-{role}"), role.to_owned()] {
                let seen = ask(&http, base, method, &path, Some(&secret(&name))).await;
                let bound = name != role;
                match (may, bound && *who != "-" && !who.contains('t')) {
                    (false, _) => {
                        assert_eq!((seen.status, seen.code.as_str()), (403, "forbidden"), "{}", what(&name, &seen))
                    }
                    (true, true) => assert!(seen.status == 404 && !seen.reached(), "{}", what(&name, &seen)),
                    (true, false) => assert!(seen.reached(), "{}", what(&name, &seen)),
                }
                if bound && may && path.contains(&id) && *who != "-" {
                    assert_eq!(seen.status, 404, "a job of another tenant: {}", what(&name, &seen));
                }
            }
        }
    }
}

#[tokio::test]
async fn unknown_routes_need_a_key_as_well() {
    let app = guarded().await;
    let admin = super::caller(&app, "admin");
    for (method, path, known) in [("GET", "/nowhere", 404), ("PATCH", "/ojs/v1/jobs", 405), ("ASSERT", "/nowhere", 404)]
    {
        assert_eq!(app.client.send(method, path, None).await.status, 401, "{method} {path}");
        assert_eq!(admin.send(method, path, None).await.status, known, "{method} {path}");
    }
    let answer = admin.send("PATCH", "/ojs/v1/jobs/x", None).await.expect(405);
    assert_eq!(answer.header("allow"), "GET,HEAD,DELETE");
    assert_eq!(admin.send("HEAD", "/ojs/v1/queues", None).await.status, 200);
    assert_eq!(app.client.send("HEAD", "/ojs/v1/queues", None).await.status, 401);
    assert_eq!(super::caller(&app, "worker").send("HEAD", "/ojs/v1/queues", None).await.status, 403);
}
