//! `fairgate doctor`.

use super::Settings;
use crate::app;
use crate::clock::Clock;
use crate::config::Config;
use crate::store::embedded::{self, PrivateRedis};
use crate::store::{Address, Audit, Difference, Inspection, Options, Severity, Store};
use crate::telemetry::StoreMetrics;
use clap::Args;
use std::process::ExitCode;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Differences that are told one by one.
const MOST_SHOWN: usize = 20;

/// Look at Redis: reachable, version, settings that lose jobs, clock; compare every count with the leases.
///
/// Exits 0 if fairgate can work with it and all counts are right, 1 if not. Without a Redis URL it looks at the private one, starting it for a
/// moment if it does not run.
#[derive(Args)]
pub(super) struct Doctor {
    #[command(flatten)]
    settings: Settings,
    /// Make counts right that differ from the leases
    #[arg(long)]
    repair: bool,
}

impl Doctor {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let config = match self.settings.load() {
            Ok(loaded) => loaded.config,
            Err(code) => return Ok(code),
        };
        let store = &config.store;
        let (address, _private) = match app::address(store)? {
            Some(address) => {
                println!("Redis at {}", store.redacted_url().unwrap_or_default());
                (address, None)
            }
            None => {
                println!("the private Redis in {}", store.data_dir.display());
                match PrivateRedis::start(embedded::Options { data_dir: store.data_dir.clone(), durable: true }) {
                    Ok(private) => (private.address(), Some(private)),
                    // Somebody serves from there right now, and that server is the one to look at.
                    Err(embedded::Error::InUse { .. }) => (embedded::address_in(&store.data_dir), None),
                    Err(error) => return Err(error.into()),
                }
            }
        };
        let runtime = super::runtime()?;
        let inspection = runtime.block_on(Inspection::of(&address, &store.namespace, store.call_timeout));
        for finding in &inspection.findings {
            let mark = match finding.severity {
                Severity::Good => "  ok ",
                Severity::Warning => "warn ",
                Severity::Bad => " BAD ",
            };
            println!("{mark} {}", finding.what);
            finding.advice.iter().for_each(|advice| println!("       -> {advice}"));
        }
        if !inspection.is_usable() {
            return Ok(ExitCode::FAILURE);
        }
        let audit = runtime.block_on(audit(&config, address, self.repair))?;
        Ok(if self.repair || audit.differences.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

/// Compares what is counted with the leases, and tells what differs.
async fn audit(config: &Config, address: Address, repair: bool) -> anyhow::Result<Audit> {
    let options = Options {
        address,
        namespace: config.store.namespace.clone(),
        call_timeout: config.store.call_timeout,
        clock: Clock::System,
        settings: app::settings(config),
    };
    let stop = CancellationToken::new();
    let store = Store::open(options, StoreMetrics::default(), &TaskTracker::new(), stop.clone())?;
    store.connected_within(config.store.call_timeout).await?;
    let audit = store.audit(repair, async || ()).await?;
    stop.cancel();
    match audit.differences.len() {
        0 => println!("  ok  {} counts agree with the leases", audit.compared),
        some => {
            let outcome = if repair { "and were made right" } else { "" };
            println!(" BAD  {some} of {} counts differ from the leases {outcome}", audit.compared);
            for Difference { what, name, counted, real } in audit.differences.iter().take(MOST_SHOWN) {
                println!("       {what} of {name}: {counted} instead of {real}");
            }
            if !repair {
                println!("       -> run `fairgate doctor --repair`; please report how it came to this");
            }
        }
    }
    Ok(audit)
}
