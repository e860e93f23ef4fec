//! `fairgate report`.

use super::server::Server;
use clap::{Args, ValueEnum};
use std::process::ExitCode;

/// Print the health report of a running server: what needs attention, why, and what to do.
///
/// The server examines its plan rules, main queues, weights webhooks, queues and limits. The key
/// needs the role operator or admin.
///
/// Exit status: 0 if nothing is critical; 1 if something is, or if the server does not answer.
#[derive(Args)]
pub(super) struct Report {
    #[command(flatten)]
    server: Server,
    /// Form of the report
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Markdown,
    Json,
}

impl Format {
    fn name(self) -> &'static str {
        match self {
            Format::Text => "text",
            Format::Markdown => "markdown",
            Format::Json => "json",
        }
    }

    /// Returns the beginning of a report that has a critical finding.
    fn of_critical(self) -> &'static str {
        match self {
            Format::Text => "critical:",
            Format::Markdown => "## fairgate: critical",
            Format::Json => "{\"verdict\":\"critical\"",
        }
    }
}

impl Report {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let client = self.server.client()?;
        let path = format!("/ojs/v1/admin/health-report?format={}", self.format.name());
        let report = super::runtime()?.block_on(client.api_get_text(&path))?;
        super::print(report.trim_end())?;
        let is_critical = report.starts_with(self.format.of_critical());
        Ok(if is_critical { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }
}
