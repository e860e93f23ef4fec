//! The description of one route: parameters, request body and responses, without those that all routes have.

use super::derived;
use super::schema::{integer, list_response, merge, printable, string};
use crate::api::answers::lists::Paged;
use crate::api::pagination::MOST_ITEMS;
use crate::api::response::MEDIA_TYPE;
use schemars::JsonSchema;
use serde_json::{Map, Value, json};

/// A function that describes a route. It is called only when the document is generated.
pub type Describe = fn() -> Operation;

/// The description of a route.
pub struct Operation {
    pub(super) summary: &'static str,
    pub(super) description: &'static str,
    /// The schema of the parameter in the path.
    pub(super) path_parameter: Value,
    pub(super) parameters: Vec<Value>,
    pub(super) body: Option<RequestBody>,
    pub(super) responses: Vec<Response>,
    /// The schemas to which derived schemas of responses refer, by name.
    pub(super) components: Map<String, Value>,
    /// The statuses of errors beyond those that follow from body, path and key.
    pub(super) errors: Vec<u16>,
}

pub(super) struct RequestBody {
    pub(super) schema: Value,
    pub(super) required: bool,
}

pub(super) struct Response {
    pub(super) status: u16,
    pub(super) description: &'static str,
    /// Media type and schema of each representation; empty for a response without a body.
    pub(super) content: Vec<(&'static str, Value)>,
    pub(super) headers: Vec<&'static str>,
}

/// Starts a description with a summary of one line.
pub fn operation(summary: &'static str) -> Operation {
    Operation {
        summary,
        description: "",
        path_parameter: json!({"type": "string", "minLength": 1}),
        parameters: Vec::new(),
        body: None,
        responses: Vec::new(),
        components: Map::new(),
        errors: Vec::new(),
    }
}

impl Operation {
    /// Adds details to the summary.
    pub fn description(mut self, description: &'static str) -> Self {
        self.description = description;
        self
    }

    /// Sets the schema of the parameter in the path.
    pub fn path_parameter(mut self, schema: Value) -> Self {
        self.path_parameter = schema;
        self
    }

    pub fn query(self, name: &str, schema: Value, description: &str) -> Self {
        self.parameter("query", name, schema, description)
    }

    pub fn header(self, name: &str, schema: Value, description: &str) -> Self {
        self.parameter("header", name, schema, description)
    }

    fn parameter(mut self, place: &str, name: &str, schema: Value, description: &str) -> Self {
        self.parameters.push(json!({"name": name, "in": place, "schema": schema, "description": description}));
        self
    }

    /// Adds the header that restricts the request to a tenant.
    pub fn tenant_header(self) -> Self {
        let description = "Restricts the request to a tenant. A key that is bound to another tenant is refused.";
        let schema = json!({"type": "string", "pattern": "^(_default|[a-zA-Z0-9][a-zA-Z0-9._:-]*)$", "maxLength": 256});
        self.header("X-OJS-Tenant", schema, description)
    }

    /// Adds the parameters of pagination, in both dialects.
    pub fn paged(self) -> Self {
        let furthest = MOST_ITEMS as i64;
        self.query("limit", integer(1, furthest), "Items per page. More than 200 count as 200.")
            .query("offset", integer(0, furthest), "Items to skip.")
            .query(
                "cursor",
                json!({"type": "string", "pattern": "^after-[0-9]{1,7}$"}),
                "The `next_cursor` of a response, in place of `offset`.",
            )
            .query(
                "page",
                integer(1, furthest),
                "Number of the page, from 1. `page` and `per_page` replace the other three parameters.",
            )
            .query("per_page", integer(1, furthest), "Items per page; 20 by default. More than 100 count as 100.")
    }

    /// Adds the parameters of pagination by cursor only.
    pub fn paged_by_cursor(self) -> Self {
        let furthest = MOST_ITEMS as i64;
        self.query("limit", integer(1, furthest), "Items per page; 50 by default. More than 200 count as 200.")
            .query("per_page", integer(1, furthest), "The same as `limit`, which takes precedence.")
            .query(
                "cursor",
                json!({"type": "string", "pattern": "^at-(end|[1-9][0-9]{0,19})(\\.[0-9a-f-]{36}){0,200}$"}),
                "The `next_cursor` of a response.",
            )
            .query("tenant", printable(256), "Only items of this tenant; `_default` means those without a tenant.")
    }

    /// Adds a required JSON body.
    pub fn request_body(mut self, schema: Value) -> Self {
        self.body = Some(RequestBody { schema, required: true });
        self
    }

    /// Adds an optional JSON body.
    pub fn optional_request_body(mut self, schema: Value) -> Self {
        self.body = Some(RequestBody { schema, required: false });
        self
    }

    /// Adds a JSON response.
    pub fn response(self, status: u16, description: &'static str, schema: Value) -> Self {
        self.push_response(status, description, vec![(MEDIA_TYPE, schema)])
    }

    /// Adds a JSON response whose schema is derived.
    pub fn answer<T: JsonSchema>(mut self, status: u16, description: &'static str) -> Self {
        let schema = self.derive::<T>();
        self.response(status, description, schema)
    }

    /// Adds a response that is a page of a list, with the items repeated under `names`.
    pub fn page<Item: JsonSchema>(self, names: &[&str], description: &'static str) -> Self {
        self.page_with::<Item, ()>(names, description)
    }

    /// Like [`Operation::page`], with the members of `More`.
    pub fn page_with<Item: JsonSchema, More: JsonSchema>(mut self, names: &[&str], description: &'static str) -> Self {
        let item = self.derive::<Item>();
        self.page_of::<More>(names, item, description)
    }

    /// Like [`Operation::page_with`], for items whose schema is written by hand.
    pub fn page_of<More: JsonSchema>(mut self, names: &[&str], item: Value, description: &'static str) -> Self {
        let (more, paged) = (self.derive::<More>(), self.derive::<Paged>());
        self.response(200, description, merge(merge(list_response(names, item), more), paged))
    }

    /// Adds a response that is a list with the members of `More`, for items whose schema is written by hand.
    pub fn list_of<More: JsonSchema>(mut self, names: &[&str], item: Value, description: &'static str) -> Self {
        let more = self.derive::<More>();
        self.response(200, description, merge(list_response(names, item), more))
    }

    fn derive<T: JsonSchema>(&mut self) -> Value {
        let (schema, mut components) = derived::schema_of::<T>();
        self.components.append(&mut components);
        schema
    }

    /// Adds a response without a body.
    pub fn empty_response(self, status: u16, description: &'static str) -> Self {
        self.push_response(status, description, Vec::new())
    }

    /// Adds a text response of a media type.
    pub fn text_response(self, media_type: &'static str, description: &'static str) -> Self {
        self.push_response(200, description, vec![(media_type, string())])
    }

    /// Adds another media type to the last response.
    pub fn also_as(mut self, media_type: &'static str, schema: Value) -> Self {
        if let Some(response) = self.responses.last_mut() {
            response.content.push((media_type, schema));
        }
        self
    }

    fn push_response(mut self, status: u16, description: &'static str, content: Vec<(&'static str, Value)>) -> Self {
        self.responses.push(Response { status, description, content, headers: Vec::new() });
        self
    }

    /// Adds headers to the last response, by their names in `components`.
    pub fn with_headers(mut self, names: &[&'static str]) -> Self {
        if let Some(response) = self.responses.last_mut() {
            response.headers.extend(names);
        }
        self
    }

    /// Adds statuses of errors. Those that follow from body, path and key are added by `document`.
    pub fn errors(mut self, statuses: &[u16]) -> Self {
        self.errors.extend(statuses);
        self
    }
}
