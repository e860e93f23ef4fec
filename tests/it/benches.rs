//! The program of the benchmarks, which `scripts/bench` runs.

use std::process::{Command, Output};

fn bench(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_fairgate-bench")).args(arguments).output().expect("it runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_benchmark_starts_its_server_and_prints_figures() {
    let output = bench(&["lone", "--samples", "500"]);
    assert!(text(&output.stdout).contains("planned to plain"), "{}", text(&output.stderr));
}

#[test]
fn help_lists_the_benchmarks_and_errors_exit_with_64() {
    let help = bench(&["--help"]);
    assert_eq!(help.status.code(), Some(0));
    for name in ["http", "dispatch", "planner", "sidekiq", "noisy", "lone", "tenants"] {
        assert!(text(&help.stdout).contains(name), "{name} is missing in {}", text(&help.stdout));
    }
    for arguments in [&[][..], &["frobnicate"], &["http", "--connections", "0"]] {
        let output = bench(arguments);
        assert_eq!(output.status.code(), Some(64), "{arguments:?}");
        assert!(!output.stderr.is_empty() && output.stdout.is_empty(), "{arguments:?}: {output:?}");
    }
}
