//! `fairgate weights`.

mod test;
mod verdict;

use clap::{Args, Subcommand};
use std::process::ExitCode;

/// Test the weights webhook of a plan rule.
#[derive(Args)]
pub(super) struct Weights {
    #[command(subcommand)]
    subject: Subject,
}

#[derive(Subcommand)]
enum Subject {
    /// Call the weights webhook of a plan rule and explain its answer
    Test(test::Test),
}

impl Weights {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        match self.subject {
            Subject::Test(command) => command.run(),
        }
    }
}
