//! Two reports side by side.

use super::format::{index, percent, signed, tenant, time};
use super::table::{Columns, MOST_ROWS, title, write_notes};
use crate::domain::simulation::{Report, TenantReport, Totals};
use std::fmt::{self, Display, Formatter};

/// Displays two reports for people: A, B, and the change from A to B.
pub(super) struct Comparison<'a> {
    pub before: &'a Report,
    pub after: &'a Report,
}

/// A tenant of both reports or of one.
pub(super) struct Pair<'a> {
    pub before: Option<&'a TenantReport>,
    pub after: Option<&'a TenantReport>,
}

impl Pair<'_> {
    /// Returns the name and the number of tenants, as the first report has them.
    pub(super) fn name(&self) -> String {
        self.before.or(self.after).map_or_else(String::new, |entry| tenant(&entry.name, entry.tenants))
    }

    /// Returns the cells A, B and B−A of a value.
    pub(super) fn cells(
        &self,
        value: impl Fn(&TenantReport) -> Option<f64>,
        show: impl Fn(f64) -> String + Copy,
    ) -> [String; 3] {
        change(self.before.and_then(&value), self.after.and_then(&value), show)
    }
}

/// Returns the cells A, B and B−A of two values.
pub(super) fn change(before: Option<f64>, after: Option<f64>, show: impl Fn(f64) -> String + Copy) -> [String; 3] {
    let shown = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), show);
    let difference = before.zip(after).map_or_else(String::new, |(before, after)| signed(after - before, show));
    [shown(before), shown(after), difference]
}

/// Values of a tenant that are compared: heading, value and format.
type TenantValue = (&'static str, fn(&TenantReport) -> Option<f64>, fn(f64) -> String);

/// The values of tenants that are compared.
pub(super) const TENANT_VALUES: [TenantValue; 4] = [
    ("share", |entry| entry.share, share),
    ("p50", |entry| Some(entry.wait.p50_ms), time),
    ("p95", |entry| Some(entry.wait.p95_ms), time),
    ("max wait", |entry| Some(entry.wait.max_ms), time),
];

/// Values of all tenants together that are compared: name, value and format.
type TotalValue = (&'static str, fn(&Totals) -> Option<f64>, fn(f64) -> String);

/// The totals that are compared.
pub(super) const TOTAL_VALUES: [TotalValue; 6] = [
    ("Jain index", |totals| totals.jain_index, |value| index(Some(value))),
    ("p95 of all waits", |totals| Some(totals.wait.p95_ms), time),
    ("utilisation", |totals| Some(totals.utilisation), share),
    ("throughput", |totals| Some(totals.throughput_per_s), |value| format!("{value:.1} jobs/s")),
    ("makespan", |totals| Some(totals.makespan_ms), time),
    ("idle although jobs were staged", |totals| Some(totals.wasted_ms), time),
];

fn share(share: f64) -> String {
    percent(Some(share))
}

impl<'a> Comparison<'a> {
    /// Returns the tenants of both reports, matched by name.
    pub(super) fn pairs(&self) -> Vec<Pair<'a>> {
        let find = |report: &'a Report, name: &str| report.tenants.iter().find(|entry| entry.name == name);
        let of_both =
            self.before.tenants.iter().map(|entry| Pair { before: Some(entry), after: find(self.after, &entry.name) });
        let new = self.after.tenants.iter().filter(|entry| find(self.before, &entry.name).is_none());
        of_both.chain(new.map(|entry| Pair { before: None, after: Some(entry) })).collect()
    }
}

impl Display for Comparison<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "A  {}\nB  {}\n", title(self.before), title(self.after))?;
        let pairs = self.pairs();
        let mut columns = Columns::default();
        let headings =
            TENANT_VALUES.iter().flat_map(|(name, ..)| [format!("{name} A"), "B".to_owned(), "B−A".to_owned()]);
        columns.push(["tenant".to_owned()].into_iter().chain(headings));
        for pair in pairs.iter().take(MOST_ROWS) {
            let cells = TENANT_VALUES.iter().flat_map(|(_, value, show)| pair.cells(value, show));
            columns.push([pair.name()].into_iter().chain(cells));
        }
        write!(f, "{columns}")?;
        if pairs.len() > MOST_ROWS {
            writeln!(f, "{} more entries: see --json", pairs.len() - MOST_ROWS)?;
        }
        let mut columns = Columns::default();
        columns.push(["", "A", "B", "B−A"].map(str::to_owned));
        for (name, value, show) in TOTAL_VALUES {
            let cells = change(value(&self.before.totals), value(&self.after.totals), show);
            columns.push([name.to_owned()].into_iter().chain(cells));
        }
        write!(f, "\n{columns}")?;
        for (letter, report) in [("A", self.before), ("B", self.after)] {
            write_notes(f, report, &format!("{letter}: "))?;
        }
        Ok(())
    }
}
