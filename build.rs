//! Puts the commit into the program, for `fairgate --version`.

use std::process::Command;

fn main() {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
        Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let commit = git(&["rev-parse", "--short=12", "HEAD"]).unwrap_or_else(|| "unknown commit".to_owned());
    println!("cargo:rustc-env=FAIRGATE_COMMIT={commit}");
    // HEAD changes on checkout, its log on every commit; outside a checkout there is nothing to watch.
    for path in ["HEAD", "logs/HEAD"].into_iter().filter_map(|file| git(&["rev-parse", "--git-path", file])) {
        println!("cargo:rerun-if-changed={path}");
    }
}
