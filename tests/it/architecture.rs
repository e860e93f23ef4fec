//! Checks the layering of modules by their `use` lines.

use std::path::{Path, PathBuf};

/// The folders with the source of a program.
const PROGRAMS: [&str; 2] = ["src", "benches"];

fn sources(directory: &Path, ending: &str) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(sources(&path, ending));
        } else if path.extension().is_some_and(|extension| extension == ending) {
            found.push((path.clone(), std::fs::read_to_string(&path).unwrap()));
        }
    }
    found
}

/// The lines of a file before its unit tests.
fn code(text: &str) -> impl Iterator<Item = &str> {
    text.lines()
        .take_while(|line| !line.starts_with("#[cfg(test)]"))
        .filter(|line| !line.trim_start().starts_with("//"))
}

fn forbid(module: &str, words: &[&str]) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let folder = root.join(module);
    let path = if folder.exists() { folder } else { folder.with_extension("rs") };
    let files = if path.is_dir() {
        sources(&path, "rs")
    } else {
        vec![(path.clone(), std::fs::read_to_string(&path).unwrap())]
    };
    for (path, text) in files {
        for line in code(&text) {
            for word in words {
                assert!(!line.contains(word), "{} must not use {word}: {line}", path.display());
            }
        }
    }
}

#[test]
fn the_domain_is_pure() {
    forbid("domain", &["tokio", "redis::", "axum", "reqwest", "std::time", "std::net", "std::fs"]);
}

/// The modules of the program from the bottom up: each uses only those before it.
const LAYERS: [&str; 22] = [
    "clock",
    "backoff",
    "domain",
    "auth",
    "config",
    "telemetry",
    "store",
    "weights",
    "remote",
    "webhooks",
    "main_queue",
    "rules",
    "enqueue",
    "planner",
    "sidekiq",
    "shadow",
    "background",
    "long_poll",
    "health",
    "api",
    "app",
    "cli",
];

#[test]
fn modules_use_only_those_below() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for (path, text) in sources(&root, "rs") {
        let name = path.strip_prefix(&root).unwrap();
        let module = Path::new(name.iter().next().unwrap()).with_extension("");
        let module = module.to_str().unwrap();
        if ["main", "lib"].contains(&module) {
            continue;
        }
        let own = LAYERS.iter().position(|layer| *layer == module);
        let own = own.unwrap_or_else(|| panic!("{module} has no place among the layers"));
        let above = &LAYERS[own + 1..];
        for line in code(&text) {
            let uses =
                |layer: &&&str| ["::", ";", ","].iter().any(|end| line.contains(&format!("crate::{layer}{end}")));
            let used = above.iter().find(uses).copied();
            // The cache of keys reads them from the store, which knows them as data.
            if !name.ends_with("auth/key_cache.rs") || used != Some("store") {
                assert_eq!(used, None, "{} uses a module above its own: {line}", name.display());
            }
        }
    }
}

/// Folders of the domain use only those that come before them, and the files beside the folders use none.
#[test]
fn folders_of_the_domain_have_an_order() {
    let order = [
        "limit",
        "job",
        "workflow",
        "cron",
        "tenant",
        "fairness",
        "plan",
        "pool",
        "noisy",
        "shadow",
        "simulation",
        "explain",
        "autoscale",
        "health",
    ];
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/domain");
    let mut files = 0;
    for (path, text) in sources(&root, "rs") {
        let name = path.strip_prefix(&root).unwrap();
        let folder = name.parent().and_then(|parent| parent.iter().next()).and_then(|folder| folder.to_str());
        let own = folder.map(|folder| order.iter().position(|name| *name == folder).unwrap());
        let later = &order[own.map_or(0, |own| own + 1)..];
        for line in code(&text) {
            let beside = |later: &str| folder.is_none() && line.contains(&format!("super::{later}::"));
            let used = later.iter().find(|later| line.contains(&format!("domain::{later}::")) || beside(later));
            assert_eq!(used, None, "{} uses a later folder: {line}", name.display());
        }
        files += usize::from(own.is_some());
    }
    assert!(files > 30, "the folders have only {files} files");
}

#[test]
fn only_the_store_knows_redis() {
    for module in LAYERS.iter().filter(|module| !["store", "cli", "app"].contains(module)) {
        forbid(module, &["redis::"]);
    }
    for module in LAYERS.iter().filter(|module| !["api", "cli", "app"].contains(module)) {
        forbid(module, &["axum", "clap"]);
    }
    for module in LAYERS.iter().filter(|module| **module != "cli") {
        forbid(module, &["ratatui", "crossterm"]);
    }
}

#[test]
fn commands_are_at_the_top_of_the_store() {
    for folder in ["connection", "codec"] {
        forbid(&format!("store/{folder}"), &["commands::", "script::"]);
    }
}

#[test]
fn only_few_send_requests_and_know_nothing_else() {
    let senders = ["remote", "weights", "webhooks"];
    for module in senders {
        forbid(module, &["crate::store"]);
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let sends = |path: &Path| senders.iter().any(|module| path.starts_with(root.join(module)));
    for (path, text) in sources(&root, "rs").iter().filter(|(path, _)| !sends(path)) {
        let line = code(text).find(|line| line.contains("reqwest"));
        assert_eq!(line, None, "{} must not use reqwest", path.display());
    }
}

/// Control characters separate the values of stored texts. Only the codecs spell them.
#[test]
fn only_the_codecs_know_separators() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let allowed = [
        "src/store/codec/wire.rs",
        "src/store/lua/lib/wire.lua",
        "src/store/lua/lib/record.lua",
        "src/store/lua/lib/event.lua",
        // Placeholders in the template of a payload.
        "src/domain/job/sidekiq.rs",
        // The ceiling that promotion is compared with, which does nothing but the writes.
        "benches/raw_promotion.lua",
    ];
    let in_rust = ["1a", "1c", "1d", "1e", "1f"].map(|code| [format!("\\u{{{code}}}"), format!("\\x{code}")]).concat();
    let in_lua = ["26", "28", "29", "30", "31"].map(|code| [format!("\\{code}"), format!("\\0{code}")]).concat();
    for (ending, spellings) in [("rs", in_rust), ("lua", in_lua)] {
        for (path, text) in PROGRAMS.iter().flat_map(|folder| sources(&root.join(folder), ending)) {
            let name = path.strip_prefix(root).unwrap().to_str().unwrap();
            let line = text.lines().find(|line| spellings.iter().any(|spelling| line.contains(spelling)));
            assert!(line.is_none() || allowed.contains(&name), "{name} spells a separator: {line:?}");
        }
    }
}

#[test]
fn each_script_is_called_from_one_place() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/store");
    let files = sources(&root, "rs");
    let in_folder = |folder: &str| std::fs::read_dir(root.join("lua").join(folder)).unwrap();
    let names: Vec<String> = ["commands", "remote"]
        .into_iter()
        .flat_map(in_folder)
        .map(|file| file.unwrap().path().file_stem().unwrap().to_str().unwrap().to_uppercase())
        .collect();
    assert!(names.len() > 40, "{names:?}");
    for name in names {
        // A use that starts a call: `NAME.call(…)`, `NAME` on its own line, or `&NAME` passed to a function that calls
        // it.
        let starts = [" {}.call", "({}.call", " {}\n", "&{},", "&{}\n"].map(|start| start.replace("{}", &name));
        let uses = |text: &str| starts.iter().map(|start| text.matches(start.as_str()).count()).sum::<usize>();
        let total: usize =
            files.iter().filter(|(path, _)| !path.ends_with("script.rs")).map(|(_, text)| uses(text)).sum();
        assert_eq!(total, 1, "{name} is called from {total} places");
    }
}

/// Commands that are called for each job, or all the time. Their arguments are words behind named readers.
const FLAT: &[&str] = &["ack", "enqueue", "fetch", "nack", "outbox_promote", "promote", "read", "tick"];

/// Other commands name their arguments and the fields of their replies.
#[test]
fn cold_commands_take_and_return_named_fields() {
    let commands = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/store/lua/commands");
    for (path, text) in sources(&commands, "lua") {
        let name = path.file_stem().unwrap().to_str().unwrap();
        let is_packed = text.contains("require('lib/packed')");
        assert_eq!(is_packed, !FLAT.contains(&name), "{name} uses lib/packed: {is_packed}");
        let by_position = text.lines().find(|line| line.contains("ctx.args"));
        assert!(!is_packed || by_position.is_none(), "{name} reads an argument by its position: {by_position:?}");
    }
}

/// A handler gets its state only from the middleware, which has authorized the request.
#[test]
fn every_route_is_in_the_table_with_its_access() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/api");
    for (path, text) in sources(&root, "rs") {
        let marks = [
            "Router::new(routes::table())",
            "State<",
            ".route(",
            ".insert(path, methods)",
            "(route.handler)",
            "HandlerState {",
        ];
        let routes = code(&text).filter(|line| marks.iter().any(|mark| line.contains(mark))).count();
        let allowed = match path.strip_prefix(&root).ok().and_then(|name| name.to_str()) {
            Some("mod.rs") => 1,        // builds the router from the table
            Some("router.rs") => 1,     // indexes the table by path
            Some("middleware.rs") => 1, // authorizes the request, then runs the handler
            Some("context.rs") => 1,    // declares the state of a handler
            _ => 0,
        };
        assert_eq!(routes, allowed, "{} adds a route, or runs a handler without authorization", path.display());
    }
}

/// Only the cache of keys does I/O; a key and its role are data.
#[test]
fn keys_and_roles_are_pure() {
    for module in ["auth/digest.rs", "auth/key.rs", "auth/role.rs"] {
        forbid(module, &["tokio", "reqwest", "std::time", "std::net", "std::fs", "crate::store", "key_cache"]);
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
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for (path, text) in PROGRAMS.iter().flat_map(|folder| sources(&root.join(folder), "rs")) {
        let lines = text.lines().count();
        assert!(lines <= 400, "{} has {lines} lines: split it", path.display());
    }
}

/// The manifest names the benchmarks, but the image is built without their source.
#[test]
fn the_image_is_built_without_the_benchmarks() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |path: &str| std::fs::read_to_string(root.join(path)).unwrap();
    assert!(!read(".dockerignore").contains("benches"));
    let (dockerfile, build) = (read("deploy/Dockerfile"), "cargo build --profile dist --locked");
    assert_eq!(dockerfile.matches(build).count(), 2);
    assert_eq!(dockerfile.matches(&format!("{build} --bin fairgate ")).count(), 1);
    assert_eq!(dockerfile.matches(&format!("{build} --bin fairgate\n")).count(), 1);
}

/// The image is built from few files; every file that is compiled in must be among them.
#[test]
fn files_that_are_compiled_in_are_part_of_the_image() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |path: &str| std::fs::read_to_string(root.join(path)).unwrap();
    let (kept, dockerfile) = (read(".dockerignore"), read("deploy/Dockerfile"));
    let mut outside = 0;
    for (path, text) in sources(&root.join("src"), "rs") {
        for included in text.split("include_str!(\"").skip(1).filter_map(|rest| rest.split('"').next()) {
            let file = path.parent().unwrap().join(included).canonicalize().unwrap();
            let name = file.strip_prefix(root.canonicalize().unwrap()).unwrap().to_str().unwrap();
            if !name.starts_with("src/") {
                outside += 1;
                assert!(kept.lines().any(|line| line == format!("!{name}")), "{name} is not in .dockerignore");
                assert!(dockerfile.contains(&format!("COPY {name} {name}")), "{name} is not in the Dockerfile");
            }
        }
    }
    assert!(outside > 0, "the page of errors is a file outside src");
}
