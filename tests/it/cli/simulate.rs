//! `fairgate simulate`: runs scenarios and shows their results.

use crate::planner;
use crate::support::{TestApp, json};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn simulate(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_fairgate")).arg("simulate").args(arguments).output().expect("it runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Standard output of a successful run, which writes nothing else.
#[track_caller]
fn shown(arguments: &[&str]) -> String {
    let output = simulate(arguments);
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()), "{arguments:?}");
    text(&output.stdout)
}

fn parsed(arguments: &[&str]) -> Value {
    serde_json::from_str(&shown(arguments)).expect("one JSON object")
}

/// A scenario in a temporary directory.
struct File {
    _directory: tempfile::TempDir,
    path: PathBuf,
}

impl File {
    fn new(name: &str, content: &str) -> File {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(name);
        std::fs::write(&path, content).unwrap();
        File { _directory: directory, path }
    }

    fn path(&self) -> &str {
        self.path.to_str().expect("UTF-8")
    }
}

const FLOOD: &str = "\
workers = 10
[[tenant]]
name = \"noisy\"
burst = 1000
[[tenant]]
name = \"quiet\"
count = 3
rate = 2
";

/// The columns of the line that begins with a word.
fn line<'a>(shown: &'a str, word: &str) -> Vec<&'a str> {
    let line = shown.lines().find(|line| line.starts_with(word));
    line.unwrap_or_else(|| panic!("no line for {word} in\n{shown}")).split_whitespace().collect()
}

#[test]
fn a_table_shows_each_tenant_and_the_totals() {
    let file = File::new("flood.toml", FLOOD);
    let shown = shown(&[file.path()]);
    assert!(shown.starts_with("flood: fair, 10 workers, seed 1\n\ntenant"), "{shown}");
    assert_eq!(line(&shown, "noisy")[..3], ["noisy", "1", "1,000"]);
    assert_eq!(line(&shown, "quiet")[..3], ["quiet", "×3", "1"]);
    for word in ["all", "Jain index", "utilisation", "throughput", "makespan", "rounds", "promotions from exact"] {
        line(&shown, word);
    }
}

#[test]
fn json_has_the_same_values_and_the_timeline() {
    let file = File::new("flood.toml", FLOOD);
    let report = parsed(&[file.path(), "--json"]);
    assert_eq!((&report["scenario"], &report["mode"], &report["seed"]), (&json!("flood"), &json!("fair"), &json!(1)));
    let jobs: Vec<u64> = report["tenants"].as_array().unwrap().iter().filter_map(|one| one["jobs"].as_u64()).collect();
    assert_eq!((jobs[0], jobs[0] + jobs[1]), (1000, report["totals"]["jobs"].as_u64().unwrap()));
    assert_eq!(report["totals"]["completed"], report["totals"]["jobs"]);
    assert!(report["tenants"][1]["wait"]["p95_ms"].as_f64().unwrap() < 500.0, "{report}");
    let points = report["timeline"]["at_ms"].as_array().unwrap().len();
    assert_eq!(report["timeline"]["tenants"][0].as_array().unwrap().len(), points);
}

#[test]
fn the_same_seed_gives_the_same_answer_and_another_one_another() {
    let file = File::new("flood.toml", FLOOD);
    let [first, again] = [(); 2].map(|()| shown(&[file.path(), "--json"]));
    assert_eq!(first, again);
    assert_ne!(first, shown(&[file.path(), "--json", "--seed", "2"]));
}

#[test]
fn one_scenario_is_compared_with_first_in_first_out() {
    let file = File::new("flood.toml", FLOOD);
    let report = parsed(&[file.path(), "--compare", "--json"]);
    assert_eq!([&report["a"]["mode"], &report["b"]["mode"]], [&json!("fifo"), &json!("fair")]);
    let waits = |letter: &str| report[letter]["tenants"][1]["wait"]["p95_ms"].as_f64().unwrap();
    assert!(waits("a") > 7_000.0 && waits("b") < 500.0, "{} {}", waits("a"), waits("b"));
    let difference = &report["difference"]["tenants"][1];
    assert_eq!((&difference["name"], &difference["jobs"]), (&json!("quiet"), &json!(0)));
    assert!((difference["wait"]["p95_ms"].as_f64().unwrap() - (waits("b") - waits("a"))).abs() < 0.001);
    let table = shown(&[file.path(), "--compare"]);
    assert!(table.starts_with("A  flood: first in, first out, 10 workers, seed 1\nB  flood: fair,"), "{table}");
    assert!(line(&table, "quiet").iter().any(|cell| cell.starts_with('−')), "{table}");
}

#[test]
fn two_scenarios_are_compared_by_the_names_of_their_tenants() {
    let (few, many) = (File::new("few.toml", FLOOD), File::new("many.toml", &FLOOD.replace("10", "20")));
    let report = parsed(&[few.path(), many.path(), "--compare", "--json"]);
    let makespan = |place: &Value| place["totals"]["makespan_ms"].as_f64().unwrap();
    assert!((makespan(&report["difference"]) - (makespan(&report["b"]) - makespan(&report["a"]))).abs() < 0.001);
    let other = File::new("other.toml", &FLOOD.replace("quiet", "silent"));
    let table = shown(&[few.path(), other.path(), "--compare"]);
    assert_eq!(line(&table, "silent")[2], "–", "{table}");
    let output = simulate(&[few.path(), many.path()]);
    assert_eq!(output.status.code(), Some(64));
    assert_eq!(text(&output.stderr), "error: two scenarios are compared; add --compare\n");
}

#[test]
fn a_page_is_self_contained_and_escapes_names() {
    let file = File::new("flood.toml", &FLOOD.replace("noisy", "<b>&'\\\""));
    let page = file.path.with_extension("html");
    for (arguments, charts) in [(&[file.path()][..], 2), (&[file.path(), "--compare"], 4)] {
        shown(&[arguments, &["--html", page.to_str().unwrap()]].concat());
        let html = std::fs::read_to_string(&page).unwrap();
        assert_eq!(html.matches("<svg ").count(), charts);
        assert!(html.contains("prefers-color-scheme: dark") && html.contains("&lt;b&gt;&amp;&#39;&quot;"), "{html}");
        for forbidden in ["<script", "http:", "https:", "src=", "href=", "url(", "@import", "<b>", "NaN", "inf"] {
            assert!(!html.contains(forbidden), "{forbidden}");
        }
        let opened = |tag: &str| html.matches(&format!("<{tag}>")).count() + html.matches(&format!("<{tag} ")).count();
        for tag in ["svg", "table", "tr", "section", "div", "text", "title"] {
            assert_eq!(opened(tag), html.matches(&format!("</{tag}>")).count(), "{tag}");
        }
    }
    let output = simulate(&[file.path(), "--html", "/no/such/directory/page.html"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("cannot write /no/such/directory/page.html"), "{output:?}");
}

#[test]
fn errors_of_all_scenarios_come_at_once() {
    let first = File::new("first.toml", "workers = 0\n[[tenant]]\nname = \"a\"\nrate = 1\n");
    let second = File::new("second.toml", "[[tenant]]\nname = \"a\"\nburst = 5\nrun_tme = \"1s\"\n");
    let output = simulate(&[first.path(), second.path(), "--compare"]);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(64), String::new()));
    let said = text(&output.stderr);
    for part in
        ["first.toml:1:11", "at least 1 and at most 100000, found 0", "second.toml:4:1", "did you mean \"run_time\"?"]
    {
        assert!(said.contains(part), "{part} is missing in\n{said}");
    }
    let output = simulate(&["no-such.toml"]);
    assert_eq!(output.status.code(), Some(64));
    assert!(text(&output.stderr).starts_with("error: cannot read the scenario no-such.toml: "), "{output:?}");
}

#[test]
fn the_printed_scenario_works() {
    let file = File::new("example.toml", &shown(&["--example"]));
    assert_eq!(line(&shown(&[file.path()]), "quiet")[1], "×20");
    // Each option that is commented out shows its default, so it changes nothing.
    let options = |line: &str| {
        let is_option = line.strip_prefix("# ").is_some_and(|rest| rest.split(' ').nth(1) == Some("="));
        if is_option { line[2..].to_owned() } else { line.to_owned() }
    };
    let example = shown(&["--example"]);
    let left_out = ["jobs", "every", "on", "off"];
    let is_left_out = |line: &&str| left_out.iter().any(|key| line.starts_with(&format!("# {key} =")));
    let all: Vec<String> = example.lines().filter(|line| !is_left_out(line)).map(options).collect();
    let run_time = "run_time = \"100ms\"       # instead";
    let all = all.join("\n").replace(run_time, &run_time.replace("run_time", "# run_time"));
    let defaults = File::new("example.toml", &all);
    assert_eq!(shown(&[defaults.path(), "--json"]), shown(&[file.path(), "--json"]));
}

/// Every example with the tenants whose 95th percentile is below a bound, in milliseconds.
const SCENARIOS: &[(&str, &str, f64)] = &[
    ("flood.toml", "quiet", 500.0),
    ("weights.toml", "enterprise", 100_000.0),
    ("batch-size.toml", "interactive", 5_000.0),
    ("batch-size-fixed.toml", "bulk", 60_000.0),
];

#[test]
fn each_example_scenario_runs_and_none_is_forgotten() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/examples/scenarios");
    for (file, tenant, bound) in SCENARIOS {
        let report = parsed(&[directory.join(file).to_str().unwrap(), "--json"]);
        let entries = report["tenants"].as_array().unwrap();
        let entry = entries.iter().find(|entry| entry["name"] == *tenant).expect("it is there");
        assert!(entry["wait"]["p95_ms"].as_f64().is_some_and(|wait| wait < *bound), "{file}: {entry}");
        assert_eq!(report["totals"]["left"], 0);
    }
    let files = std::fs::read_dir(directory).expect("a directory").map(|entry| entry.expect("an entry").file_name());
    let there: BTreeSet<String> = files.map(|name| name.to_string_lossy().into_owned()).collect();
    assert_eq!(there, SCENARIOS.iter().map(|(file, ..)| (*file).to_owned()).collect());
}

#[test]
fn the_example_of_weights_shares_by_weight_and_that_of_the_flood_protects_quiet_tenants() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/examples/scenarios");
    let path = |file: &str| directory.join(file).to_str().unwrap().to_owned();
    let report = parsed(&[&path("weights.toml"), "--json"]);
    for tenant in report["tenants"].as_array().unwrap() {
        let share = |key: &str| tenant[key].as_f64().unwrap();
        assert!((share("share") - share("expected_share")).abs() < 0.002, "{tenant}");
    }
    let report = parsed(&[&path("flood.toml"), "--compare", "--json"]);
    let quiet = &report["difference"]["tenants"][1];
    assert!(quiet["wait"]["p95_ms"].as_f64().is_some_and(|change| change < -40_000.0), "{quiet}");
    // Auto-sizing keeps the interactive tenant's jobs from waiting behind a large batch.
    let report = parsed(&[&path("batch-size.toml"), &path("batch-size-fixed.toml"), "--compare", "--json"]);
    let interactive = &report["difference"]["tenants"][2];
    assert!(interactive["wait"]["p50_ms"].as_f64().is_some_and(|change| change > 10_000.0), "{interactive}");
}

/// A server whose rule `reports` has recorded rounds in which two tenants got the same number of jobs.
async fn recorded() -> TestApp {
    let app = planner::serving(&[planner::by_hand(10, |_| {})]).await;
    planner::stage(&app, &[("a", 40), ("b", 40)]).await;
    for _ in 0..8 {
        app.client.post("/v1/admin/planner/r/run", json!({})).await.expect(200);
    }
    app
}

async fn from_server(app: &TestApp, arguments: &[&str]) -> Output {
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_fairgate"));
    command.args(["simulate", "--from-server", app.client.base()]).args(arguments);
    command.output().await.expect("it runs")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn recorded_rounds_are_promoted_again_with_other_weights() {
    let app = recorded().await;
    let output = from_server(&app, &["--rule", "r", "--weight", "b=3", "--json"]).await;
    let replay: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    assert_eq!((&replay["rounds"], &replay["jobs"], &replay["unnamed_jobs"]), (&json!(8), &json!(80), &json!(0)));
    let b = replay["tenants"].as_array().unwrap().iter().find(|tenant| tenant["name"] == "b").expect("b");
    assert_eq!((&b["recorded"]["weight"], &b["simulated"]["weight"]), (&json!(1.0), &json!(3.0)));
    assert_eq!(b["recorded"]["share"], json!(0.5));
    // All 40 jobs of b are promoted within six rounds, in which both tenants wait.
    assert_eq!(b["simulated"]["share"], json!(0.6667));
    let output = from_server(&app, &["--rule", "r", "--jobs", "5", "--weight", "c=2"]).await;
    let shown = text(&output.stdout);
    assert!(shown.contains("The record does not say when jobs were enqueued."), "{shown}");
    assert!(shown.contains("Waits in B leave out the jobs that were still staged"), "{shown}");
    assert_eq!(line(&shown, "a ").last(), Some(&"20"), "half of its jobs are left: {shown}");
    assert_eq!(text(&output.stderr), "warning: the record has no tenant \"c\"\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rule_without_rounds_or_a_wrong_command_line_is_an_error() {
    let app = planner::serving(&[planner::by_hand(10, |_| {})]).await;
    for (arguments, status, part) in [
        (&["--rule", "r"][..], 1, "the server has recorded no round of rule \"r\" that promoted jobs"),
        (&["--rule", "other"], 1, "the server has no plan rule \"other\""),
        (&[], 64, "--rule <NAME>"),
        (&["--rule", "r", "--weight", "b"], 64, "expected a tenant and a weight from 0.05 to 1000, such as acme=3"),
        (&["--rule", "r", "--key-file", "/no/such/file"], 1, "cannot read the API key from /no/such/file"),
        (&["--rule", "r", "--html", "page.html"], 64, "cannot be used with"),
    ] {
        let output = from_server(&app, arguments).await;
        let said = text(&output.stderr);
        assert!(output.status.code() == Some(status) && said.contains(part), "{arguments:?}: {said}");
    }
    let output = simulate(&["--from-server", "http://127.0.0.1:1", "--rule", "r"]);
    assert!(output.status.code() == Some(1) && text(&output.stderr).contains("Connection refused"), "{output:?}");
}
