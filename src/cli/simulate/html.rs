//! Reports as a self-contained page: tables and SVG charts, without scripts and without anything
//! that a browser would have to load.

use super::chart::{MOST_SERIES, Ranges, charted, cumulative, escape, waits};
use super::comparison::{Comparison, TENANT_VALUES, TOTAL_VALUES, change};
use super::format::{percent, tenant, time, weight};
use super::table::{MOST_ROWS, title, totals};
use crate::domain::simulation::{Report, TenantReport};
use crate::domain::words::grouped;
use std::fmt::Write;

const STYLE: &str = include_str!("page.css");

/// A heading, and a function that draws the content for one report.
type Section = (&'static str, fn(&Report, Ranges) -> String);

/// Returns the page of one report, or of two side by side.
pub(super) fn page(reports: &[Report]) -> String {
    let mut names: Vec<&str> = reports.iter().map(|report| report.scenario.as_str()).collect();
    names.dedup();
    let heading = escape(&format!("fairgate simulate: {}", names.join(", ")));
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{heading}</title>\n<style>\n{STYLE}</style>\n<h1>{heading}</h1>\n"
    );
    if let [before, after] = reports {
        differences(&mut page, &Comparison { before, after });
    }
    let ranges = Ranges::of(reports);
    let titled = |report: &Report, letter: Option<char>| {
        escape(&letter.map_or_else(|| title(report), |letter| format!("{letter}  {}", title(report))))
    };
    let letters = if reports.len() > 1 { ['A', 'B'].map(Some) } else { [None, None] };
    let sections: [Section; 2] = [
        ("Started jobs over time", |report, ranges| legend(report) + &cumulative(report, ranges)),
        ("Waits: p50 (large dot), p95, p99 and maximum (small dot)", waits),
    ];
    for (name, draw) in sections {
        page.push_str("<div class=\"pair\">\n");
        for (report, letter) in reports.iter().zip(letters) {
            let drawn = draw(report, ranges);
            _ = write!(page, "<section>\n<h2>{name}</h2>\n<p>{}</p>\n{drawn}\n</section>\n", titled(report, letter));
        }
        page.push_str("</div>\n");
    }
    for (report, letter) in reports.iter().zip(letters) {
        _ = write!(page, "<section>\n<h2>{}</h2>\n", titled(report, letter));
        tables(&mut page, report);
        page.push_str("</section>\n");
    }
    page
}

fn legend(report: &Report) -> String {
    let mut text = String::from("<p>");
    for (color, place) in charted(report).into_iter().enumerate() {
        let entry = &report.tenants[place];
        let name = escape(&tenant(&entry.name, entry.tenants));
        _ = write!(text, "<span class=\"key d{color}\"></span>{name} &nbsp; ");
    }
    if report.tenants.len() > MOST_SERIES {
        _ = write!(text, "and {} more, which the charts leave out", report.tenants.len() - MOST_SERIES);
    }
    text + "</p>\n"
}

fn tables(page: &mut String, report: &Report) {
    let names = ["tenant", "weight", "jobs", "share", "expected", "p50", "p95", "p99", "max wait"];
    table_row(page, "th", names.map(str::to_owned), Place::First);
    for entry in report.tenants.iter().take(MOST_ROWS) {
        table_row(page, "td", cells(entry), Place::Within);
    }
    page.push_str("</table>\n");
    if report.tenants.len() > MOST_ROWS {
        _ = writeln!(page, "<p>{} more entries: see --json</p>", report.tenants.len() - MOST_ROWS);
    }
    page.push_str("<br>\n<table>\n");
    totals(&report.totals).into_iter().for_each(|row| table_row(page, "td", row, Place::Within));
    page.push_str("</table>\n");
}

fn cells(entry: &TenantReport) -> [String; 9] {
    let wait = &entry.wait;
    [
        tenant(&entry.name, entry.tenants),
        weight(entry.weight),
        grouped(entry.jobs),
        percent(entry.share),
        percent(entry.expected_share),
        time(wait.p50_ms),
        time(wait.p95_ms),
        time(wait.p99_ms),
        time(wait.max_ms),
    ]
}

fn differences(page: &mut String, comparison: &Comparison<'_>) {
    page.push_str("<section>\n<h2>Differences</h2>\n");
    let headings = TENANT_VALUES.iter().flat_map(|(name, ..)| [format!("{name} A"), "B".to_owned(), "B−A".to_owned()]);
    table_row(page, "th", ["tenant".to_owned()].into_iter().chain(headings), Place::First);
    for pair in comparison.pairs().iter().take(MOST_ROWS) {
        let cells = TENANT_VALUES.iter().flat_map(|(_, value, show)| pair.cells(value, show));
        table_row(page, "td", [pair.name()].into_iter().chain(cells), Place::Within);
    }
    page.push_str("</table>\n<br>\n");
    table_row(page, "th", ["", "A", "B", "B−A"].map(str::to_owned), Place::First);
    for (name, value, show) in TOTAL_VALUES {
        let (before, after) = (value(&comparison.before.totals), value(&comparison.after.totals));
        table_row(page, "td", [name.to_owned()].into_iter().chain(change(before, after, show)), Place::Within);
    }
    page.push_str("</table>\n</section>\n");
}

/// The place of a row in its table.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// It opens the table.
    First,
    Within,
}

fn table_row(page: &mut String, tag: &str, cells: impl IntoIterator<Item = String>, place: Place) {
    page.push_str(if place == Place::First { "<table>\n<tr>" } else { "<tr>" });
    cells.into_iter().for_each(|cell| _ = write!(page, "<{tag}>{}</{tag}>", escape(&cell)));
    page.push_str("</tr>\n");
}
