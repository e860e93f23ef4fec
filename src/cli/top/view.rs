//! The state as widgets.

use super::poll::Failure;
use super::rows::{Row, Rows};
use super::state::{HELP, Mode, State};
use super::tab::{Tab, Tone};
use crate::cli::lists::column::{Column, printable};
use crate::domain::words::duration;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{Cell, Paragraph, Row as TableRow, Table, TableState, Wrap};

#[cfg(test)]
mod tests;

/// The space between two columns.
const GAP: u16 = 2;
/// Most lines of the message about a failure.
const MOST_LINES: usize = 3;

/// The use of colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    Coloured,
    Plain,
}

impl Look {
    /// Follows `NO_COLOR`, which turns colours off if it is set and not empty.
    pub(super) fn of_environment() -> Look {
        let no_colour = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        if no_colour { Look::Plain } else { Look::Coloured }
    }

    /// Returns the style of a verdict, which stands out in bold without colours.
    fn verdict(self, tone: Tone) -> Style {
        match (self, tone) {
            (Look::Coloured, Tone::Normal) => Style::new().fg(Color::Green),
            (Look::Coloured, tone) => self.tone(tone),
            (Look::Plain, _) => Style::new().add_modifier(Modifier::BOLD),
        }
    }

    fn tone(self, tone: Tone) -> Style {
        match (self, tone) {
            (_, Tone::Normal) | (Look::Plain, Tone::Warning) => Style::new(),
            (Look::Coloured, Tone::Warning) => Style::new().fg(Color::Yellow),
            (Look::Coloured, Tone::Critical) => Style::new().fg(Color::Red),
            (Look::Plain, Tone::Critical) => Style::new().add_modifier(Modifier::BOLD),
        }
    }
}

/// The screen at a moment.
pub(super) struct Screen<'a> {
    pub(super) state: &'a State,
    pub(super) now_ms: u64,
    pub(super) look: Look,
}

impl Screen<'_> {
    /// Draws the screen. The scroll positions of the views stay between two drawings.
    pub(super) fn draw(&self, frame: &mut Frame, scroll: &mut Scroll) {
        let area = frame.area();
        if self.state.mode == Mode::Help {
            return frame.render_widget(help(), area);
        }
        let verdict = self.verdict(area.width);
        let [top, second, tabs, body, bottom] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Length(u16::try_from(verdict.lines.len()).unwrap_or(1)),
            Constraint::Length(1),
            Constraint::Fill(1),
            Constraint::Length(1),
        ])
        .areas(area);
        frame.render_widget(self.top_line(), top);
        frame.render_widget(Paragraph::new(verdict).wrap(Wrap { trim: true }), second);
        frame.render_widget(self.tabs(), tabs);
        self.draw_rows(frame, body, scroll);
        self.draw_bottom(frame, bottom);
    }

    /// Returns the first line: the time and age of the figures, the rate, and the server.
    fn top_line(&self) -> Line<'static> {
        let state = self.state;
        let mut parts = Vec::new();
        if let Some(health) = &state.health {
            parts.push(Span::raw(format!("{} UTC", health.time)));
        }
        if let Some(age) = state.age(self.now_ms).filter(|_| state.is_stale(self.now_ms)) {
            parts.push(Span::styled(
                format!("{} old", duration(age.as_secs() as i64 * 1000)),
                self.look.tone(Tone::Warning),
            ));
        }
        if state.is_paused {
            parts.push(Span::styled("not refreshing", Style::new().add_modifier(Modifier::BOLD)));
        }
        if let Some(rate) = state.promoted_per_s {
            parts.push(Span::raw(format!("{rate:.1} jobs/s promoted")));
        }
        parts.push(Span::raw(state.server.clone()));
        let mut line = Line::default();
        for (index, part) in parts.into_iter().enumerate() {
            if index > 0 {
                line.push_span("  ");
            }
            line.push_span(part);
        }
        line
    }

    /// Returns the failure of the last request, or the verdict of the health report.
    fn verdict(&self, width: u16) -> Text<'static> {
        let line = match (&self.state.failure, &self.state.health) {
            (Some(failure), _) => {
                let again = if matches!(failure, Failure::Away(_)) { "trying again: " } else { "" };
                let text = printable(&format!("{again}{failure}"));
                let lines = wrapped(&text, usize::from(width), MOST_LINES);
                return Text::from(lines.into_iter().map(Line::from).collect::<Vec<Line>>())
                    .style(self.look.tone(Tone::Critical));
            }
            (None, Some(health)) => {
                let name = Span::styled(health.verdict.clone(), self.look.verdict(health.tone));
                Line::from(vec![name, Span::raw(format!(": {}", health.summary))])
            }
            (None, None) => Line::raw("waiting for the server"),
        };
        Text::from(line)
    }

    fn tabs(&self) -> Line<'static> {
        let mut line = Line::default();
        for tab in Tab::ALL {
            let is_open = tab == self.state.tab;
            let mut title = format!("{} {}", tab.index() + 1, tab.title());
            if let Some(rule) = self.state.rule().filter(|_| is_open && tab == Tab::Tenants) {
                title.push_str(&format!(" of {}", printable(rule)));
            }
            let style = if is_open { Style::new().add_modifier(Modifier::REVERSED) } else { Style::new() };
            line.push_span(Span::styled(format!(" {title} "), style));
        }
        line
    }

    fn draw_rows(&self, frame: &mut Frame, area: Rect, scroll: &mut Scroll) {
        let rows = self.state.rows();
        let shown = rows.shown();
        if shown.is_empty() {
            return frame.render_widget(Paragraph::new(self.nothing()).wrap(Wrap { trim: true }), area);
        }
        let columns = self.state.tab.columns();
        let widths = widths(columns, &shown, area.width);
        let header =
            columns.iter().take(widths.len()).enumerate().map(|(index, column)| cell(column, &title(rows, index)));
        let lines = shown.iter().map(|row| {
            let cells = columns.iter().zip(&row.cells).take(widths.len()).map(|(column, text)| cell(column, text));
            TableRow::new(cells).style(self.look.tone(self.state.tab.tone(&row.item)))
        });
        let table = Table::new(lines, widths.iter().map(|width| Constraint::Length(*width)))
            .header(TableRow::new(header).style(Style::new().add_modifier(Modifier::BOLD)))
            .column_spacing(GAP)
            .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
        let position = &mut scroll.0[self.state.tab.index()];
        position.select(Some(rows.position()));
        frame.render_stateful_widget(table, area, position);
    }

    /// Returns the text of a view without rows.
    fn nothing(&self) -> String {
        let rows = self.state.rows();
        match (self.state.tab, self.state.rule()) {
            _ if !rows.filter().is_empty() => format!("no entry contains \"{}\"; Esc shows all", rows.filter()),
            (Tab::Tenants, None) if self.state.health.is_some() => "there is no plan rule".to_owned(),
            _ if !rows.is_loaded => String::new(),
            (Tab::Rules, _) => "there is no plan rule".to_owned(),
            (Tab::Tenants, Some(rule)) => format!("no tenant has staged jobs of rule \"{}\"", printable(rule)),
            (Tab::Tenants, None) => String::new(),
            (Tab::Queues, _) => "there is no queue".to_owned(),
            (Tab::Limits, _) => "there is no limit".to_owned(),
            (Tab::Workers, _) => "there is no worker".to_owned(),
        }
    }

    /// Draws the last line: a question, the filter, a message or the keys, and the number of rows.
    fn draw_bottom(&self, frame: &mut Frame, area: Rect) {
        let state = self.state;
        let rows = state.rows();
        let left = match (&state.mode, &state.notice) {
            (Mode::Confirm(action), _) => format!("{} {}? y/n", action.verb.name(), action.object()),
            (Mode::Filter, _) => format!("/{}_", rows.filter()),
            (_, Some(notice)) => notice.clone(),
            _ if !rows.filter().is_empty() => format!("/{}  Esc clears", rows.filter()),
            _ => "? keys  q quit".to_owned(),
        };
        let left = Line::raw(left);
        let right = Line::raw(number(rows)).right_aligned();
        let has_room = left.width() + right.width() < usize::from(area.width);
        frame.render_widget(left, area);
        if has_room {
            frame.render_widget(right, area);
        }
    }
}

/// The scroll positions of the views.
#[derive(Default)]
pub(super) struct Scroll([TableState; Tab::ALL.len()]);

/// Returns the title of a column, with an arrow if the rows are sorted by it.
fn title(rows: &Rows, index: usize) -> String {
    let title = rows.columns()[index].title;
    match rows.sort() {
        Some(sort) if sort == index => format!("{title}{}", if rows.is_reversed() { "↓" } else { "↑" }),
        _ => title.to_owned(),
    }
}

fn cell(column: &Column, text: &str) -> Cell<'static> {
    let text = Text::raw(text.to_owned());
    Cell::from(if column.is_number() { text.right_aligned() } else { text })
}

/// Returns the widths of the columns that fit, at least one. A column is wide enough for the arrow in
/// its title, so that sorting moves nothing.
fn widths(columns: &[Column], rows: &[&Row], available: u16) -> Vec<u16> {
    let mut widths: Vec<u16> = Vec::new();
    let mut used = 0_u16;
    for (index, column) in columns.iter().enumerate() {
        let cells = rows.iter().filter_map(|row| row.cells.get(index));
        let width = cells.map(|cell| Line::raw(cell.as_str()).width()).fold(column.title.len() + 1, usize::max);
        let width = u16::try_from(width).unwrap_or(u16::MAX);
        let gap = if widths.is_empty() { 0 } else { GAP };
        let needed = used.saturating_add(gap).saturating_add(width);
        if needed > available {
            break;
        }
        used = needed;
        widths.push(width);
    }
    if widths.is_empty() { vec![available] } else { widths }
}

/// Returns the number of rows, of all that match, of all that the server has.
fn number(rows: &Rows) -> String {
    let shown = rows.shown().len();
    match rows.total {
        _ if shown == 0 => String::new(),
        total if total == shown => format!("{} of {shown}", rows.position() + 1),
        total => format!("{} of {shown} shown, {total} in all", rows.position() + 1),
    }
}

/// Breaks text into lines of a width, at spaces if possible. Cuts it after the given number of lines.
fn wrapped(text: &str, width: usize, most: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let last = lines.last_mut().expect("there is a line");
        let used = Line::raw(last.as_str()).width();
        if used > 0 && used + 1 + Line::raw(word).width() > width {
            lines.push(word.to_owned());
        } else {
            last.push_str(if used > 0 { " " } else { "" });
            last.push_str(word);
        }
    }
    lines.truncate(most);
    lines
}

fn help() -> Text<'static> {
    let line = |(key, effect): (&str, &str)| Line::from(format!("{key:10} {effect}"));
    Text::from(HELP.into_iter().map(line).collect::<Vec<Line>>())
}
