//! `fairgate sidekiq release`.

use crate::app::{self, ConnectionOptions};
use crate::cli::{Settings, site};
use crate::config::{self, Config, MainQueueKind};
use crate::domain::words::counted;
use crate::main_queue::ImportSource;
use crate::rules::Rulebook;
use crate::sidekiq::{Releaser, Stock};
use crate::store::{Address, CameFrom};
use crate::telemetry::StoreMetrics;
use anyhow::{Context, bail};
use clap::Args;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Interval of progress messages.
const PROGRESS: Duration = Duration::from_secs(1);

/// Return the jobs that fairgate has staged from a Sidekiq.
///
/// Use this after stopping fairgate permanently, because jobs that it has imported and not promoted
/// otherwise stay in staging. Jobs from the staging queue return to that queue, in their original
/// order and ahead of newer ones; let a worker read it. Jobs from the Redis keys of the gem
/// sidekiq-fairplay return to those keys, and the gem's planner is started. Jobs that were enqueued
/// over HTTP stay staged.
///
/// Refuses to run while a fairgate process imports jobs from the same Sidekiq, because it would
/// import them again. If interrupted, run the command again: no job is lost or duplicated.
#[derive(Args)]
#[command(after_long_help = EXAMPLES)]
pub(in crate::cli) struct Release {
    /// Name of the main queue; required if the configuration has more than one Sidekiq
    #[arg(value_name = "MAIN_QUEUE")]
    main_queue: Option<String>,
    /// Only count the jobs, change nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    settings: Settings,
}

const EXAMPLES: &str = "\
Examples:
  fairgate sidekiq release --dry-run          count the jobs to return; changes nothing
  fairgate sidekiq release                    return them to the only Sidekiq in fairgate.toml
  fairgate sidekiq release legacy -c f.toml   return them to main queue \"legacy\" in f.toml

Exit status: 0 if all jobs of the Sidekiq were returned, 1 if not, 64 if the configuration is
invalid.";

impl Release {
    pub(in crate::cli) fn run(self) -> anyhow::Result<ExitCode> {
        let config = match self.settings.load() {
            Ok(loaded) => loaded.config,
            Err(code) => return Ok(code),
        };
        let (name, sidekiq) = self.choose(&config)?;
        let (address, _private) = site::address(&config)?;
        let outcome = super::super::runtime()?.block_on(self.release(&config, name, sidekiq, address));
        outcome.map(|()| ExitCode::SUCCESS)
    }

    /// Returns the Sidekiq to release to.
    fn choose<'a>(&self, config: &'a Config) -> anyhow::Result<(&'a str, &'a config::Sidekiq)> {
        let sidekiqs = config.main_queues.iter().filter_map(|main_queue| match &main_queue.kind {
            MainQueueKind::Sidekiq(sidekiq) => Some((main_queue.name.as_str(), &**sidekiq)),
            MainQueueKind::Ojs(_) => None,
        });
        let all: Vec<_> = sidekiqs.collect();
        let names: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
        match (&self.main_queue, &all[..]) {
            (_, []) => bail!("the configuration has no [[main_queue]] of kind \"sidekiq\""),
            (Some(wanted), _) => all.iter().find(|(name, _)| name == wanted).copied().with_context(|| {
                format!("there is no Sidekiq main queue {wanted:?} in the configuration: it has {}", names.join(", "))
            }),
            (None, [only]) => Ok(*only),
            (None, _) => bail!("the configuration has several Sidekiqs; pass the name of one: {}", names.join(", ")),
        }
    }

    async fn release(
        &self,
        config: &Config,
        name: &str,
        sidekiq: &config::Sidekiq,
        address: Address,
    ) -> anyhow::Result<()> {
        let deadline = config.store.call_timeout;
        let site = site::open(config, address.clone()).await?;
        let (store, metrics) = (&site.store, StoreMetrics::default());
        let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
        let options =
            ConnectionOptions { ours: &address, store, deadline, metrics: &metrics, tasks: &tasks, stop: &stop };
        let handle = Arc::new(app::open_sidekiq(name, sidekiq, &options)?);
        let connected = handle.redis().connected_within(deadline).await;
        connected.with_context(|| format!("cannot reach the Redis of main queue {name}"))?;
        let (rules, process) = (Rulebook::as_stored(store.clone()), Arc::from("fairgate sidekiq release"));
        let default_tenant = &config.tenancy.default_tenant;
        let importers = app::importers(sidekiq, &handle, store, &rules, default_tenant, &process, &Default::default());
        let mut releaser = Releaser::new(store.clone(), rules, handle, importers);
        let outcome = match self.dry_run {
            true => releaser.count().await.map(|pending| print_pending(&pending)).map_err(anyhow::Error::from),
            false => releaser.release(None, &progress()).await.map_err(anyhow::Error::from),
        };
        // A release that was refused has not looked at the staged jobs.
        if outcome.is_ok() || !releaser.stocks().is_empty() {
            print_stocks(name, releaser.stocks(), self.dry_run);
        }
        stop.cancel();
        site.close();
        outcome
    }
}

/// Returns a callback that prints progress once a second.
fn progress() -> impl Fn(u64, u64) + Sync {
    let last = Mutex::new(Instant::now());
    move |released, of| {
        let mut last = last.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if last.elapsed() >= PROGRESS {
            *last = Instant::now();
            eprintln!("released {released} of {}", counted(of, "job"));
        }
    }
}

fn print_pending(pending: &[(ImportSource, u64)]) {
    for (source, jobs) in pending.iter().filter(|(_, jobs)| *jobs > 0) {
        println!("would release {} from the inbox to {source}", counted(*jobs, "job"));
    }
}

fn print_stocks(main_queue: &str, stocks: &[Stock], dry_run: bool) {
    let would = if dry_run { "would release" } else { "released" };
    for stock in stocks {
        let (rule, left) = (&stock.rule, counted(stock.left, "job"));
        let released = if dry_run { stock.left } else { stock.released };
        match &stock.home {
            Some(home) if released > 0 => println!("{would} {} of rule {rule} to {home}", counted(released, "job")),
            _ => {}
        }
        let reason = match (&stock.home, &stock.came_from) {
            (Some(_), _) if dry_run => continue,
            (Some(_), _) => "not released yet".to_owned(),
            (None, CameFrom::StagingQueue) => {
                format!("they came through a staging queue, and main queue {main_queue} has no staging_queue")
            }
            (None, CameFrom::Fairplay { class }) => {
                format!("class {class} is not in fairplay_classes of main queue {main_queue}")
            }
            (None, CameFrom::Elsewhere) => "they came over HTTP".to_owned(),
        };
        if stock.left > 0 {
            println!("left {left} of rule {rule} staged: {reason}");
        }
    }
    if stocks.iter().all(|stock| stock.left == 0 && stock.released == 0) {
        println!("nothing is staged for main queue {main_queue}");
    }
}
