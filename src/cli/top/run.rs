//! The loop between the terminal and the server.

use super::poll::Poller;
use super::state::{Effect, Event, State};
use super::view::{Look, Screen, Scroll};
use anyhow::Context;
use crossterm::event::{Event as Input, EventStream};
use futures_util::StreamExt;
use ratatui::DefaultTerminal;
use std::process::ExitCode;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinSet;
use tokio::time::Instant;

/// The time between two drawings if nothing happens, so that the age of the figures is current.
const REDRAW: Duration = Duration::from_secs(1);

/// Most requests in flight.
const MOST_REQUESTS: usize = 8;

/// Shows the screen until the user or a signal ends it.
pub(super) async fn run(poller: Poller, state: State, look: Look) -> anyhow::Result<ExitCode> {
    // Also installs a panic hook that restores the terminal before the message.
    let terminal = ratatui::try_init().context("cannot set up the terminal")?;
    let restored = Restored;
    let outcome = Session::new(poller, state, look)?.run(terminal).await;
    drop(restored);
    outcome?;
    Ok(ExitCode::SUCCESS)
}

/// Restores the terminal when dropped, unless that was done.
struct Restored;

impl Drop for Restored {
    fn drop(&mut self) {
        // The panic hook may have done it already. Doing it again would move the cursor back, over the message.
        if crossterm::terminal::is_raw_mode_enabled().unwrap_or(true) {
            ratatui::restore();
        }
    }
}

/// A running screen.
struct Session {
    poller: Poller,
    state: State,
    look: Look,
    start: Instant,
    /// Requests in flight: at most one reading, and actions.
    requests: JoinSet<Event>,
    is_reading: bool,
    /// True if something changed since the reading in flight began.
    is_outdated: bool,
    next_reading: Instant,
    stops: [Signal; 2],
}

impl Session {
    fn new(poller: Poller, state: State, look: Look) -> anyhow::Result<Session> {
        let start = Instant::now();
        Ok(Session {
            poller,
            state,
            look,
            start,
            requests: JoinSet::new(),
            is_reading: false,
            is_outdated: false,
            next_reading: start,
            stops: [signal(SignalKind::terminate())?, signal(SignalKind::hangup())?],
        })
    }

    async fn run(mut self, mut terminal: DefaultTerminal) -> anyhow::Result<()> {
        let mut scroll = Scroll::default();
        let mut inputs = EventStream::new();
        loop {
            let screen = Screen { state: &self.state, now_ms: self.now_ms(), look: self.look };
            terminal.draw(|frame| screen.draw(frame, &mut scroll)).context("cannot draw on the terminal")?;
            let is_due = !self.is_reading && !self.state.is_paused;
            let [terminate, hangup] = &mut self.stops;
            let event = tokio::select! {
                input = inputs.next() => match input {
                    Some(Ok(Input::Key(key))) => Event::Key(key),
                    // Another size, for example: draw again.
                    Some(Ok(_)) => continue,
                    Some(Err(error)) => return Err(error).context("cannot read keys from the terminal"),
                    None => return Ok(()),
                },
                Some(event) = self.requests.join_next() => event.context("a request ended unexpectedly")?,
                () = tokio::time::sleep_until(self.next_reading), if is_due => {
                    self.read();
                    continue;
                }
                () = tokio::time::sleep(REDRAW) => continue,
                _ = terminate.recv() => return Ok(()),
                _ = hangup.recv() => return Ok(()),
            };
            let is_answer = matches!(event, Event::Read(_));
            let mut effect = self.state.update(event, self.now_ms());
            if is_answer {
                self.is_reading = false;
                if std::mem::take(&mut self.is_outdated) {
                    effect = Effect::Read;
                }
            }
            match effect {
                Effect::Nothing => {}
                Effect::Read => self.read(),
                Effect::Act(_) if self.requests.len() >= MOST_REQUESTS => {
                    self.state.notice = Some("the server has not answered yet; try again later".to_owned());
                }
                Effect::Act(action) => {
                    let poller = self.poller.clone();
                    self.requests.spawn(async move {
                        let outcome = poller.act(&action).await;
                        Event::Acted(action, outcome)
                    });
                }
                Effect::Quit => return Ok(()),
            }
        }
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Starts a reading now, or after the one in flight.
    fn read(&mut self) {
        if self.is_reading {
            self.is_outdated = true;
            return;
        }
        self.is_reading = true;
        self.next_reading = Instant::now() + self.state.interval;
        let (poller, question) = (self.poller.clone(), self.state.question());
        self.requests.spawn(async move { Event::Read(Box::new(poller.read(question).await)) });
    }
}
