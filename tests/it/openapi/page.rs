//! The page that browses the document: everything it needs is here, and it may load nothing else.

use crate::support::TestApp;

#[tokio::test]
async fn the_page_needs_nothing_from_elsewhere() {
    let app = TestApp::start().await;
    for (path, kind) in
        [("/docs", "text/html"), ("/docs/script.js", "text/javascript"), ("/docs/style.css", "text/css")]
    {
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
    // The policy allows neither scripts nor styles that stand in the page.
    assert!(
        !page.contains("<script>")
            && !page.contains("<style")
            && !page.contains(" style=")
            && !page.contains("onclick")
    );
}
