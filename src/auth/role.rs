//! What the holder of a key is there for.

/// What the holder of a key is there for. Which routes that opens is told in `api/routes.rs`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// Enqueues jobs, looks at them and cancels them.
    #[default]
    Producer,
    /// Fetches jobs, answers for them, beats.
    Worker,
    /// Reads everything, pauses and resumes.
    Operator,
    /// Everything.
    Admin,
}

impl Role {
    /// All of them, by name.
    pub const ALL: [(&'static str, Role); 4] =
        [("producer", Role::Producer), ("worker", Role::Worker), ("operator", Role::Operator), ("admin", Role::Admin)];

    /// What an error message says about another one.
    pub const EXPECTED: &'static str = "one of producer, worker, operator, admin";

    /// The role of that name.
    pub fn parse(name: &str) -> Option<Role> {
        Self::ALL.into_iter().find(|(known, _)| *known == name).map(|(_, role)| role)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        Self::ALL.into_iter().find(|(_, role)| *role == self).map_or("producer", |(name, _)| name)
    }
}
