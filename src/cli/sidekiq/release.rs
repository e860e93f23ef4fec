//! `fairgate sidekiq release`.

use crate::app::{self, ConnectionOptions};
use crate::cli::{Settings, counted, site};
use crate::config::{self, Config, MainQueueKind};
use crate::main_queue::Source;
use crate::planner::{Releaser, Rulebook, Stock};
use crate::store::{Address, CameFrom};
use crate::telemetry::StoreMetrics;
use anyhow::{Context, bail};
use clap::Args;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// How often progress is printed.
const PROGRESS: Duration = Duration::from_secs(1);

/// Hand back the jobs that fairgate has staged from a Sidekiq.
///
/// Use it after fairgate was stopped for good: jobs that it had taken in and not yet promoted stay in its staging otherwise. Jobs that came
/// through the staging queue go back to that queue, ahead of newer ones and in their old order: let a worker read it. Jobs that came from
/// the keys of the gem sidekiq-fairplay go back to those keys, and the gem's planner is started. Jobs that came over HTTP stay staged.
///
/// It refuses to run while a fairgate takes jobs in from the same Sidekiq, which would take them in again. If it is interrupted, run it
/// again: no job is lost or doubled.
#[derive(Args)]
#[command(after_long_help = EXAMPLES)]
pub(in crate::cli) struct Release {
    /// Name of the main queue; needed only if the configuration has more than one Sidekiq
    #[arg(value_name = "MAIN_QUEUE")]
    main_queue: Option<String>,
    /// Only count what would be handed back
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    settings: Settings,
}

const EXAMPLES: &str = "\
Examples:
  fairgate sidekiq release --dry-run          how many jobs would go where; changes nothing
  fairgate sidekiq release                    hand them back; fairgate.toml names the Sidekiq
  fairgate sidekiq release legacy -c f.toml   the one of several that is called \"legacy\"

Exit status: 0 if all jobs of the Sidekiq were handed back, 1 if not.";

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

    /// The Sidekiq that is meant.
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
                format!("main queue {wanted:?} is not a Sidekiq of the configuration, which has: {}", names.join(", "))
            }),
            (None, [only]) => Ok(*only),
            (None, _) => bail!("which Sidekiq? The configuration has several: {}", names.join(", ")),
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

/// Prints how far a release has got, once a second.
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

fn print_pending(pending: &[(Source, u64)]) {
    for (source, jobs) in pending.iter().filter(|(_, jobs)| *jobs > 0) {
        println!("would release {} that fairgate was taking in to {source}", counted(*jobs, "job"));
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
            (Some(_), _) => "they were not handed back yet".to_owned(),
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
