//! `fairgate simulate`.

mod chart;
mod comparison;
mod format;
mod html;
mod json;
mod progress;
mod server;
mod table;

use super::EX_USAGE;
use crate::config::{self, read_scenario};
use crate::domain::simulation::{Mode, Report, Scenario, simulate};
use anyhow::Context;
use clap::Args;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The scenario that `--example` prints.
const EXAMPLE: &str = include_str!("example.toml");

const EXAMPLES: &str = "\
Examples:
  fairgate simulate --example > flood.toml         write a scenario to start from
  fairgate simulate flood.toml                     show waits, shares and utilisation
  fairgate simulate flood.toml --compare           compare first in, first out with the rule
  fairgate simulate a.toml b.toml --compare        compare two scenarios
  fairgate simulate flood.toml --html flood.html   write a page with charts
  fairgate simulate --from-server http://127.0.0.1:8080 --rule reports --weight acme=3
                                                   promote recorded rounds again with this weight

Exit status: 0 on success, 1 on failure, 64 if the command line or a scenario is invalid.";

/// Simulate a plan rule, its tenants and workers, before you use it.
///
/// Runs the fair queue, the gate and the batch size of the planner in virtual time: a million jobs
/// take a few seconds. The scenario describes when tenants enqueue jobs, for how long the jobs run, how
/// many workers there are, and the rule. Prints the waits and shares of each tenant. Needs neither
/// Redis nor a server. The same scenario and seed have the same result on every machine.
#[derive(Args)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct Simulate {
    /// Scenario files: one, or two with --compare
    #[arg(value_name = "SCENARIO", num_args = 0..=2, required_unless_present_any = ["example", "url"])]
    scenarios: Vec<PathBuf>,
    /// Show two scenarios side by side, with differences; or one scenario first in, first out (A)
    /// and with its rule (B)
    #[arg(long)]
    compare: bool,
    /// Seed of all random numbers, instead of the scenario's
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,
    /// Print a JSON object instead of a table
    #[arg(long)]
    json: bool,
    /// Write a page with charts to this file as well
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Print a scenario with comments, and simulate nothing
    #[arg(long, conflicts_with_all = ["scenarios", "compare", "seed", "json", "html", "url"])]
    example: bool,
    #[command(flatten)]
    from_server: server::FromServer,
}

impl Simulate {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        if self.example {
            print!("{EXAMPLE}");
            return Ok(ExitCode::SUCCESS);
        }
        if let Some(replayed) = self.from_server.run()? {
            match self.json {
                true => println!("{}", serde_json::to_value(&replayed.replay)?),
                false => print!("{replayed}"),
            }
            return Ok(ExitCode::SUCCESS);
        }
        if self.scenarios.len() == 2 && !self.compare {
            eprintln!("error: two scenarios are compared; add --compare");
            return Ok(ExitCode::from(EX_USAGE));
        }
        let mut scenarios = Vec::new();
        let mut is_valid = true;
        for path in &self.scenarios {
            match self.read(path) {
                Ok(scenario) => scenarios.push(scenario),
                Err(error) => {
                    show_error(&error);
                    is_valid = false;
                }
            }
        }
        if !is_valid {
            return Ok(ExitCode::from(EX_USAGE));
        }
        if let ([scenario], true) = (&scenarios[..], self.compare) {
            let ordered = |mode| Scenario { mode, ..scenario.clone() };
            scenarios = vec![ordered(Mode::Fifo), ordered(Mode::Fair)];
        }
        let reports: Vec<Report> = scenarios.iter().map(run_with_progress).collect();
        if let Some(path) = &self.html {
            std::fs::write(path, html::page(&reports)).with_context(|| format!("cannot write {}", path.display()))?;
        }
        match (&reports[..], self.json) {
            ([before, after], true) => println!("{}", json::comparison(before, after)),
            ([before, after], false) => print!("{}", comparison::Comparison { before, after }),
            (all, true) => all.iter().for_each(|report| println!("{}", json::report(report))),
            (all, false) => all.iter().for_each(|report| print!("{}", table::ReportTable(report))),
        }
        Ok(ExitCode::SUCCESS)
    }

    fn read(&self, path: &Path) -> Result<Scenario, config::Error> {
        let scenario = read_scenario(path)?;
        Ok(Scenario { seed: self.seed.unwrap_or(scenario.seed), ..scenario })
    }
}

fn run_with_progress(scenario: &Scenario) -> Report {
    let bar = progress::ProgressLine::new(scenario);
    let report = simulate(scenario, |progress| bar.show(progress));
    bar.finish();
    report
}

fn show_error(error: &config::Error) {
    match error {
        config::Error::Mistakes(mistakes) => eprintln!("{mistakes}"),
        error => eprintln!("error: {error}"),
    }
}
