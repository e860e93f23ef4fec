//! The roles of API keys.

/// The role of a key. `api/routes.rs` has the routes that each role may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// Enqueues, reads and cancels jobs.
    #[default]
    Producer,
    /// Fetches jobs, acknowledges or fails them, and sends heartbeats.
    Worker,
    /// Reads everything, pauses and resumes.
    Operator,
    /// Everything.
    Admin,
}

impl Role {
    /// All roles with their names.
    pub const ALL: [(&'static str, Role); 4] =
        [("producer", Role::Producer), ("worker", Role::Worker), ("operator", Role::Operator), ("admin", Role::Admin)];

    /// The expectation that error messages name for an unknown role.
    pub const EXPECTED: &'static str = "one of producer, worker, operator, admin";

    /// Parses the name of a role.
    pub fn parse(name: &str) -> Option<Role> {
        Self::ALL.into_iter().find(|(known, _)| *known == name).map(|(_, role)| role)
    }

    /// Returns the name of the role.
    pub fn name(self) -> &'static str {
        Self::ALL.into_iter().find(|(_, role)| *role == self).map_or("producer", |(name, _)| name)
    }
}
