//! What one route takes and gives, apart from what all of them do.

use super::schema::{integer, plain, text};
use crate::api::pagination::MOST_ITEMS;
use crate::api::response::MEDIA_TYPE;
use serde_json::{Value, json};

/// Describes a route; made only when the document is.
pub type Describe = fn() -> Operation;

/// What a route is for, takes and gives.
pub struct Operation {
    pub(super) summary: &'static str,
    pub(super) about: &'static str,
    /// The schema of the variable part of the path.
    pub(super) variable: Value,
    pub(super) parameters: Vec<Value>,
    pub(super) body: Option<Body>,
    pub(super) answers: Vec<Answer>,
    /// Statuses of errors that not every route of its kind has.
    pub(super) errors: Vec<u16>,
}

pub(super) struct Body {
    pub(super) schema: Value,
    pub(super) required: bool,
}

pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) about: &'static str,
    /// By media type; none where there is no body.
    pub(super) content: Vec<(&'static str, Value)>,
    pub(super) headers: Vec<&'static str>,
}

/// Begins with a sentence that fits into a list.
pub fn op(summary: &'static str) -> Operation {
    Operation {
        summary,
        about: "",
        variable: json!({"type": "string", "minLength": 1}),
        parameters: Vec::new(),
        body: None,
        answers: Vec::new(),
        errors: Vec::new(),
    }
}

impl Operation {
    /// What a reader must know beyond the summary.
    pub fn about(mut self, about: &'static str) -> Self {
        self.about = about;
        self
    }

    /// What the variable part of the path must look like.
    pub fn variable(mut self, schema: Value) -> Self {
        self.variable = schema;
        self
    }

    pub fn query(self, name: &str, schema: Value, about: &str) -> Self {
        self.parameter("query", name, schema, about)
    }

    pub fn header(self, name: &str, schema: Value, about: &str) -> Self {
        self.parameter("header", name, schema, about)
    }

    fn parameter(mut self, place: &str, name: &str, schema: Value, about: &str) -> Self {
        self.parameters.push(json!({"name": name, "in": place, "schema": schema, "description": about}));
        self
    }

    /// The tenant whose jobs alone the request is about.
    pub fn of_tenant(self) -> Self {
        let about = "The tenant that the request is about; a key that is bound to another one is refused.";
        let schema = json!({"type": "string", "pattern": "^(_default|[a-zA-Z0-9][a-zA-Z0-9._:-]*)$", "maxLength": 256});
        self.header("X-OJS-Tenant", schema, about)
    }

    /// Pages of a list, in both dialects.
    pub fn paged(self) -> Self {
        let furthest = MOST_ITEMS as i64;
        self.query("limit", integer(1, furthest), "Items on the page; more than 200 count as 200.")
            .query("offset", integer(0, furthest), "Items to pass over.")
            .query(
                "cursor",
                json!({"type": "string", "pattern": "^after-[0-9]{1,7}$"}),
                "A `next_cursor`, in place of `offset`.",
            )
            .query("page", integer(1, furthest), "The page, from 1; with `per_page` in place of the three others.")
            .query(
                "per_page",
                integer(1, furthest),
                "Items on the page, 20 if it is not said; more than 100 count as 100.",
            )
    }

    /// Pages of a list that goes on by cursor only.
    pub fn paged_by_cursor(self) -> Self {
        let furthest = MOST_ITEMS as i64;
        self.query(
            "limit",
            integer(1, furthest),
            "Items on the page, 50 if it is not said; more than 200 count as 200.",
        )
        .query("per_page", integer(1, furthest), "The same, if `limit` is left out.")
        .query(
            "cursor",
            json!({"type": "string", "pattern": "^at-(end|[1-9][0-9]{0,19})(\\.[0-9a-f-]{36}){0,200}$"}),
            "A `next_cursor`.",
        )
        .query("tenant", plain(256), "Only of this tenant; `_default` stands for those that name none.")
    }

    /// A JSON body that must be there.
    pub fn takes(mut self, schema: Value) -> Self {
        self.body = Some(Body { schema, required: true });
        self
    }

    /// A JSON body that may be left out.
    pub fn may_take(mut self, schema: Value) -> Self {
        self.body = Some(Body { schema, required: false });
        self
    }

    /// A JSON answer.
    pub fn gives(self, status: u16, about: &'static str, schema: Value) -> Self {
        self.gives_as(status, about, vec![(MEDIA_TYPE, schema)])
    }

    /// An answer without a body.
    pub fn gives_nothing(self, status: u16, about: &'static str) -> Self {
        self.gives_as(status, about, Vec::new())
    }

    /// Text of some media type.
    pub fn gives_text(self, media_type: &'static str, about: &'static str) -> Self {
        self.gives_as(200, about, vec![(media_type, text())])
    }

    /// The same answer in another media type.
    pub fn or_as(mut self, media_type: &'static str, schema: Value) -> Self {
        if let Some(answer) = self.answers.last_mut() {
            answer.content.push((media_type, schema));
        }
        self
    }

    fn gives_as(mut self, status: u16, about: &'static str, content: Vec<(&'static str, Value)>) -> Self {
        self.answers.push(Answer { status, about, content, headers: Vec::new() });
        self
    }

    /// Headers that the last answer may have, by their names in `components`.
    pub fn with_headers(mut self, names: &[&'static str]) -> Self {
        if let Some(answer) = self.answers.last_mut() {
            answer.headers.extend(names);
        }
        self
    }

    /// Further statuses of errors: those that come from its kind (a body, a path, a key) need not be said.
    pub fn fails(mut self, statuses: &[u16]) -> Self {
        self.errors.extend(statuses);
        self
    }
}
