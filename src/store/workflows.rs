//! Workflows: begin, look up, cancel. Whatever ends a job moves its workflow on, in the same script.

use super::codec::{self, wire};
use super::find::{KEYS_A_PAGE, PORTION};
use super::jobs::{Exceeded, packed_words};
use super::reply;
use super::script::{WORKFLOW_CANCEL, WORKFLOW_LIST, WORKFLOW_READ, WORKFLOW_START};
use super::tick;
use super::{Error, ScanCursor, Store};
use crate::job::escape::{escape, unescape};
use crate::job::id::generate;
use crate::job::workflow::Part;
use crate::job::{NewWorkflow, WorkflowRecord};
use futures_util::future::join_all;
use redis::{Cmd, Value};

/// Jobs that a workflow may have to be started and cancelled in one call, as `lua/workflows/workflow.lua` and `lua/commands/workflow_cancel.lua` have it.
const LARGE: usize = 100;

/// What became of a new workflow.
#[derive(Clone, Debug)]
pub enum WorkflowBegun {
    /// It is stored, and its first jobs with it.
    Stored(Box<WorkflowRecord>),
    /// Its id is taken, and nothing was stored.
    Duplicate,
    /// A plan rule has as many jobs staged as it may, and nothing was stored.
    Full { rule: String, most: u64, staged: u64 },
    /// A queue holds as many jobs as it may, and nothing was stored.
    Bounded { queue: String, depth: u64, most: u64, strategy: String },
    /// A job would exceed what its tenant may enqueue, and nothing was stored.
    Limited(Box<Exceeded>),
    /// Other plan rules hold than those it was prepared under.
    Stale,
}

/// What became of a workflow that was to be cancelled.
#[derive(Clone, Debug)]
pub enum CalledOff {
    Done(Box<WorkflowRecord>),
    Missing,
    /// It has ended in this state.
    Over(String),
}

/// Which workflows to list.
#[derive(Clone, Debug, Default)]
pub struct WorkflowFilter {
    /// Any, if there is none.
    pub states: Vec<String>,
    /// chain, group or batch.
    pub kind: Option<String>,
    /// A tenant's own; `_default` for those of nobody else.
    pub tenant: Option<String>,
}

fn record(id: &str, view: Value, what: &str) -> Result<Box<WorkflowRecord>, Error> {
    let [header, nodes, results] = reply::parts(view, what)?;
    let (header, nodes) = (reply::texts(header, what)?, reply::texts(nodes, what)?);
    let results = reply::texts(results, what)?;
    let record = codec::workflow::read(id, &header, &nodes, &results).ok_or_else(|| Error::unreadable(what))?;
    Ok(Box::new(record))
}

/// The first word of an answer and the value behind it.
fn tagged(answer: Value, what: &str) -> Result<(String, Value), Error> {
    let mut parts = reply::array(answer, what)?.into_iter();
    Ok((parts.next().map(reply::text).unwrap_or_default(), parts.next().unwrap_or(Value::Nil)))
}

impl Store {
    /// Begins a workflow that was prepared under a version of the plan rules.
    pub async fn begin_workflow(&self, workflow: &NewWorkflow, rules: &str) -> Result<WorkflowBegun, Error> {
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
        let (tag, view) = tagged(answer, "begin")?;
        let mut fields = wire::values(&tag);
        match fields.next() {
            Some("ok") => {
                let stored = record(&workflow.id, view, "begin")?;
                self.settled(&workflow.id, stored).await.map(WorkflowBegun::Stored)
            }
            Some("duplicate") => Ok(WorkflowBegun::Duplicate),
            Some("stale") => Ok(WorkflowBegun::Stale),
            Some("full") => {
                let rule = fields.next().unwrap_or_default().to_owned();
                let mut number = || fields.next().and_then(|text| text.parse().ok()).unwrap_or(0);
                Ok(WorkflowBegun::Full { rule, most: number(), staged: number() })
            }
            Some("limited") => Ok(WorkflowBegun::Limited(self.core.refused(fields)?)),
            Some("bound") => {
                let mut text = || fields.next().unwrap_or_default().to_owned();
                let (queue, depth, most) = (text(), text().parse().unwrap_or(0), text().parse().unwrap_or(0));
                Ok(WorkflowBegun::Bounded { queue, depth, most, strategy: text() })
            }
            _ => Err(Error::unreadable("begin")),
        }
    }

    /// A large workflow once all of its jobs were started or cancelled: one call handles a part of them and leaves the others to the
    /// tick. If ticks fail here, those of the servers do the rest.
    async fn settled(&self, id: &str, record: Box<WorkflowRecord>) -> Result<Box<WorkflowRecord>, Error> {
        if record.jobs() <= LARGE {
            return Ok(record);
        }
        for _ in 0..=record.jobs().div_ceil(tick::PORTION) {
            if !self.core.tick(false).await? {
                break;
            }
        }
        Ok(self.workflow(id).await?.map_or(record, Box::new))
    }

    /// The tenants of those of some workflows that exist, whoever may see them; `None` for the default tenant.
    pub async fn workflow_owners(&self, ids: &[String]) -> Result<Vec<(String, Option<String>)>, Error> {
        let owners = ids.iter().map(|id| async move {
            let mut command = redis::cmd("HMGET");
            command.arg(self.core.keys.workflow(id)).arg("kind").arg("tenant");
            let [kind, tenant] = reply::parts(self.core.command("workflow_owners", command).await?, "workflow")?;
            let tenant = Some(unescape(&reply::text(tenant))).filter(|tenant| !tenant.is_empty());
            Ok((kind != Value::Nil).then(|| (id.clone(), tenant)))
        });
        let owners: Result<Vec<_>, Error> = join_all(owners).await.into_iter().collect();
        Ok(owners?.into_iter().flatten().collect())
    }

    /// A workflow as it is now.
    pub async fn workflow(&self, id: &str) -> Result<Option<WorkflowRecord>, Error> {
        self.show_workflow(id, false).await
    }

    /// The same with what workers reported about its jobs.
    pub async fn workflow_progress(&self, id: &str) -> Result<Option<WorkflowRecord>, Error> {
        self.show_workflow(id, true).await
    }

    /// At most so many workflows that fit, without their parts and in no order, and where to go on. As with jobs, there may be fewer than
    /// are wanted although the scan is not over.
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
        let (states, kind) = (filter.states.join(" "), filter.kind.as_deref().unwrap_or_default());
        let (mut found, mut cursor) = (Vec::<WorkflowRecord>::new(), from);
        for _ in 0..KEYS_A_PAGE / PORTION {
            let fill = |command: &mut Cmd, _: bool| {
                self.core.begin(command).arg(cursor.word()).arg(PORTION).arg(&states).arg(kind).arg(&tenant);
                command.arg(most - found.len()).arg(&cursor.rest);
            };
            let mut answer =
                reply::array(WORKFLOW_LIST.call(&self.core.connection, fill).await?, "workflow_list")?.into_iter();
            cursor = ScanCursor::behind(&answer.next().map(reply::text).unwrap_or_default());
            while let (Some(id), Some(header)) = (answer.next(), answer.next()) {
                let (id, header) = (reply::text(id), reply::texts(header, "list_workflows")?);
                // A key may be met twice.
                if !found.iter().any(|known| known.id == id) {
                    let unreadable = || Error::unreadable("list_workflows");
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

    async fn show_workflow(&self, id: &str, with_progress: bool) -> Result<Option<WorkflowRecord>, Error> {
        let fill = |command: &mut Cmd, _: bool| {
            self.core.begin(command).arg(id).arg(self.scope().word()).arg(u8::from(with_progress));
        };
        let answer = WORKFLOW_READ.call(&self.core.connection, fill).await?;
        match tagged(answer, "show")? {
            (tag, view) if tag == "ok" => record(id, view, "show").map(|record| Some(*record)),
            _ => Ok(None),
        }
    }

    /// Cancels a workflow that has not ended; jobs that are active may finish.
    pub async fn cancel_workflow(&self, id: &str) -> Result<CalledOff, Error> {
        let op = generate();
        let fill = |command: &mut Cmd, _: bool| {
            self.core.begin(command).arg(id).arg(&op).arg(self.scope().word());
        };
        let answer = WORKFLOW_CANCEL.call(&self.core.connection, fill).await?;
        match tagged(answer, "call_off")? {
            (tag, view) if tag == "ok" => {
                let cancelled = record(id, view, "call_off")?;
                self.settled(id, cancelled).await.map(CalledOff::Done)
            }
            (tag, _) if tag == "missing" => Ok(CalledOff::Missing),
            (_, state) => Ok(CalledOff::Over(reply::text(state))),
        }
    }
}
