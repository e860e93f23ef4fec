//! `fairgate bench`: measures this machine, on servers of its own.

mod backlog;
mod bar;
mod booth;
mod case;
mod ceiling;
mod client;
mod commands;
mod crew;
mod direct;
mod directory;
mod dispatch;
mod findings;
mod ground;
mod histogram;
mod http;
mod idle;
mod load;
mod lone;
mod noisy;
mod planner;
mod process;
mod promotion;
mod raw;
mod report;
mod resp;
mod rig;
mod scenario;
mod shape;
mod sidekiq;
mod staging;

use clap::{Args, Subcommand};
use std::fmt::Display;
use std::process::ExitCode;
use tokio::signal::unix::{SignalKind, signal};

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
    /// What pools, tenants, limits, blocked jobs and long polls cost those who fetch
    Dispatch(dispatch::Dispatch),
    /// How fast staged jobs are promoted, by the number of tenants
    Planner(planner::Planner),
    /// Promotion into the Redis of a Sidekiq
    Sidekiq(sidekiq::Sidekiq),
    /// What quiet tenants notice of one that floods the queue
    Noisy(noisy::Noisy),
    /// What planning costs a job that comes alone
    Lone(lone::Lone),
}

impl Bench {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        match self.subject {
            Subject::Http(command) => command.run(),
            Subject::Dispatch(command) => command.run(),
            Subject::Planner(command) => command.run(),
            Subject::Sidekiq(command) => command.run(),
            Subject::Noisy(command) => command.run(),
            Subject::Lone(command) => command.run(),
        }
    }
}

/// Prints a report: its table, or its JSON where that is wanted.
fn print(report: &impl Display, json: Option<serde_json::Value>) {
    match json {
        Some(json) => println!("{json}"),
        None => print!("{report}"),
    }
}

/// Runs a measurement until it ends or somebody ends us; dropping it ends its servers and removes their data.
fn measure<T>(measurement: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    // One thread: the load must leave the cores to what it measures.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        tokio::select! {
            outcome = measurement => outcome,
            _ = terminate.recv() => anyhow::bail!("ended by SIGTERM"),
            _ = interrupt.recv() => anyhow::bail!("interrupted"),
        }
    })
}
