//! `fairgate bench`: measures this machine, on servers of its own.

mod client;
mod histogram;
mod http;
mod load;
mod process;
mod raw;
mod report;
mod resp;
mod rig;
mod scenario;

use clap::{Args, Subcommand};
use std::process::ExitCode;

/// Measure this machine: rates, latencies and how they compare with bare Redis.
///
/// A benchmark brings its own Redis and its own server on the loopback, and takes both and all data away at the end.
#[derive(Args)]
pub(super) struct Bench {
    #[command(subcommand)]
    subject: Subject,
}

#[derive(Subcommand)]
enum Subject {
    /// Enqueue, fetch and ack over HTTP
    Http(http::Http),
}

impl Bench {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        match self.subject {
            Subject::Http(command) => command.run(),
        }
    }
}
