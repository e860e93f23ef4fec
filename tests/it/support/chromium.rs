//! A real browser.

use std::process::Stdio;
use std::time::Duration;
use tempfile::TempDir;
use tokio::process::Command;

/// Switches that keep Chromium from contacting its vendor's servers and from requiring a sandbox, which root does not
/// get.
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

/// The time limit for starting a browser and showing a page on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(120);

fn command(profile: &TempDir, switches: &[&str]) -> Command {
    let mut browser = Command::new("chromium");
    browser.args(QUIETLY).arg(format!("--user-data-dir={}", profile.path().display())).args(switches);
    browser.stderr(Stdio::null()).kill_on_drop(true);
    browser
}

/// Returns the DOM of a page after its scripts have run.
pub async fn rendered(url: &str, switches: &[&str]) -> String {
    let profile = tempfile::tempdir().unwrap();
    let mut browser = command(&profile, switches);
    browser.args(["--virtual-time-budget=10000", "--dump-dom", url]);
    let output = tokio::time::timeout(PATIENCE, browser.output()).await.expect("it ends");
    String::from_utf8(output.expect("chromium is there: scripts/test installs it").stdout).unwrap()
}

/// Shows a page until `done` returns a value, for pages that wait for more than their own requests.
pub async fn shown<T>(url: &str, done: impl AsyncFn() -> Option<T>) -> T {
    let profile = tempfile::tempdir().unwrap();
    let mut browser = command(&profile, &["--remote-debugging-port=0"]);
    let _browser = browser.arg(url).stdout(Stdio::null()).spawn().expect("chromium is there: scripts/test installs it");
    let looking = async {
        loop {
            match done().await {
                Some(answer) => return answer,
                None => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    };
    tokio::time::timeout(PATIENCE, looking).await.expect("the page is done")
}
