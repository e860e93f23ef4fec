//! Records of stored workflows, as the store returns them, and their form in answers.

mod progress;

use super::{NodeState, Shape, Step, WorkflowState};
use crate::domain::job::push_time;
use crate::domain::json;
use std::collections::HashMap;
use std::fmt::Write;

/// The record of a stored workflow. `lua/workflows/workflow.lua` describes its nodes. Times are in
/// milliseconds since the epoch.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkflowRecord {
    pub id: String,
    pub state: WorkflowState,
    pub(crate) shape: Shape,
    /// JSON text.
    pub(crate) name: String,
    /// JSON text.
    pub(crate) meta: String,
    pub(crate) created: i64,
    pub(crate) finished: Option<i64>,
    pub(crate) jobs: u64,
    pub(crate) completed: u64,
    pub(crate) failed: u64,
    pub(crate) nodes: Vec<NodeRecord>,
    pub(crate) results: HashMap<usize, String>,
    /// Steps with the client's ids, in its order, if the workflow was written that way.
    pub(crate) steps: Vec<Step>,
}

/// A node of a workflow.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NodeRecord {
    pub(crate) slot: String,
    pub(crate) state: NodeState,
    pub(crate) finished: Option<i64>,
    pub(crate) part: PartRecord,
}

/// Progress that a worker reported: a fraction from 0 to 1, and data of its choice as JSON.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NodeProgress {
    pub(crate) progress: Option<f64>,
    pub(crate) data: String,
}

/// A job, or a chain, group or batch of nodes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum PartRecord {
    Job { id: String, kind: String, started: Option<i64>, report: Option<NodeProgress> },
    Many { shape: Shape, first: usize, parts: usize, callbacks: usize, completed: u64, failed: u64 },
}

impl NodeRecord {
    /// Returns the state as answers show it. Inside a node that is over, the nodes that still wait
    /// are cancelled; jobs under way may finish.
    fn shown_state(&self, is_over: bool) -> NodeState {
        match (self.state, &self.part) {
            (NodeState::Waiting, _) if is_over => NodeState::Cancelled,
            (NodeState::Active, PartRecord::Many { .. }) if is_over => NodeState::Cancelled,
            (state, _) => state,
        }
    }
}

impl WorkflowRecord {
    /// Returns the number of jobs.
    pub fn jobs(&self) -> usize {
        self.jobs as usize
    }

    fn is_over(&self) -> bool {
        self.state != WorkflowState::Running
    }

    /// Appends the workflow as JSON.
    pub fn write(&self, out: &mut String) {
        self.write_head(out);
        match self.steps.is_empty() {
            true => self.write_inside(out, 0, self.is_over()),
            false => self.write_steps(out),
        }
        self.write_times(out);
        self.write_failures(out);
        out.push('}');
    }

    /// Appends the workflow as JSON, without its parts.
    pub fn write_summary(&self, out: &mut String) {
        self.write_head(out);
        self.write_times(out);
        out.push('}');
    }

    fn write_head(&self, out: &mut String) {
        // Writing to a String cannot fail.
        _ = write!(out, "{{\"id\":\"{}\",\"type\":\"{}\",\"state\":\"{}\"", self.id, self.shape.name(), self.state);
        for (name, value) in [("name", &self.name), ("meta", &self.meta)] {
            if !value.is_empty() {
                out.extend([",\"", name, "\":", value]);
            }
        }
    }

    /// Appends the times, and the numbers of jobs that have ended.
    fn write_times(&self, out: &mut String) {
        let ended = if self.state == WorkflowState::Cancelled { "cancelled_at" } else { "completed_at" };
        let times = [("created_at", Some(self.created)), ("started_at", Some(self.created)), (ended, self.finished)];
        times.into_iter().for_each(|(name, at)| push_time(out, name, at));
        _ = write!(
            out,
            ",\"metadata\":{{\"job_count\":{},\"completed_count\":{},\"failed_count\":{}",
            self.jobs, self.completed, self.failed
        );
        times.into_iter().for_each(|(name, at)| push_time(out, name, at));
        out.push('}');
    }

    /// Appends the steps as the client wrote them, independent of the shape that they were
    /// converted into.
    fn write_steps(&self, out: &mut String) {
        let (total, completed, failed) = (self.steps.len(), self.completed, self.failed);
        _ = write!(
            out,
            ",\"steps_total\":{total},\"steps_completed\":{completed},\"steps_failed\":{failed},\"steps\":["
        );
        let layer = |layer: usize| -> String {
            let steps = self.steps.iter().filter(|step| step.layer == layer);
            steps.map(|step| json::quoted(&step.id)).collect::<Vec<_>>().join(",")
        };
        let layers: Vec<String> = (0..self.steps.len()).map(layer).take_while(|names| !names.is_empty()).collect();
        for (index, step) in self.steps.iter().enumerate() {
            let needs = step.layer.checked_sub(1).and_then(|before| layers.get(before)).map_or("", String::as_str);
            out.push_str(if index == 0 { "{\"id\":" } else { ",{\"id\":" });
            json::push_text(out, &step.id);
            out.extend([",\"depends_on\":[", needs, "],"]);
            self.write_node(out, step.node, self.is_over());
        }
        out.push(']');
    }

    fn write_failures(&self, out: &mut String) {
        let has_failed = |node: &&NodeRecord| matches!(node.state, NodeState::Failed | NodeState::Cancelled);
        if let Some(NodeRecord { part: PartRecord::Many { shape: Shape::Chain, first, parts, .. }, .. }) =
            self.nodes.first()
        {
            let steps = self.nodes.iter().skip(*first).take(*parts);
            if let Some(step) = steps.filter(has_failed).find(|step| step.finished.is_some()) {
                out.extend([",\"failed_step_index\":", &step.slot]);
            }
        }
        let ids: Vec<String> = self
            .nodes
            .iter()
            .filter(has_failed)
            .filter_map(|node| match &node.part {
                PartRecord::Job { id, .. } => Some(json::quoted(id)),
                PartRecord::Many { .. } => None,
            })
            .collect();
        if !ids.is_empty() {
            out.extend([",\"failed_job_ids\":[", &ids.join(","), "]"]);
        }
    }

    /// Appends the counters, parts and callbacks of a node. Parts that still wait inside a finished
    /// node are shown as cancelled.
    fn write_inside(&self, out: &mut String, number: usize, is_over: bool) {
        let Some(NodeRecord { part: PartRecord::Many { shape, first, parts, callbacks, completed, failed }, .. }) =
            self.nodes.get(number)
        else {
            return;
        };
        let name = shape.parts();
        _ = write!(out, ",\"{name}_total\":{parts},\"{name}_completed\":{completed},\"{name}_failed\":{failed}");
        out.extend([",\"", name, "\":["]);
        for child in *first..first + parts {
            out.push_str(if child == *first { "{\"index\":" } else { ",{\"index\":" });
            out.push_str(self.nodes.get(child).map_or("0", |node| &node.slot));
            out.push(',');
            self.write_node(out, child, is_over);
        }
        out.push(']');
        if *callbacks > 0 {
            out.push_str(",\"callbacks\":{");
            for child in first + parts..first + parts + callbacks {
                out.push_str(if child == first + parts { "\"" } else { ",\"" });
                out.push_str(self.nodes.get(child).map_or("", |node| &node.slot));
                out.push_str("\":{");
                self.write_node(out, child, is_over);
            }
            out.push('}');
        }
    }

    fn write_node(&self, out: &mut String, number: usize, is_over: bool) {
        let Some(node) = self.nodes.get(number) else { return out.push('}') };
        let state = node.shown_state(is_over);
        match &node.part {
            PartRecord::Job { id, kind, started, .. } => {
                _ = write!(out, "\"type\":{},\"state\":\"{state}\"", json::quoted(kind));
                if node.state != NodeState::Waiting {
                    out.extend([",\"job_id\":\"", id, "\""]);
                }
                push_time(out, "started_at", *started);
                self.results.get(&number).into_iter().for_each(|result| out.extend([",\"result\":", result]));
            }
            PartRecord::Many { shape, .. } => {
                _ = write!(out, "\"type\":\"{}\",\"state\":\"{state}\"", shape.name());
                self.write_inside(out, number, is_over || state.is_final());
            }
        }
        push_time(out, "completed_at", node.finished);
        out.push('}');
    }
}
