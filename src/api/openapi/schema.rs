//! Builders of JSON schemas, short enough that a schema reads like the JSON that it describes.

use crate::domain::duration::LONGEST_MS;
use serde_json::{Map, Value, json};

/// The patterns of names, equal to the checks of the server.
const QUEUE: &str = "^[a-z0-9][a-z0-9.-]*$";
const KIND: &str = "^[a-z][a-z0-9_-]*(\\.[a-z][a-z0-9_-]*)*$";
const UUID7: &str = "^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$";
const TENANT: &str = "^[a-zA-Z0-9][a-zA-Z0-9._:-]*$";
const DURATION: &str =
    "[0-9]{1,12}(\\.[0-9]{1,9})?(ms|s|m|h|d)|P([0-9]{1,5}[WD])*(T([0-9]{1,9}(\\.[0-9]{1,9})?[HMS])+)?";
const PLAIN: &str = "^[^\\u0000-\\u001f\\u007f-\\u009f]*$";

/// Any JSON value.
pub fn any() -> Value {
    json!({})
}

pub fn string() -> Value {
    json!({"type": "string"})
}

pub fn boolean() -> Value {
    json!({"type": "boolean"})
}

pub fn number() -> Value {
    json!({"type": "number"})
}

/// A number from 0 to 1.
pub fn ratio() -> Value {
    json!({"type": "number", "minimum": 0, "maximum": 1})
}

pub fn integer(least: i64, most: i64) -> Value {
    json!({"type": "integer", "minimum": least, "maximum": most})
}

/// A whole number that is not negative.
pub fn count() -> Value {
    at_least(0)
}

pub fn at_least(least: u64) -> Value {
    json!({"type": "integer", "minimum": least})
}

/// A whole number in a request, at most 2^53 - 1, which a number of any language can hold.
pub fn safe_integer(least: i64) -> Value {
    integer(least, (1 << 53) - 1)
}

/// A point in time in a response.
pub fn timestamp() -> Value {
    json!({"type": "string", "format": "date-time"})
}

/// A string with a length from `least` to `most` characters.
pub fn string_of_length(least: usize, most: usize) -> Value {
    json!({"type": "string", "minLength": least, "maxLength": most})
}

fn named(pattern: &str, most: usize) -> Value {
    json!({"type": "string", "pattern": pattern, "minLength": 1, "maxLength": most})
}

/// The name of a queue.
pub fn queue() -> Value {
    named(QUEUE, 128)
}

/// The type of a job.
pub fn job_type() -> Value {
    named(KIND, 255)
}

/// A UUID of version 7.
pub fn uuid() -> Value {
    json!({"type": "string", "pattern": UUID7})
}

/// The id of a tenant.
pub fn tenant() -> Value {
    named(TENANT, 256)
}

/// A string of at most `most` characters without control characters.
pub fn printable(most: usize) -> Value {
    named(PLAIN, most)
}

pub fn cron_name() -> Value {
    named(QUEUE, 250)
}

pub fn pool_name() -> Value {
    named("^[a-zA-Z0-9][a-zA-Z0-9._-]*$", 63)
}

pub fn rule_name() -> Value {
    named("^[a-z0-9][a-z0-9-]*$", 63)
}

pub fn rate_key() -> Value {
    named(TENANT, 256)
}

/// A duration in a request.
pub fn duration() -> Value {
    json!({"type": "string", "pattern": format!("^({DURATION})$"), "description": crate::domain::duration::EXPECTED})
}

/// The period of a rate.
pub fn period() -> Value {
    let pattern = format!("^(second|minute|hour|day|{DURATION})$");
    json!({"type": "string", "pattern": pattern, "description": crate::domain::limit::quota::PERIOD_EXPECTED})
}

/// A point in time in a request, absolute or relative.
pub fn time_or_delay() -> Value {
    let relative = json!({"type": "string", "pattern": format!("^[+]({DURATION})$")});
    with_description(any_of([timestamp(), relative]), crate::domain::time::EXPECTED)
}

/// A number of seconds, at least `least` and at most a century.
pub fn seconds(least: i64) -> Value {
    integer(least, (LONGEST_MS / 1000) as i64)
}

/// A number of milliseconds, at least `least` and at most a century.
pub fn milliseconds(least: i64) -> Value {
    integer(least, LONGEST_MS as i64)
}

/// One or more of some words, separated by commas.
pub fn comma_separated(words: &[&str]) -> Value {
    let word = words.join("|");
    json!({"type": "string", "pattern": format!("^({word})(,({word}))*$")})
}

/// An object that must have at least one of these members with a value other than `null`.
pub fn requiring_one_of(mut object: Value, names: &[&str]) -> Value {
    let has = |name: &&str| json!({"required": [name], "properties": {*name: {"not": {"type": "null"}}}});
    let choice = json!({"anyOf": names.iter().map(has).collect::<Vec<_>>()});
    match object.get_mut("allOf").and_then(Value::as_array_mut) {
        Some(others) => others.push(choice),
        None => object["allOf"] = json!([choice]),
    }
    object
}

/// A string that is one of some words.
pub fn enumeration(words: &[&str]) -> Value {
    json!({"type": "string", "enum": words})
}

/// The state of a job.
pub fn state() -> Value {
    reference("JobState")
}

pub fn array(item: Value) -> Value {
    json!({"type": "array", "items": item})
}

pub fn array_of(item: Value, least: usize, most: usize) -> Value {
    json!({"type": "array", "items": item, "minItems": least, "maxItems": most})
}

/// An object with arbitrary names, whose values all have one schema.
pub fn map_of(value: Value) -> Value {
    json!({"type": "object", "additionalProperties": value})
}

/// An object whose names are queues.
pub fn by_queue(value: Value) -> Value {
    json!({"type": "object", "additionalProperties": value, "propertyNames": queue()})
}

/// An object with arbitrary members.
pub fn any_object() -> Value {
    map_of(json!(true))
}

/// A reference to a schema in `components`.
pub fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

pub fn any_of(choices: impl IntoIterator<Item = Value>) -> Value {
    json!({"anyOf": choices.into_iter().collect::<Vec<_>>()})
}

/// A value of a schema, or `null`.
pub fn nullable(mut schema: Value) -> Value {
    match schema.get("type").and_then(Value::as_str).map(str::to_owned) {
        Some(name) if schema.get("enum").is_none() => {
            schema["type"] = json!([name, "null"]);
            schema
        }
        _ if schema == any() => schema,
        _ => any_of([schema, json!({"type": "null"})]),
    }
}

/// A schema with a description.
pub fn with_description(mut schema: Value, description: &str) -> Value {
    schema["description"] = description.into();
    schema
}

/// An object with these members. A member whose name ends in `?` is optional.
pub fn object<const N: usize>(members: [(&str, Value); N]) -> Value {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for (name, schema) in members {
        match name.strip_suffix('?') {
            Some(name) => _ = properties.insert(name.to_owned(), schema),
            None => {
                required.push(name.to_owned());
                properties.insert(name.to_owned(), schema);
            }
        }
    }
    let mut object = json!({"type": "object", "properties": properties});
    if !required.is_empty() {
        object["required"] = required.into();
    }
    object
}

/// An object in a request: an optional member may be `null`, and unknown members are ignored.
pub fn request<const N: usize>(members: [(&str, Value); N]) -> Value {
    object(members.map(|(name, schema)| if name.ends_with('?') { (name, nullable(schema)) } else { (name, schema) }))
}

/// An object without other members.
pub fn closed(mut object: Value) -> Value {
    object["additionalProperties"] = false.into();
    object
}

/// An object that may have other members.
pub fn open(mut object: Value) -> Value {
    object["additionalProperties"] = true.into();
    object
}

/// An object with the members of two objects.
pub fn merge(mut base: Value, more: Value) -> Value {
    for name in ["properties", "required"] {
        match (base.get_mut(name), more.get(name)) {
            (Some(Value::Object(own)), Some(Value::Object(others))) => own.extend(others.clone()),
            (Some(Value::Array(own)), Some(Value::Array(others))) => own.extend(others.iter().cloned()),
            (None, Some(others)) => base[name] = others.clone(),
            _ => {}
        }
    }
    base
}

/// A list, `{"items": […]}`, with the items repeated under `names`.
pub fn list_response(names: &[&str], item: Value) -> Value {
    let same = || with_description(array(item.clone()), "Equal to `items`.");
    let items = object([("items", array(item.clone()))]);
    names.iter().fold(items, |response, name| merge(response, object([(*name, same())])))
}
