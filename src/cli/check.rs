//! `fairgate check`.

use super::Settings;
use crate::config;
use crate::domain::job::sidekiq;
use crate::domain::names;
use crate::domain::plan::Rules;
use clap::Args;
use std::process::ExitCode;

/// Validate the configuration and explain it.
///
/// Prints each key with its value and origin, then a summary. Warns on standard error if a plan
/// rule contains types that an earlier rule already covers. If the configuration is invalid, prints
/// all errors at once, each with its line, the expected value and a suggestion. Does not connect to
/// Redis.
///
/// Exit status: 0 if the configuration is valid, 64 if not.
#[derive(Args)]
pub(super) struct Check {
    #[command(flatten)]
    settings: Settings,
    /// Print the plan rule of this job type or Ruby class instead, such as report.daily; can be
    /// repeated
    #[arg(long = "type", value_name = "TYPE", value_parser = read_type)]
    types: Vec<String>,
    /// Print all keys with their documentation and defaults instead
    #[arg(long)]
    reference: bool,
}

impl Check {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        if self.reference {
            print!("{}", config::DEFAULTS);
            return Ok(ExitCode::SUCCESS);
        }
        match self.settings.load() {
            Ok(loaded) => {
                let rules = Rules::new(loaded.config.plan.clone());
                match self.types.is_empty() {
                    true => print!("{}", config::describe(&loaded)),
                    false => print!("{}", assign(&rules, &self.types, loaded.config.server.pass_through.as_deref())),
                }
                rules.covered().iter().for_each(|covered| eprintln!("warning: {covered}"));
                Ok(ExitCode::SUCCESS)
            }
            Err(code) => Ok(code),
        }
    }
}

fn read_type(text: &str) -> Result<String, String> {
    let is_known = names::is_type(text) || sidekiq::is_class(text);
    if is_known { Ok(text.to_owned()) } else { Err(format!("expected {}, or a Ruby class", names::TYPE_EXPECTED)) }
}

/// Formats a line for each type: its rule, or what happens without one. `beyond` is the main queue
/// to which unplanned jobs are passed on.
fn assign(rules: &Rules, types: &[String], beyond: Option<&str>) -> String {
    let width = types.iter().map(String::len).max().unwrap_or(0);
    let line = |kind: &String| match rules.of_type(kind) {
        Some(rule) => format!("{kind:width$}  → rule \"{}\" (types {})\n", rule.name, rule.types.join(", ")),
        None => match beyond {
            Some(name) => format!("{kind:width$}  → not planned: passes through to main queue \"{name}\"\n"),
            None => format!("{kind:width$}  → not planned: available at once\n"),
        },
    };
    types.iter().map(line).collect()
}
