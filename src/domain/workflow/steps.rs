//! Workflows without a `type`, written as steps with ids that name the steps they depend on.
//! Several clients send only this form.
//!
//! Such a workflow is converted into a chain, a group, a batch or a chain of groups: the steps form
//! layers, and each layer waits for the whole layer before it. Steps that depend on only some steps
//! of a layer cannot be expressed, and the workflow is refused.

use super::new_workflow::wrong;
use super::{CALLBACKS, Shape};
use crate::domain::invalid::{Invalid, Kind};
use crate::domain::json::{self, Object};
use std::collections::{HashMap, HashSet};

/// Maximum length of a step's id in bytes.
const LONGEST_ID: usize = 255;

/// A step with the id that the client chose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    pub id: String,
    /// Number of its node.
    pub node: usize,
    /// Layer of the step. It depends on all steps of the layer before.
    pub layer: usize,
}

/// A workflow converted into nested parts.
pub(super) struct Layered {
    pub text: String,
    /// The steps in the client's order.
    pub steps: Vec<PlacedStep>,
}

/// A step, placed in the converted workflow.
pub(super) struct PlacedStep {
    pub id: String,
    pub layer: usize,
    /// Path in the text of the converted workflow.
    pub path: String,
}

impl Layered {
    /// Maps a path in `text` to the path of the step in the request.
    pub fn origin(&self, place: &str) -> Option<String> {
        let index = self.steps.iter().position(|step| step.path == place)?;
        Some(format!("steps[{index}]"))
    }
}

struct Read<'a> {
    id: String,
    needs: Vec<usize>,
    body: Object<'a>,
}

impl Read<'_> {
    /// Formats the step as a job, without its id and dependencies.
    fn job(&self) -> String {
        let members = self.body.members().filter(|member| !matches!(&*member.name, "id" | "depends_on"));
        let members: Vec<String> = members.map(|member| format!("{}:{}", member.raw_name, member.value)).collect();
        format!("{{{}}}", members.join(","))
    }

    /// Returns the callback that the step's id names.
    fn callback(&self) -> Option<&'static str> {
        let name = self.id.replace('-', "_");
        CALLBACKS.into_iter().find(|callback| *callback == name)
    }
}

/// Converts a workflow of steps into nested parts. Returns `None` for other forms of workflows.
pub(super) fn layered(text: &str, most: usize) -> Result<Option<Layered>, Invalid> {
    let Ok(body) = Object::parse(text) else { return Ok(None) };
    let Some(steps) = body.get("steps").filter(|_| body.get("type").is_none()).and_then(json::elements) else {
        return Ok(None);
    };
    let objects: Vec<Object<'_>> = steps.iter().map(|step| Object::parse(step).unwrap_or_default()).collect();
    if !objects.iter().any(|step| step.get("id").is_some() || step.get("depends_on").is_some()) {
        return Ok(None);
    }
    if objects.len() > most {
        return Err(Invalid::too_large(Kind::BatchTooLarge, "steps", objects.len(), most, "steps"));
    }
    let steps = read(objects)?;
    let layers = layers(&steps)?;
    let head: Vec<String> = body
        .members()
        .filter(|member| !matches!(&*member.name, "type" | "steps" | "jobs" | "callbacks"))
        .map(|member| format!("{}:{},", member.raw_name, member.value))
        .collect();
    let (shape, places) = shape(&steps, &layers);
    let text = format!("{{{}{shape}}}", head.concat());
    let steps = steps.into_iter().zip(layers).zip(places);
    let steps = steps.map(|((step, layer), path)| PlacedStep { id: step.id, layer, path });
    Ok(Some(Layered { text, steps: steps.collect() }))
}

fn read(objects: Vec<Object<'_>>) -> Result<Vec<Read<'_>>, Invalid> {
    let expected = format!("a string of 1 to {LONGEST_ID} bytes, without control characters");
    let mut numbers = HashMap::new();
    let mut ids = Vec::new();
    for (index, step) in objects.iter().enumerate() {
        let field = format!("steps[{index}].id");
        let Some(value) = step.get("id") else {
            return Err(Invalid::missing(field, expected).of_kind(Kind::Workflow));
        };
        let fits = |id: &str| !id.is_empty() && id.len() <= LONGEST_ID && !id.chars().any(char::is_control);
        let Some(id) = json::text(value).filter(|id| fits(id)) else {
            return Err(Invalid::field(field, expected, value).of_kind(Kind::Workflow));
        };
        if numbers.insert(id.to_string(), index).is_some() {
            return Err(wrong(field, "duplicates the id of another step"));
        }
        ids.push(id.into_owned());
        let shape = step.get("type").and_then(json::text).and_then(|name| Shape::from_name(&name));
        if shape.is_some() && step.get("args").is_none() {
            return Err(wrong(format!("steps[{index}].type"), "must be a job type if steps depend on others"));
        }
    }
    let mut steps = Vec::new();
    for (index, (id, body)) in ids.into_iter().zip(objects).enumerate() {
        let field = format!("steps[{index}].depends_on");
        let mut needs = HashSet::new();
        if let Some(value) = body.get("depends_on") {
            let expected = || Invalid::field(&field, "an array of steps' ids", value).of_kind(Kind::Workflow);
            for name in json::elements(value).ok_or_else(expected)? {
                let name = json::text(name).ok_or_else(expected)?;
                let known = numbers.get(&*name).copied();
                needs.insert(known.ok_or_else(|| wrong(&field, format!("contains {name:?}, which is not a step")))?);
            }
        }
        steps.push(Read { id, needs: needs.into_iter().collect(), body });
    }
    Ok(steps)
}

/// Assigns each step to the layer after the last step that it depends on.
fn layers(steps: &[Read<'_>]) -> Result<Vec<usize>, Invalid> {
    let mut left: Vec<usize> = steps.iter().map(|step| step.needs.len()).collect();
    let mut followers = vec![Vec::new(); steps.len()];
    for (index, step) in steps.iter().enumerate() {
        step.needs.iter().for_each(|need| followers[*need].push(index));
    }
    let mut layers = vec![0; steps.len()];
    let mut ready: Vec<usize> = (0..steps.len()).filter(|index| left[*index] == 0).collect();
    let mut sizes: Vec<usize> = Vec::new();
    while let Some(index) = ready.pop() {
        let layer = layers[index];
        sizes.resize(sizes.len().max(layer + 1), 0);
        sizes[layer] += 1;
        for follower in &followers[index] {
            layers[*follower] = layers[*follower].max(layer + 1);
            left[*follower] -= 1;
            if left[*follower] == 0 {
                ready.push(*follower);
            }
        }
    }
    for (index, step) in steps.iter().enumerate() {
        let field = format!("steps[{index}].depends_on");
        if left[index] > 0 {
            return Err(wrong(field, "forms a cycle"));
        }
        let before = step.needs.iter().filter(|need| layers[**need] + 1 == layers[index]).count();
        if layers[index] > 0 && before != sizes[layers[index] - 1] {
            let problem = "must contain all steps of the layer before it, or none: steps form layers, and each layer waits \
                           for the whole layer before it";
            return Err(wrong(field, problem));
        }
    }
    Ok(layers)
}

/// Returns the members of the converted workflow, and the path of each step among them.
fn shape(steps: &[Read<'_>], layers: &[usize]) -> (String, Vec<String>) {
    let deepest = layers.iter().copied().max().unwrap_or(0);
    let of = |layer: usize| (0..steps.len()).filter(move |index| layers[*index] == layer);
    let array =
        |indexes: &[usize]| -> String { indexes.iter().map(|index| steps[*index].job()).collect::<Vec<_>>().join(",") };
    let mut places = vec![String::new(); steps.len()];
    let first: Vec<usize> = of(0).collect();
    let names: HashSet<&str> = of(1).filter_map(|index| steps[index].callback()).collect();
    if deepest == 1 && names.len() == of(1).count() {
        first.iter().enumerate().for_each(|(at, index)| places[*index] = format!("jobs[{at}]"));
        let mut callbacks = Vec::new();
        for index in of(1) {
            let name = steps[index].callback().unwrap_or_default();
            places[index] = format!("callbacks.{name}");
            callbacks.push(format!("\"{name}\":{}", steps[index].job()));
        }
        let text = format!("\"type\":\"batch\",\"jobs\":[{}],\"callbacks\":{{{}}}", array(&first), callbacks.join(","));
        return (text, places);
    }
    if deepest == 0 && first.len() > 1 {
        first.iter().enumerate().for_each(|(at, index)| places[*index] = format!("jobs[{at}]"));
        return (format!("\"type\":\"group\",\"jobs\":[{}]", array(&first)), places);
    }
    let mut chain = Vec::new();
    for layer in 0..=deepest {
        let indexes: Vec<usize> = of(layer).collect();
        if let [only] = indexes[..] {
            places[only] = format!("steps[{layer}]");
            chain.push(steps[only].job());
            continue;
        }
        indexes.iter().enumerate().for_each(|(at, index)| places[*index] = format!("steps[{layer}].jobs[{at}]"));
        chain.push(format!("{{\"type\":\"group\",\"jobs\":[{}]}}", array(&indexes)));
    }
    (format!("\"type\":\"chain\",\"steps\":[{}]", chain.join(",")), places)
}
