//! Schemas that are derived from the structs in `api::answers`.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use serde_json::{Map, Value};

/// The formats that `schemars` adds to numbers. They name Rust's types, which are no promise to clients.
const NUMBERS: [&str; 7] = ["double", "float", "int32", "int64", "uint", "uint32", "uint64"];

/// Returns the schema of an answer and the components to which it refers. If the answer itself is a component, its schema is a
/// reference.
pub fn schema_of<T: JsonSchema>() -> (Value, Map<String, Value>) {
    let settings = SchemaSettings::draft2020_12().for_serialize().with(|settings| {
        settings.definitions_path = "/components/schemas".into();
    });
    let mut generator = settings.into_generator();
    let mut schema = generator.subschema_for::<T>().to_value();
    tidy(&mut schema);
    let mut components = generator.take_definitions(false);
    components.values_mut().for_each(tidy);
    (schema, components)
}

/// Converts a schema that is written by hand, which is an object.
pub fn from_value(schema: Value) -> Schema {
    Schema::try_from(schema).unwrap_or_default()
}

/// Removes what `schemars` says of Rust's types, but what this API does not promise.
fn tidy(value: &mut Value) {
    match value {
        Value::Object(members) => {
            if members.get("format").and_then(Value::as_str).is_some_and(|format| NUMBERS.contains(&format)) {
                members.remove("format");
            }
            let required = members.get("required").cloned().unwrap_or_default();
            if let Some(properties) = members.get_mut("properties").and_then(Value::as_object_mut) {
                let is_required =
                    |name: &String| required.as_array().is_some_and(|all| all.contains(&name.as_str().into()));
                properties.iter_mut().filter(|(name, _)| !is_required(name)).for_each(|(_, member)| never_null(member));
            }
            members.values_mut().for_each(tidy);
        }
        Value::Array(all) => all.iter_mut().for_each(tidy),
        _ => {}
    }
}

/// Removes `null` from the schema of an optional member, which is left out instead. `schemars` derives both from `Option`.
fn never_null(schema: &mut Value) {
    let null = Value::from("null");
    let choices = schema.get_mut("anyOf").and_then(Value::as_array_mut);
    if let Some([choice, other]) = choices.map(|choices| &mut choices[..])
        && other["type"] == null
    {
        let mut only = choice.take();
        if let Some(description) = schema.get_mut("description") {
            only["description"] = description.take();
        }
        *schema = only;
    } else if let Some(types) = schema.get_mut("type").and_then(Value::as_array_mut) {
        types.retain(|name| *name != null);
        if let [only] = &mut types[..] {
            schema["type"] = only.take();
        }
    }
    if let Some(words) = schema.get_mut("enum").and_then(Value::as_array_mut) {
        words.retain(|word| !word.is_null());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::answers::types::{Ratio, Source};
    use serde::Serialize;
    use serde_json::json;

    /// A part.
    #[derive(Serialize, JsonSchema)]
    struct Part {
        number: u64,
    }

    /// A whole.
    #[derive(Serialize, JsonSchema)]
    #[schemars(inline)]
    struct Whole {
        #[serde(flatten)]
        part: Part,
        /// An amount.
        amount: Option<f64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        ratio: Option<Ratio>,
        /// The other part.
        #[serde(skip_serializing_if = "Option::is_none")]
        other: Option<Part>,
        source: Option<Source>,
    }

    #[test]
    fn a_schema_has_the_members_and_descriptions_of_the_struct() {
        let (schema, components) = schema_of::<Whole>();
        let expected = json!({
            "type": "object",
            "description": "A whole.",
            "properties": {
                "number": {"type": "integer", "minimum": 0},
                "amount": {"type": ["number", "null"], "description": "An amount."},
                "ratio": {"type": "number", "minimum": 0, "maximum": 1},
                "other": {"$ref": "#/components/schemas/Part", "description": "The other part."},
                "source": {"type": ["string", "null"], "enum": ["file", "api", null]},
            },
            "required": ["number", "amount", "source"],
        });
        assert_eq!(schema, expected);
        let part = json!({
            "type": "object",
            "description": "A part.",
            "properties": {"number": {"type": "integer", "minimum": 0}},
            "required": ["number"],
        });
        assert_eq!(Value::Object(components), json!({"Part": part}));
        assert_eq!(schema_of::<Part>().0, json!({"$ref": "#/components/schemas/Part"}));
    }

    #[test]
    fn an_optional_member_is_left_out_and_never_null() {
        let whole = |ratio| Whole { part: Part { number: 1 }, amount: None, ratio, other: None, source: None };
        let without = json!({"number": 1, "amount": null, "source": null});
        assert_eq!(serde_json::to_value(whole(None)).unwrap(), without);
        assert_eq!(serde_json::to_value(whole(Some(Ratio(0.5)))).unwrap()["ratio"], 0.5);
    }
}
