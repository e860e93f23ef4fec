//! Bundles the Lua modules, embeds the dashboard if it has been built, and puts the commit into the program for
//! `fairgate --version`.

use std::fmt::Write;
use std::path::Path;
use std::process::Command;

#[path = "src/store/bundler.rs"]
mod bundler;

#[path = "src/api/handlers/dashboard/embed.rs"]
mod embed;

const LUA: &str = "src/store/lua";
/// The folder that `npm run build` fills.
const DASHBOARD: &str = "dashboard/dist";
const DASHBOARD_SOURCE: &str = "src/api/handlers/dashboard";

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=src/store/bundler.rs");
    println!("cargo:rerun-if-changed={LUA}");
    let out = std::env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    if let Err(error) = bundle(Path::new(&out)) {
        panic!("cannot bundle the Lua modules in {LUA}: {error}");
    }
    if let Err(error) = embed_dashboard(Path::new(&out)) {
        panic!("cannot embed the dashboard in {DASHBOARD}: {error}");
    }
    name_commit();
}

/// Writes `library.lua`, a script for each command, and `scripts.rs`, which declares them all: see `src/store/script.rs`.
fn bundle(out: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let modules = bundler::Modules::read(Path::new(LUA))?;
    let message = |error: bundler::Error| error.to_string();
    let digest = sha1_smol::Sha1::from(modules.library("").map_err(message)?).digest().to_string();
    // The name changes with the text, so that versions live beside each other.
    let name = format!("fairgate_{}", &digest[..12]);
    std::fs::write(out.join("library.lua"), modules.library(&name).map_err(message)?)?;
    let mut rust = format!("const LIBRARY: &str = \"{name}\";\n\n");
    let mut declare = |kind: &str, command: &str, function: &str, text: String| -> std::io::Result<()> {
        let (file, constant) = (format!("{kind}_{command}.lua"), command.to_uppercase());
        std::fs::write(out.join(&file), &text)?;
        let sha = sha1_smol::Sha1::from(&text).digest();
        _ = writeln!(
            rust,
            "pub(super) static {constant}: Script = Script {{\n    name: \"{constant}\",\n    function: {function},\n    \
             text: include_str!(concat!(env!(\"OUT_DIR\"), \"/{file}\")),\n    sha: \"{sha}\",\n}};\n"
        );
        Ok(())
    };
    for command in modules.in_folder("commands") {
        declare("command", command, &format!("Some(\"{name}_{command}\")"), modules.script(command).map_err(message)?)?;
    }
    for script in modules.in_folder("remote") {
        declare("remote", script, "None", modules.remote_script(script).map_err(message)?)?;
    }
    let commands: Vec<String> =
        modules.in_folder("commands").map(|command| format!("&{}", command.to_uppercase())).collect();
    _ = writeln!(rust, "static COMMANDS: &[&Script] = &[{}];", commands.join(", "));
    std::fs::write(out.join("scripts.rs"), rust)?;
    Ok(())
}

/// Copies the built dashboard, so that a build in between changes nothing, and writes `dashboard.rs`, which includes the
/// copies: see `src/api/handlers/dashboard.rs`.
fn embed_dashboard(out: &Path) -> std::io::Result<()> {
    println!("cargo:rerun-if-changed={DASHBOARD_SOURCE}");
    // A path that does not exist would let cargo run this program on each build.
    if Path::new(DASHBOARD).exists() {
        println!("cargo:rerun-if-changed={DASHBOARD}");
    }
    let files = embed::read(Path::new(DASHBOARD))?;
    let copies = out.join("dashboard");
    std::fs::create_dir_all(&copies)?;
    for file in &files {
        std::fs::write(copies.join(&file.name), &file.content)?;
    }
    let absent = std::fs::read_to_string(Path::new(DASHBOARD_SOURCE).join("absent.html"))?;
    let digest = |content: &[u8]| sha1_smol::Sha1::from(content).digest().to_string();
    let place = |name: &str| copies.join(name).to_string_lossy().into_owned();
    std::fs::write(out.join("dashboard.rs"), embed::source(&files, &absent, digest, place))
}

fn name_commit() {
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
