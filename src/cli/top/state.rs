//! The state of the screen, and how keys and answers change it. Does no I/O and reads no clock.

use super::poll::{Failure, Figures, Question, Reading};
use super::rows::Rows;
use super::tab::{Tab, Tone};
use crate::cli::lists::column::printable;
use serde_json::Value;
use std::time::Duration;

mod keys;
#[cfg(test)]
mod tests;

pub(super) use keys::HELP;

/// Something that happened.
#[derive(Debug)]
pub(super) enum Event {
    Key(crossterm::event::KeyEvent),
    Read(Box<Reading>),
    /// The end of an action.
    Acted(Action, Result<(), Failure>),
}

/// A request to the caller that follows from an event.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Effect {
    Nothing,
    /// Read the server now.
    Read,
    Act(Action),
    Quit,
}

/// A change of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Action {
    pub(super) verb: Verb,
    pub(super) target: Target,
    pub(super) name: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    Pause,
    Resume,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    Rule,
    Queue,
}

impl Verb {
    pub(super) fn name(self) -> &'static str {
        match self {
            Verb::Pause => "pause",
            Verb::Resume => "resume",
        }
    }

    fn past(self) -> &'static str {
        match self {
            Verb::Pause => "paused",
            Verb::Resume => "resumed",
        }
    }
}

impl Action {
    /// Returns the target with its name.
    pub(super) fn object(&self) -> String {
        let kind = match self.target {
            Target::Rule => "rule",
            Target::Queue => "queue",
        };
        format!("{kind} \"{}\"", printable(&self.name))
    }
}

/// The meaning of the next key.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Browse,
    /// Text for the filter.
    Filter,
    /// The answer to a question.
    Confirm(Action),
    /// The keys are shown.
    Help,
}

/// The verdict of the health report.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Health {
    pub(super) tone: Tone,
    pub(super) verdict: String,
    pub(super) summary: String,
    /// Time of the report by the clock of the server, as `12:00:00`.
    pub(super) time: String,
}

/// The number of promoted jobs of all rules at a time.
#[derive(Clone, Copy, Debug)]
struct Promoted {
    jobs: u64,
    at_ms: u64,
}

/// The state of the screen. Times are milliseconds of a clock that never goes back.
#[derive(Debug)]
pub(super) struct State {
    pub(super) server: String,
    pub(super) interval: Duration,
    pub(super) tab: Tab,
    pub(super) mode: Mode,
    /// True while the user has stopped the refreshing.
    pub(super) is_paused: bool,
    pub(super) health: Option<Health>,
    /// The failure of the last request, if it failed.
    pub(super) failure: Option<Failure>,
    /// A message until the next key.
    pub(super) notice: Option<String>,
    /// Promoted jobs per second between the last two answers.
    pub(super) promoted_per_s: Option<f64>,
    promoted: Option<Promoted>,
    read_at_ms: Option<u64>,
    lists: [Rows; Tab::ALL.len()],
    /// The rule of the rows of the view of tenants.
    tenants_of: Option<String>,
}

impl State {
    pub(super) fn new(server: String, interval: Duration) -> State {
        State {
            server: printable(&server),
            interval,
            tab: Tab::Rules,
            mode: Mode::Browse,
            is_paused: false,
            health: None,
            failure: None,
            notice: None,
            promoted_per_s: None,
            promoted: None,
            read_at_ms: None,
            lists: Tab::ALL.map(Rows::new),
            tenants_of: None,
        }
    }

    /// Opens a view before the first answer, and selects a rule.
    pub(super) fn open(&mut self, tab: Tab, rule: Option<String>) {
        self.tab = tab;
        rule.into_iter().for_each(|rule| self.lists[Tab::Rules.index()].select(rule));
    }

    /// Returns what to ask the server.
    pub(super) fn question(&self) -> Question {
        let rules = &self.lists[Tab::Rules.index()];
        Question { tab: self.tab, rule: rules.wanted().map(str::to_owned) }
    }

    /// Returns the rows of the view.
    pub(super) fn rows(&self) -> &Rows {
        &self.lists[self.tab.index()]
    }

    fn rows_mut(&mut self) -> &mut Rows {
        &mut self.lists[self.tab.index()]
    }

    /// Returns the selected rule, even if the filter hides it.
    pub(super) fn rule(&self) -> Option<&str> {
        let rules = &self.lists[Tab::Rules.index()];
        rules.wanted().filter(|rule| rules.contains(rule))
    }

    /// Returns the age of the figures.
    pub(super) fn age(&self, now_ms: u64) -> Option<Duration> {
        Some(Duration::from_millis(now_ms.saturating_sub(self.read_at_ms?)))
    }

    /// Returns true if the figures are older than refreshing explains.
    pub(super) fn is_stale(&self, now_ms: u64) -> bool {
        let late = self.interval * 2 + Duration::from_secs(1);
        self.age(now_ms).is_some_and(|age| age > late || self.failure.is_some() || self.is_paused)
    }

    /// Changes the state after an event.
    pub(super) fn update(&mut self, event: Event, now_ms: u64) -> Effect {
        match event {
            Event::Key(key) => self.press(key),
            Event::Read(reading) => self.take(*reading, now_ms),
            Event::Acted(action, outcome) => {
                self.notice = Some(match outcome {
                    Ok(()) => format!("{} {}", action.verb.past(), action.object()),
                    Err(failure) => {
                        format!(
                            "cannot {} {}: {}",
                            action.verb.name(),
                            action.object(),
                            printable(&failure.to_string())
                        )
                    }
                });
                Effect::Read
            }
        }
    }

    fn take(&mut self, reading: Reading, now_ms: u64) -> Effect {
        let figures = match reading.outcome {
            Ok(figures) => figures,
            Err(failure) => {
                self.failure = Some(failure);
                return Effect::Nothing;
            }
        };
        self.failure = None;
        self.health = Some(Health::of(&figures.report));
        self.count(&figures.rules, now_ms);
        self.read_at_ms = Some(now_ms);
        self.take_rules(&figures.rules);
        self.take_list(reading.tab, figures)
    }

    /// Computes the rate of promotions since the last answer.
    fn count(&mut self, rules: &Value, now_ms: u64) {
        let items = rules["items"].as_array().map(Vec::as_slice).unwrap_or_default();
        let jobs = items.iter().filter_map(|item| item.pointer("/rounds/promoted_total")?.as_u64()).sum();
        let now = Promoted { jobs, at_ms: now_ms };
        self.promoted_per_s = self.promoted.and_then(|last| {
            let elapsed_ms = now.at_ms.checked_sub(last.at_ms).filter(|elapsed| *elapsed > 0)?;
            // Fewer than before if a rule was removed.
            Some(now.jobs.checked_sub(last.jobs)? as f64 * 1000.0 / elapsed_ms as f64)
        });
        self.promoted = Some(now);
    }

    fn take_rules(&mut self, answer: &Value) {
        let rules = &mut self.lists[Tab::Rules.index()];
        let wanted = rules.wanted().map(str::to_owned);
        rules.replace(answer);
        let is_gone = wanted.as_ref().is_some_and(|wanted| !rules.contains(wanted));
        if let Some(rule) = wanted.filter(|_| is_gone && self.tab == Tab::Tenants) {
            self.notice = Some(format!("rule \"{}\" does not exist", printable(&rule)));
        }
    }

    fn take_list(&mut self, tab: Tab, figures: Figures) -> Effect {
        if tab == Tab::Tenants {
            if figures.rule.as_deref() != self.rule() {
                // Another rule was selected meanwhile: read its tenants.
                return if self.rule().is_some() { Effect::Read } else { Effect::Nothing };
            }
            if self.tenants_of != figures.rule {
                self.lists[tab.index()].clear();
                self.tenants_of = figures.rule;
            }
            self.lists[tab.index()].replace(&figures.list.unwrap_or_default());
        } else if let Some(list) = figures.list {
            self.lists[tab.index()].replace(&list);
        }
        Effect::Nothing
    }

    /// Shows another view. Reads it, unless refreshing is paused and there is something to show.
    fn show(&mut self, tab: Tab) -> Effect {
        self.tab = tab;
        if tab == Tab::Tenants && self.tenants_of.as_deref() != self.rule() {
            self.lists[tab.index()].clear();
            self.tenants_of = None;
        }
        if self.is_paused && self.rows().is_loaded { Effect::Nothing } else { Effect::Read }
    }

    /// Returns the action that the selected row permits.
    fn action(&self) -> Option<Action> {
        let row = self.rows().selected()?;
        let (target, is_paused) = match self.tab {
            Tab::Rules => (Target::Rule, row.item["state"] == "paused"),
            Tab::Queues => (Target::Queue, row.item["paused"] == true),
            Tab::Tenants | Tab::Limits | Tab::Workers => return None,
        };
        let verb = if is_paused { Verb::Resume } else { Verb::Pause };
        Some(Action { verb, target, name: row.id.clone() })
    }
}

impl Health {
    fn of(report: &Value) -> Health {
        let text = |name: &str| printable(report[name].as_str().unwrap_or_default());
        let (verdict, time) = (text("verdict"), text("generated_at"));
        let time = time.split_once('T').map_or("", |(_, time)| time.get(..8).unwrap_or_default()).to_owned();
        Health { tone: Tone::of_verdict(&verdict), summary: text("summary"), verdict, time }
    }
}
