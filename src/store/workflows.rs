//! Workflows: start, read, list, cancel. A script that ends a job also advances its workflow.

use super::codec::{self, wire};
use super::find::{KEYS_A_PAGE, PORTION};
use super::jobs::{Exceeded, packed_words};
use super::reply;
use super::script::{WORKFLOW_CANCEL, WORKFLOW_LIST, WORKFLOW_READ, WORKFLOW_START};
use super::tick;
use super::{Error, ScanCursor, Store};
use crate::domain::escape::{escape, unescape};
use crate::domain::job::id::generate;
use crate::domain::limit::Overflow;
use crate::domain::workflow::{NewWorkflow, Part, Shape, WorkflowRecord, WorkflowState};
use futures_util::future::join_all;
use redis::{Cmd, Value};

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

fn record(id: &str, view: Value, what: &str) -> Result<Box<WorkflowRecord>, Error> {
    let [header, nodes, results] = reply::parts(view, what)?;
    let (header, nodes) = (reply::texts(header, what)?, reply::texts(nodes, what)?);
    let results = reply::texts(results, what)?;
    let record = codec::workflow::read(id, &header, &nodes, &results).ok_or_else(|| Error::unreadable(what))?;
    Ok(Box::new(record))
}

/// Splits a reply into its first word and the following value.
fn tagged(answer: Value, what: &str) -> Result<(String, Value), Error> {
    let mut parts = reply::array(answer, what)?.into_iter();
    Ok((reply::text(parts.next().unwrap_or(Value::Nil), what)?, parts.next().unwrap_or(Value::Nil)))
}

impl Store {
    /// Starts a workflow. `rules` is the version of the plan rules that it was prepared under.
    pub async fn start_workflow(&self, workflow: &NewWorkflow, rules: &str) -> Result<StartWorkflowOutcome, Error> {
        let op = generate();
        let words: Vec<String> = workflow
            .nodes
            .iter()
            .flat_map(|node| {
                let job = match &node.part {
                    Part::Job(job) => packed_words(job),
                    Part::Many { .. } => String::new(),
                };
                [codec::workflow::node_text(node), job]
            })
            .collect();
        let steps = codec::workflow::steps_text(&workflow.steps);
        let answer = WORKFLOW_START
            .call(&self.core.connection, |command, _| {
                let command = self.core.begin(command).arg(&workflow.id).arg(&op).arg(rules).arg(workflow.shape.name());
                command.arg(workflow.name.as_deref().unwrap_or("")).arg(workflow.meta.as_deref().unwrap_or(""));
                command.arg(workflow.jobs()).arg(workflow.nodes.len());
                command.arg(workflow.tenant.as_deref().map(escape).unwrap_or_default()).arg(&steps).arg(&words);
            })
            .await?;
        let (tag, view) = tagged(answer, "workflow_start")?;
        let mut fields = wire::values(&tag);
        match fields.next() {
            Some("ok") => {
                let stored = record(&workflow.id, view, "workflow_start")?;
                self.complete_large(&workflow.id, stored).await.map(StartWorkflowOutcome::Stored)
            }
            Some("duplicate") => Ok(StartWorkflowOutcome::Duplicate),
            Some("stale") => Ok(StartWorkflowOutcome::Stale),
            Some("full") => {
                let rule = fields.next().unwrap_or_default().to_owned();
                let mut number = || fields.next().and_then(|text| text.parse().ok()).unwrap_or(0);
                Ok(StartWorkflowOutcome::Full { rule, most: number(), staged: number() })
            }
            Some("limited") => Ok(StartWorkflowOutcome::Limited(self.core.refused(fields, "workflow_start")?)),
            Some("bound") => {
                let mut text = || fields.next().unwrap_or_default().to_owned();
                let (queue, depth, most) = (text(), text().parse().unwrap_or(0), text().parse().unwrap_or(0));
                let overflow = Overflow::from_name(&text()).ok_or_else(|| Error::unreadable("workflow_start"))?;
                Ok(StartWorkflowOutcome::Bounded { queue, depth, most, overflow })
            }
            _ => Err(Error::unreadable("workflow_start")),
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
        let states: Vec<&str> = filter.states.iter().map(|state| state.name()).collect();
        let (states, kind) = (states.join(" "), filter.shape.map_or("", Shape::name));
        let (mut found, mut cursor) = (Vec::<WorkflowRecord>::new(), from);
        for _ in 0..KEYS_A_PAGE / PORTION {
            let fill = |command: &mut Cmd, _: bool| {
                self.core.begin(command).arg(cursor.word()).arg(PORTION).arg(&states).arg(kind).arg(&tenant);
                command.arg(most - found.len()).arg(&cursor.rest);
            };
            let mut answer =
                reply::array(WORKFLOW_LIST.call(&self.core.connection, fill).await?, "workflow_list")?.into_iter();
            cursor = ScanCursor::behind(&reply::text(answer.next().unwrap_or(Value::Nil), "workflow_list")?);
            while let (Some(id), Some(header)) = (answer.next(), answer.next()) {
                let (id, header) = (reply::text(id, "workflow_list")?, reply::texts(header, "workflow_list")?);
                // A scan may return a key twice.
                if !found.iter().any(|known| known.id == id) {
                    let unreadable = || Error::unreadable("workflow_list");
                    found.push(codec::workflow::read(&id, &header, &[], &[]).ok_or_else(unreadable)?);
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
        let fill = |command: &mut Cmd, _: bool| {
            self.core.begin(command).arg(id).arg(self.scope().word()).arg(u8::from(with_progress));
        };
        let answer = WORKFLOW_READ.call(&self.core.connection, fill).await?;
        match tagged(answer, "workflow_read")? {
            (tag, view) if tag == "ok" => record(id, view, "workflow_read").map(|record| Some(*record)),
            _ => Ok(None),
        }
    }

    /// Cancels a workflow that has not ended. Active jobs may finish.
    pub async fn cancel_workflow(&self, id: &str) -> Result<CancelWorkflowOutcome, Error> {
        let op = generate();
        let fill = |command: &mut Cmd, _: bool| {
            self.core.begin(command).arg(id).arg(&op).arg(self.scope().word());
        };
        let answer = WORKFLOW_CANCEL.call(&self.core.connection, fill).await?;
        match tagged(answer, "workflow_cancel")? {
            (tag, view) if tag == "ok" => {
                let cancelled = record(id, view, "workflow_cancel")?;
                self.complete_large(id, cancelled).await.map(CancelWorkflowOutcome::Done)
            }
            (tag, _) if tag == "missing" => Ok(CancelWorkflowOutcome::Missing),
            (_, state) => WorkflowState::from_name(&reply::text(state, "workflow_cancel")?)
                .map(CancelWorkflowOutcome::Ended)
                .ok_or_else(|| Error::unreadable("workflow_cancel")),
        }
    }
}
