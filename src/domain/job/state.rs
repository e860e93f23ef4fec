//! The eight states of an OJS job.

use serde::{Serialize, Serializer};
use std::fmt;

/// State of a job in its life cycle. The order is that of the names, so that maps by state are
/// written in the order of their names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum State {
    Active,
    /// The job waits only for a worker.
    #[default]
    Available,
    Cancelled,
    Completed,
    Discarded,
    Pending,
    Retryable,
    Scheduled,
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

    /// Returns true if the state is final, unless someone retries the job.
    pub fn is_final(self) -> bool {
        matches!(self, State::Completed | State::Cancelled | State::Discarded)
    }
}

impl Serialize for State {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_state_is_known_by_its_name() {
        for state in State::ALL {
            assert_eq!(State::from_name(state.name()), Some(state));
        }
        assert_eq!(State::from_name("running"), None);
    }

    #[test]
    fn states_are_ordered_by_name() {
        let (mut states, mut names) = (State::ALL, State::ALL.map(State::name));
        states.sort();
        names.sort_unstable();
        assert_eq!(states.map(State::name), names);
    }
}
