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
    for module in ["api", "auth", "main_queue", "planner", "dispatch", "telemetry", "config", "job"] {
        forbid(module, &["redis::"]);
    }
    for module in ["store", "auth", "main_queue", "planner", "dispatch", "job", "config", "telemetry"] {
        forbid(module, &["axum", "crate::api", "crate::app", "crate::cli", "clap"]);
    }
}

#[test]
fn only_weights_sends_requests_and_knows_nothing_else() {
    forbid(
        "weights",
        &["redis::", "axum", "crate::store", "crate::api", "crate::dispatch", "crate::app", "crate::cli"],
    );
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for (path, text) in sources(&root).iter().filter(|(path, _)| !path.starts_with(root.join("weights"))) {
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
fn every_route_stands_in_the_table_that_says_who_may_use_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/api");
    for (path, text) in sources(&root) {
        let routes = code(&text).filter(|line| line.contains(".route(") || line.contains("State<Api>")).count();
        let allowed = match path.file_name().and_then(|name| name.to_str()) {
            Some("mod.rs") => 1,   // which makes the router of the table
            Some("frame.rs") => 1, // which asks who is let in
            _ => 0,
        };
        assert_eq!(routes, allowed, "{} makes routes, or answers without asking for whom", path.display());
    }
}

#[test]
fn keys_are_compared_in_constant_time() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/auth/digest.rs");
    let text = std::fs::read_to_string(root).unwrap();
    assert!(text.contains("self.0.ct_eq(&other.0).into()"));
    assert!(code(&text).all(|line| !line.contains("derive(") || !line.contains("PartialEq")));
}

#[test]
fn files_stay_small() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for (path, text) in sources(&root) {
        let lines = text.lines().count();
        assert!(lines <= 400, "{} has {lines} lines: split it", path.display());
    }
}
