//! The OpenAPI 3.1 document of the API, generated from the table of routes: each row names the function that describes it.
//!
//! `operation` builds the description of a route. The schemas of responses are `derived` from `api::answers`; those of requests, and
//! of responses that are stored text, are built with `schema`. The other files describe one resource each and have the schemas
//! that its routes share.

pub(super) mod derived;
mod errors;
mod operation;
pub(super) mod schema;

pub(super) mod autoscale;
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
pub(super) mod stats;
pub(super) mod system;
pub(super) mod tenants;
pub(super) mod webhooks;
pub(super) mod workers;
pub(super) mod workflows;

mod job_schemas;

pub(super) use operation::Describe;

use super::answers::waiting_for::WaitingFor;
use super::response::MEDIA_TYPE;
use super::routes::{Access, Route, table};
use crate::auth::Role;
use crate::domain::job::RequestLimits;
use operation::Operation;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

const DESCRIPTION: &str = "Background jobs, fair between tenants: an Open Job Spec 1.0 server on Redis.\n\n\
    Each response has the headers `OJS-Version` and `X-Request-Id`; a client may send the latter. A request is refused if its \
    `OJS-Version` is not 1.0 or a release of it, such as 1.0.0-rc.1, or if its `OJS-Requires-Extension` names an extension that is \
    not in the manifest. A server without API keys requires none. All errors have the schema `Error`.";

/// Schemas that several routes share and that are not derived, by name.
type Schemas = Vec<(&'static str, Value)>;

/// Generates the document for a server with these limits.
pub fn document(limits: &RequestLimits) -> Value {
    let (mut paths, mut schemas) = (Map::new(), schemas(limits));
    for route in table() {
        let mut operation = (route.describe)();
        schemas.append(&mut operation.components);
        let item = paths.entry(route.path).or_insert_with(|| json!({}));
        item[route.method.as_str().to_ascii_lowercase()] = describe(&route, operation);
    }
    let mut tags: BTreeSet<String> = BTreeSet::new();
    tags.extend(table().iter().map(|route| tag(route.path)));
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "fairgate",
            "version": env!("CARGO_PKG_VERSION"),
            "summary": "Open Job Spec, fair between tenants",
            "description": DESCRIPTION,
            "license": {"name": "Apache 2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "tags": tags.into_iter().map(|name| json!({"name": name})).collect::<Vec<_>>(),
        "paths": paths,
        "components": {
            "schemas": schemas,
            "responses": errors::responses(),
            "headers": header_components(),
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer", "description": "`Authorization: Bearer KEY`"},
                "key": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
            },
        },
    })
}

/// The components to which no derived schema refers.
fn schemas(limits: &RequestLimits) -> Map<String, Value> {
    // A part of jobs, whose schema is written by hand.
    let (_, part_of_jobs) = derived::schema_of::<WaitingFor>();
    let by_hand = [
        vec![("Error", errors::schema())],
        job_schemas::schemas(),
        jobs::schemas(limits),
        workers::schemas(limits),
        workflows::schemas(),
        dead_letter::schemas(),
        events::schemas(),
        crons::schemas(),
        pools::schemas(),
        planner::schemas(),
        tenants::schemas(),
        webhooks::schemas(),
    ]
    .into_iter()
    .flatten()
    .map(|(name, schema)| (name.to_owned(), schema));
    by_hand.chain(part_of_jobs).collect()
}

fn header_components() -> Value {
    let text = |description: &str| json!({"description": description, "schema": {"type": "string"}});
    let number = |description: &str| json!({"description": description, "schema": {"type": "integer"}});
    json!({
        "OJS-Version": {"description": "The version of the Open Job Spec that this server implements.", "schema": {"const": "1.0"}},
        "X-Request-Id": text("The id of the request, which the server's log has as well."),
        "Location": text("The path of the created resource."),
        "Retry-After": number("Seconds to wait before a retry."),
        "WWW-Authenticate": text("The authentication scheme that the server requires."),
        "Cache-Control": text("The caching rules of the response."),
        "ETag": text("The version of the response."),
        "X-OJS-Progress": text("The progress of the job, from 0 to 1."),
        "X-OJS-Queue-Depth": number("Jobs in a queue that is filling up."),
        "X-OJS-Queue-Bound": number("The largest number of jobs in the queue."),
        "X-OJS-Queue-Pressure": text("Queue depth divided by queue bound."),
        "X-RateLimit-Limit": number("The limit."),
        "X-RateLimit-Remaining": number("The unused part of the limit."),
        "X-RateLimit-Reset": number("The time of the next reset, in seconds since 1970."),
    })
}

/// References to the headers of a response: those that all responses have, and `more`.
fn headers(more: &[&str]) -> Value {
    let names = ["OJS-Version", "X-Request-Id"].iter().chain(more);
    let refer = |name: &&str| ((*name).to_owned(), json!({"$ref": format!("#/components/headers/{name}")}));
    Value::Object(names.map(refer).collect())
}

fn describe(route: &Route, operation: Operation) -> Value {
    let mut described = json!({
        "operationId": operation_id(route),
        "summary": operation.summary,
        "tags": [tag(route.path)],
        "responses": responses(route, &operation),
    });
    let description = [operation.description, &access_description(route.access)].join("\n\n");
    described["description"] = description.trim().into();
    let mut parameters = operation.parameters;
    for name in path_parameters(route.path) {
        let description = "An id or a name, percent-encoded.";
        let schema = &operation.path_parameter;
        parameters.insert(
            0,
            json!({"name": name, "in": "path", "required": true, "schema": schema, "description": description}),
        );
    }
    if !parameters.is_empty() {
        described["parameters"] = parameters.into();
    }
    if let Some(body) = operation.body {
        let content = json!({"schema": body.schema});
        described["requestBody"] =
            json!({"required": body.required, "content": {MEDIA_TYPE: content, "application/json": content}});
    }
    if let Some(roles) = roles(route.access) {
        let names: Vec<&str> = roles.iter().map(|role| role.name()).collect();
        described["security"] = json!([{"bearer": []}, {"key": []}]);
        described["x-roles"] = names.into();
        described["x-tenants"] = matches!(route.access, Access::Scoped(_)).into();
    }
    described
}

/// All responses of a route: those of its description, and the errors that follow from its access, path, parameters and body.
fn responses(route: &Route, operation: &Operation) -> Value {
    let mut statuses: BTreeSet<u16> = [422, 500, 503, 504, 508].into();
    statuses.extend(&operation.errors);
    if roles(route.access).is_some() {
        statuses.extend([401, 403]);
    }
    if matches!(route.access, Access::Namespaced(_) | Access::Global(_)) {
        statuses.insert(404); // the response to a key that is bound to a tenant
    }
    if path_parameters(route.path).next().is_some() {
        statuses.extend([400, 404]);
    }
    if operation.parameters.iter().any(|parameter| parameter["in"] != "path") {
        statuses.insert(400);
    }
    if operation.body.is_some() {
        statuses.extend([400, 408, 413, 415]);
    }
    let mut all: Map<String, Value> =
        statuses.into_iter().map(|status| (status.to_string(), errors::reference(status))).collect();
    for response in &operation.responses {
        let mut described = json!({"description": response.description, "headers": headers(&response.headers)});
        for (media_type, schema) in &response.content {
            described["content"][*media_type] = json!({"schema": schema});
        }
        all.insert(response.status.to_string(), described);
    }
    Value::Object(all)
}

fn roles(access: Access) -> Option<&'static [Role]> {
    match access {
        Access::Public => None,
        Access::Scoped(roles) | Access::Namespaced(roles) | Access::Global(roles) => Some(roles),
    }
}

fn access_description(access: Access) -> String {
    let names = |roles: &[Role]| roles.iter().map(|role| role.name()).collect::<Vec<_>>().join(", ");
    match access {
        Access::Public => "No API key is needed.".to_owned(),
        Access::Scoped(roles) => {
            format!(
                "Roles: {}. A key that is bound to a tenant reads and changes only what belongs to the tenant.",
                names(roles)
            )
        }
        Access::Namespaced(roles) | Access::Global(roles) => {
            format!("Roles: {}. The key must not be bound to a tenant.", names(roles))
        }
    }
}

/// The names of the parameters in a path.
fn path_parameters(path: &'static str) -> impl Iterator<Item = &'static str> {
    path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
}

/// The segments of a path after `/ojs/v1`.
fn segments(path: &'static str) -> impl Iterator<Item = &'static str> {
    path.strip_prefix("/ojs/v1").unwrap_or(path).split('/').filter(|part| !part.is_empty())
}

/// The tag of a route: the first segment of its path, ignoring `admin`.
fn tag(path: &'static str) -> String {
    if !path.starts_with("/ojs/v1/") || path.ends_with("/v1/health") {
        return "system".to_owned();
    }
    let part = segments(path).find(|part| *part != "admin").unwrap_or("system");
    if part == "cron-preview" { "cron".to_owned() } else { part.to_owned() }
}

/// The operation id: method and path, such as `get_jobs_by_id`.
fn operation_id(route: &Route) -> String {
    let words = segments(route.path).map(|part| match part.strip_prefix('{').and_then(|part| part.strip_suffix('}')) {
        Some(name) => format!("by_{name}"),
        None => part.replace(['-', '.'], "_"),
    });
    // `/health` and `/ojs/v1/health` need different ids.
    let root = (!route.path.starts_with("/ojs/")).then(|| "root".to_owned());
    let method = route.method.as_str().to_ascii_lowercase();
    std::iter::once(method).chain(root).chain(words).collect::<Vec<_>>().join("_")
}
