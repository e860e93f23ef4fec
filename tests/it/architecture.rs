//! The layers stay layers: who may use whom is read from the `use` lines.

use std::path::{Path, PathBuf};

fn sources(directory: &Path) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push((path.clone(), std::fs::read_to_string(&path).unwrap()));
        }
    }
    found
}

/// Lines of the part of a file before its unit tests.
fn code(text: &str) -> impl Iterator<Item = &str> {
    text.lines()
        .take_while(|line| !line.starts_with("#[cfg(test)]"))
        .filter(|line| !line.trim_start().starts_with("//"))
}

fn forbid(module: &str, words: &[&str]) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for (path, text) in sources(&root.join(module)) {
        for line in code(&text) {
            for word in words {
                assert!(!line.contains(word), "{} must not use {word}: {line}", path.display());
            }
        }
    }
}

#[test]
fn jobs_and_fairness_are_pure() {
    for module in ["job", "fair"] {
        forbid(
            module,
            &["tokio", "redis::", "axum", "reqwest", "std::time", "std::net", "std::fs", "crate::store", "crate::api"],
        );
    }
    forbid("job", &["crate::fair"]);
}

#[test]
fn only_the_store_knows_redis() {
    for module in ["api", "planner", "dispatch", "telemetry", "config", "job"] {
        forbid(module, &["redis::"]);
    }
    for module in ["store", "planner", "dispatch", "job", "config", "telemetry"] {
        forbid(module, &["axum", "crate::api", "crate::app", "crate::cli", "clap"]);
    }
}

#[test]
fn only_weights_and_webhooks_send_requests_and_know_nothing_else() {
    let senders = ["weights", "webhooks"];
    for module in senders {
        forbid(
            module,
            &["redis::", "axum", "crate::store", "crate::api", "crate::dispatch", "crate::app", "crate::cli"],
        );
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let sends = |path: &Path| senders.iter().any(|module| path.starts_with(root.join(module)));
    for (path, text) in sources(&root).iter().filter(|(path, _)| !sends(path)) {
        let line = code(text).find(|line| line.contains("reqwest"));
        assert_eq!(line, None, "{} must not use reqwest", path.display());
    }
}

#[test]
fn each_script_is_called_from_one_place() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/store");
    let files = sources(&root);
    let scripts = std::fs::read_to_string(root.join("script.rs")).unwrap();
    let names = scripts.split("script!(").skip(1).filter_map(|rest| rest.trim_start().split(',').next());
    let names = names.filter(|name| name.chars().all(|letter| letter.is_ascii_uppercase()));
    for name in names {
        // A mention that starts a call: `NAME.call(…)`, `NAME` on a line of its own, or `&NAME` handed to one that calls.
        let starts = [format!(" {name}.call("), format!("({name}.call("), format!(" {name}\n"), format!("&{name},")];
        let uses = |text: &str| starts.iter().map(|start| text.matches(start.as_str()).count()).sum::<usize>();
        let total: usize =
            files.iter().filter(|(path, _)| !path.ends_with("script.rs")).map(|(_, text)| uses(text)).sum();
        assert_eq!(total, 1, "{name} is called from {total} places");
    }
}

#[test]
fn files_stay_small() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for (path, text) in sources(&root) {
        let lines = text.lines().count();
        assert!(lines <= 400, "{} has {lines} lines: split it", path.display());
    }
}
