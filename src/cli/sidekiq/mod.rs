//! `fairgate sidekiq`.

mod inspect;
mod shares;

use clap::{Args, Subcommand};
use std::process::ExitCode;

/// Look at a Sidekiq that you have.
#[derive(Args)]
pub(super) struct Sidekiq {
    #[command(subcommand)]
    subject: Subject,
}

#[derive(Subcommand)]
enum Subject {
    /// Report on an existing Sidekiq, without changing anything
    Inspect(inspect::Inspect),
}

impl Sidekiq {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        match self.subject {
            Subject::Inspect(command) => command.run(),
        }
    }
}
