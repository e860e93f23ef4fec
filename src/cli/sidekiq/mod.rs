//! `fairgate sidekiq`.

mod classes;
mod configuration;
mod inspect;
mod release;
mod shares;

use clap::{Args, Subcommand};
use std::process::ExitCode;

/// Inspect an existing Sidekiq, or return staged jobs to it.
#[derive(Args)]
pub(super) struct Sidekiq {
    #[command(subcommand)]
    subject: Subject,
}

#[derive(Subcommand)]
enum Subject {
    Inspect(inspect::Inspect),
    Release(release::Release),
}

impl Sidekiq {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        match self.subject {
            Subject::Inspect(command) => command.run(),
            Subject::Release(command) => command.run(),
        }
    }
}
