//! Commands. Standard output is for data, standard error for messages.

mod bench;
mod check;
mod doctor;
mod keys;
mod main_queues;
mod ready;
mod serve;
mod sidekiq;
mod site;
mod weights;

use crate::config::{self, Sources};
use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;

/// Exit status for a mistake in the configuration or on the command line, as sysexits.h has it.
const EX_USAGE: u8 = 64;

/// Makes background jobs fair between tenants.
///
/// fairgate is an Open Job Spec server on Redis that you run beside the queue you already have. Without any setting it
/// starts a private redis-server in ./fairgate-data and serves http://127.0.0.1:8080.
#[derive(Parser)]
#[command(name = "fairgate", version = VERSION, after_long_help = EXAMPLES)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (", env!("FAIRGATE_COMMIT"), ")");

const EXAMPLES: &str = "\
Examples:
  fairgate serve                                     a private Redis, http://127.0.0.1:8080
  fairgate serve --redis redis://10.0.0.5:6379/0     a Redis that you run
  fairgate check --config fairgate.toml              what a configuration means, or all that is wrong with it
  fairgate check --type report.daily                 which plan rule a job type falls under
  fairgate keys create ops --role admin              the first key: from now on every request needs one
  fairgate ready                                     exits 0 if the server here is ready, else 1
  fairgate doctor                                    whether Redis is fit to keep your jobs
  fairgate sidekiq inspect redis://10.0.0.5:6379/0   what an existing Sidekiq is made of, and who waits in it
  fairgate sidekiq release --config fairgate.toml    hand staged jobs back to the Sidekiq they came from
  fairgate weights test reports --tenant acme        call a rule's weights webhook, and what its answer means

Exit status: 0 if it worked, 1 if it failed, 64 for a mistake in the configuration or on the command line.

Every key of the configuration is also an environment variable: FAIRGATE_SERVER__LISTEN=127.0.0.1:9000.
`fairgate check --reference` prints all keys with their meaning and default.";

// They are described where they are defined: a description here would hide the long one.
#[derive(Subcommand)]
enum Command {
    Serve(serve::Serve),
    Ready(ready::Ready),
    Check(check::Check),
    Doctor(doctor::Doctor),
    Keys(keys::Keys),
    Sidekiq(sidekiq::Sidekiq),
    Weights(weights::Weights),
    Bench(bench::Bench),
}

/// Settings that every command shares.
#[derive(Args, Clone, Default)]
pub struct Settings {
    /// Configuration file; fairgate.toml in the working directory if there is one
    #[arg(long, short, value_name = "FILE", env = "FAIRGATE_CONFIG")]
    pub config: Option<PathBuf>,
    /// Address and port to serve: 127.0.0.1:8080, localhost:8080, or :8080 for all addresses [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDR")]
    pub listen: Option<String>,
    /// Redis to use instead of a private one: redis://, rediss://, unix://, redis+sentinel://, redis+cluster://
    #[arg(long, value_name = "URL")]
    pub redis: Option<String>,
    /// Where the private Redis keeps its data [default: fairgate-data]
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<String>,
    /// Prefix of all keys, so that several fairgates can share one Redis [default: default]
    #[arg(long, value_name = "NS")]
    pub namespace: Option<String>,
    /// What this process does, comma-separated: api, planner, dispatch [default: all]
    #[arg(long, value_name = "ROLES")]
    pub roles: Option<String>,
    /// Serve an address that others can reach although the configuration has no API key
    #[arg(long)]
    pub insecure_no_auth: bool,
    /// If there is no API key, create one for an admin at the start and print it once on standard output
    #[arg(long)]
    pub generate_key: bool,
}

impl Settings {
    /// The layers that these flags and this process's surroundings make.
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
        let given =
            |(path, value, flag): (&str, Option<String>, &str)| Some((path.to_owned(), value?, flag.to_owned()));
        Sources::of_process(self.config.clone(), flags.into_iter().filter_map(given).collect())
    }

    /// The configuration, or exit status and message.
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

/// Reads the command line and carries it out.
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
        Command::Ready(command) => command.run(),
        Command::Check(command) => command.run(),
        Command::Doctor(command) => command.run(),
        Command::Keys(command) => command.run(),
        Command::Sidekiq(command) => command.run(),
        Command::Weights(command) => command.run(),
        Command::Bench(command) => command.run(),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}

/// A number with its noun in singular or plural: `1 queue`, `2 queues`, `2 processes`.
fn counted(number: u64, noun: &str) -> String {
    let ending = match noun.ends_with('s') {
        _ if number == 1 => "",
        true => "es",
        false => "s",
    };
    format!("{number} {noun}{ending}")
}

/// A runtime for a command.
fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread().enable_all().build()?)
}

#[cfg(test)]
mod tests {
    use super::counted;

    #[test]
    fn nouns_are_singular_or_plural() {
        for (number, noun, expected) in [
            (0, "job", "0 jobs"),
            (1, "queue", "1 queue"),
            (2, "queue", "2 queues"),
            (1, "process", "1 process"),
            (3, "process", "3 processes"),
        ] {
            assert_eq!(counted(number, noun), expected);
        }
    }
}
