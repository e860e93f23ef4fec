//! `fairgate doctor`.

use super::{Settings, main_queues, site};
use crate::config::Config;
use crate::domain::words::counted;
use crate::store::{Address, Audit, AuditMode, CheckFinding, Difference, ServerChecks, Severity};
use clap::Args;
use std::process::ExitCode;

/// Number of jobs counted in one call, which occupies Redis for about 30 ms.
const MOST_AT_ONCE: usize = 5000;
/// Maximum number of differences that are listed.
const MOST_SHOWN: usize = 20;

/// Check Redis, the stored job counts and the main queues.
///
/// Checks that Redis is reachable, and its version, clock and settings, with a warning for those
/// that can lose jobs. Compares all job counts with the leases. Checks that the other main queues
/// of the configuration (Sidekiq, OJS servers) can be used. Without a Redis URL, checks the private
/// Redis, which is started temporarily if it is not running.
///
/// Exit status: 0 if everything is usable and all counts are correct (or were repaired), 1 if not,
/// 64 if the configuration is invalid.
#[derive(Args)]
pub(super) struct Doctor {
    #[command(flatten)]
    settings: Settings,
    /// Correct the job counts that disagree with the leases
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
            runtime.block_on(ServerChecks::of(&address, &store.namespace, store.call_timeout, store.wait_replicas));
        inspection.findings.iter().for_each(show);
        let mut is_fine = inspection.is_usable();
        if is_fine {
            let mode = if self.repair { AuditMode::Repair } else { AuditMode::Report };
            let audit = runtime.block_on(audit(&config, address.clone(), mode))?;
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

fn show(finding: &CheckFinding) {
    let mark = match finding.severity {
        Severity::Good => "  ok ",
        Severity::Warning => "warn ",
        Severity::Bad => " BAD ",
    };
    println!("{mark} {}", finding.what);
    finding.advice.iter().for_each(|advice| println!("       -> {advice}"));
}

/// Compares the job counts with the leases, and prints the differences.
async fn audit(config: &Config, address: Address, mode: AuditMode) -> anyhow::Result<Audit> {
    let site = site::open(config, address).await?;
    let audit = site.store.audit(mode, MOST_AT_ONCE, async || ()).await?;
    site.close();
    match audit.differences.len() {
        0 if audit.compared == 1 => println!("  ok  1 job count agrees with the leases"),
        0 => println!("  ok  {} job counts agree with the leases", audit.compared),
        some => {
            let outcome = if mode == AuditMode::Repair { "; repaired" } else { "" };
            println!(" BAD  {some} of {} disagree with the leases{outcome}", counted(audit.compared, "job count"));
            for Difference { what, name, counted, real } in audit.differences.iter().take(MOST_SHOWN) {
                println!("       {what} of {name}: {counted}, expected {real}");
            }
            if mode == AuditMode::Report {
                println!("       -> run `fairgate doctor --repair`, and please report this as a bug");
            }
        }
    }
    Ok(audit)
}
