//! The eight states of an OJS job.

use std::fmt;

/// State of a job in its life cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    Scheduled,
    Available,
    Pending,
    Active,
    Retryable,
    Completed,
    Cancelled,
    Discarded,
}

impl State {
    /// All states, in the order of listings.
    pub const ALL: [State; 8] = [
        State::Available,
        State::Active,
        State::Scheduled,
        State::Retryable,
        State::Pending,
        State::Completed,
        State::Discarded,
        State::Cancelled,
    ];

    /// Returns the name on the wire and in the store.
    pub fn name(self) -> &'static str {
        match self {
            State::Scheduled => "scheduled",
            State::Available => "available",
            State::Pending => "pending",
            State::Active => "active",
            State::Retryable => "retryable",
            State::Completed => "completed",
            State::Cancelled => "cancelled",
            State::Discarded => "discarded",
        }
    }

    /// Parses the name of a state.
    pub fn from_name(name: &str) -> Option<State> {
        State::ALL.into_iter().find(|state| state.name() == name)
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
