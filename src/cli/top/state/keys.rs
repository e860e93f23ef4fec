//! The keys.

use super::{Effect, Mode, State};
use crate::cli::top::tab::Tab;
use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

/// The keys with their effects, for the page of help: ten lines, which fit on a small screen.
pub(in crate::cli::top) const HELP: [(&str, &str); 10] = [
    ("1-5 Tab", "choose a view"),
    ("j k PgDn", "select; also arrows, Home End"),
    ("Enter", "tenants of the rule"),
    ("/", "filter by text; Esc clears it"),
    ("s", "sort by the next column"),
    ("r", "reverse the order"),
    ("p", "pause or resume rule or queue"),
    ("Space", "stop or go on refreshing"),
    ("Esc", "back"),
    ("q Ctrl-C", "quit"),
];

/// The rows that a page has for the keys that turn pages.
const PAGE: isize = 10;
/// Maximum length of the filter, in characters.
const MOST_FILTER: usize = 60;

impl State {
    /// Handles a key.
    pub(super) fn press(&mut self, key: KeyEvent) -> Effect {
        if key.kind == KeyEventKind::Release {
            return Effect::Nothing;
        }
        self.notice = None;
        let has_control = key.modifiers.contains(KeyModifiers::CONTROL);
        if has_control && key.code == KeyCode::Char('c') {
            return Effect::Quit;
        }
        if has_control || key.modifiers.contains(KeyModifiers::ALT) {
            return Effect::Nothing;
        }
        match &self.mode {
            Mode::Browse => self.browse(key.code),
            Mode::Filter => self.type_filter(key.code),
            Mode::Confirm(action) => match key.code {
                KeyCode::Char('y' | 'Y') => {
                    let action = action.clone();
                    self.mode = Mode::Browse;
                    Effect::Act(action)
                }
                KeyCode::Char('n' | 'N' | 'q') | KeyCode::Esc => self.enter(Mode::Browse),
                _ => Effect::Nothing,
            },
            // Any key leaves the page.
            Mode::Help => self.enter(Mode::Browse),
        }
    }

    fn enter(&mut self, mode: Mode) -> Effect {
        self.mode = mode;
        Effect::Nothing
    }

    fn step(&mut self, by: isize) -> Effect {
        self.rows_mut().step(by);
        Effect::Nothing
    }

    fn browse(&mut self, code: KeyCode) -> Effect {
        match code {
            KeyCode::Char('q') => return Effect::Quit,
            KeyCode::Char(digit @ '1'..='5') => return self.show(Tab::ALL[digit as usize - '1' as usize]),
            KeyCode::Tab | KeyCode::Right => return self.show(self.tab.next()),
            KeyCode::BackTab | KeyCode::Left => return self.show(self.tab.previous()),
            KeyCode::Enter if self.tab == Tab::Rules && self.rows().selected().is_some() => {
                return self.show(Tab::Tenants);
            }
            KeyCode::Esc if !self.rows().filter().is_empty() => self.rows_mut().set_filter(String::new()),
            KeyCode::Esc if self.tab == Tab::Tenants => return self.show(Tab::Rules),
            KeyCode::Down | KeyCode::Char('j') => return self.step(1),
            KeyCode::Up | KeyCode::Char('k') => return self.step(-1),
            KeyCode::PageDown => return self.step(PAGE),
            KeyCode::PageUp => return self.step(-PAGE),
            KeyCode::Home => return self.step(isize::MIN),
            KeyCode::End => return self.step(isize::MAX),
            KeyCode::Char('s') => self.rows_mut().sort_by_next(),
            KeyCode::Char('r') => self.rows_mut().reverse(),
            KeyCode::Char('/') => self.mode = Mode::Filter,
            KeyCode::Char('?') => self.mode = Mode::Help,
            KeyCode::Char('p') => self.ask(),
            KeyCode::Char(' ') => {
                self.is_paused = !self.is_paused;
                return if self.is_paused { Effect::Nothing } else { Effect::Read };
            }
            _ => {}
        }
        Effect::Nothing
    }

    /// Asks before the selected rule or queue is paused or resumed.
    fn ask(&mut self) {
        match self.action() {
            Some(action) => self.mode = Mode::Confirm(action),
            None => self.notice = Some("p pauses a rule (view 1) or a queue (view 3)".to_owned()),
        }
    }

    fn type_filter(&mut self, code: KeyCode) -> Effect {
        let mut filter = self.rows().filter().to_owned();
        match code {
            KeyCode::Esc => {
                filter.clear();
                self.mode = Mode::Browse;
            }
            KeyCode::Enter => self.mode = Mode::Browse,
            KeyCode::Backspace => _ = filter.pop(),
            KeyCode::Char(letter) if filter.chars().count() < MOST_FILTER && !letter.is_control() => {
                filter.push(letter)
            }
            _ => {}
        }
        self.rows_mut().set_filter(filter);
        Effect::Nothing
    }
}
