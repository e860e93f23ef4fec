//! The recording rules, the alerts and the dashboard: `promtool` accepts them, the alerts fire as they should, every metric
//! that they name exists, and every runbook that they name exists.

use fairgate::domain::job::State;
use fairgate::domain::plan::Closed;
use fairgate::telemetry::{
    DispatchLevels, Format, LimitLevel, Metrics, PoolLevel, RuleLevels, ScalingLevel, TenantLevel,
};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn promtool(arguments: &[&str]) -> String {
    let output = Command::new("promtool").current_dir(root().join("deploy/prometheus")).args(arguments).output();
    let output = output.expect("promtool runs; scripts/test installs it");
    let said = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    assert!(output.status.success(), "promtool {arguments:?}: {said}");
    said
}

/// The names of all samples of a server on which everything has happened that the rules, alerts and panels are about.
fn exposed() -> BTreeSet<String> {
    let metrics = Metrics::default();
    let second = Duration::from_secs(1);
    metrics.http.observe("GET", "/ready", 200, second);
    metrics.store.observe("fetch", second, false);
    metrics.store.group("fetch", 1);
    metrics.jobs.enqueued("q", "t");
    metrics.jobs.started("q", "t", 1);
    metrics.jobs.completed("q", "t", 1);
    metrics.jobs.discarded("q", "t");
    metrics.jobs.retried("q", "t");
    metrics.jobs.depths(&[("q".to_owned(), BTreeMap::from([(State::Available, 1)]))]);
    metrics.weights.observe("r", "ok", second, 1);
    metrics.planner.round("r", "promoted", None, 1.0);
    metrics.planner.slow("r");
    metrics.planner.promoted("r", "acme", 1);
    metrics.planner.levels([("r", RuleLevels { closed: Some(Closed::Depth), ..RuleLevels::default() })]);
    metrics.noise.throttled("acme");
    metrics.noise.shares(1, &[("acme", 0.5)]);
    metrics.sidekiq.unplanned("legacy", "HeavyJob");
    metrics.store.dispatch.dispatched("q", None, 1);
    metrics.store.dispatch.starved("q");
    metrics.store.dispatch.levels(&DispatchLevels {
        queues: vec![("q", 1.0)],
        pools: vec![PoolLevel { name: "p", active: 1, most: 2 }],
        limits: vec![LimitLevel { key: "k", active: 1, waiting: 1 }],
    });
    metrics.store.tenants.levels(&[TenantLevel { tenant: "acme".to_owned(), active: 1, depth: 1 }], (1, 1));
    let numbers = (Some(1), Some(1.0));
    metrics.scaling.levels(&[ScalingLevel {
        kind: "rule",
        name: "r",
        backlog_jobs: numbers.0,
        backlog_seconds: numbers.1,
        load: numbers.1,
        workers_wanted: numbers.0,
    }]);
    let text = metrics.encode(Format::Text);
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    samples.map(|line| line.split(['{', ' ']).next().unwrap_or_default().to_owned()).collect()
}

/// Returns the names of metrics in a PromQL expression. All names of this project begin with one of two prefixes.
fn metrics_in(expression: &str) -> BTreeSet<String> {
    // Texts in quotes are values of labels.
    let code = expression.split('"').step_by(2).collect::<Vec<_>>().join(" ");
    let words = code.split(|letter: char| !(letter.is_ascii_alphanumeric() || "_:".contains(letter)));
    let own = words.filter(|word| ["fairgate_", "fairgate:", "ojs_"].iter().any(|prefix| word.starts_with(prefix)));
    own.map(str::to_owned).collect()
}

/// Returns the values of a key in a file with rules, with those that continue on further lines.
fn values(text: &str, key: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut folded = None; // the indentation of a key whose value is on further lines
    for line in text.lines() {
        let indent = line.len() - line.trim_start().len();
        if let Some(value) = line.trim_start().trim_start_matches("- ").strip_prefix(&format!("{key}: ")) {
            folded = value.starts_with(">-").then_some(indent);
            found.push(value.trim_start_matches(">-").to_owned());
        } else if let (true, Some(last)) = (folded.is_some_and(|of_key| indent > of_key), found.last_mut()) {
            last.push_str(line.trim_start());
            last.push(' ');
        } else {
            folded = None;
        }
    }
    found
}

/// The names that expressions may use: exposed samples and recorded series.
fn known() -> BTreeSet<String> {
    let recorded = values(&read("deploy/prometheus/rules.yml"), "record");
    assert!(recorded.len() > 5, "{recorded:?}");
    exposed().into_iter().chain(recorded).collect()
}

fn assert_known(expressions: &[String], least: usize, place: &str) {
    let known = known();
    assert!(expressions.len() >= least, "{place} has only {} expressions", expressions.len());
    for expression in expressions {
        let unknown: Vec<String> = metrics_in(expression).into_iter().filter(|name| !known.contains(name)).collect();
        assert!(unknown.is_empty(), "{place}: /metrics has no {unknown:?}: {expression}");
    }
}

#[test]
fn promtool_accepts_the_rules_and_the_alerts() {
    let said = promtool(&["check", "rules", "rules.yml", "alerts.yml"]);
    assert_eq!(said.matches("SUCCESS").count(), 2, "{said}");
}

#[test]
fn each_alert_fires_and_stays_silent_as_its_tests_say() {
    promtool(&["test", "rules", "tests.yml"]);
    let (alerts, tests) = (values(&read("deploy/prometheus/alerts.yml"), "alert"), read("deploy/prometheus/tests.yml"));
    assert!(alerts.len() >= 10, "{alerts:?}");
    for alert in alerts {
        for outcome in ["fires", "does not fire"] {
            assert!(
                tests.contains(&format!("name: {alert} {outcome}\n")),
                "tests.yml has no test that {alert} {outcome}"
            );
        }
    }
}

#[test]
fn rules_and_alerts_name_only_metrics_that_exist() {
    for (file, least) in [("rules.yml", 5), ("alerts.yml", 10)] {
        assert_known(&values(&read(&format!("deploy/prometheus/{file}")), "expr"), least, file);
    }
}

/// Returns the anchors of a Markdown file, as its headings get them.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = text.lines().filter_map(|line| Some(line.strip_prefix('#')?.trim_start_matches('#').trim()));
    let plain = |heading: &str| {
        heading.to_lowercase().replace(|letter: char| !(letter.is_alphanumeric() || " -_".contains(letter)), "")
    };
    headings.map(|heading| plain(heading).replace(' ', "-")).collect()
}

#[test]
fn each_alert_has_a_severity_texts_and_a_runbook_that_exists() {
    let text = read("deploy/prometheus/alerts.yml");
    let alerts: Vec<&str> = text.split("- alert: ").skip(1).collect();
    let mut runbooks = BTreeSet::new();
    for alert in &alerts {
        let name = alert.lines().next().unwrap();
        for part in ["expr: ", "labels: { severity: ", "summary: \"", "description: \""] {
            assert!(alert.contains(part), "{name} has no {part}");
        }
        let severity = alert.split("severity: ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
        assert!(["critical", "warning", "info"].contains(&severity), "{name}: {severity}");
        let url = values(alert, "runbook_url").pop().unwrap_or_else(|| panic!("{name} has no runbook"));
        let (file, anchor) = url.split_once('#').unwrap();
        assert!(anchors(&read(file)).contains(anchor), "{name}: {file} has no section {anchor}");
        runbooks.insert(anchor.to_owned());
    }
    let sections = anchors(&read("docs/guides/runbooks.md"));
    let unused: Vec<_> =
        sections.iter().filter(|anchor| *anchor != "runbooks" && !runbooks.contains(*anchor)).collect();
    assert!(unused.is_empty() && runbooks.len() == alerts.len(), "runbooks without an alert: {unused:?}");
}

/// Calls `look` with every value of a document.
fn walk(value: &Value, look: &mut impl FnMut(&Value)) {
    look(value);
    match value {
        Value::Object(members) => members.values().for_each(|member| walk(member, look)),
        Value::Array(items) => items.iter().for_each(|item| walk(item, look)),
        _ => {}
    }
}

fn dashboard() -> Value {
    serde_json::from_str(&read("deploy/grafana/fairgate.json")).expect("the dashboard is JSON")
}

/// The expressions of the dashboard's panels.
fn panel_expressions() -> Vec<String> {
    let mut found = Vec::new();
    walk(&dashboard(), &mut |value| found.extend(value["expr"].as_str().map(str::to_owned)));
    found
}

#[test]
fn the_dashboard_names_only_metrics_that_exist() {
    let dashboard = dashboard();
    assert_known(&panel_expressions(), 15, "the dashboard");
    let variables: BTreeMap<&str, &Value> = dashboard["templating"]["list"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (one["name"].as_str().unwrap(), one))
        .collect();
    assert_eq!(variables.keys().copied().collect::<Vec<_>>(), ["datasource", "job", "rule"]);
    for name in ["job", "rule"] {
        assert_known(&[variables[name]["query"]["query"].as_str().unwrap().to_owned()], 1, name);
    }
    let mut ids = BTreeSet::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        let title = panel["title"].as_str().unwrap();
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{title} has the id of another panel");
        if panel["type"] != "row" {
            assert_eq!(panel["datasource"]["uid"], "${datasource}", "{title}");
            assert!(panel["description"].as_str().is_some_and(|text| !text.is_empty()), "{title} has no description");
        }
    }
}

#[test]
fn promtool_parses_each_expression_of_the_dashboard() {
    let mut rules = "groups:\n  - name: panels\n    rules:\n".to_owned();
    for (number, expression) in panel_expressions().iter().enumerate() {
        let plain = expression.replace("$__rate_interval", "5m").replace("$__range", "1h");
        assert!(
            !plain.replace("\"$job\"", "").replace("\"$rule\"", "").contains('$'),
            "an unknown variable: {expression}"
        );
        rules.push_str(&format!("      - record: panel:{number}\n        expr: {}\n", Value::from(plain)));
    }
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("panels.yml");
    std::fs::write(&file, rules).unwrap();
    promtool(&["check", "rules", file.to_str().unwrap()]);
}
