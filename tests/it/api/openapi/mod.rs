//! The OpenAPI document: it names every route, is valid, and matches real responses.

mod calls;
mod page;

use crate::support::TestApp;
use crate::support::contract::DOCUMENT;
use fairgate::api::{Access, RouteInfo, routes};
use serde_json::{Value, json};
use std::collections::BTreeSet;

fn operations() -> impl Iterator<Item = (&'static str, &'static str, &'static Value)> {
    let paths = DOCUMENT["paths"].as_object().unwrap();
    paths.iter().flat_map(|(path, item)| {
        item.as_object().unwrap().iter().map(move |(method, operation)| (method.as_str(), path.as_str(), operation))
    })
}

/// Calls `look` with every value of a document and its path.
fn walk(value: &'static Value, at: &str, look: &mut impl FnMut(&'static Value, &str)) {
    look(value, at);
    match value {
        Value::Object(members) => members.iter().for_each(|(name, member)| walk(member, &format!("{at}/{name}"), look)),
        Value::Array(all) => {
            all.iter().enumerate().for_each(|(index, item)| walk(item, &format!("{at}/{index}"), look));
        }
        _ => {}
    }
}

#[test]
fn every_route_of_the_table_is_in_the_document_and_nothing_else() {
    let table: BTreeSet<_> =
        routes().iter().map(|route| (route.method.to_ascii_lowercase(), route.path.to_owned())).collect();
    let document: BTreeSet<_> = operations().map(|(method, path, _)| (method.to_owned(), path.to_owned())).collect();
    assert_eq!(table, document);
    assert_eq!(table.len(), routes().len(), "a route is in the table twice");
}

#[test]
fn every_operation_has_a_summary_parameters_and_responses() {
    let mut ids = BTreeSet::new();
    for (method, path, operation) in operations() {
        let what = format!("{method} {path}");
        assert!(ids.insert(operation["operationId"].as_str().unwrap()), "{what}: its operationId is not its own");
        let summary = operation["summary"].as_str().unwrap();
        assert!(!summary.is_empty() && !summary.ends_with('.'), "{what}: {summary:?}");
        let tags = DOCUMENT["tags"].as_array().unwrap();
        assert!(tags.iter().any(|tag| tag["name"] == operation["tags"][0]), "{what}");
        let responses = operation["responses"].as_object().unwrap();
        assert!(responses.keys().any(|status| status.starts_with('2')), "{what} never succeeds");
        // Path variables and path parameters match.
        let variables: BTreeSet<&str> =
            path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}')).collect();
        let parameters = operation["parameters"].as_array().cloned().unwrap_or_default();
        let declared = parameters.iter().filter(|parameter| parameter["in"] == "path");
        let declared: Vec<&str> = declared.map(|parameter| parameter["name"].as_str().unwrap()).collect();
        assert_eq!(variables, declared.iter().copied().collect(), "{what}");
        let names: BTreeSet<_> =
            parameters.iter().map(|parameter| (parameter["in"].as_str(), parameter["name"].as_str())).collect();
        assert_eq!(names.len(), parameters.len(), "{what}: a parameter is there twice");
        assert!(parameters.iter().all(|parameter| parameter["schema"].is_object()), "{what}");
    }
}

#[test]
fn every_operation_states_its_required_role() {
    for RouteInfo { method, path, access } in routes() {
        let operation = &DOCUMENT["paths"][path][method.to_ascii_lowercase()];
        let roles: Vec<&str> =
            operation["x-roles"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let (expected, tenants) = match access {
            Access::Public => (Vec::new(), Value::Null),
            Access::Scoped(roles) => (roles.to_vec(), json!(true)),
            Access::Namespaced(roles) | Access::Global(roles) => (roles.to_vec(), json!(false)),
        };
        assert_eq!(roles, expected.iter().map(|role| role.name()).collect::<Vec<_>>(), "{method} {path}");
        assert_eq!(operation["x-tenants"], tenants, "{method} {path}");
        assert_eq!(operation.get("security").is_some(), access != Access::Public, "{method} {path}");
        assert_eq!(operation["responses"].get("401").is_some(), access != Access::Public, "{method} {path}");
    }
}

#[test]
fn the_document_is_openapi_3_1_whose_references_resolve_and_whose_schemas_are_schemas() {
    assert_eq!(DOCUMENT["openapi"], "3.1.0");
    let mut used = BTreeSet::new();
    walk(&DOCUMENT, "", &mut |value, at| {
        if let Some(reference) = value.get("$ref").and_then(Value::as_str) {
            let pointer = reference.strip_prefix('#').expect("a reference into the document");
            assert!(DOCUMENT.pointer(pointer).is_some(), "{at}: {reference} leads nowhere");
            used.insert(reference);
        }
        if at.ends_with("/schema") || at.rsplit_once('/').is_some_and(|(start, _)| start == "/components/schemas") {
            assert!(jsonschema::draft202012::meta::is_valid(value), "{at} is no schema: {value}");
        }
    });
    let shapes = DOCUMENT["components"]["schemas"].as_object().unwrap().keys();
    let unused: Vec<_> =
        shapes.filter(|name| !used.contains(format!("#/components/schemas/{name}").as_str())).collect();
    assert!(unused.is_empty(), "nothing refers to {unused:?}");
}

/// Checks the shape that the specification requires, as far as it is used here.
#[test]
fn the_document_has_the_members_that_openapi_knows() {
    let only = |value: &Value, known: &[&str], at: &str| {
        let names = value.as_object().unwrap().keys();
        let unknown: Vec<_> = names.filter(|name| !known.contains(&name.as_str()) && !name.starts_with("x-")).collect();
        assert!(unknown.is_empty(), "{at}: {unknown:?}");
    };
    only(&DOCUMENT, &["openapi", "info", "servers", "tags", "paths", "components"], "");
    only(&DOCUMENT["components"], &["schemas", "responses", "headers", "securitySchemes"], "components");
    for (method, path, operation) in operations() {
        let at = format!("{method} {path}");
        let known =
            ["operationId", "summary", "description", "tags", "parameters", "requestBody", "responses", "security"];
        only(operation, &known, &at);
        for response in operation["responses"].as_object().unwrap().values() {
            only(response, &["$ref", "description", "headers", "content"], &at);
            assert!(response.get("$ref").is_some() || response["description"].is_string(), "{at}");
        }
        for parameter in operation["parameters"].as_array().into_iter().flatten() {
            only(parameter, &["name", "in", "required", "schema", "description"], &at);
        }
    }
}

#[tokio::test]
async fn the_server_serves_its_own_document_with_its_own_limits() {
    let app = TestApp::start_with(fairgate::clock::Clock::System, |config| config.limits.max_batch = 7).await;
    let served = app.client.get("/openapi.json").await.expect(200);
    assert_eq!(served.header("content-type"), "application/json");
    assert_eq!(served.at("/components/schemas/NewJobs/properties/jobs/maxItems"), &json!(7));
    let mut same = served.body.clone();
    for name in ["NewJobs/properties/jobs", "Acks/properties/acks"] {
        same.pointer_mut(&format!("/components/schemas/{name}")).unwrap()["maxItems"] = json!(1000);
    }
    assert_eq!(same, *DOCUMENT);
}

#[test]
fn errors_md_explains_every_code_of_the_document() {
    let explained = include_str!("../../../../docs/errors.md");
    let responses = DOCUMENT["components"]["responses"].as_object().unwrap();
    for (name, response) in responses {
        let codes = &response["content"]["application/openjobspec+json"]["schema"]["allOf"][1];
        for code in codes["properties"]["error"]["properties"]["code"]["enum"].as_array().unwrap() {
            let code = code.as_str().unwrap();
            let status = name.trim_start_matches("Error");
            let line = explained.lines().find(|line| line.contains(&format!("<a id=\"{code}\">")));
            assert!(line.is_some_and(|line| line.contains(status)), "docs/errors.md has no {code} with {status}");
        }
    }
}
