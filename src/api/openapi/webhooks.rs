//! Subscriptions to events, and their deliveries.

use super::Schemas;
use super::operation::{Operation, operation};
use super::schema::*;
use crate::api::answers::webhooks::{Delivery, DeliveryAnswer, DeliveryRetried, SubscriptionDeleted};
use serde_json::{Value, json};

pub fn schemas() -> Schemas {
    vec![
        ("Subscription", subscription()),
        ("SubscriptionWithSecret", merge(subscription(), object([("secret", string())]))),
    ]
}

fn subscription() -> Value {
    object([
        ("id", string()),
        ("url", string()),
        ("events", array(string())),
        ("filter", object([("queues", array(string())), ("job_types", array(string()))])),
        ("active", boolean()),
        ("created_at", timestamp()),
        ("metadata?", any_object()),
    ])
}

/// The members of a subscription that a client may set.
fn body(url: &'static str, events: &'static str) -> Value {
    let names = || array_of(string(), 0, 100);
    let event = json!({"type": "string", "pattern": "^([*]|[a-z._]+|[a-z._]*[.][*])$", "maxLength": 100});
    let url_shape = || {
        let description = "An https:// URL of a public host. If `server.private_webhooks` is set, http:// and private hosts are allowed as well.";
        json!({"type": "string", "pattern": "^[hH][tT][tT][pP][sS]?://[^/]", "maxLength": 2048, "description": description})
    };
    request([
        (url, url_shape()),
        (events, with_description(array_of(event, 1, 100), "Event types such as `job.completed`, `job.*` or `*`.")),
        ("filter?", request([("queues?", names()), ("job_types?", names())])),
        ("active?", boolean()),
        ("metadata?", any_object()),
        ("secret?", string_of_length(8, 256)),
    ])
}

fn one() -> Value {
    object([("subscription", reference("Subscription"))])
}

fn with_secret() -> Value {
    object([("subscription", reference("SubscriptionWithSecret"))])
}

pub fn create() -> Operation {
    operation("Subscribe to events")
        .request_body(body("url", "events"))
        .response(201, "The subscription and its secret, which cannot be read again.", with_secret())
        .errors(&[409])
}

pub fn list_all() -> Operation {
    operation("List subscriptions").paged().page_of::<()>(
        &["subscriptions"],
        reference("Subscription"),
        "Subscriptions, oldest first.",
    )
}

pub fn show() -> Operation {
    operation("Show a subscription").response(200, "The subscription.", one())
}

pub fn update() -> Operation {
    operation("Update the given members of a subscription")
        .request_body(body("url?", "events?"))
        .response(200, "The subscription.", one())
        .errors(&[409])
}

pub fn rotate_secret() -> Operation {
    operation("Replace the secret of a subscription; the old one signs deliveries as well for one more day")
        .response(200, "The subscription and its new secret, which cannot be read again.", with_secret())
        .errors(&[409])
}

pub fn remove() -> Operation {
    operation("Delete a subscription")
        .answer::<SubscriptionDeleted>(200, "The subscription was deleted.")
        .errors(&[409])
}

pub fn list_deliveries() -> Operation {
    operation("List pending or dead deliveries")
        .query("status", enumeration(&["pending", "dead"]), "The status of the deliveries; `pending` by default.")
        .paged()
        .page::<Delivery>(&["deliveries"], "Deliveries.")
}

pub fn show_delivery() -> Operation {
    operation("Show a delivery").answer::<DeliveryAnswer>(200, "The delivery.")
}

pub fn retry_delivery() -> Operation {
    operation("Retry a dead delivery").answer::<DeliveryRetried>(200, "The delivery is pending.")
}
