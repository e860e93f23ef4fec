//! Records of stored workflows, as the store returns them, and their form in answers.

mod progress;

use super::json;
use super::record::push_time;
use super::workflow::{Shape, Step};
use std::collections::HashMap;
use std::fmt::Write;

/// The record of a stored workflow. `lua/workflows/workflow.lua` describes its nodes. Times are in
/// milliseconds since the epoch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WorkflowRecord {
    pub id: String,
    /// `running`, `completed`, `failed` or `cancelled`.
    pub state: String,
    kind: String,
    /// JSON text.
    name: String,
    /// JSON text.
    meta: String,
    created: i64,
    finished: Option<i64>,
    jobs: u64,
    completed: u64,
    failed: u64,
    nodes: Vec<Node>,
    results: HashMap<usize, String>,
    /// Steps with the client's ids, in its order, if the workflow was written that way.
    steps: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq)]
struct Node {
    slot: String,
    state: String,
    finished: Option<i64>,
    part: Part,
}

/// Progress that a worker reported: a fraction from 0 to 1, and data of its choice as JSON.
#[derive(Clone, Debug, PartialEq)]
struct Report {
    progress: Option<f64>,
    data: String,
}

#[derive(Clone, Debug, PartialEq)]
enum Part {
    Job { id: String, kind: String, started: Option<i64>, report: Option<Report> },
    Many { shape: Shape, first: usize, parts: usize, callbacks: usize, completed: u64, failed: u64 },
}

impl Node {
    fn parse(text: &str) -> Option<Self> {
        let fields: Vec<&str> = text.split('\u{1f}').collect();
        let field = |at: usize| fields.get(at).copied();
        let ms = |at: usize| field(at).and_then(|text| text.parse().ok());
        let number = |at: usize| field(at)?.parse::<usize>().ok();
        let (slot, state) = (field(2)?.to_owned(), field(3)?.to_owned());
        if field(0)? == "job" {
            let (id, kind) = (field(4)?.to_owned(), field(5)?.to_owned());
            // A job that has started and not ended is followed by its current state.
            let state = match field(8) {
                Some("active") => "active".to_owned(),
                Some(_) => "pending".to_owned(),
                None => state,
            };
            let report = field(10)
                .map(|text| Report { progress: text.parse().ok(), data: field(11).unwrap_or_default().to_owned() });
            let part = Part::Job { id, kind, started: ms(9).or_else(|| ms(6)), report };
            return Some(Node { slot, state, finished: ms(7), part });
        }
        let count = |at: usize| number(at).map(|number| number as u64);
        let part = Part::Many {
            shape: Shape::of_name(field(0)?)?,
            first: number(4)?,
            parts: number(5)?,
            callbacks: number(6)?,
            completed: count(7)?,
            failed: count(8)?,
        };
        Some(Node { slot, state, finished: ms(10), part })
    }

    /// Returns the state as answers show it.
    fn shown_state(&self, is_over: bool) -> &str {
        match (self.state.as_str(), &self.part) {
            ("waiting", _) if is_over => "cancelled",
            ("open" | "spoilt", Part::Many { .. }) if is_over => "cancelled",
            ("open" | "spoilt", Part::Many { .. }) => "active",
            ("open", _) => "pending",
            (state, _) => state,
        }
    }
}

fn step(text: &str) -> Option<Step> {
    let mut fields = text.splitn(3, '\u{1f}');
    let mut number = || fields.next()?.parse::<usize>().ok();
    let (node, layer) = (number()?, number()?);
    Some(Step { id: fields.next()?.to_owned(), node, layer })
}

impl WorkflowRecord {
    /// Returns the number of jobs.
    pub fn jobs(&self) -> usize {
        self.jobs as usize
    }

    /// Parses a view of the store: header, nodes, and pairs of node number and result.
    pub fn parse(id: &str, header: &[String], nodes: &[String], results: &[String]) -> Option<Self> {
        let field = |at: usize| header.get(at).map(String::as_str);
        let count = |at: usize| field(at).and_then(|text| text.parse().ok()).unwrap_or(0);
        Some(WorkflowRecord {
            id: id.to_owned(),
            state: field(0)?.to_owned(),
            kind: field(1)?.to_owned(),
            name: field(2)?.to_owned(),
            meta: field(3)?.to_owned(),
            created: field(4)?.parse().ok()?,
            finished: field(5)?.parse().ok(),
            jobs: count(6),
            completed: count(7),
            failed: count(8),
            nodes: nodes.iter().map(|text| Node::parse(text)).collect::<Option<_>>()?,
            results: results
                .chunks_exact(2)
                .filter_map(|pair| Some((pair[0].parse().ok()?, pair[1].clone())))
                .collect(),
            steps: field(10).unwrap_or_default().split('\u{1e}').filter_map(step).collect(),
        })
    }

    fn is_over(&self) -> bool {
        self.state != "running"
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
        _ = write!(out, "{{\"id\":\"{}\",\"type\":\"{}\",\"state\":\"{}\"", self.id, self.kind, self.state);
        for (name, value) in [("name", &self.name), ("meta", &self.meta)] {
            if !value.is_empty() {
                out.extend([",\"", name, "\":", value]);
            }
        }
    }

    /// Appends the times, and the numbers of jobs that have ended.
    fn write_times(&self, out: &mut String) {
        let ended = if self.state == "cancelled" { "cancelled_at" } else { "completed_at" };
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
        let has_failed = |node: &&Node| matches!(node.state.as_str(), "failed" | "cancelled");
        if let Some(Node { part: Part::Many { shape: Shape::Chain, first, parts, .. }, .. }) = self.nodes.first() {
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
                Part::Job { id, .. } => Some(json::quoted(id)),
                Part::Many { .. } => None,
            })
            .collect();
        if !ids.is_empty() {
            out.extend([",\"failed_job_ids\":[", &ids.join(","), "]"]);
        }
    }

    /// Appends the counters, parts and callbacks of a node. Parts that still wait inside a finished
    /// node are shown as cancelled.
    fn write_inside(&self, out: &mut String, number: usize, is_over: bool) {
        let Some(Node { part: Part::Many { shape, first, parts, callbacks, completed, failed }, .. }) =
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
            Part::Job { id, kind, started, .. } => {
                _ = write!(out, "\"type\":{},\"state\":\"{state}\"", json::quoted(kind));
                if node.state != "waiting" {
                    out.extend([",\"job_id\":\"", id, "\""]);
                }
                push_time(out, "started_at", *started);
                self.results.get(&number).into_iter().for_each(|result| out.extend([",\"result\":", result]));
            }
            Part::Many { shape, .. } => {
                _ = write!(out, "\"type\":\"{}\",\"state\":\"{state}\"", shape.name());
                let has_ended = matches!(state, "completed" | "failed" | "cancelled");
                self.write_inside(out, number, is_over || has_ended);
            }
        }
        push_time(out, "completed_at", node.finished);
        out.push('}');
    }
}
