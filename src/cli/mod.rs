//! Commands. Standard output is for data, standard error for messages.

mod check;
mod debug;
mod demo;
mod doctor;
mod explain;
mod generate;
mod keys;
mod lists;
mod main_queues;
mod ready;
mod report;
mod serve;
mod server;
mod sidekiq;
mod simulate;
mod site;
mod top;
mod weights;

use crate::config::{self, Flag, Sources};
use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;

/// Exit status for an invalid command line or configuration (EX_USAGE of sysexits.h).
const EX_USAGE: u8 = 64;

/// Makes background jobs fair between tenants.
///
/// fairgate is an Open Job Spec server on Redis that runs next to the queue you already have.
/// Without configuration, it starts a private redis-server in ./fairgate-data and serves
/// http://127.0.0.1:8080.
#[derive(Parser)]
#[command(name = "fairgate", version = VERSION, after_long_help = EXAMPLES)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (", env!("FAIRGATE_COMMIT"), ")");

const EXAMPLES: &str = "\
Examples:
  fairgate serve                                     serve with a private Redis
  fairgate serve --redis redis://10.0.0.5:6379/0     serve with your Redis
  fairgate demo                                      watch fairness with simulated tenants and workers
  fairgate check --config fairgate.toml              validate and explain a configuration
  fairgate check --type report.daily                 show the plan rule of a job type
  fairgate keys create ops --role admin              create the first API key
  fairgate ready                                     exit with 0 if the server is ready, else 1
  fairgate report                                    show what needs attention on a running server
  fairgate top                                       watch rules, tenants and queues in the terminal
  fairgate queues --json                             list queues, tenants, jobs, limits, workers, planner
  fairgate doctor                                    check Redis, job counts and main queues
  fairgate explain ID                                explain why a job waits
  fairgate debug job ID                              print the stored state of a job, decoded
  fairgate sidekiq inspect redis://10.0.0.5:6379/0   report on an existing Sidekiq
  fairgate sidekiq release --config fairgate.toml    return staged jobs to their Sidekiq
  fairgate simulate flood.toml --compare             compare first in, first out with a plan rule
  fairgate weights test reports --tenant acme        call and explain the weights webhook of a rule

Exit status: 0 on success, 1 on failure, 64 if the command line or the configuration is invalid.

Each key of the configuration is also an environment variable, such as
FAIRGATE_SERVER__LISTEN=127.0.0.1:9000.
`fairgate check --reference` prints all keys with their documentation and defaults.";

// Variants have no doc comments: they would hide the long descriptions of the structs.
#[derive(Subcommand)]
enum Command {
    Serve(serve::Serve),
    Jobs(lists::Jobs),
    Queues(lists::Queues),
    Tenants(lists::Tenants),
    Limits(lists::Limits),
    Workers(lists::Workers),
    Planner(lists::Planner),
    Ready(ready::Ready),
    Report(report::Report),
    Top(top::Top),
    Check(check::Check),
    Doctor(doctor::Doctor),
    Debug(debug::Debug),
    Demo(demo::Demo),
    Explain(explain::Explain),
    Keys(keys::Keys),
    Sidekiq(sidekiq::Sidekiq),
    Simulate(simulate::Simulate),
    Weights(weights::Weights),
    Completions(generate::Completions),
    Man(generate::Man),
}

/// Settings that all commands share.
#[derive(Args, Clone, Default)]
pub struct Settings {
    /// Configuration file [default: fairgate.toml in the working directory, if it exists]
    #[arg(long, short, value_name = "FILE", env = "FAIRGATE_CONFIG")]
    pub config: Option<PathBuf>,
    /// Address and port of the HTTP API, such as localhost:9000, or :8080 for all addresses
    /// [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDR")]
    pub listen: Option<String>,
    /// URL of the Redis to use instead of a private one, such as redis://10.0.0.5:6379/0. Schemes:
    /// redis, rediss (TLS), unix, redis+sentinel, redis+cluster. With a password, set the
    /// environment variable FAIRGATE_STORE__URL instead
    #[arg(long, value_name = "URL")]
    pub redis: Option<String>,
    /// Directory of the private Redis [default: fairgate-data]
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<String>,
    /// Namespace of all keys, so that several installations can share one Redis [default: default]
    #[arg(long, value_name = "NS")]
    pub namespace: Option<String>,
    /// Roles of this process, comma-separated: api, planner, dispatch [default: all]
    #[arg(long, value_name = "ROLES")]
    pub roles: Option<String>,
    /// Serve a public address without any API key; only safe behind a proxy that authenticates
    #[arg(long)]
    pub insecure_no_auth: bool,
    /// If there is no API key, create an admin key at startup and print it once on standard output
    #[arg(long)]
    pub generate_key: bool,
}

impl Settings {
    /// Collects the configuration sources: these flags, the environment and the file.
    fn sources(&self) -> Sources {
        let flags = [
            ("server.listen", self.listen.clone(), "--listen"),
            ("store.url", self.redis.clone(), "--redis"),
            ("store.data_dir", self.data_dir.clone(), "--data-dir"),
            ("store.namespace", self.namespace.clone(), "--namespace"),
            ("server.roles", self.roles.clone(), "--roles"),
            ("server.insecure_no_auth", self.insecure_no_auth.then(|| "true".to_owned()), "--insecure-no-auth"),
            ("server.generate_key", self.generate_key.then(|| "true".to_owned()), "--generate-key"),
        ];
        let given = |(path, value, name): (&str, Option<String>, &str)| {
            Some(Flag { path: path.to_owned(), value: value?, name: name.to_owned() })
        };
        Sources::of_process(self.config.clone(), flags.into_iter().filter_map(given).collect())
    }

    /// Loads the configuration. Prints the errors and returns the exit status if it is invalid.
    fn load(&self) -> Result<config::Loaded, ExitCode> {
        config::Loaded::load(&self.sources()).map_err(|error| {
            match error {
                config::Error::Mistakes(mistakes) => eprintln!("{mistakes}"),
                error => eprintln!("error: {error}"),
            }
            ExitCode::from(EX_USAGE)
        })
    }
}

/// Parses the command line and runs the command.
pub fn run() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are no errors and go to standard output. A failure to write leaves nothing to do.
            _ = error.print();
            return if error.use_stderr() { ExitCode::from(EX_USAGE) } else { ExitCode::SUCCESS };
        }
    };
    let outcome = match cli.command {
        Command::Serve(command) => command.run(),
        Command::Jobs(command) => command.run(),
        Command::Queues(command) => command.run(),
        Command::Tenants(command) => command.run(),
        Command::Limits(command) => command.run(),
        Command::Workers(command) => command.run(),
        Command::Planner(command) => command.run(),
        Command::Ready(command) => command.run(),
        Command::Report(command) => command.run(),
        Command::Top(command) => command.run(),
        Command::Check(command) => command.run(),
        Command::Doctor(command) => command.run(),
        Command::Debug(command) => command.run(),
        Command::Demo(command) => command.run(),
        Command::Explain(command) => command.run(),
        Command::Keys(command) => command.run(),
        Command::Sidekiq(command) => command.run(),
        Command::Simulate(command) => command.run(),
        Command::Weights(command) => command.run(),
        Command::Completions(command) => command.run(),
        Command::Man(command) => command.run(),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}

/// Prints text on standard output. A reader such as `head` may have closed it, which is no error.
fn print(text: impl std::fmt::Display) -> std::io::Result<()> {
    use std::io::Write;
    match writeln!(std::io::stdout(), "{text}") {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        outcome => outcome,
    }
}

/// Creates the async runtime of a command.
fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread().enable_all().build()?)
}
