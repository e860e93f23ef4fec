//! The report of a simulation as a table.

use super::format::{index, percent, tenant, time, weight};
use crate::domain::simulation::{Report, TenantReport, Totals};
use crate::domain::words::counted;
use crate::domain::words::grouped;
use std::fmt::{self, Display, Formatter};

/// Maximum number of tenants in a table. `--json` has all.
pub(super) const MOST_ROWS: usize = 50;

/// Displays a report for people.
pub(super) struct ReportTable<'a>(pub &'a Report);

/// Rows of cells, of which the first is aligned to the left and the others to the right.
#[derive(Default)]
pub(super) struct Columns(Vec<Vec<String>>);

impl Columns {
    pub(super) fn push(&mut self, row: impl IntoIterator<Item = String>) {
        self.0.push(row.into_iter().collect());
    }
}

impl Display for Columns {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let columns = self.0.iter().map(Vec::len).max().unwrap_or(0);
        let cells = |column: usize| self.0.iter().filter_map(move |row| row.get(column));
        let width = |column| cells(column).map(|cell| cell.chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for row in &self.0 {
            let mut line = String::new();
            for (place, (cell, width)) in row.iter().zip(&widths).enumerate() {
                match place {
                    0 => line.push_str(&format!("{cell:<width$}")),
                    _ => line.push_str(&format!("  {cell:>width$}")),
                }
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// Describes a report in one line.
pub(super) fn title(report: &Report) -> String {
    let order = if report.mode == "fifo" { "first in, first out" } else { "fair" };
    let workers = counted(u64::from(report.workers), "worker");
    format!("{}: {order}, {workers}, seed {}", report.scenario, report.seed)
}

/// Returns the rows of totals: a name and a value.
pub(super) fn totals(totals: &Totals) -> Vec<[String; 2]> {
    let mut rows = vec![
        ["Jain index".to_owned(), index(totals.jain_index)],
        ["utilisation".to_owned(), percent(Some(totals.utilisation))],
        ["throughput".to_owned(), format!("{:.1} jobs/s", totals.throughput_per_s)],
        ["makespan".to_owned(), time(totals.makespan_ms)],
    ];
    if totals.rounds > 0 {
        let deviation = &totals.promotions;
        rows.push(["rounds".to_owned(), grouped(totals.rounds)]);
        rows.push(["idle although jobs were staged".to_owned(), time(totals.wasted_ms)]);
        rows.push([
            "promotions from exact shares".to_owned(),
            format!("{:.2} jobs ahead, {:.2} behind", deviation.ahead_jobs, deviation.behind_jobs),
        ]);
    }
    rows
}

fn row(entry: &TenantReport) -> [String; 11] {
    let TenantReport { wait, deviation, .. } = entry;
    [
        tenant(&entry.name, entry.tenants),
        weight(entry.weight),
        grouped(entry.jobs),
        percent(entry.share),
        percent(entry.expected_share),
        format!("{:.1}", deviation.ahead_jobs),
        format!("{:.1}", deviation.behind_jobs),
        time(wait.p50_ms),
        time(wait.p95_ms),
        time(wait.p99_ms),
        time(wait.max_ms),
    ]
}

impl Display for ReportTable<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let ReportTable(report) = self;
        writeln!(f, "{}\n", title(report))?;
        let names =
            ["tenant", "weight", "jobs", "share", "expected", "ahead", "behind", "p50", "p95", "p99", "max wait"];
        let mut columns = Columns::default();
        columns.push(names.map(str::to_owned));
        report.tenants.iter().take(MOST_ROWS).for_each(|entry| columns.push(row(entry)));
        let Totals { jobs, wait, .. } = &report.totals;
        let waits = [wait.p50_ms, wait.p95_ms, wait.p99_ms, wait.max_ms].map(time);
        let all = ["all", "", &grouped(*jobs), "", "", "", ""].map(str::to_owned);
        columns.push(all.into_iter().chain(waits));
        write!(f, "{columns}")?;
        if report.tenants.len() > MOST_ROWS {
            writeln!(f, "{} more entries: see --json", report.tenants.len() - MOST_ROWS)?;
        }
        let mut columns = Columns::default();
        totals(&report.totals).into_iter().for_each(|row| columns.push(row));
        write!(f, "\n{columns}")?;
        write_notes(f, report, "")
    }
}

/// Writes what a reader might otherwise overlook, each line after `prefix`.
pub(super) fn write_notes(f: &mut Formatter<'_>, report: &Report, prefix: &str) -> fmt::Result {
    let Totals { jain_index, discarded, left, jobs_left_out, dispatches, jobs, .. } = report.totals;
    if jain_index.is_none() {
        writeln!(f, "{prefix}no Jain index, because no two tenants had many jobs waiting at the same time")?;
    }
    if discarded > 0 || dispatches + left > jobs {
        let again = counted((dispatches + left).saturating_sub(jobs), "failed attempt");
        writeln!(f, "{prefix}{again} ran again, and {} were discarded", counted(discarded, "job"))?;
    }
    if left > 0 {
        writeln!(f, "{prefix}{} of held tenants never ran", counted(left, "job"))?;
    }
    if jobs_left_out {
        writeln!(f, "{prefix}only the first {} jobs were simulated, and the scenario has more", grouped(jobs))?;
    }
    Ok(())
}
