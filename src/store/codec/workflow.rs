//! Workflows: the counterpart of `lua/workflows/node.lua`. `lua/workflows/workflow.lua` describes
//! the fields.

use super::wire::{self, RECORD, UNIT, values};
use crate::domain::workflow::record::{NodeProgress, NodeRecord, PartRecord};
use crate::domain::workflow::{self, NodeState, Shape, Step, WorkflowRecord, WorkflowState};

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

/// Parses a view: header, nodes, and pairs of node number and result.
pub fn read(id: &str, header: &[String], nodes: &[String], results: &[String]) -> Option<WorkflowRecord> {
    let field = |at: usize| header.get(at).map(String::as_str);
    let count = |at: usize| field(at).and_then(|text| text.parse().ok()).unwrap_or(0);
    Some(WorkflowRecord {
        id: id.to_owned(),
        state: WorkflowState::from_name(field(0)?)?,
        shape: Shape::from_name(field(1)?)?,
        name: field(2)?.to_owned(),
        meta: field(3)?.to_owned(),
        created: field(4)?.parse().ok()?,
        finished: field(5)?.parse().ok(),
        jobs: count(6),
        completed: count(7),
        failed: count(8),
        nodes: nodes.iter().map(|text| node(text)).collect::<Option<_>>()?,
        results: results.chunks_exact(2).filter_map(|pair| Some((pair[0].parse().ok()?, pair[1].clone()))).collect(),
        steps: field(10).unwrap_or_default().split(RECORD).filter_map(step).collect(),
    })
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
        let header = [state, "chain", "", "", "5", "", "1", "0", "0"].map(str::to_owned);
        read("id", &header, &[wire::join(node)], &[])
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
