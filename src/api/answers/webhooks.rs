//! Answers about deliveries to subscribers. A subscription itself is a stored document.

use super::types::{Json, Timestamp, described};
use crate::api::openapi::schema;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::value::RawValue;

described! {
    /// An event, as it is stored.
    Event(Box<RawValue>) => schema::reference("Event");
}

/// An event on its way to a subscriber.
#[derive(Serialize, JsonSchema)]
pub struct Delivery {
    /// The number of attempts so far.
    pub attempts: usize,
    pub created_at: Timestamp,
    pub event_type: String,
    pub id: String,
    #[schemars(extend("enum" = ["pending", "dead"]))]
    pub status: &'static str,
    pub subscription_id: String,
    /// The error of the last attempt.
    pub last_error: Json,
    pub event: Event,
}

#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
pub struct DeliveryAnswer {
    pub delivery: Delivery,
}

#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
pub struct DeliveryRetried<'a> {
    pub id: &'a str,
    #[schemars(extend("enum" = ["pending"]))]
    pub status: &'static str,
}

#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
pub struct SubscriptionDeleted<'a> {
    pub deleted: bool,
    pub id: &'a str,
}
