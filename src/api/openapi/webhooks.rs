//! Subscriptions to events, and their deliveries.

use super::Shapes;
use super::operation::{Operation, op};
use super::schema::*;
use serde_json::{Value, json};

pub fn shapes() -> Shapes {
    vec![
        ("Subscription", subscription()),
        ("SubscriptionWithSecret", with(subscription(), object([("secret", text())]))),
        ("Delivery", delivery()),
    ]
}

fn subscription() -> Value {
    object([
        ("id", text()),
        ("url", text()),
        ("events", list(text())),
        ("filter", object([("queues", list(text())), ("job_types", list(text()))])),
        ("active", flag()),
        ("created_at", time()),
        ("metadata?", anything_named()),
    ])
}

fn delivery() -> Value {
    object([
        ("id", text()),
        ("subscription_id", text()),
        ("event_type", text()),
        ("status", one_of(&["pending", "dead"])),
        ("attempts", count()),
        ("created_at", time()),
        ("last_error", any()),
        ("event", refer("Event")),
    ])
}

/// What can be changed.
fn body(url: &'static str, events: &'static str) -> Value {
    let names = || list_of(text(), 0, 100);
    let event = json!({"type": "string", "pattern": "^([*]|[a-z._]+|[a-z._]*[.][*])$", "maxLength": 100});
    let url_shape = || {
        let about = "An https:// URL of a public host; where the server allows it, of any, and http:// as well.";
        json!({"type": "string", "pattern": "^[hH][tT][tT][pP][sS]?://[^/]", "maxLength": 2048, "description": about})
    };
    request([
        (url, url_shape()),
        (events, described(list_of(event, 1, 100), "Such as `job.completed`, `job.*` or `*`.")),
        ("filter?", request([("queues?", names()), ("job_types?", names())])),
        ("active?", flag()),
        ("metadata?", anything_named()),
        ("secret?", short(8, 256)),
    ])
}

fn one() -> Value {
    object([("subscription", refer("Subscription"))])
}

fn with_secret() -> Value {
    object([("subscription", refer("SubscriptionWithSecret"))])
}

pub fn create() -> Operation {
    op("Subscribe to events")
        .takes(body("url", "events"))
        .gives(201, "The subscription, with its secret for the only time.", with_secret())
        .fails(&[409])
}

pub fn list_all() -> Operation {
    op("All subscriptions").paged().gives(200, "The oldest first.", page_of(&["subscriptions"], refer("Subscription")))
}

pub fn show() -> Operation {
    op("Show a subscription").gives(200, "The subscription.", one())
}

pub fn change() -> Operation {
    op("Change what a request names of a subscription")
        .takes(body("url?", "events?"))
        .gives(200, "The subscription.", one())
        .fails(&[409])
}

pub fn rotate() -> Operation {
    op("Replace a subscription's secret: the old one still signs for a day")
        .gives(200, "The subscription, with its new secret for the only time.", with_secret())
        .fails(&[409])
}

pub fn remove() -> Operation {
    op("Delete a subscription").gives(200, "It is gone.", object([("deleted", flag()), ("id", text())])).fails(&[409])
}

pub fn deliveries() -> Operation {
    op("Deliveries that wait or were given up")
        .query("status", one_of(&["pending", "dead"]), "`pending` if it is not said.")
        .paged()
        .gives(200, "Deliveries.", page_of(&["deliveries"], refer("Delivery")))
}

pub fn delivery_shown() -> Operation {
    op("Show a delivery").gives(200, "The delivery.", object([("delivery", refer("Delivery"))]))
}

pub fn redeliver() -> Operation {
    op("Try a delivery again that was given up").gives(
        200,
        "It waits.",
        object([("id", text()), ("status", one_of(&["pending"]))]),
    )
}
