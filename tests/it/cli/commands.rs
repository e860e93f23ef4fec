//! The command line: check, doctor, help, and a server that refuses to start with unsafe settings.

use crate::support::TestRedis;
use std::process::{Command, Output};

fn fairgate(directory: &std::path::Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_fairgate")).current_dir(directory).args(arguments).output().expect("it runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn help_has_examples_and_version_names_the_commit() {
    let directory = tempfile::tempdir().unwrap();
    let help = text(&fairgate(directory.path(), &["--help"]).stdout);
    for part in ["serve", "check", "doctor", "Examples:", "FAIRGATE_SERVER__LISTEN"] {
        assert!(help.contains(part), "{part} is missing in {help}");
    }
    for (command, part) in [
        (&["serve"][..], "readiness off"),
        (&["doctor"], "Exit status: 0"),
        (&["sidekiq", "inspect"], "the tenants of waiting jobs"),
        (&["sidekiq", "release"], "Exit status: 0 if all jobs of the Sidekiq were returned"),
        (&["sidekiq", "release"], "Refuses to run while a fairgate process imports jobs"),
    ] {
        let help = text(&fairgate(directory.path(), &[command, &["--help"]].concat()).stdout);
        // Help lines are wrapped to the width of the terminal.
        let help: Vec<&str> = help.split_whitespace().collect();
        assert!(help.join(" ").contains(part), "{part} is missing in {help:?}");
    }
    let version = text(&fairgate(directory.path(), &["--version"]).stdout);
    assert!(version.starts_with("fairgate 0.") && version.contains('('), "{version}");
}

#[test]
fn errors_on_the_command_line_exit_with_64() {
    let directory = tempfile::tempdir().unwrap();
    for arguments in [
        &["serve", "--bogus"][..],
        &["frobnicate"],
        &[],
        &["keys", "revoke"],
        &["keys", "create", "x", "--role", "king", "--offline"],
    ] {
        let output = fairgate(directory.path(), arguments);
        assert_eq!(output.status.code(), Some(64), "{arguments:?}");
        assert!(!output.stderr.is_empty() && output.stdout.is_empty(), "{arguments:?}: {output:?}");
    }
    for arguments in [&["--help"][..], &["--version"], &["keys", "create", "--help"], &["help"]] {
        let output = fairgate(directory.path(), arguments);
        assert_eq!((output.status.code(), output.stderr.is_empty()), (Some(0), true), "{arguments:?}");
        assert!(!output.stdout.is_empty(), "{arguments:?}");
    }
}

#[test]
fn a_configuration_file_that_is_missing_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let output = fairgate(directory.path(), &["check", "--config", "/nonexistent"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(64), "{said}");
    assert!(said.starts_with("error: cannot read the configuration file /nonexistent: "), "{said}");
}

#[test]
fn check_reports_all_errors_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let file = "[server]\nlisten = \"localhost\"\nrolls = [\"api\"]\n\n[limits]\nmax_batch = 0\n\n[store]\nurl = \"redis://:geheim@h\"\n";
    std::fs::write(directory.path().join("fairgate.toml"), file).unwrap();
    let output = fairgate(directory.path(), &["check"]);
    assert_eq!(output.status.code(), Some(64));
    let said = text(&output.stderr);
    for part in [
        "fairgate.toml:2",
        "server.listen",
        "fairgate.toml:3",
        "server.rolls",
        "roles",
        "fairgate.toml:6",
        "limits.max_batch",
        "4 errors",
    ] {
        assert!(said.contains(part), "{part} is missing in\n{said}");
    }
    assert!(!said.contains("geheim"), "secrets are never printed:\n{said}");
}

#[test]
fn check_prints_every_value_and_where_it_came_from() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("fairgate.toml"), "[limits]\nmax_batch = 7\n").unwrap();
    let output = fairgate(directory.path(), &["check", "--namespace", "blue"]);
    assert_eq!(output.status.code(), Some(0));
    let said = text(&output.stdout);
    let line = |key: &str| said.lines().find(|line| line.trim().starts_with(key)).unwrap_or_default().to_owned();
    assert!(line("max_batch").contains("7") && line("max_batch").contains("fairgate.toml:2"), "{said}");
    assert!(line("namespace").contains("blue") && line("namespace").contains("--namespace"), "{said}");
    assert!(line("max_meta").contains("default"), "{said}");
}

#[test]
fn check_names_the_rule_of_a_type() {
    let directory = tempfile::tempdir().unwrap();
    let file = "[[plan]]\nname = \"daily\"\ntypes = [\"report.daily\"]\n\n[[plan]]\nname = \"reports\"\ntypes = [\"report.*\", \"invoice\"]\n";
    std::fs::write(directory.path().join("fairgate.toml"), file).unwrap();
    let types = ["--type", "report.daily", "--type", "report.weekly", "--type", "email.send"];
    let output = fairgate(directory.path(), &[&["check"][..], &types].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let expected = "\
report.daily   → rule \"daily\" (types report.daily)
report.weekly  → rule \"reports\" (types report.*, invoice)
email.send     → not planned: available at once
";
    assert_eq!(text(&output.stdout), expected);
    let refused = fairgate(directory.path(), &["check", "--type", "report.*"]);
    assert!(!refused.status.success() && text(&refused.stderr).contains("joined by dots"), "{refused:?}");
}

#[test]
fn check_warns_of_rules_that_can_never_match() {
    let directory = tempfile::tempdir().unwrap();
    let file = "\
[[main_queue]]
name = \"legacy\"
kind = \"sidekiq\"

[[plan]]
name = \"reports\"
types = [\"report.*\", \"mail.send\"]

[[plan]]
name = \"daily\"
types = [\"report.daily\", \"report.*.pdf\"]

[[plan]]
name = \"mixed\"
types = [\"mail.*\", \"report.weekly\"]

[[plan]]
name = \"heavy\"
types = [\"*Job\"]
main_queue = \"legacy\"
queue = \"heavy\"

[[plan]]
name = \"invoices\"
types = [\"Billing::InvoiceJob\"]
main_queue = \"legacy\"
queue = \"heavy\"
";
    std::fs::write(directory.path().join("fairgate.toml"), file).unwrap();
    for arguments in [&["check"][..], &["check", "--type", "report.daily"]] {
        let output = fairgate(directory.path(), arguments);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{said}");
        let warnings: Vec<&str> = said.lines().collect();
        assert_eq!(
            warnings,
            [
                "warning: plan rule \"daily\" can never match: plan rule \"reports\" comes before it and covers all its \
                 types (report.daily, report.*.pdf); move \"daily\" above it or remove it",
                "warning: plan rule \"mixed\" never gets jobs of type report.weekly: plan rule \"reports\" comes before it \
                 and covers it; move \"mixed\" above it or remove the type",
                "warning: plan rule \"invoices\" can never match: plan rule \"heavy\" comes before it and covers all its \
                 types (Billing::InvoiceJob); move \"invoices\" above it or remove it",
            ]
        );
    }
}

#[test]
fn check_rejects_a_rule_that_promotes_into_the_staging_queue() {
    let directory = tempfile::tempdir().unwrap();
    let file = "\
[[main_queue]]
name = \"legacy\"
kind = \"sidekiq\"
staging_queue = \"stage\"

[[plan]]
name = \"heavy\"
types = [\"HeavyJob\"]
main_queue = \"legacy\"
queue = \"stage\"
";
    std::fs::write(directory.path().join("fairgate.toml"), file).unwrap();
    let output = fairgate(directory.path(), &["check"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(64), "{said}");
    for part in ["plan[0].queue: ", "staging_queue of main queue \"legacy\"", "fairgate.toml:10", "help: ", "1 error"] {
        assert!(said.contains(part), "{part} is missing in\n{said}");
    }
}

#[test]
fn check_reports_all_errors_of_plan_rules_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let file = "\
[plan_defaults]
max_depth = 0

[[plan]]
name = \"Reports\"
types = [\"report.*\"]
schedule = \"*/5 * * *\"

[[plan]]
name = \"mails\"
types = []
enqueue_interval = \"1ms\"
latency_treshold = \"5s\"
weights = { static = { acme = 0.001 }, webhook = { url = \"ftp://h\", secret_env = \"NOT_SET_ANYWHERE\" } }
";
    std::fs::write(directory.path().join("fairgate.toml"), file).unwrap();
    let output = fairgate(directory.path(), &["check", "--type", "report.daily"]);
    assert_eq!(output.status.code(), Some(64));
    let said = text(&output.stderr);
    for part in [
        "fairgate.toml:2:13",
        "plan_defaults.max_depth: expected a whole number of at least 1",
        "plan[0].name: expected 1 to 63 lower-case letters",
        "plan[0].schedule: expected a cron expression",
        "help: it has 4 fields; expected five fields (minute hour day month weekday)",
        "plan[1].types: expected at least one type",
        "plan[1].enqueue_interval: expected a duration of at least 10ms",
        "did you mean \"latency_threshold\"?",
        "plan[1].weights.static.acme",
        "plan[1].weights.webhook.url",
        "plan[1].weights.webhook.secret_env",
        "9 errors in fairgate.toml",
    ] {
        assert!(said.contains(part), "{part} is missing in\n{said}");
    }
}

#[test]
fn serving_others_without_authentication_needs_an_explicit_flag() {
    let directory = tempfile::tempdir().unwrap();
    let output = fairgate(directory.path(), &["serve", "--listen", "0.0.0.0:0"]);
    assert_eq!(output.status.code(), Some(64));
    assert!(text(&output.stderr).contains("--insecure-no-auth"), "{}", text(&output.stderr));
}

#[tokio::test]
async fn doctor_names_the_settings_that_lose_jobs() {
    let redis = TestRedis::start();
    redis.command::<()>(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]).await;
    let directory = tempfile::tempdir().unwrap();
    let output = fairgate(directory.path(), &["doctor", "--redis", &redis.url()]);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{said}");
    for part in ["reachable", "appendonly is off", "maxmemory-policy is allkeys-lru", "clocks differ", "is unused"] {
        assert!(said.contains(part), "{part} is missing in\n{said}");
    }
}

#[tokio::test]
async fn doctor_reports_data_of_an_older_schema_and_leaves_it_alone() {
    let (redis, directory) = (TestRedis::start(), tempfile::tempdir().unwrap());
    redis.command::<()>(&["SET", "fg:{default}:schema", "3"]).await;
    let output = fairgate(directory.path(), &["doctor", "--redis", &redis.url()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stdout).contains("start `fairgate serve`, which migrates the data"), "{output:?}");
    let schema: String = redis.command(&["GET", "fg:{default}:schema"]).await;
    assert_eq!(schema, "3");
}

#[test]
fn doctor_reports_an_unreachable_redis() {
    let directory = tempfile::tempdir().unwrap();
    let output = fairgate(directory.path(), &["doctor", "--redis", "redis://127.0.0.1:1"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stdout).contains("cannot be used"), "{}", text(&output.stdout));
}

#[test]
fn doctor_checks_the_private_redis() {
    let directory = tempfile::tempdir().unwrap();
    let output = fairgate(directory.path(), &["doctor"]);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("appendonly is on, appendfsync everysec"), "{said}");
}
