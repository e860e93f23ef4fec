//! Checks that `docs/conformance.md` names a test for every requirement and that each of them exists.

use std::path::Path;

const REQUIREMENTS: [&str; 44] = [
    "FS-001",
    "FS-002",
    "FS-003",
    "FS-004",
    "FS-R001",
    "FS-R002",
    "FS-R003",
    "FS-R004",
    "FS-R005",
    "FS-R006",
    "RL-001",
    "RL-002",
    "RL-003",
    "RL-004",
    "RL-005",
    "RL-006",
    "RL-R001",
    "RL-R002",
    "RL-R003",
    "RL-R004",
    "RL-R005",
    "MT-001",
    "MT-002",
    "MT-003",
    "MT-004",
    "MT-005",
    "MT-006",
    "MT-identity",
    "MT-noise",
    "MT-throttle",
    "MT-controls",
    "MT-events",
    "MT-workflows",
    "MT-default",
    "MT-quotas",
    "WF-chain",
    "WF-chain-failure",
    "WF-group",
    "WF-batch",
    "WF-nesting",
    "WF-cancel",
    "WF-events",
    "WF-atomic",
    "WF-retention",
];

fn exists(name: &str) -> bool {
    let mut parts: Vec<&str> = name.split("::").collect();
    let Some(function) = parts.pop() else { return false };
    let base = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it").join(parts.join("/"));
    let files = [base.with_extension("rs"), base.join("mod.rs")];
    let text = files.iter().find_map(|file| std::fs::read_to_string(file).ok()).unwrap_or_default();
    let at = text.find(&format!("fn {function}("));
    // A function without the attribute is not a test.
    at.is_some_and(|at| text[..at].rfind("test").is_some_and(|test| at - test < 120))
}

#[test]
fn every_requirement_has_tests_that_exist() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/conformance.md");
    let text = std::fs::read_to_string(path).expect("the document");
    let mut missing = Vec::new();
    for requirement in REQUIREMENTS {
        let row = text.lines().find(|line| line.starts_with(&format!("| {requirement} |"))).unwrap_or_default();
        let names: Vec<&str> = row.split('`').skip(1).step_by(2).filter(|name| name.contains("::")).collect();
        if names.is_empty() {
            missing.push(format!("{requirement}: no test"));
        }
        missing.extend(names.iter().filter(|name| !exists(name)).map(|name| format!("{requirement}: {name}")));
    }
    assert_eq!(missing, Vec::<String>::new());
}
