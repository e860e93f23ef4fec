//! States that workers report, and directives for them.

/// State that a worker reports in its heartbeats. A worker gets jobs only while it is `Running`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WorkerState {
    #[default]
    Running,
    Quiet,
    Terminate,
    Drain,
}

impl WorkerState {
    pub const ALL: [WorkerState; 4] =
        [WorkerState::Running, WorkerState::Quiet, WorkerState::Terminate, WorkerState::Drain];

    /// Returns the name on the wire and in the store.
    pub fn name(self) -> &'static str {
        match self {
            WorkerState::Running => "running",
            WorkerState::Quiet => "quiet",
            WorkerState::Terminate => "terminate",
            WorkerState::Drain => "drain",
        }
    }

    /// Parses the name of a state.
    pub fn from_name(name: &str) -> Option<WorkerState> {
        WorkerState::ALL.into_iter().find(|state| state.name() == name)
    }
}

/// State that a worker is told to enter. Of several directives, the greatest wins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Directive {
    /// Fetch and run jobs.
    #[default]
    Running,
    /// Fetch no more jobs, and finish the active ones.
    Quiet,
    /// Exit. This cannot be undone.
    Terminate,
}

impl Directive {
    pub const ALL: [Directive; 3] = [Directive::Running, Directive::Quiet, Directive::Terminate];

    /// Returns the name on the wire and in the store.
    pub fn name(self) -> &'static str {
        match self {
            Directive::Running => "running",
            Directive::Quiet => "quiet",
            Directive::Terminate => "terminate",
        }
    }

    /// Parses the name of a directive.
    pub fn from_name(name: &str) -> Option<Directive> {
        Directive::ALL.into_iter().find(|directive| directive.name() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for state in WorkerState::ALL {
            assert_eq!(WorkerState::from_name(state.name()), Some(state));
        }
        for directive in Directive::ALL {
            assert_eq!(Directive::from_name(directive.name()), Some(directive));
        }
        assert_eq!((WorkerState::from_name("stale"), Directive::from_name("drain")), (None, None));
    }

    #[test]
    fn the_stricter_directive_wins() {
        assert!(Directive::Running < Directive::Quiet && Directive::Quiet < Directive::Terminate);
    }
}
