//! The server's OpenAPI document, against which every response in tests and every accepted request is validated.

use super::Answer;
use jsonschema::Validator;
use serde_json::{Value, json};
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, LazyLock, Mutex};

/// The document of a server with the default limits.
pub static DOCUMENT: LazyLock<Value> =
    LazyLock::new(|| fairgate::api::openapi(&fairgate::domain::job::RequestLimits::default()));

/// The document of a server with a larger batch limit than any test uses, for requests: tests choose their own limits.
static GENEROUS: LazyLock<Value> = LazyLock::new(|| {
    let limits = fairgate::domain::job::RequestLimits { max_batch: 1_000_000, ..Default::default() };
    fairgate::api::openapi(&limits)
});

/// The schemas, made strict for tests: a response has no undocumented member unless the schema allows further members.
static CLOSED: LazyLock<Value> = LazyLock::new(|| {
    let mut components = DOCUMENT["components"].clone();
    close(&mut components);
    components
});

static VALIDATORS: LazyLock<Mutex<HashMap<String, Arc<Validator>>>> = LazyLock::new(Mutex::default);

/// A route that succeeded or failed in this process: method, path template, `ok` or `error`.
pub type Seen = (String, String, &'static str);

static SEEN: LazyLock<Mutex<BTreeSet<Seen>>> = LazyLock::new(Mutex::default);

/// The routes that succeeded or failed in this process so far.
pub fn seen() -> BTreeSet<Seen> {
    SEEN.lock().expect("the mutex is not poisoned").clone()
}

fn close(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            let is_object =
                members.get("type").is_some_and(|kind| kind == "object" || kind == &json!(["object", "null"]));
            if is_object && members.contains_key("properties") {
                members.entry("additionalProperties").or_insert(json!(false));
            }
            members.values_mut().for_each(close);
        }
        Value::Array(all) => all.iter_mut().for_each(close),
        _ => {}
    }
}

/// The path template that matches a request's path. A literal segment takes precedence over a variable.
fn template(path: &str) -> Option<&'static str> {
    let path = path.split('?').next().unwrap_or_default();
    let parts: Vec<&str> = path.split('/').collect();
    let fits = |template: &&String| {
        let own: Vec<&str> = template.split('/').collect();
        own.len() == parts.len()
            && own.iter().zip(&parts).all(|(own, part)| own == part || (own.starts_with('{') && !part.is_empty()))
    };
    let paths = DOCUMENT["paths"].as_object().expect("paths").keys();
    paths.filter(fits).min_by_key(|template| template.matches('{').count()).map(String::as_str)
}

fn validator(key: String, schema: &Value, components: &Value) -> Arc<Validator> {
    if let Some(known) = VALIDATORS.lock().expect("the mutex is not poisoned").get(&key) {
        return Arc::clone(known);
    }
    let whole = json!({"allOf": [schema], "components": components});
    let options = jsonschema::options().with_draft(jsonschema::Draft::Draft202012).should_validate_formats(true);
    let made = Arc::new(options.build(&whole).unwrap_or_else(|error| panic!("{key}: {error}: {schema}")));
    VALIDATORS.lock().expect("the mutex is not poisoned").insert(key, Arc::clone(&made));
    made
}

fn complain(what: &str, validator: &Validator, text: &str) {
    // Values that serde cannot represent, such as 1e400, cannot be validated.
    let Ok(value) = serde_json::from_str::<Value>(text) else { return };
    let problems: Vec<String> =
        validator.iter_errors(&value).map(|error| format!("{}: {error}", error.instance_path())).collect();
    assert!(problems.is_empty(), "{what} contradicts /openapi.json: {}\n{text}", problems.join("; "));
}

/// Fails the test if a response, or a request that was accepted, does not match the document.
pub fn check(method: &str, path: &str, sent: Option<&str>, answer: &Answer) {
    let (Some(template), true) = (template(path), answer.status != 405) else { return };
    let Some(operation) = DOCUMENT["paths"][template].get(method.to_ascii_lowercase()) else { return };
    let what = format!("{method} {template} {}", answer.status);
    let mut response = &operation["responses"][answer.status.to_string()];
    assert!(!response.is_null(), "{what} is not in /openapi.json: describe it in src/api/openapi\n{}", answer.text);
    if let Some(name) = response["$ref"].as_str() {
        response = DOCUMENT.pointer(name.trim_start_matches('#')).expect("a reference that resolves");
    }
    let outcome = if answer.status < 400 { "ok" } else { "error" };
    SEEN.lock().expect("the mutex is not poisoned").insert((method.to_owned(), template.to_owned(), outcome));
    for name in ["OJS-Version", "X-Request-Id"] {
        assert!(response["headers"].get(name).is_some() && answer.headers.contains_key(name), "{what} has no {name}");
    }
    let media_type = answer.header("content-type").split(';').next().unwrap_or_default();
    let Some(content) = response.get("content") else {
        return assert!(answer.text.is_empty() && media_type.is_empty(), "{what} has a body");
    };
    let schema =
        &content.get(media_type).unwrap_or_else(|| panic!("{what} is {media_type:?}, not {content}"))["schema"];
    if media_type.ends_with("json") {
        let mut schema = schema.clone();
        close(&mut schema);
        complain(&what, &validator(what.clone(), &schema, &CLOSED), &answer.text);
    }
    if let Some(sent) = sent.filter(|sent| answer.status < 400 && !sent.trim().is_empty()) {
        let operation = &GENEROUS["paths"][template][method.to_ascii_lowercase()];
        let body = &operation["requestBody"]["content"]["application/json"]["schema"];
        if !body.is_null() {
            let what = format!("the body of {method} {template}");
            complain(&what, &validator(what.clone(), body, &GENEROUS["components"]), sent);
        }
    }
}
