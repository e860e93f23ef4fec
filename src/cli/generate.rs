//! `fairgate completions` and `fairgate man`.

use super::Cli;
use anyhow::Context;
use clap::{Args, CommandFactory};
use clap_complete::Shell;
use std::path::PathBuf;
use std::process::ExitCode;

const NAME: &str = "fairgate";

/// Print a script that completes commands and options in a shell.
///
/// For bash: fairgate completions bash > /etc/bash_completion.d/fairgate
#[derive(Args)]
pub(super) struct Completions {
    shell: Shell,
}

impl Completions {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), NAME, &mut script);
        super::print(String::from_utf8(script)?.trim_end())?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Write manual pages, one for each command, into a directory.
#[derive(Args)]
pub(super) struct Man {
    /// Directory for the pages, such as /usr/local/share/man/man1
    directory: PathBuf,
}

impl Man {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let directory = &self.directory;
        std::fs::create_dir_all(directory).with_context(|| format!("cannot create {}", directory.display()))?;
        clap_mangen::generate_to(Cli::command(), directory)
            .with_context(|| format!("cannot write manual pages into {}", directory.display()))?;
        Ok(ExitCode::SUCCESS)
    }
}
