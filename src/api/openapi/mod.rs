//! OpenAPI 3.1 of the whole API, made of the table of routes: each row names the function that describes it.
//!
//! `operation` has the words for a route, `schema` those for a shape; the other files have one description for each handler, and
//! the shapes that they share.

mod errors;
mod operation;
mod schema;

pub(super) mod admin;
pub(super) mod crons;
pub(super) mod dead_letter;
pub(super) mod events;
pub(super) mod jobs;
pub(super) mod keys;
pub(super) mod planner;
pub(super) mod pools;
pub(super) mod progress;
pub(super) mod queues;
pub(super) mod rate_limits;
pub(super) mod sidekiq;
pub(super) mod system;
pub(super) mod tenants;
pub(super) mod webhooks;
pub(super) mod workers;
pub(super) mod workflows;

mod job_schemas;

pub(super) use operation::Describe;

use super::response::MEDIA_TYPE;
use super::routes::{Access, Route, table};
use crate::auth::Role;
use crate::job::Limits;
use operation::Operation;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

const ABOUT: &str = "Background jobs, fair between tenants: an Open Job Spec 1.0 server on Redis.\n\n\
    Every answer has `OJS-Version` and `X-Request-Id`; a request may bring the latter. A request whose `OJS-Version` is not 1.0 or a \
    release of it, such as 1.0.0-rc.1, is refused, as is one whose `OJS-Requires-Extension` names what the manifest does not. Where a \
    server has no API keys, it asks for none. All errors have the shape of `Error`.";

/// Shapes that several routes share, by name.
type Shapes = Vec<(&'static str, Value)>;

/// The document, for a server with these limits.
pub fn document(limits: &Limits) -> Value {
    let mut paths = Map::new();
    for route in table() {
        let item = paths.entry(route.path).or_insert_with(|| json!({}));
        item[route.method.as_str().to_ascii_lowercase()] = describe(&route);
    }
    let mut tags: BTreeSet<String> = BTreeSet::new();
    tags.extend(table().iter().map(|route| tag(route.path)));
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "fairgate",
            "version": env!("CARGO_PKG_VERSION"),
            "summary": "Open Job Spec, fair between tenants",
            "description": ABOUT,
            "license": {"name": "Apache 2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "tags": tags.into_iter().map(|name| json!({"name": name})).collect::<Vec<_>>(),
        "paths": paths,
        "components": {
            "schemas": shapes(limits),
            "responses": errors::responses(),
            "headers": header_shapes(),
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer", "description": "`Authorization: Bearer KEY`"},
                "key": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
            },
        },
    })
}

fn shapes(limits: &Limits) -> Map<String, Value> {
    [
        vec![("Error", errors::schema())],
        job_schemas::shapes(),
        jobs::shapes(limits),
        workers::shapes(limits),
        workflows::shapes(),
        queues::shapes(),
        rate_limits::shapes(),
        dead_letter::shapes(),
        events::shapes(),
        crons::shapes(),
        pools::shapes(),
        planner::shapes(),
        tenants::shapes(),
        webhooks::shapes(),
        admin::shapes(),
    ]
    .into_iter()
    .flatten()
    .map(|(name, schema)| (name.to_owned(), schema))
    .collect()
}

fn header_shapes() -> Value {
    let text = |about: &str| json!({"description": about, "schema": {"type": "string"}});
    let number = |about: &str| json!({"description": about, "schema": {"type": "integer"}});
    json!({
        "OJS-Version": {"description": "The version of the text that this server follows.", "schema": {"const": "1.0"}},
        "X-Request-Id": text("The request's id, here and in the log."),
        "Location": text("Where what was made can be seen."),
        "Retry-After": number("Seconds after which it may be tried again."),
        "WWW-Authenticate": text("What the server asks for."),
        "Cache-Control": text("Whether the answer may be kept."),
        "X-OJS-Progress": text("How far the job has got, from 0 to 1."),
        "X-OJS-Queue-Depth": number("Jobs in a queue that fills up."),
        "X-OJS-Queue-Bound": number("How many those may be."),
        "X-OJS-Queue-Pressure": text("One divided by the other."),
        "X-RateLimit-Limit": number("What the limit allows."),
        "X-RateLimit-Remaining": number("What is left of it."),
        "X-RateLimit-Reset": number("When there will be more, in seconds since 1970."),
    })
}

/// Headers of an answer, by reference: those that all have, and further ones.
fn headers(further: &[&str]) -> Value {
    let names = ["OJS-Version", "X-Request-Id"].iter().chain(further);
    let refer = |name: &&str| ((*name).to_owned(), json!({"$ref": format!("#/components/headers/{name}")}));
    Value::Object(names.map(refer).collect())
}

fn describe(route: &Route) -> Value {
    let operation = (route.describe)();
    let mut shown = json!({
        "operationId": operation_id(route),
        "summary": operation.summary,
        "tags": [tag(route.path)],
        "responses": responses(route, &operation),
    });
    let about = [operation.about, &needed(route.access)].join("\n\n");
    shown["description"] = about.trim().into();
    let mut parameters = operation.parameters;
    for name in variables(route.path) {
        let about = "An id or a name, percent-encoded.";
        let schema = &operation.variable;
        parameters
            .insert(0, json!({"name": name, "in": "path", "required": true, "schema": schema, "description": about}));
    }
    if !parameters.is_empty() {
        shown["parameters"] = parameters.into();
    }
    if let Some(body) = operation.body {
        let content = json!({"schema": body.schema});
        shown["requestBody"] =
            json!({"required": body.required, "content": {MEDIA_TYPE: content, "application/json": content}});
    }
    if let Some(roles) = roles(route.access) {
        let names: Vec<&str> = roles.iter().map(|role| role.name()).collect();
        shown["security"] = json!([{"bearer": []}, {"key": []}]);
        shown["x-roles"] = names.into();
        shown["x-tenants"] = matches!(route.access, Access::Scoped(_)).into();
    }
    shown
}

/// Every answer: those that are described, and the errors that come from what the route takes and who may use it.
fn responses(route: &Route, operation: &Operation) -> Value {
    let mut statuses: BTreeSet<u16> = [422, 500, 503, 504, 508].into();
    statuses.extend(&operation.errors);
    if roles(route.access).is_some() {
        statuses.extend([401, 403]);
    }
    if matches!(route.access, Access::Namespaced(_) | Access::Global(_)) {
        statuses.insert(404); // what a tenant's key is told
    }
    if variables(route.path).next().is_some() {
        statuses.extend([400, 404]);
    }
    if operation.parameters.iter().any(|parameter| parameter["in"] != "path") {
        statuses.insert(400);
    }
    if operation.body.is_some() {
        statuses.extend([400, 408, 413, 415]);
    }
    let mut all: Map<String, Value> =
        statuses.into_iter().map(|status| (status.to_string(), errors::refer(status))).collect();
    for answer in &operation.answers {
        let mut shown = json!({"description": answer.about, "headers": headers(&answer.headers)});
        for (media_type, schema) in &answer.content {
            shown["content"][*media_type] = json!({"schema": schema});
        }
        all.insert(answer.status.to_string(), shown);
    }
    Value::Object(all)
}

fn roles(access: Access) -> Option<&'static [Role]> {
    match access {
        Access::Public => None,
        Access::Scoped(roles) | Access::Namespaced(roles) | Access::Global(roles) => Some(roles),
    }
}

fn needed(access: Access) -> String {
    let names = |roles: &[Role]| roles.iter().map(|role| role.name()).collect::<Vec<_>>().join(", ");
    match access {
        Access::Public => "Needs no key.".to_owned(),
        Access::Scoped(roles) => {
            format!("Roles: {}. A key of a tenant's sees and touches what is the tenant's.", names(roles))
        }
        Access::Namespaced(roles) | Access::Global(roles) => {
            format!("Roles: {}, with a key that is bound to no tenant.", names(roles))
        }
    }
}

/// Names of the variable parts of a path.
fn variables(path: &'static str) -> impl Iterator<Item = &'static str> {
    path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
}

/// The parts of a path that tell routes apart: without `/ojs/v1`.
fn parts(path: &'static str) -> impl Iterator<Item = &'static str> {
    path.strip_prefix("/ojs/v1").unwrap_or(path).split('/').filter(|part| !part.is_empty())
}

/// What a path is about: its first part, behind `admin`.
fn tag(path: &'static str) -> String {
    if !path.starts_with("/ojs/v1/") || path.ends_with("/v1/health") {
        return "system".to_owned();
    }
    let part = parts(path).find(|part| *part != "admin").unwrap_or("system");
    if part == "cron-preview" { "cron".to_owned() } else { part.to_owned() }
}

/// Method and path in one word, such as `get_jobs_by_id`.
fn operation_id(route: &Route) -> String {
    let words = parts(route.path).map(|part| match part.strip_prefix('{').and_then(|part| part.strip_suffix('}')) {
        Some(name) => format!("by_{name}"),
        None => part.replace(['-', '.'], "_"),
    });
    // `/health` is another route than `/ojs/v1/health`.
    let root = (!route.path.starts_with("/ojs/")).then(|| "root".to_owned());
    let method = route.method.as_str().to_ascii_lowercase();
    std::iter::once(method).chain(root).chain(words).collect::<Vec<_>>().join("_")
}
