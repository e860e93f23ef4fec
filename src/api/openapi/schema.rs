//! Small words for JSON Schema, so that a shape reads like what it describes.

use crate::job::duration::LONGEST_MS;
use serde_json::{Map, Value, json};

/// Names as the server checks them.
const QUEUE: &str = "^[a-z0-9][a-z0-9.-]*$";
const KIND: &str = "^[a-z][a-z0-9_-]*(\\.[a-z][a-z0-9_-]*)*$";
const UUID7: &str = "^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$";
const TENANT: &str = "^[a-zA-Z0-9][a-zA-Z0-9._:-]*$";
const DURATION: &str =
    "[0-9]{1,12}(\\.[0-9]{1,9})?(ms|s|m|h|d)|P([0-9]{1,5}[WD])*(T([0-9]{1,9}(\\.[0-9]{1,9})?[HMS])+)?";
const PLAIN: &str = "^[^\\u0000-\\u001f\\u007f-\\u009f]*$";

/// Anything that is JSON.
pub fn any() -> Value {
    json!({})
}

pub fn text() -> Value {
    json!({"type": "string"})
}

pub fn flag() -> Value {
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

/// A whole number as a request may write it: no larger than any language can hold.
pub fn whole(least: i64) -> Value {
    integer(least, (1 << 53) - 1)
}

/// A point in time, as answers have it.
pub fn time() -> Value {
    json!({"type": "string", "format": "date-time"})
}

/// A text of so many characters at most.
pub fn short(least: usize, most: usize) -> Value {
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
pub fn kind() -> Value {
    named(KIND, 255)
}

/// An id that a client may choose.
pub fn uuid() -> Value {
    json!({"type": "string", "pattern": UUID7})
}

/// The id of a tenant, as clients name theirs.
pub fn tenant() -> Value {
    named(TENANT, 256)
}

/// A name that somebody chooses freely: no control characters.
pub fn plain(most: usize) -> Value {
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

/// A duration as requests may write it.
pub fn duration() -> Value {
    json!({"type": "string", "pattern": format!("^({DURATION})$"), "description": crate::job::duration::EXPECTED})
}

/// The period of a rate.
pub fn period() -> Value {
    let pattern = format!("^(second|minute|hour|day|{DURATION})$");
    json!({"type": "string", "pattern": pattern, "description": crate::job::quota::PERIOD_EXPECTED})
}

/// A time as requests may write it: absolute or relative.
pub fn moment() -> Value {
    let relative = json!({"type": "string", "pattern": format!("^[+]({DURATION})$")});
    described(either([time(), relative]), crate::job::time::EXPECTED)
}

/// So many seconds, at least `least` and at most a century.
pub fn seconds(least: i64) -> Value {
    integer(least, (LONGEST_MS / 1000) as i64)
}

/// The same in milliseconds.
pub fn milliseconds(least: i64) -> Value {
    integer(least, LONGEST_MS as i64)
}

/// Words separated by commas.
pub fn words(words: &[&str]) -> Value {
    let word = words.join("|");
    json!({"type": "string", "pattern": format!("^({word})(,({word}))*$")})
}

/// The same object, in which one of these members must be there, and not be `null`.
pub fn with_one_of(mut object: Value, names: &[&str]) -> Value {
    let has = |name: &&str| json!({"required": [name], "properties": {*name: {"not": {"type": "null"}}}});
    let choice = json!({"anyOf": names.iter().map(has).collect::<Vec<_>>()});
    match object.get_mut("allOf").and_then(Value::as_array_mut) {
        Some(others) => others.push(choice),
        None => object["allOf"] = json!([choice]),
    }
    object
}

/// One of some words.
pub fn one_of(words: &[&str]) -> Value {
    json!({"type": "string", "enum": words})
}

/// One of the eight states.
pub fn state() -> Value {
    refer("JobState")
}

pub fn list(item: Value) -> Value {
    json!({"type": "array", "items": item})
}

pub fn list_of(item: Value, least: usize, most: usize) -> Value {
    json!({"type": "array", "items": item, "minItems": least, "maxItems": most})
}

/// An object with any names, all of whose values are alike.
pub fn map(value: Value) -> Value {
    json!({"type": "object", "additionalProperties": value})
}

/// The same, with names of queues.
pub fn by_queue(value: Value) -> Value {
    json!({"type": "object", "additionalProperties": value, "propertyNames": queue()})
}

/// An object of which nothing more is known.
pub fn anything_named() -> Value {
    map(json!(true))
}

/// A schema of `components`.
pub fn refer(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

pub fn either(choices: impl IntoIterator<Item = Value>) -> Value {
    json!({"anyOf": choices.into_iter().collect::<Vec<_>>()})
}

/// The same, or `null`.
pub fn or_null(mut schema: Value) -> Value {
    match schema.get("type").and_then(Value::as_str).map(str::to_owned) {
        Some(name) if schema.get("enum").is_none() => {
            schema["type"] = json!([name, "null"]);
            schema
        }
        _ if schema == any() => schema,
        _ => either([schema, json!({"type": "null"})]),
    }
}

/// The same, with a sentence about it.
pub fn described(mut schema: Value, about: &str) -> Value {
    schema["description"] = about.into();
    schema
}

/// An object with these members; one whose name ends in `?` may be missing.
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

/// The same as a client sends it: `null` is as good as nothing, and members that are not known are passed over.
pub fn request<const N: usize>(members: [(&str, Value); N]) -> Value {
    object(members.map(|(name, schema)| if name.ends_with('?') { (name, or_null(schema)) } else { (name, schema) }))
}

/// The same object, which has no other members.
pub fn closed(mut object: Value) -> Value {
    object["additionalProperties"] = false.into();
    object
}

/// The same object, which may have any others.
pub fn open(mut object: Value) -> Value {
    object["additionalProperties"] = true.into();
    object
}

/// An object with the members of both.
pub fn with(mut base: Value, more: Value) -> Value {
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

/// `{"items": […], "pagination": {…}}`, and the items again under the further names that the list has.
pub fn page_of(names: &[&str], item: Value) -> Value {
    with(list_answer(names, item), object([("pagination", refer("Pagination"))]))
}

/// A list that is not paged by number.
pub fn list_answer(names: &[&str], item: Value) -> Value {
    let same = || described(list(item.clone()), "The same as `items`.");
    let items = object([("items", list(item.clone()))]);
    names.iter().fold(items, |answer, name| with(answer, object([(*name, same())])))
}
