//! `fairgate top`.

mod poll;
mod rows;
mod run;
mod state;
mod tab;
mod text;
mod view;

use super::server::Server;
use crate::domain::duration;
use clap::Args;
use poll::Poller;
use state::{Event, State};
use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Duration;
use tab::Tab;

/// The range of `--interval`.
const SHORTEST: Duration = Duration::from_millis(200);
const LONGEST: Duration = Duration::from_secs(60);

const EXAMPLES: &str = "\
Examples:
  fairgate top                                 watch the plan rules of a local server
  fairgate top --view tenants --rule reports   watch the tenants of a rule
  fairgate top --once --view queues            print the queues once, as plain text

Press ? for the keys, q to quit. NO_COLOR=1 turns colours off.";

/// Watch a running server in the terminal: rules, tenants, queues, limits and workers.
///
/// The first lines show the address, the jobs that were promoted per second between the last two
/// refreshes, and the verdict of the health report. The key needs the role operator or admin.
///
/// Exit status: 0 on success; 1 without a terminal, or if --once gets no answer from the server.
#[derive(Args)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct Top {
    #[command(flatten)]
    server: Server,
    /// Time between two refreshes, 200ms to 1m
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = read_interval)]
    interval: Duration,
    /// Print the view once as plain text, and exit; needs no terminal
    #[arg(long)]
    once: bool,
    /// The view at the start
    #[arg(long, value_enum, default_value_t = Tab::Rules)]
    view: Tab,
    /// The selected rule at the start, whose tenants are shown [default: the first rule]
    #[arg(long, value_name = "NAME")]
    rule: Option<String>,
}

impl Top {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let poller = Poller::new(self.server.client()?);
        let mut state = State::new(poller.place(), self.interval);
        state.open(self.view, self.rule.clone());
        if self.once {
            return super::runtime()?.block_on(self.print_once(&poller, state));
        }
        anyhow::ensure!(
            std::io::stdout().is_terminal(),
            "standard output is not a terminal; use `fairgate top --once` for plain text or `fairgate planner --json` \
             for JSON"
        );
        super::runtime()?.block_on(run::run(poller, state, view::Look::of_environment()))
    }

    async fn print_once(self, poller: &Poller, mut state: State) -> anyhow::Result<ExitCode> {
        let reading = poller.read(state.question()).await;
        if let Err(failure) = &reading.outcome {
            anyhow::bail!("{failure}");
        }
        _ = state.update(Event::Read(Box::new(reading)), 0);
        match self.rule {
            Some(rule) if state.rule() != Some(&rule) => anyhow::bail!("there is no plan rule {rule:?}"),
            _ => super::print(text::screen(&state))?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn read_interval(text: &str) -> Result<Duration, String> {
    let interval = duration::parse_ms(text).map(Duration::from_millis);
    let interval = interval.filter(|interval| (SHORTEST..=LONGEST).contains(interval));
    interval.ok_or_else(|| "expected a time from 200ms to 1m, such as 2s".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_between_200_ms_and_a_minute() {
        for (text, ms) in [("200ms", 200), ("2s", 2000), ("1m", 60_000), ("PT5S", 5000)] {
            assert_eq!(read_interval(text), Ok(Duration::from_millis(ms)));
        }
        for text in ["", "2", "199ms", "61s", "-1s", "soon"] {
            assert!(read_interval(text).is_err(), "{text}");
        }
    }
}
