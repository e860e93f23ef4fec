//! Strategies of limits.

/// Strategy by which a limit holds a job back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitStrategy {
    /// As many jobs are active as the limit allows.
    Concurrency,
    /// As many jobs have started in the window as the limit allows.
    Rate,
    /// The previous job started too short a time ago.
    Throttle,
    /// A worker asked for a pause, such as after an answer with status 429.
    Hold,
}

impl LimitStrategy {
    /// Names of all strategies, in the order of the documentation.
    pub const NAMES: [&'static str; 4] = ["concurrency", "rate", "throttle", "hold"];
    const ALL: [LimitStrategy; 4] =
        [LimitStrategy::Concurrency, LimitStrategy::Rate, LimitStrategy::Throttle, LimitStrategy::Hold];

    /// Returns the name on the wire and in the store.
    pub fn name(self) -> &'static str {
        match self {
            LimitStrategy::Concurrency => "concurrency",
            LimitStrategy::Rate => "rate",
            LimitStrategy::Throttle => "throttle",
            LimitStrategy::Hold => "hold",
        }
    }

    /// Parses the name of a strategy.
    pub fn from_name(name: &str) -> Option<LimitStrategy> {
        LimitStrategy::ALL.into_iter().find(|strategy| strategy.name() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        assert_eq!(LimitStrategy::ALL.map(LimitStrategy::name), LimitStrategy::NAMES);
        for strategy in LimitStrategy::ALL {
            assert_eq!(LimitStrategy::from_name(strategy.name()), Some(strategy));
        }
        assert_eq!(LimitStrategy::from_name("wait"), None);
    }
}
