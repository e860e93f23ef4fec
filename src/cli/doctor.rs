//! `fairgate doctor`.

use super::{Settings, counted, main_queues, site};
use crate::config::Config;
use crate::store::{Address, Audit, Difference, HealthFinding, HealthReport, Severity};
use clap::Args;
use std::process::ExitCode;

/// Jobs counted in one call; Redis is busy with it for about 30 ms.
const MOST_AT_ONCE: usize = 5000;
/// Differences that are told one by one.
const MOST_SHOWN: usize = 20;

/// Look at Redis: reachable, version, settings that lose jobs, clock; compare every count with the leases. Look at other main queues.
///
/// Exits 0 if fairgate can work with all of it and all counts are right, 1 if not. Without a Redis URL it looks at the private one, starting it for a
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
        match store.redacted_url() {
            Some(url) => println!("Redis at {url}"),
            None => println!("the private Redis in {}", store.data_dir.display()),
        }
        let (address, _private) = site::address(&config)?;
        let runtime = super::runtime()?;
        let inspection =
            runtime.block_on(HealthReport::of(&address, &store.namespace, store.call_timeout, store.wait_replicas));
        inspection.findings.iter().for_each(show);
        let mut is_fine = inspection.is_usable();
        if is_fine {
            let audit = runtime.block_on(audit(&config, address.clone(), self.repair))?;
            is_fine = self.repair || audit.differences.is_empty();
        }
        for (heading, findings) in runtime.block_on(main_queues::look(&config, &address)) {
            println!("{heading}");
            findings.iter().for_each(show);
            is_fine &= findings.iter().all(|finding| finding.severity != Severity::Bad);
        }
        Ok(if is_fine { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

fn show(finding: &HealthFinding) {
    let mark = match finding.severity {
        Severity::Good => "  ok ",
        Severity::Warning => "warn ",
        Severity::Bad => " BAD ",
    };
    println!("{mark} {}", finding.what);
    finding.advice.iter().for_each(|advice| println!("       -> {advice}"));
}

/// Compares what is counted with the leases, and tells what differs.
async fn audit(config: &Config, address: Address, repair: bool) -> anyhow::Result<Audit> {
    let site = site::open(config, address).await?;
    let audit = site.store.audit(repair, MOST_AT_ONCE, async || ()).await?;
    site.close();
    match audit.differences.len() {
        0 if audit.compared == 1 => println!("  ok  1 count agrees with the leases"),
        0 => println!("  ok  {} counts agree with the leases", audit.compared),
        some => {
            let outcome = if repair { "and were made right" } else { "" };
            println!(" BAD  {some} of {} differ from the leases {outcome}", counted(audit.compared, "count"));
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
