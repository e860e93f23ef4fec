//! The screen as plain text.

use super::state::State;
use super::view::{Look, Screen, Scroll};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;

/// Width of the text: enough for all columns.
const WIDTH: u16 = 400;
/// Lines besides the rows: the header and the titles of the columns.
const OTHER_LINES: u16 = 8;

/// Returns the screen with all rows and columns, without trailing spaces and without the line of keys.
pub(super) fn screen(state: &State) -> String {
    let rows = u16::try_from(state.rows().shown().len()).unwrap_or(u16::MAX);
    let height = rows.saturating_add(OTHER_LINES);
    let Ok(mut terminal) = Terminal::new(TestBackend::new(WIDTH, height));
    let screen = Screen { state, now_ms: 0, look: Look::Plain };
    let Ok(_) = terminal.draw(|frame| screen.draw(frame, &mut Scroll::default()));
    let mut lines = lines(terminal.backend().buffer());
    lines.pop();
    lines.join("\n").trim_end().to_owned()
}

/// Returns the lines of a buffer without trailing spaces.
pub(super) fn lines(buffer: &Buffer) -> Vec<String> {
    let width = usize::from(buffer.area.width.max(1));
    let line = |cells: &[ratatui::buffer::Cell]| {
        let text: String = cells.iter().map(ratatui::buffer::Cell::symbol).collect();
        text.trim_end().to_owned()
    };
    buffer.content().chunks(width).map(line).collect()
}
