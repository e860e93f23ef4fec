//! The page that browses the document: everything it needs is here, and it may load nothing else.

use super::operations;
use crate::support::TestApp;
use std::process::Stdio;
use std::time::Duration;

/// Switches without which Chromium looks for its maker's servers, or for a sandbox that root does not get.
const QUIETLY: [&str; 8] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
];

/// The page as a browser has it once its scripts have run.
async fn rendered(url: &str) -> String {
    let profile = tempfile::tempdir().unwrap();
    let mut browser = tokio::process::Command::new("chromium");
    browser.args(QUIETLY).arg(format!("--user-data-dir={}", profile.path().display()));
    browser.args(["--virtual-time-budget=10000", "--dump-dom", url]).stderr(Stdio::null()).kill_on_drop(true);
    let output = tokio::time::timeout(Duration::from_secs(120), browser.output()).await.expect("it ends");
    String::from_utf8(output.expect("chromium is there: scripts/test installs it").stdout).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_browser_shows_every_route_and_opens_the_one_that_a_link_names() {
    let app = TestApp::start().await;
    let page = rendered(&format!("{}/docs#post_jobs", app.client.base())).await;
    for (method, path, operation) in operations() {
        let id = operation["operationId"].as_str().unwrap();
        assert!(page.contains(&format!("id=\"{id}\"")), "{method} {path} is not in the page:\n{page}");
    }
    let opened = page.matches(" open=\"\"").count();
    assert!(opened == 1 && page.contains("Answers") && page.contains(">201<"), "{opened} are open");
}

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
