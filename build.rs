//! Puts the commit into the program, for `fairgate --version`.

use std::process::Command;

fn main() {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
        Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    // An image is built without the repository, so its build passes the commit.
    println!("cargo:rerun-if-env-changed=FAIRGATE_COMMIT");
    let passed = std::env::var("FAIRGATE_COMMIT").ok();
    let commit = passed.or_else(|| git(&["rev-parse", "--short=12", "HEAD"]));
    let commit = commit.unwrap_or_else(|| "unknown commit".to_owned());
    println!("cargo:rustc-env=FAIRGATE_COMMIT={commit}");
    // HEAD changes on checkout, its log on every commit; outside a checkout there is nothing to watch.
    for path in ["HEAD", "logs/HEAD"].into_iter().filter_map(|file| git(&["rev-parse", "--git-path", file])) {
        println!("cargo:rerun-if-changed={path}");
    }
}
