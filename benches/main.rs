//! The benchmarks: a program of their own, so that the published one does not contain them. They measure the servers
//! that users run, started as processes, and the library in this process through its public API.

mod backlog;
mod bar;
mod case;
mod case_runner;
mod client;
mod commands;
mod direct;
mod directory;
mod dispatch;
mod dispatch_results;
mod fixture;
mod histogram;
mod http;
mod idle;
mod idle_latency;
mod load;
mod monitor;
mod noisy;
mod planner;
mod process;
mod promotion;
mod raw;
mod raw_promotion;
mod report;
mod resp;
mod scenario;
mod servers;
mod shape;
mod sidekiq;
mod staging;
mod tenants;
mod traffic;

use clap::{Parser, Subcommand};
use std::fmt::Display;
use std::process::ExitCode;
use tokio::signal::unix::{SignalKind, signal};

/// Cases in this process allocate as the server does: see `src/main.rs`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Exit status for an invalid command line (EX_USAGE of sysexits.h).
const EX_USAGE: u8 = 64;

/// Measure throughput and latency on this machine and compare them with bare Redis.
///
/// Each benchmark starts a private Redis and a server on the loopback interface and removes both with all data at the
/// end.
#[derive(Parser)]
#[command(name = "fairgate-bench")]
struct Bench {
    #[command(subcommand)]
    subject: Subject,
}

#[derive(Subcommand)]
enum Subject {
    /// Enqueue, fetch and ack over HTTP
    Http(http::Http),
    /// Cost of pools, tenants, limits, blocked jobs and long polls for FETCH
    Dispatch(dispatch::Dispatch),
    /// Promotion rate by number of tenants
    Planner(planner::Planner),
    /// Promotion into the Redis of a Sidekiq installation
    Sidekiq(sidekiq::Sidekiq),
    /// Latency of quiet tenants while another tenant floods the queue
    Noisy(noisy::Noisy),
    /// Latency that planning adds for a single job on an idle system
    #[command(name = "lone", visible_alias = "idle-latency")]
    IdleLatency(idle_latency::IdleLatency),
    /// Cost of tenant limits for enqueue
    Tenants(tenants::Tenants),
}

fn main() -> ExitCode {
    // The same preparations as in `src/main.rs`.
    _ = nix::sys::prctl::set_thp_disable(true);
    _ = rustls::crypto::ring::default_provider().install_default();
    let bench = match Bench::try_parse() {
        Ok(bench) => bench,
        Err(error) => {
            _ = error.print();
            return if error.use_stderr() { ExitCode::from(EX_USAGE) } else { ExitCode::SUCCESS };
        }
    };
    let outcome = match bench.subject {
        Subject::Http(command) => command.run(),
        Subject::Dispatch(command) => command.run(),
        Subject::Planner(command) => command.run(),
        Subject::Sidekiq(command) => command.run(),
        Subject::Noisy(command) => command.run(),
        Subject::IdleLatency(command) => command.run(),
        Subject::Tenants(command) => command.run(),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}

/// Prints a report as a table, or as JSON if given.
fn print(report: &impl Display, json: Option<serde_json::Value>) {
    match json {
        Some(json) => println!("{json}"),
        None => print!("{report}"),
    }
}

/// Runs a measurement until it ends or a signal arrives. Dropping it stops its servers and removes their data.
fn measure<T>(measurement: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    // One thread, because the load generator must leave the cores to the servers.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        tokio::select! {
            outcome = measurement => outcome,
            _ = terminate.recv() => anyhow::bail!("terminated by SIGTERM"),
            _ = interrupt.recv() => anyhow::bail!("interrupted"),
        }
    })
}
