//! Workflows: start, read, list, cancel. A script that ends a job also advances its workflow.

use super::codec::workflow::{WorkflowView, node_text, steps_text};
use super::find::{KEYS_A_PAGE, PORTION};
use super::jobs::{self, Enqueued, Exceeded, packed_words};
use super::reply;
use super::script::{WORKFLOW_CANCEL, WORKFLOW_LIST, WORKFLOW_READ, WORKFLOW_START};
use super::tick;
use super::{Error, ScanCursor, Store};
use crate::domain::escape::{escape, unescape};
use crate::domain::job::id::generate;
use crate::domain::limit::Overflow;
use crate::domain::workflow::{NewWorkflow, Node, Part, Shape, WorkflowRecord, WorkflowState};
use futures_util::future::join_all;
use redis::Value;
use serde::{Deserialize, Serialize};

/// Largest number of jobs of a workflow that one call starts or cancels; equal to the limits in
/// `lua/workflows/workflow.lua` and `lua/commands/workflow_cancel.lua`.
const LARGE: usize = 100;

/// The outcome of starting a workflow.
#[derive(Clone, Debug)]
pub enum StartWorkflowOutcome {
    /// The workflow and its first jobs are stored.
    Stored(Box<WorkflowRecord>),
    /// The workflow's id is taken. Nothing was stored.
    Duplicate,
    /// A plan rule has reached its limit of staged jobs. Nothing was stored.
    Full { rule: String, most: u64, staged: u64 },
    /// A queue has reached its bound. Nothing was stored.
    Bounded { queue: String, depth: u64, most: u64, overflow: Overflow },
    /// A job would exceed its tenant's enqueue limit. Nothing was stored.
    Limited(Box<Exceeded>),
    /// The plan rules have changed since the workflow was prepared.
    Stale,
}

/// The outcome of cancelling a workflow.
#[derive(Clone, Debug)]
pub enum CancelWorkflowOutcome {
    Done(Box<WorkflowRecord>),
    Missing,
    /// The workflow has ended already, in this state.
    Ended(WorkflowState),
}

/// A filter for workflows.
#[derive(Clone, Debug, Default)]
pub struct WorkflowFilter {
    /// States that match; all if empty.
    pub states: Vec<WorkflowState>,
    pub shape: Option<Shape>,
    /// Workflows of this tenant; `_default` for those that name no tenant.
    pub tenant: Option<String>,
}

#[derive(Serialize)]
struct WorkflowStart<'a> {
    id: &'a str,
    op: String,
    version: &'a str,
    kind: &'a str,
    name: &'a str,
    meta: &'a str,
    jobs: usize,
    tenant: String,
    steps: String,
    nodes: Vec<StartedNode>,
}

#[derive(Serialize)]
struct StartedNode {
    text: String,
    words: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum WorkflowStarted {
    Stored(Box<WorkflowView>),
    Duplicate,
    Stale,
    Refused(String),
}

#[derive(Serialize)]
struct WorkflowList<'a> {
    cursor: Option<String>,
    keys: usize,
    states: Vec<&'a str>,
    r#type: Option<&'a str>,
    tenant: &'a str,
    most: usize,
    ids: &'a [String],
}

#[derive(Deserialize)]
struct ListedWorkflows {
    cursor: Option<String>,
    workflows: Vec<WorkflowView>,
}

#[derive(Serialize)]
struct WorkflowRead<'a> {
    id: &'a str,
    tenant: &'a str,
    progress: bool,
}

#[derive(Serialize)]
struct WorkflowCancel<'a> {
    id: &'a str,
    op: &'a str,
    tenant: &'a str,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum WorkflowCancelled {
    Done(Box<WorkflowView>),
    Missing,
    Ended(WorkflowState),
}

fn record(view: WorkflowView, command: &str) -> Result<Box<WorkflowRecord>, Error> {
    view.record().map(Box::new).ok_or_else(|| Error::unreadable(command))
}

impl Store {
    /// Starts a workflow. `rules` is the version of the plan rules that it was prepared under.
    pub async fn start_workflow(&self, workflow: &NewWorkflow, rules: &str) -> Result<StartWorkflowOutcome, Error> {
        let node = |node: &Node| StartedNode {
            text: node_text(node),
            words: match &node.part {
                Part::Job(job) => packed_words(job),
                Part::Many { .. } => String::new(),
            },
        };
        let args = WorkflowStart {
            id: &workflow.id,
            op: generate(),
            version: rules,
            kind: workflow.shape.name(),
            name: workflow.name.as_deref().unwrap_or(""),
            meta: workflow.meta.as_deref().unwrap_or(""),
            jobs: workflow.jobs(),
            tenant: workflow.tenant.as_deref().map(escape).unwrap_or_default(),
            steps: steps_text(&workflow.steps),
            nodes: workflow.nodes.iter().map(node).collect(),
        };
        match WORKFLOW_START.call_packed(&self.core, &args).await? {
            WorkflowStarted::Stored(view) => {
                let stored = record(*view, "workflow_start")?;
                self.complete_large(&workflow.id, stored).await.map(StartWorkflowOutcome::Stored)
            }
            WorkflowStarted::Duplicate => Ok(StartWorkflowOutcome::Duplicate),
            WorkflowStarted::Stale => Ok(StartWorkflowOutcome::Stale),
            WorkflowStarted::Refused(answer) => {
                match jobs::enqueued(&self.core, "workflow_start", &answer, Vec::new())? {
                    Enqueued::Full { rule, most, staged } => Ok(StartWorkflowOutcome::Full { rule, most, staged }),
                    Enqueued::Bounded { queue, depth, most, overflow } => {
                        Ok(StartWorkflowOutcome::Bounded { queue, depth, most, overflow })
                    }
                    Enqueued::Limited(exceeded) => Ok(StartWorkflowOutcome::Limited(exceeded)),
                    Enqueued::Stored(_) | Enqueued::Duplicate { .. } | Enqueued::Exists { .. } | Enqueued::Stale(_) => {
                        Err(Error::unreadable("workflow_start"))
                    }
                }
            }
        }
    }

    /// Waits until all jobs of a large workflow are started or cancelled, and returns it. One call
    /// handles only a part of them and leaves the others to the tick. If the ticks fail here, the
    /// servers' own ticks finish the work.
    async fn complete_large(&self, id: &str, record: Box<WorkflowRecord>) -> Result<Box<WorkflowRecord>, Error> {
        if record.jobs() <= LARGE {
            return Ok(record);
        }
        for _ in 0..=record.jobs().div_ceil(tick::PORTION) {
            if !self.core.tick().await? {
                break;
            }
        }
        Ok(self.workflow(id).await?.map_or(record, Box::new))
    }

    /// Returns the tenants of those workflows that exist, regardless of the scope; `None` for the
    /// default tenant.
    pub async fn workflow_owners(&self, ids: &[String]) -> Result<Vec<(String, Option<String>)>, Error> {
        let owners = ids.iter().map(|id| async move {
            let mut command = redis::cmd("HMGET");
            command.arg(self.core.keys.workflow(id)).arg("kind").arg("tenant");
            let [kind, tenant] = reply::parts(self.core.command("workflow_owners", command).await?, "workflow_owners")?;
            let tenant = Some(unescape(&reply::text(tenant, "workflow_owners")?)).filter(|tenant| !tenant.is_empty());
            Ok((kind != Value::Nil).then(|| (id.clone(), tenant)))
        });
        let owners: Result<Vec<_>, Error> = join_all(owners).await.into_iter().collect();
        Ok(owners?.into_iter().flatten().collect())
    }

    /// Returns a workflow in its current state.
    pub async fn workflow(&self, id: &str) -> Result<Option<WorkflowRecord>, Error> {
        self.read_workflow(id, false).await
    }

    /// Returns a workflow with the progress that workers have reported for its jobs.
    pub async fn workflow_progress(&self, id: &str) -> Result<Option<WorkflowRecord>, Error> {
        self.read_workflow(id, true).await
    }

    /// Returns at most `most` matching workflows, without their parts and in no particular order,
    /// and a cursor to continue from. May return fewer than asked for before the scan is over, like
    /// [`Store::scan_jobs`].
    pub async fn list_workflows(
        &self,
        filter: &WorkflowFilter,
        from: ScanCursor,
        most: usize,
    ) -> Result<(Vec<WorkflowRecord>, Option<ScanCursor>), Error> {
        let tenant = match (self.scope.tenant(), filter.tenant.as_deref()) {
            (Some(own), Some(wanted)) if own != wanted => return Ok((Vec::new(), None)),
            (own, wanted) => own.or(wanted).map(escape).unwrap_or_default(),
        };
        let (mut found, mut cursor) = (Vec::<WorkflowRecord>::new(), from);
        for _ in 0..KEYS_A_PAGE / PORTION {
            let args = WorkflowList {
                cursor: cursor.word(),
                keys: PORTION,
                states: filter.states.iter().map(|state| state.name()).collect(),
                r#type: filter.shape.map(Shape::name),
                tenant: &tenant,
                most: most - found.len(),
                ids: &cursor.rest,
            };
            let listed: ListedWorkflows = WORKFLOW_LIST.call_packed(&self.core, &args).await?;
            cursor = ScanCursor::behind(listed.cursor.as_deref());
            for view in listed.workflows {
                // A scan may return a key twice.
                if !found.iter().any(|known| known.id == view.id) {
                    found.push(*record(view, "workflow_list")?);
                }
            }
            if found.len() >= most || cursor.is_over() {
                break;
            }
        }
        cursor.rest = found.split_off(most.min(found.len())).into_iter().map(|record| record.id).collect();
        Ok((found, Some(cursor).filter(|cursor| !cursor.is_over())))
    }

    async fn read_workflow(&self, id: &str, with_progress: bool) -> Result<Option<WorkflowRecord>, Error> {
        let args = WorkflowRead { id, tenant: &self.scope.word(), progress: with_progress };
        let view: Option<WorkflowView> = WORKFLOW_READ.call_packed(&self.core, &args).await?;
        view.map(|view| record(view, "workflow_read").map(|record| *record)).transpose()
    }

    /// Cancels a workflow that has not ended. Active jobs may finish.
    pub async fn cancel_workflow(&self, id: &str) -> Result<CancelWorkflowOutcome, Error> {
        let args = WorkflowCancel { id, op: &generate(), tenant: &self.scope.word() };
        match WORKFLOW_CANCEL.call_packed(&self.core, &args).await? {
            WorkflowCancelled::Done(view) => {
                let cancelled = record(*view, "workflow_cancel")?;
                self.complete_large(id, cancelled).await.map(CancelWorkflowOutcome::Done)
            }
            WorkflowCancelled::Missing => Ok(CancelWorkflowOutcome::Missing),
            WorkflowCancelled::Ended(state) => Ok(CancelWorkflowOutcome::Ended(state)),
        }
    }
}
