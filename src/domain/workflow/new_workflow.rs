//! Workflow requests: validation as a whole, and conversion into numbered nodes with jobs that are
//! ready to be stored.

#[cfg(test)]
mod tests;

use super::reader::read;
use super::steps::{self, Step};
use crate::domain::invalid::{Invalid, Kind};
use crate::domain::job::request::Context;
use crate::domain::job::{NewJob, RequestLimits};

/// Maximum nesting of chains, groups and batches, including the workflow itself.
pub const MOST_LEVELS: usize = 3;
/// Maximum number of jobs in a workflow, even if `limits.max_batch` is higher, because scripts
/// process all of them in one call.
pub const MOST_JOBS: usize = 1000;
/// Names of a batch's callbacks.
pub const CALLBACKS: [&str; 3] = ["on_complete", "on_success", "on_failure"];

/// Way in which the parts of a workflow run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// One after the other.
    Chain,
    /// All at once.
    Group,
    /// All at once, then callbacks.
    Batch,
}

impl Shape {
    /// Names of all shapes, in the order of the documentation.
    pub const NAMES: [&'static str; 3] = ["chain", "group", "batch"];

    /// Returns the name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Shape::Chain => "chain",
            Shape::Group => "group",
            Shape::Batch => "batch",
        }
    }

    /// Parses the name of a shape.
    pub fn from_name(name: &str) -> Option<Self> {
        [Shape::Chain, Shape::Group, Shape::Batch].into_iter().find(|shape| shape.name() == name)
    }

    /// Returns the name of the member that contains the parts.
    pub fn parts(self) -> &'static str {
        if self == Shape::Chain { "steps" } else { "jobs" }
    }
}

/// A validated workflow that is not stored yet.
#[derive(Clone, Debug)]
pub struct NewWorkflow {
    pub id: String,
    pub shape: Shape,
    /// JSON text.
    pub name: Option<String>,
    /// JSON text.
    pub meta: Option<String>,
    /// Tenant of the workflow and all of its jobs.
    pub tenant: Option<String>,
    /// All nodes; the first is the workflow itself. Children of a node have consecutive numbers,
    /// callbacks after the others.
    pub nodes: Vec<Node>,
    /// Steps with the client's ids, in its order; empty unless the workflow was written as steps
    /// with dependencies.
    pub steps: Vec<Step>,
}

/// A part of a workflow.
#[derive(Clone, Debug)]
pub struct Node {
    pub parent: Option<usize>,
    /// Index among its siblings, or the name of a callback.
    pub slot: String,
    /// Path in the request.
    pub path: String,
    pub part: Part,
}

/// Content of a node.
#[derive(Clone, Debug)]
pub enum Part {
    Job(Box<NewJob>),
    /// A nested workflow. `first` is the number of its first part; callbacks follow the parts.
    Many {
        shape: Shape,
        first: usize,
        parts: usize,
        callbacks: usize,
    },
}

impl NewWorkflow {
    /// Sets the tenant of the workflow from its jobs. Refuses jobs of different tenants, because
    /// tenants are isolated from each other.
    pub fn unite(&mut self) -> Result<(), Invalid> {
        let mut owner: Option<Option<String>> = None;
        for (job, path) in self.jobs_mut() {
            match &owner {
                None => owner = Some(job.tenant.clone()),
                Some(owner) if *owner == job.tenant => {}
                Some(_) => {
                    let expected = "the same tenant, or none, in all jobs of a workflow";
                    let named = job.tenant.as_deref().unwrap_or("no tenant");
                    let problem = Invalid::field("meta.tenant_id", expected, named).of_kind(Kind::Workflow);
                    return Err(problem.within(path));
                }
            }
        }
        self.tenant = self.tenant.take().or(owner.flatten());
        Ok(())
    }

    /// Returns the jobs and their paths in the request.
    pub fn jobs_mut(&mut self) -> impl Iterator<Item = (&mut NewJob, &str)> {
        self.nodes.iter_mut().filter_map(|node| match &mut node.part {
            Part::Job(job) => Some((&mut **job, node.path.as_str())),
            Part::Many { .. } => None,
        })
    }

    /// Returns the number of jobs.
    pub fn jobs(&self) -> usize {
        self.nodes.iter().filter(|node| matches!(node.part, Part::Job(_))).count()
    }

    /// Returns the jobs that start at once, because they receive no results of others.
    pub fn first_jobs(&self) -> impl Iterator<Item = &NewJob> {
        self.nodes.iter().filter_map(|node| match &node.part {
            Part::Job(job) if !job.takes_results() => Some(&**job),
            _ => None,
        })
    }
}

/// Parses a workflow.
pub fn parse(text: &str, limits: &RequestLimits, context: &Context) -> Result<NewWorkflow, Invalid> {
    let Some(layered) = steps::layered(text, limits.max_batch.min(MOST_JOBS))? else {
        return read(text, limits, context, None);
    };
    let mut workflow = read(&layered.text, limits, context, Some(&layered))?;
    for (index, step) in layered.steps.iter().enumerate() {
        let path = format!("steps[{index}]");
        // A group that was created for a layer has the same path as its first step, so only jobs
        // count.
        let node = workflow.nodes.iter().position(|node| node.path == path && matches!(node.part, Part::Job(_)));
        workflow.steps.extend(node.map(|node| Step { id: step.id.clone(), node, layer: step.layer }));
    }
    Ok(workflow)
}

pub(super) fn wrong(field: impl Into<String>, problem: impl Into<String>) -> Invalid {
    Invalid::new(Kind::Workflow, field, problem)
}
