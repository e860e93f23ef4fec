//! Parser of workflows. Each part becomes a numbered node, and errors have the path of the part.

use super::new_workflow::{MOST_LEVELS, wrong};
use super::steps::Layered;
use super::{CALLBACKS, MOST_JOBS, NewWorkflow, Node, Part, Shape};
use crate::domain::invalid::{Invalid, Kind};
use crate::domain::job::request::{Context, Whole, parse_part};
use crate::domain::job::{NewJob, RequestLimits, WorkflowPosition, id};
use crate::domain::json::{self, Object};
use crate::domain::tenant_id;
use std::collections::VecDeque;

/// Maximum length of a name in bytes.
const LONGEST_NAME: usize = 255;

/// Parses a workflow of nested parts. `layered` maps their paths back to those in the request, if
/// the request was converted.
pub(super) fn read(
    text: &str,
    limits: &RequestLimits,
    context: &Context,
    layered: Option<&Layered>,
) -> Result<NewWorkflow, Invalid> {
    let body = Object::parse(text).map_err(|problem| Invalid::unreadable(text, &problem))?;
    let own_id = string(&body, "id")?;
    if let Some(id) = own_id.as_deref().filter(|id| !id::is_valid(id)) {
        return Err(Invalid::field("id", "a lower-case UUIDv7", id));
    }
    if string(&body, "name")?.is_some_and(|name| name.len() > LONGEST_NAME) {
        let expected = format!("a string of at most {LONGEST_NAME} bytes");
        return Err(Invalid::field("name", expected, body.get("name").unwrap_or_default()));
    }
    let options = object(&body, "options")?;
    object(&body, "meta")?;
    let id = own_id.unwrap_or_else(id::generate);
    let whole = Whole { id: &id, defaults: [&options, &body] };
    // Errors in the defaults are reported once, under their own path.
    let defaults = parse_part(r#"{"type":"workflow","args":[]}"#, limits, context, Some(whole))?;
    check_unique(&defaults, &options)?;
    let (context, tenant) = in_tenant(&body, &options, context)?;
    let most = limits.max_batch.min(MOST_JOBS);
    let nodes = WorkflowReader { limits, most, context, tenant: tenant.clone(), whole, layered }.read(text)?;
    let shape = match nodes.first().map(|node| &node.part) {
        Some(Part::Many { shape, .. }) => *shape,
        _ => return Err(unknown_shape("type", body.get("type"))),
    };
    let [name, meta] = ["name", "meta"].map(|name| body.get(name).map(str::to_owned));
    Ok(NewWorkflow { id, shape, name, meta, tenant, nodes, steps: Vec::new() })
}

fn string(body: &Object<'_>, name: &str) -> Result<Option<String>, Invalid> {
    let Some(value) = body.get(name) else { return Ok(None) };
    json::text(value).map(|text| Some(text.into_owned())).ok_or_else(|| Invalid::field(name, "a string", value))
}

fn object<'a>(body: &Object<'a>, name: &str) -> Result<Object<'a>, Invalid> {
    let Some(value) = body.get(name) else { return Ok(Object::default()) };
    Object::parse(value).map_err(|_| Invalid::field(name, "an object", value))
}

/// Refuses unique jobs. A step that is not stored because of a duplicate would never end.
fn check_unique(job: &NewJob, options: &Object<'_>) -> Result<(), Invalid> {
    let place = if options.get("unique").is_some() { "options.unique" } else { "unique" };
    match job.unique {
        Some(_) => Err(wrong(place, "is not supported inside a workflow")),
        None => Ok(()),
    }
}

fn unknown_shape(field: &str, value: Option<&str>) -> Invalid {
    let expected = "\"chain\", \"group\" or \"batch\"";
    match value {
        Some(value) => Invalid::field(field, expected, value),
        None => Invalid::missing(field, expected),
    }
    .of_kind(Kind::Workflow)
}

/// Returns the tenant that a job or workflow names, with its path.
fn named_tenant<'a>(body: &Object<'a>) -> Option<(&'a str, &'static str)> {
    let options = body.get("options").and_then(|text| Object::parse(text).ok()).unwrap_or_default();
    let places = [
        (body.get("meta"), "meta.tenant_id"),
        (options.get("meta"), "options.meta.tenant_id"),
        (options.get("metadata"), "options.metadata.tenant_id"),
    ];
    places.into_iter().find_map(|(text, path)| Some((Object::parse(text?).ok()?.get("tenant_id")?, path)))
}

/// Returns the context for the jobs of a workflow, which all belong to its tenant, and that tenant.
fn in_tenant(body: &Object<'_>, options: &Object<'_>, context: &Context) -> Result<(Context, Option<String>), Invalid> {
    let named = body.get("tenant_id").map(|value| (value, "tenant_id"));
    let named = named.or_else(|| options.get("tenant_id").map(|value| (value, "options.tenant_id")));
    let named = named.or_else(|| named_tenant(body)).filter(|_| !context.ignores_meta_tenant);
    let Some((value, path)) = named else { return Ok((context.clone(), context.tenant.clone())) };
    let tenant = tenant_id::named_by(value)
        .ok_or_else(|| Invalid::field(path, tenant_id::NAME_EXPECTED, value).of_kind(Kind::Tenant))?;
    if let Some(by_header) = context.tenant.as_ref().filter(|by_header| **by_header != tenant) {
        let expected = format!("{by_header:?} as in the request's header, or left out");
        return Err(Invalid::field(path, expected, value));
    }
    Ok((Context { tenant: Some(tenant.clone()), ..context.clone() }, Some(tenant)))
}

/// A part that is not parsed yet.
struct Unread<'a> {
    text: &'a str,
    path: String,
    parent: Option<usize>,
    slot: String,
    level: usize,
    /// True if the part receives results of preceding parts.
    has_inputs: bool,
}

struct WorkflowReader<'a> {
    limits: &'a RequestLimits,
    /// Maximum number of jobs.
    most: usize,
    context: Context,
    tenant: Option<String>,
    whole: Whole<'a>,
    /// Set if the request was converted from steps with dependencies.
    layered: Option<&'a Layered>,
}

impl WorkflowReader<'_> {
    fn read(&self, text: &str) -> Result<Vec<Node>, Invalid> {
        let root = Unread { text, path: String::new(), parent: None, slot: String::new(), level: 1, has_inputs: false };
        let (mut nodes, mut unread, mut jobs) = (Vec::new(), VecDeque::from([root]), 0);
        // Breadth first, so that the children of a node have consecutive numbers.
        while let Some(next) = unread.pop_front() {
            let origin = self.layered.and_then(|layered| layered.origin(&next.path));
            let path = origin.unwrap_or_else(|| next.path.clone());
            let part = self.part(&next, nodes.len(), &mut unread).map_err(|problem| match path.as_str() {
                "" => problem,
                path => problem.within(path),
            })?;
            jobs += usize::from(matches!(part, Part::Job(_)));
            // Each unread part contains at least one job.
            if jobs + unread.len() > self.most {
                let name = nodes.first().map_or("jobs", |root: &Node| match root.part {
                    Part::Many { shape, .. } => shape.parts(),
                    Part::Job(_) => "jobs",
                });
                let size = jobs + unread.len();
                return Err(Invalid::too_large(Kind::BatchTooLarge, name, size, self.most, "jobs or more"));
            }
            nodes.push(Node { parent: next.parent, slot: next.slot, path, part });
        }
        Ok(nodes)
    }

    fn part<'a>(&self, next: &Unread<'a>, number: usize, unread: &mut VecDeque<Unread<'a>>) -> Result<Part, Invalid> {
        let body = Object::parse(next.text).map_err(|_| match next.parent {
            Some(_) => Invalid::field("", "a job, or a chain, group or batch", next.text).of_kind(Kind::Workflow),
            None => Invalid::field("", "a JSON object", next.text),
        })?;
        if body.get("depends_on").is_some() {
            let problem =
                "is only allowed in workflows without a type; in a chain, each step depends on the one before it";
            return Err(wrong("depends_on", problem));
        }
        let kind = body.get("type");
        let shape = kind.and_then(json::text).and_then(|name| Shape::from_name(&name));
        match shape {
            Some(shape) if next.parent.is_none() || body.get("args").is_none() => {
                self.many(&body, shape, next, number, unread)
            }
            _ if next.parent.is_none() => Err(unknown_shape("type", kind)),
            _ => self.job(&body, next, number).map(|job| Part::Job(Box::new(job))),
        }
    }

    fn many<'a>(
        &self,
        body: &Object<'a>,
        shape: Shape,
        of: &Unread<'a>,
        number: usize,
        unread: &mut VecDeque<Unread<'a>>,
    ) -> Result<Part, Invalid> {
        if of.slot.starts_with("on_") {
            return Err(wrong("type", "must be a job type: a callback is a single job"));
        }
        if of.level > MOST_LEVELS {
            return Err(wrong("type", format!("is nested too deeply: a workflow has at most {MOST_LEVELS} levels")));
        }
        let (name, most) = (shape.parts(), self.most);
        let expected = format!("an array of 1 to {most} {name}");
        let value = body.get(name).ok_or_else(|| Invalid::missing(name, &expected).of_kind(Kind::Workflow))?;
        let elements = json::elements(value).filter(|elements| !elements.is_empty());
        let elements = elements.ok_or_else(|| Invalid::field(name, &expected, value).of_kind(Kind::Workflow))?;
        if elements.len() > most {
            return Err(Invalid::too_large(Kind::BatchTooLarge, name, elements.len(), most, "jobs"));
        }
        let callbacks = callbacks(body, shape)?;
        let first = number + 1 + unread.len();
        let (parts, calls) = (elements.len(), callbacks.len());
        let mut push = |text, place: String, slot: String, has_inputs| {
            let path = if of.path.is_empty() { place } else { format!("{}.{place}", of.path) };
            unread.push_back(Unread { text, path, parent: Some(number), slot, level: of.level + 1, has_inputs });
        };
        for (index, text) in elements.into_iter().enumerate() {
            let follows = shape == Shape::Chain && index > 0;
            push(text, format!("{name}[{index}]"), index.to_string(), of.has_inputs || follows);
        }
        for (callback, text) in callbacks {
            push(text, format!("callbacks.{callback}"), callback.to_owned(), true);
        }
        Ok(Part::Many { shape, first, parts, callbacks: calls })
    }

    fn job(&self, body: &Object<'_>, of: &Unread<'_>, number: usize) -> Result<NewJob, Invalid> {
        if body.get("id").is_some() {
            return Err(wrong("id", "must be left out: the server chooses the ids of a workflow's jobs"));
        }
        if let Some((value, path)) = named_tenant(body).filter(|_| self.tenant.is_some())
            && tenant_id::named_by(value) != self.tenant
        {
            let expected = "that of the workflow, or left out";
            return Err(Invalid::field(path, expected, value).of_kind(Kind::Workflow));
        }
        let mut job = parse_part(of.text, self.limits, &self.context, Some(self.whole))?;
        check_unique(&job, &object(body, "options")?)?;
        let workflow = self.whole.id.to_owned();
        job.position = Some(WorkflowPosition { workflow, node: number, takes_results: of.has_inputs });
        Ok(job)
    }
}

/// Parses the callbacks of a batch, which needs at least one.
fn callbacks<'a>(body: &Object<'a>, shape: Shape) -> Result<Vec<(&'static str, &'a str)>, Invalid> {
    let expected = "an object with on_complete, on_success or on_failure";
    let Some(value) = body.get("callbacks") else {
        return match shape {
            Shape::Batch => Err(Invalid::missing("callbacks", expected).of_kind(Kind::Workflow)),
            _ => Ok(Vec::new()),
        };
    };
    if shape != Shape::Batch {
        return Err(wrong("callbacks", "is only allowed in a batch"));
    }
    let object =
        Object::parse(value).map_err(|_| Invalid::field("callbacks", expected, value).of_kind(Kind::Workflow))?;
    if let Some(other) = object.members().find(|member| !CALLBACKS.contains(&&*member.name)) {
        return Err(wrong(
            format!("callbacks.{}", other.name),
            format!("is unknown; expected one of {}", CALLBACKS.join(", ")),
        ));
    }
    let found: Vec<_> = CALLBACKS.into_iter().filter_map(|name| Some((name, object.get(name)?))).collect();
    match found.is_empty() {
        true => Err(Invalid::field("callbacks", expected, value).of_kind(Kind::Workflow)),
        false => Ok(found),
    }
}
