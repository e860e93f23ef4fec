//! The commands that print a list.

use super::column::Column;
use super::columns::{JOBS, LIMITS, QUEUES, RULE_TENANTS, RULES, TENANTS, WORKERS};
use super::{List, ListOptions};
use crate::cli::server::segment;
use clap::Args;
use std::process::ExitCode;

/// List jobs of a running server, in no particular order.
#[derive(Args)]
pub(in crate::cli) struct Jobs {
    #[command(flatten)]
    options: ListOptions,
    /// Only jobs in this state: available, active, scheduled, retryable, pending, completed,
    /// cancelled or discarded
    #[arg(long)]
    state: Option<String>,
    /// Only jobs of this queue
    #[arg(long)]
    queue: Option<String>,
    /// Only jobs of this type
    #[arg(long = "type", value_name = "TYPE")]
    kind: Option<String>,
}

/// List the queues of a running server, with the jobs of the last minute.
#[derive(Args)]
pub(in crate::cli) struct Queues {
    #[command(flatten)]
    options: ListOptions,
}

/// List the tenants of a running server that have jobs or settings.
#[derive(Args)]
pub(in crate::cli) struct Tenants {
    #[command(flatten)]
    options: ListOptions,
}

/// List the rate limits of a running server, and what they hold back.
#[derive(Args)]
pub(in crate::cli) struct Limits {
    #[command(flatten)]
    options: ListOptions,
}

/// List the workers of a running server.
#[derive(Args)]
pub(in crate::cli) struct Workers {
    #[command(flatten)]
    options: ListOptions,
}

/// List the plan rules of a running server, or the tenants with staged jobs of one rule.
#[derive(Args)]
pub(in crate::cli) struct Planner {
    #[command(flatten)]
    options: ListOptions,
    /// The rule whose tenants to list
    rule: Option<String>,
    /// Order of the tenants: pending, oldest, weight or name
    #[arg(long, value_name = "ORDER", requires = "rule")]
    sort: Option<String>,
}

fn list(path: &str, columns: &'static [Column]) -> List {
    List { path: path.to_owned(), query: Vec::new(), columns }
}

impl Jobs {
    pub(in crate::cli) fn run(self) -> anyhow::Result<ExitCode> {
        let filters = [("state", self.state), ("queue", self.queue), ("type", self.kind)];
        let query = filters.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
        List { query, ..list("/admin/jobs", JOBS) }.print(&self.options)
    }
}

impl Queues {
    pub(in crate::cli) fn run(self) -> anyhow::Result<ExitCode> {
        list("/admin/queues", QUEUES).print(&self.options)
    }
}

impl Tenants {
    pub(in crate::cli) fn run(self) -> anyhow::Result<ExitCode> {
        list("/admin/tenants", TENANTS).print(&self.options)
    }
}

impl Limits {
    pub(in crate::cli) fn run(self) -> anyhow::Result<ExitCode> {
        list("/rate-limits", LIMITS).print(&self.options)
    }
}

impl Workers {
    pub(in crate::cli) fn run(self) -> anyhow::Result<ExitCode> {
        list("/admin/workers", WORKERS).print(&self.options)
    }
}

impl Planner {
    pub(in crate::cli) fn run(self) -> anyhow::Result<ExitCode> {
        let Some(rule) = self.rule else { return list("/admin/planner", RULES).print(&self.options) };
        let path = format!("/admin/planner/{}/tenants", segment(&rule));
        let query = self.sort.into_iter().map(|sort| ("sort", sort)).collect();
        List { query, ..list(&path, RULE_TENANTS) }.print(&self.options)
    }
}
