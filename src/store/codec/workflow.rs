//! Workflows: the counterpart of `lua/workflows/node.lua`. `lua/workflows/workflow.lua` describes
//! the fields.

use super::wire::{self, RECORD, UNIT, values};
use crate::domain::workflow::{
    self, NodeProgress, NodeRecord, NodeState, PartRecord, Shape, Step, WorkflowRecord, WorkflowState,
};
use serde::Deserialize;

/// Formats a node that has not been started.
pub fn node_text(node: &workflow::Node) -> String {
    let parent = node.parent.map(|number| number.to_string()).unwrap_or_default();
    let place = |kind: &str| vec![kind.to_owned(), parent, node.slot.clone(), "waiting".to_owned()];
    wire::join(match &node.part {
        workflow::Part::Job(job) => {
            let mut fields = place("job");
            fields.extend([job.id.clone(), job.kind.clone(), String::new(), String::new()]);
            fields
        }
        workflow::Part::Many { shape, first, parts, callbacks } => {
            let mut fields = place(shape.name());
            fields.extend([first, parts, callbacks, &0, &0, &0].map(ToString::to_string));
            fields.push(String::new());
            fields
        }
    })
}

/// Formats the steps as the client named them.
pub fn steps_text(steps: &[Step]) -> String {
    wire::join_records(steps.iter().map(|step| wire::join([&step.node.to_string(), &step.layer.to_string(), &step.id])))
}

/// A workflow as scripts return it: `lua/workflows/view.lua`.
#[derive(Deserialize)]
pub struct WorkflowView {
    pub id: String,
    state: WorkflowState,
    kind: Shape,
    name: String,
    meta: String,
    created: i64,
    finished: Option<i64>,
    jobs: u64,
    completed: u64,
    failed: u64,
    steps: String,
    #[serde(default)]
    nodes: Vec<String>,
    #[serde(default)]
    results: Vec<NodeResult>,
}

#[derive(Deserialize)]
struct NodeResult {
    node: usize,
    result: String,
}

impl WorkflowView {
    /// Parses the nodes and steps.
    pub fn record(self) -> Option<WorkflowRecord> {
        Some(WorkflowRecord {
            id: self.id,
            state: self.state,
            shape: self.kind,
            name: self.name,
            meta: self.meta,
            created: self.created,
            finished: self.finished,
            jobs: self.jobs,
            completed: self.completed,
            failed: self.failed,
            nodes: self.nodes.iter().map(|text| node(text)).collect::<Option<_>>()?,
            results: self.results.into_iter().map(|of_node| (of_node.node, of_node.result)).collect(),
            steps: self.steps.split(RECORD).filter_map(step).collect(),
        })
    }
}

fn step(text: &str) -> Option<Step> {
    let mut fields = text.splitn(3, UNIT);
    let mut number = || fields.next()?.parse::<usize>().ok();
    let (node, layer) = (number()?, number()?);
    Some(Step { id: fields.next()?.to_owned(), node, layer })
}

fn node(text: &str) -> Option<NodeRecord> {
    let fields: Vec<&str> = values(text).collect();
    let field = |at: usize| fields.get(at).copied();
    let ms = |at: usize| field(at).and_then(|text| text.parse().ok());
    let number = |at: usize| field(at)?.parse::<usize>().ok();
    let (slot, state) = (field(2)?.to_owned(), field(3)?);
    if field(0)? == "job" {
        let (id, kind) = (field(4)?.to_owned(), field(5)?.to_owned());
        // The current state of a started job that has not ended follows.
        let state = match field(8) {
            Some("active") => NodeState::Active,
            Some(_) => NodeState::Pending,
            None => node_state(state, NodeState::Pending)?,
        };
        let report = field(10)
            .map(|text| NodeProgress { progress: text.parse().ok(), data: field(11).unwrap_or_default().to_owned() });
        let part = PartRecord::Job { id, kind, started: ms(9).or_else(|| ms(6)), report };
        return Some(NodeRecord { slot, state, finished: ms(7), part });
    }
    let count = |at: usize| number(at).map(|number| number as u64);
    let part = PartRecord::Many {
        shape: Shape::from_name(field(0)?)?,
        first: number(4)?,
        parts: number(5)?,
        callbacks: number(6)?,
        completed: count(7)?,
        failed: count(8)?,
    };
    Some(NodeRecord { slot, state: node_state(state, NodeState::Active)?, finished: ms(10), part })
}

/// Parses the stored state of a node. `open` is the state of one that has been started.
fn node_state(name: &str, open: NodeState) -> Option<NodeState> {
    Some(match name {
        "waiting" => NodeState::Waiting,
        "open" | "spoilt" => open,
        "completed" => NodeState::Completed,
        "failed" => NodeState::Failed,
        "cancelled" => NodeState::Cancelled,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_with(state: &str, node: [&str; 11]) -> Option<WorkflowRecord> {
        let view = serde_json::json!({
            "id": "id", "state": state, "kind": "chain", "name": "", "meta": "", "created": 5, "finished": null,
            "jobs": 1, "completed": 0, "failed": 0, "steps": "", "nodes": [wire::join(node)],
        });
        serde_json::from_value::<WorkflowView>(view).ok()?.record()
    }

    #[test]
    fn an_unknown_state_is_not_read() {
        let chain = |state| ["chain", "", "0", state, "1", "0", "0", "0", "0", "0", ""];
        for state in ["waiting", "open", "spoilt", "completed", "failed", "cancelled"] {
            assert!(read_with("running", chain(state)).is_some(), "{state}");
        }
        assert_eq!(read_with("waiting", chain("open")), None);
        assert_eq!(read_with("running", chain("odd")), None);
    }
}
