//! `fairgate doctor`.

use super::Settings;
use crate::app;
use crate::store::embedded::{self, PrivateRedis};
use crate::store::{Inspection, Severity};
use clap::Args;
use std::process::ExitCode;

/// Look at Redis: reachable, version, settings that lose jobs, clock.
///
/// Exits 0 if fairgate can work with it, 1 if not. Without a Redis URL it looks at the private one, starting it for a
/// moment if it does not run.
#[derive(Args)]
pub(super) struct Doctor {
    #[command(flatten)]
    settings: Settings,
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
        let inspection = super::runtime()?.block_on(Inspection::of(&address, &store.namespace, store.call_timeout));
        for finding in &inspection.findings {
            let mark = match finding.severity {
                Severity::Good => "  ok ",
                Severity::Warning => "warn ",
                Severity::Bad => " BAD ",
            };
            println!("{mark} {}", finding.what);
            finding.advice.iter().for_each(|advice| println!("       -> {advice}"));
        }
        Ok(if inspection.is_usable() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}
