//! `fairgate check`.

use super::Settings;
use crate::config;
use clap::Args;
use std::process::ExitCode;

/// Validate the configuration and print what it means.
///
/// All mistakes are reported at once, with the line, what was expected and a suggestion, and the exit status is 64.
/// Without a mistake, every key is printed with its value and where it came from.
#[derive(Args)]
pub(super) struct Check {
    #[command(flatten)]
    settings: Settings,
    /// Print every key with its meaning and default instead
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
                print!("{}", config::describe(&loaded));
                Ok(ExitCode::SUCCESS)
            }
            Err(code) => Ok(code),
        }
    }
}
