//! What a client may post as a workflow: checked as a whole, and laid out as numbered nodes whose jobs are ready to be stored.

mod reader;
mod steps;
#[cfg(test)]
mod tests;

use super::invalid::{Invalid, Kind};
use super::request::Context;
use super::{Limits, NewJob};
use reader::read;

pub use steps::Step;

/// How deep chains, groups and batches may stand inside each other, the workflow itself included.
pub const MOST_LEVELS: usize = 3;
/// Jobs of a workflow, even where a batch may hold more: scripts handle all of them in one call.
pub const MOST_JOBS: usize = 1000;
/// When a batch calls whom.
pub const CALLBACKS: [&str; 3] = ["on_complete", "on_success", "on_failure"];

/// The field of a job that gets the results of others.
const INPUTS: &str = "inputs";

/// What is done with the parts of a workflow.
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
    /// As clients write it.
    pub fn name(self) -> &'static str {
        match self {
            Shape::Chain => "chain",
            Shape::Group => "group",
            Shape::Batch => "batch",
        }
    }

    /// The shape of that name.
    pub fn of_name(name: &str) -> Option<Self> {
        [Shape::Chain, Shape::Group, Shape::Batch].into_iter().find(|shape| shape.name() == name)
    }

    /// The member that holds its parts.
    pub fn parts(self) -> &'static str {
        if self == Shape::Chain { "steps" } else { "jobs" }
    }
}

/// A checked workflow, not yet stored.
#[derive(Clone, Debug)]
pub struct NewWorkflow {
    pub id: String,
    pub shape: Shape,
    /// JSON text.
    pub name: Option<String>,
    /// JSON text.
    pub meta: Option<String>,
    /// Whose it is, and all of its jobs with it.
    pub tenant: Option<String>,
    /// The first is the workflow itself. Children of one node have numbers in a row, callbacks after the others.
    pub nodes: Vec<Node>,
    /// As the client named and ordered them, where it wrote steps that depend on others; else none.
    pub steps: Vec<Step>,
}

/// A part of a workflow.
#[derive(Clone, Debug)]
pub struct Node {
    pub parent: Option<usize>,
    /// Its index, or the name of a callback.
    pub slot: String,
    /// Where it stands in the request.
    pub path: String,
    pub part: Part,
}

/// What a node is.
#[derive(Clone, Debug)]
pub enum Part {
    Job(Box<NewJob>),
    /// The numbers of its parts begin with `first`; callbacks follow them.
    Many {
        shape: Shape,
        first: usize,
        parts: usize,
        callbacks: usize,
    },
}

impl NewWorkflow {
    /// Makes it the tenant's whose all of its jobs are; refuses jobs of several, because a tenant's boundary is a hard one.
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

    /// Its jobs, and where they stand in the request.
    pub fn jobs_mut(&mut self) -> impl Iterator<Item = (&mut NewJob, &str)> {
        self.nodes.iter_mut().filter_map(|node| match &mut node.part {
            Part::Job(job) => Some((&mut **job, node.path.as_str())),
            Part::Many { .. } => None,
        })
    }

    /// How many jobs it has.
    pub fn jobs(&self) -> usize {
        self.nodes.iter().filter(|node| matches!(node.part, Part::Job(_))).count()
    }

    /// Its jobs whose turn comes at once: those that get nothing from others.
    pub fn first_jobs(&self) -> impl Iterator<Item = &NewJob> {
        self.nodes.iter().filter_map(|node| match &node.part {
            Part::Job(job) if !job.fields.iter().any(|(name, _)| *name == INPUTS) => Some(&**job),
            _ => None,
        })
    }
}

/// Reads a workflow.
pub fn parse(text: &str, limits: &Limits, context: &Context) -> Result<NewWorkflow, Invalid> {
    let Some(layered) = steps::layered(text, limits.max_batch.min(MOST_JOBS))? else {
        return read(text, limits, context, None);
    };
    let mut workflow = read(&layered.text, limits, context, Some(&layered))?;
    for (index, (id, layer, _)) in layered.steps.iter().enumerate() {
        let path = format!("steps[{index}]");
        // A group that was made of a layer is called so as well.
        let node = workflow.nodes.iter().position(|node| node.path == path && matches!(node.part, Part::Job(_)));
        workflow.steps.extend(node.map(|node| Step { id: id.clone(), node, layer: *layer }));
    }
    Ok(workflow)
}

fn wrong(field: impl Into<String>, problem: impl Into<String>) -> Invalid {
    Invalid::new(Kind::Workflow, field, problem)
}
