//! The page that shows the document: it is self-contained and may load nothing else.

use super::operations;
use crate::support::contract::DOCUMENT;
use crate::support::{TestApp, chromium};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_browser_shows_every_route_and_opens_the_one_that_a_link_names() {
    let app = TestApp::start().await;
    let page = chromium::rendered(&format!("{}/docs#post_jobs", app.client.base()), &[]).await;
    for (method, path, operation) in operations() {
        let id = operation["operationId"].as_str().unwrap();
        assert!(page.contains(&format!("id=\"{id}\"")), "{method} {path} is not in the page:\n{page}");
    }
    let opened = page.matches(" open=\"\"").count();
    assert!(opened == 1 && page.contains("Responses") && page.contains(">201<"), "{opened} are open");
}

#[tokio::test]
async fn the_page_needs_nothing_from_elsewhere() {
    let app = TestApp::start().await;
    for (path, kind) in [
        ("/docs", "text/html"),
        ("/docs/errors", "text/html"),
        ("/docs/script.js", "text/javascript"),
        ("/docs/style.css", "text/css"),
    ] {
        let file = app.client.get(path).await.expect(200);
        assert!(file.header("content-type").starts_with(kind), "{path}");
        let policy = file.header("content-security-policy");
        assert!(policy.starts_with("default-src 'none'; script-src 'self'") && !policy.contains("unsafe"), "{policy}");
        assert_eq!(file.header("x-content-type-options"), "nosniff");
        assert!(!file.text.contains("http://") && !file.text.contains("https://") && !file.text.contains("innerHTML"));
    }
    let page = app.client.get("/docs").await.text;
    for needed in ["/docs/script.js", "/docs/style.css"] {
        assert!(page.contains(needed));
    }
    // The content security policy allows neither inline scripts nor inline styles.
    assert!(
        !page.contains("<script>")
            && !page.contains("<style")
            && !page.contains(" style=")
            && !page.contains("onclick")
    );
}

#[tokio::test]
async fn the_url_of_an_error_leads_to_what_its_code_means() {
    let app = TestApp::start().await;
    let refused = app.client.get("/v1/jobs/none").await.expect(404);
    let (path, anchor) = refused.text_at("/error/docs_url").split_once('#').expect("a place in a page");
    assert_eq!(anchor, refused.text_at("/error/code"));
    let page = app.client.get(path).await.expect(200);
    let responses = DOCUMENT["components"]["responses"].as_object().unwrap();
    for response in responses.values() {
        let codes = &response["content"]["application/openjobspec+json"]["schema"]["allOf"][1];
        for code in codes["properties"]["error"]["properties"]["code"]["enum"].as_array().unwrap() {
            let place = format!("<tr id={code}>");
            assert!(page.text.contains(&place), "{place} is not in the page");
        }
    }
}
