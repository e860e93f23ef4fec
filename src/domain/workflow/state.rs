//! States of workflows and of their nodes.

use std::fmt;

/// State of a workflow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WorkflowState {
    #[default]
    Running,
    Completed,
    Failed,
    Cancelled,
}

impl WorkflowState {
    /// Names of all states, in the order of the documentation.
    pub const NAMES: [&'static str; 4] = ["running", "completed", "failed", "cancelled"];
    const ALL: [WorkflowState; 4] =
        [WorkflowState::Running, WorkflowState::Completed, WorkflowState::Failed, WorkflowState::Cancelled];

    /// Returns the name on the wire and in the store.
    pub fn name(self) -> &'static str {
        match self {
            WorkflowState::Running => "running",
            WorkflowState::Completed => "completed",
            WorkflowState::Failed => "failed",
            WorkflowState::Cancelled => "cancelled",
        }
    }

    /// Parses the name of a state.
    pub fn from_name(name: &str) -> Option<WorkflowState> {
        WorkflowState::ALL.into_iter().find(|state| state.name() == name)
    }
}

impl fmt::Display for WorkflowState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// State of a node of a workflow, as answers show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NodeState {
    /// The node waits for others.
    Waiting,
    /// The job of the node is stored and waits for a worker.
    Pending,
    /// A worker runs the job, or a part of the node has been started.
    Active,
    Completed,
    Failed,
    Cancelled,
}

impl NodeState {
    /// Returns the name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            NodeState::Waiting => "waiting",
            NodeState::Pending => "pending",
            NodeState::Active => "active",
            NodeState::Completed => "completed",
            NodeState::Failed => "failed",
            NodeState::Cancelled => "cancelled",
        }
    }

    /// Returns true if the node has ended.
    pub fn is_final(self) -> bool {
        matches!(self, NodeState::Completed | NodeState::Failed | NodeState::Cancelled)
    }
}

impl fmt::Display for NodeState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        assert_eq!(WorkflowState::ALL.map(WorkflowState::name), WorkflowState::NAMES);
        for state in WorkflowState::ALL {
            assert_eq!(WorkflowState::from_name(state.name()), Some(state));
        }
        assert_eq!(WorkflowState::from_name("waiting"), None);
    }
}
