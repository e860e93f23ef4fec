//! Progress of a workflow, from the reports of its workers.

use super::{NodeProgress, NodeRecord, NodeState, PartRecord, Shape, WorkflowRecord, WorkflowState, json};
use std::fmt::Write;

impl WorkflowRecord {
    /// Returns the progress from 0 to 1: for a chain or a group the average of its parts, for a
    /// batch the fraction of jobs that succeeded.
    pub fn progress(&self) -> f64 {
        if self.state == WorkflowState::Completed { 1.0 } else { self.reached(0) }
    }

    fn reached(&self, number: usize) -> f64 {
        let Some(node) = self.nodes.get(number) else { return 0.0 };
        match &node.part {
            _ if node.state == NodeState::Completed => 1.0,
            PartRecord::Job { report, .. } => report.as_ref().and_then(|report| report.progress).unwrap_or(0.0),
            PartRecord::Many { shape: Shape::Batch, parts, completed, .. } => {
                *completed as f64 / (*parts).max(1) as f64
            }
            PartRecord::Many { first, parts, .. } => {
                let sum: f64 = (*first..first + parts).map(|child| self.reached(child)).sum();
                sum / (*parts).max(1) as f64
            }
        }
    }

    /// Appends the progress of the workflow and of each of its jobs as JSON.
    pub fn write_progress(&self, out: &mut String) {
        // Writing to a String cannot fail.
        let (id, kind, state, progress) = (&self.id, self.shape.name(), self.state, self.progress());
        _ = write!(
            out,
            r#"{{"workflow_id":"{id}","type":"{kind}","state":"{state}","progress":{progress:?},"steps":["#
        );
        let mut jobs = Vec::new();
        self.gather_jobs(0, self.is_over(), &mut jobs);
        for (index, (number, state)) in jobs.into_iter().enumerate() {
            out.push_str(if index == 0 { "{" } else { ",{" });
            self.write_job(out, number, state);
            out.push('}');
        }
        out.push_str("]}");
    }

    /// Collects the jobs inside a node and their states, in order.
    fn gather_jobs(&self, number: usize, is_over: bool, jobs: &mut Vec<(usize, NodeState)>) {
        let Some(node) = self.nodes.get(number) else { return };
        let state = node.shown_state(is_over);
        let PartRecord::Many { first, parts, callbacks, .. } = &node.part else { return jobs.push((number, state)) };
        let is_over = is_over || state.is_final();
        (*first..first + parts + callbacks).for_each(|child| self.gather_jobs(child, is_over, jobs));
    }

    fn write_job(&self, out: &mut String, number: usize, state: NodeState) {
        let Some(NodeRecord { state: kept, part: PartRecord::Job { id, kind, report, .. }, .. }) =
            self.nodes.get(number)
        else {
            return;
        };
        if let Some(step) = self.steps.iter().find(|step| step.node == number) {
            _ = write!(out, "\"id\":{},", json::quoted(&step.id));
        }
        if *kept != NodeState::Waiting {
            _ = write!(out, "\"job_id\":\"{id}\",");
        }
        _ = write!(out, "\"type\":{},\"state\":\"{state}\",\"progress\":", json::quoted(kind));
        match report.as_ref().and_then(|report| report.progress) {
            _ if state == NodeState::Completed => out.push_str("1.0"),
            Some(progress) => _ = write!(out, "{progress:?}"),
            None => out.push_str("null"),
        }
        if let Some(NodeProgress { data, .. }) = report.as_ref().filter(|report| !report.data.is_empty()) {
            out.extend([",\"data\":", data]);
        }
    }
}
