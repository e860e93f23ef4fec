//! The dashboard as files: its page, its assets, and the route by which it knows the caller. `dashboard/tests` has the tests of
//! its pages, in a browser.

use crate::auth::{caller, guarded};
use crate::support::{TestApp, json};
use fairgate::clock::Clock;

/// The names of the page's files; none if the program was built without the dashboard.
fn assets(page: &str) -> Vec<&str> {
    let after = page.split("\"dashboard/").skip(1);
    after.filter_map(|rest| rest.split_once('"')).map(|(name, _)| name).collect()
}

#[tokio::test]
async fn the_page_is_revalidated_and_its_files_are_kept_for_good() {
    let app = TestApp::start().await;
    let page = app.client.get("/").await.expect(200);
    assert!(page.header("content-type").starts_with("text/html") && page.text.contains("fairgate"));
    assert_eq!(page.header("cache-control"), "no-cache");
    let tag = page.header("etag").to_owned();
    let again = app.client.try_send("GET", "/", &[("if-none-match", &tag)], None).await.unwrap();
    assert_eq!((again.status, again.text.as_str()), (304, ""));
    let changed = app.client.try_send("GET", "/", &[("if-none-match", "\"other\"")], None).await.unwrap();
    assert_eq!(changed.status, 200);
    for name in assets(&page.text) {
        let file = app.client.get(&format!("/dashboard/{name}")).await.expect(200);
        assert!(file.header("cache-control").contains("immutable"), "{name}");
    }
}

#[tokio::test]
async fn the_dashboard_needs_nothing_from_elsewhere() {
    let app = TestApp::start().await;
    let page = app.client.get("/").await.text;
    let paths = assets(&page).into_iter().map(|name| format!("/dashboard/{name}"));
    for path in std::iter::once("/".to_owned()).chain(paths) {
        let file = app.client.get(&path).await.expect(200);
        let policy = file.header("content-security-policy");
        assert!(policy.starts_with("default-src 'none'; script-src 'self'") && !policy.contains("unsafe"), "{policy}");
        assert!(policy.contains("frame-ancestors 'none'") && policy.contains("form-action 'none'"), "{policy}");
        assert_eq!(file.header("x-content-type-options"), "nosniff");
        assert!(!file.text.contains("src=\"http") && !file.text.contains("@import"), "{path}");
    }
    // The content security policy allows neither inline scripts nor inline styles.
    assert!(!page.contains("<script>") && !page.contains("<style") && !page.contains(" style="));
}

#[tokio::test]
async fn files_that_the_build_did_not_name_do_not_exist() {
    let app = TestApp::start().await;
    for name in ["none.js", "index.html", ".gitignore", "..%2Findex.html", "%2Fetc%2Fpasswd"] {
        app.client.get(&format!("/dashboard/{name}")).await.expect(404);
    }
    app.client.get("/dashboard").await.expect(404);
}

#[tokio::test]
async fn the_configuration_can_turn_the_dashboard_off() {
    let app = TestApp::start_with(Clock::System, |config| config.server.dashboard = false).await;
    let refused = app.client.get("/").await.expect(404);
    assert_eq!(refused.text_at("/error/code"), "not_found");
    app.client.get("/dashboard/none.js").await.expect(404);
    app.client.get("/docs").await.expect(200);
}

#[tokio::test]
async fn a_key_learns_its_role_and_tenant() {
    let open = TestApp::start().await;
    let nobody = open.client.get("/v1/admin/keys/current").await.expect(200);
    assert_eq!(nobody.body, json!({"required": false, "id": null, "name": null, "role": "admin", "tenant": null}));

    let app = guarded().await;
    app.client.get("/v1/admin/keys/current").await.expect(401);
    for (name, role, tenant) in [("worker", "worker", None), ("acme-operator", "operator", Some("acme"))] {
        let own = caller(&app, name).send("GET", "/ojs/v1/admin/keys/current", None).await.expect(200);
        assert_eq!((own.text_at("/name"), own.text_at("/role")), (name, role));
        assert_eq!((own.body["required"].clone(), own.body["tenant"].clone()), (json!(true), json!(tenant)));
        assert!(!own.text.contains("fgk_"), "{}", own.text);
    }
}
