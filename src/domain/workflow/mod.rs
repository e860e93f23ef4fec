//! Workflows as data: validation of requests, records of stored workflows, and their form in
//! answers.

mod new_workflow;
mod reader;
mod record;
mod state;
mod steps;

pub use new_workflow::{CALLBACKS, MOST_JOBS, NewWorkflow, Node, Part, Shape, parse};
pub use record::WorkflowRecord;
pub(crate) use record::{NodeProgress, NodeRecord, PartRecord};
pub(crate) use state::NodeState;
pub use state::WorkflowState;
pub use steps::Step;
