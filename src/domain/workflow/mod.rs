//! Workflows as data: validation of requests, records of stored workflows, and their form in
//! answers.

mod new_workflow;
mod reader;
mod record;
mod steps;

pub use new_workflow::{CALLBACKS, MOST_JOBS, NewWorkflow, Node, Part, Shape, parse};
pub use record::WorkflowRecord;
pub(crate) use record::{NodeRecord, PartRecord, ProgressReport};
pub use steps::Step;
