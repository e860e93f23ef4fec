//! Charts as inline SVG, without scripts. Colours are classes, which the page defines for light and
//! dark.

use super::format::{tenant, time};
use crate::domain::simulation::{Report, TenantReport};
use crate::domain::words::grouped;
use std::fmt::Write;

/// Maximum number of tenants in a chart: as many as there are colours.
pub(super) const MOST_SERIES: usize = 8;

const WIDTH: f64 = 640.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 620.0;
const TOP: f64 = 12.0;
/// Height of the plot of the line chart.
const HEIGHT: f64 = 260.0;
/// Height of a row in the chart of waits.
const ROW: f64 = 26.0;
/// Shortest wait on the logarithmic axis, in milliseconds; shorter ones are at its beginning.
const SHORTEST_MS: f64 = 1.0;

/// The ranges of the axes, which charts that are compared share.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ranges {
    pub longest_ms: f64,
    pub most_jobs: u64,
    pub longest_wait_ms: f64,
}

impl Ranges {
    /// Returns ranges that hold all of these reports.
    pub(super) fn of(reports: &[Report]) -> Ranges {
        let longest = |value: fn(&Report) -> f64| reports.iter().map(value).fold(1.0, f64::max);
        let jobs = reports.iter().flat_map(|report| &report.tenants).map(|entry| entry.dispatches);
        Ranges {
            longest_ms: longest(|report| report.totals.makespan_ms),
            most_jobs: jobs.max().unwrap_or(1).max(1),
            longest_wait_ms: longest(|report| report.totals.wait.max_ms).max(10.0 * SHORTEST_MS),
        }
    }
}

/// Returns the places of the tenants that a chart shows: those with most dispatches, in the order
/// of the report.
pub(super) fn charted(report: &Report) -> Vec<usize> {
    let mut places: Vec<usize> = (0..report.tenants.len()).collect();
    places.sort_by_key(|place| std::cmp::Reverse(report.tenants[*place].dispatches));
    places.truncate(MOST_SERIES);
    places.sort_unstable();
    places
}

/// Draws the cumulative number of started jobs of each tenant over time.
pub(super) fn cumulative(report: &Report, ranges: Ranges) -> String {
    let bottom = TOP + HEIGHT;
    let x = |ms: f64| LEFT + (RIGHT - LEFT) * ms / ranges.longest_ms;
    let y = |jobs: f64| bottom - HEIGHT * jobs / ranges.most_jobs as f64;
    let mut svg = open("Started jobs of each tenant over time", bottom + 34.0);
    for tick in ticks(ranges.most_jobs as f64) {
        let shown = grouped(tick as u64);
        line(&mut svg, [LEFT, y(tick)], [RIGHT, y(tick)]);
        text(&mut svg, "end", [LEFT - 8.0, y(tick) + 4.0], &shown);
    }
    for tick in ticks(ranges.longest_ms) {
        text(&mut svg, "middle", [x(tick), bottom + 18.0], &time(tick));
    }
    for (color, place) in charted(report).into_iter().enumerate() {
        let values = report.timeline.at_ms.iter().zip(&report.timeline.tenants[place]);
        let points: Vec<String> = values.map(|(ms, jobs)| format!("{:.1},{:.1}", x(*ms), y(*jobs as f64))).collect();
        let name = shown_name(&report.tenants[place]);
        let points = points.join(" ");
        _ = write!(svg, "<polyline class=\"s{color}\" points=\"{points}\"><title>{name}</title></polyline>");
    }
    svg + "</svg>"
}

/// Draws the percentiles of each tenant's waits on a logarithmic axis.
pub(super) fn waits(report: &Report, ranges: Ranges) -> String {
    let shown = charted(report);
    let bottom = TOP + ROW * shown.len() as f64;
    let left = LEFT + 90.0;
    let span = (ranges.longest_wait_ms / SHORTEST_MS).log10();
    let x = |ms: f64| left + (RIGHT - left) * (ms.max(SHORTEST_MS) / SHORTEST_MS).log10() / span;
    let mut svg = open("Waits of each tenant: p50, p95, p99 and maximum", bottom + 30.0);
    let mut tick = SHORTEST_MS;
    while tick <= ranges.longest_wait_ms {
        line(&mut svg, [x(tick), TOP], [x(tick), bottom]);
        text(&mut svg, "middle", [x(tick), bottom + 18.0], &time(tick));
        tick *= 10.0;
    }
    for (row, place) in shown.into_iter().enumerate() {
        let entry = &report.tenants[place];
        let (middle, wait) = (TOP + ROW * (row as f64 + 0.5), &entry.wait);
        text(&mut svg, "end", [left - 10.0, middle + 4.0], &shown_name(entry));
        let (from, to) = (x(wait.p50_ms), x(wait.max_ms));
        _ = write!(
            svg,
            "<line class=\"s{row}\" x1=\"{from:.1}\" y1=\"{middle:.1}\" x2=\"{to:.1}\" y2=\"{middle:.1}\"/>"
        );
        let values = [
            ("p50", wait.p50_ms, 6.0),
            ("p95", wait.p95_ms, 4.5),
            ("p99", wait.p99_ms, 3.5),
            ("max", wait.max_ms, 2.5),
        ];
        for (name, ms, radius) in values {
            let (cx, label) = (x(ms), format!("{name} {}", time(ms)));
            _ = write!(
                svg,
                "<circle class=\"d{row}\" cx=\"{cx:.1}\" cy=\"{middle:.1}\" r=\"{radius}\"><title>{label}</title></circle>"
            );
        }
    }
    svg + "</svg>"
}

/// Returns evenly spaced round numbers from 0 up to `most`.
fn ticks(most: f64) -> Vec<f64> {
    let rough = most / 5.0;
    let power = 10_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|times| times * power).into_iter().find(|step| *step >= rough);
    let step = step.unwrap_or(most).max(f64::MIN_POSITIVE);
    (0..=(most / step) as u32).map(|number| f64::from(number) * step).collect()
}

fn open(label: &str, height: f64) -> String {
    format!("<svg role=\"img\" aria-label=\"{label}\" viewBox=\"0 0 {WIDTH} {height:.0}\">")
}

fn line(svg: &mut String, [x1, y1]: [f64; 2], [x2, y2]: [f64; 2]) {
    _ = write!(svg, "<line class=\"grid\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>");
}

fn text(svg: &mut String, anchor: &str, [x, y]: [f64; 2], shown: &str) {
    _ = write!(svg, "<text text-anchor=\"{anchor}\" x=\"{x:.1}\" y=\"{y:.1}\">{shown}</text>");
}

/// Returns the escaped name of an entry, shortened to the space of an axis.
fn shown_name(entry: &TenantReport) -> String {
    const LONGEST: usize = 20;
    let name = tenant(&entry.name, entry.tenants);
    match name.char_indices().nth(LONGEST) {
        Some((cut, _)) => format!("{}…", escape(&name[..cut])),
        None => escape(&name),
    }
}

/// Escapes text for HTML and SVG.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for symbol in text.chars() {
        match symbol {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_few() {
        assert_eq!(ticks(1000.0), [0.0, 200.0, 400.0, 600.0, 800.0, 1000.0]);
        assert_eq!(ticks(7.0), [0.0, 2.0, 4.0, 6.0]);
        for most in [1.0, 3.3, 99.0, 12_345.0, 1e9] {
            assert!((3..=6).contains(&ticks(most).len()), "{most}");
        }
    }

    #[test]
    fn names_cannot_add_markup() {
        assert_eq!(escape("<b a='1' b=\"2\">&"), "&lt;b a=&#39;1&#39; b=&quot;2&quot;&gt;&amp;");
    }
}
