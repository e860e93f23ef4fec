//! Subscriptions to events, and deliveries of events to them.

use super::reply;
use super::script::{DELIVERY_CLAIM, DELIVERY_CREATE, DELIVERY_FINISH, DELIVERY_RETRY, SUBSCRIPTION_SAVE};
use super::{Error, Store};
use crate::domain::json;
use crate::domain::subscription::Subscription;
use redis::Value;
use serde::{Deserialize, Serialize};

/// Largest number of subscriptions: every event is matched against all of them.
const MOST_SUBSCRIPTIONS: usize = 100;
/// Largest number of pending deliveries. More are dropped, which is reported.
const MOST_DELIVERIES: usize = 100_000;
/// Largest number of dead deliveries that are kept, and how long they are kept.
const MOST_DEAD: usize = 1000;
const KEEP_DEAD_MS: u64 = 7 * 86_400_000;

/// The outcome of changing a subscription.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum SaveSubscriptionOutcome {
    Done,
    /// Another client changed the subscription since it was read.
    Stale,
    /// There are [`MOST_SUBSCRIPTIONS`] subscriptions already.
    Full,
}

/// A delivery of an event to a subscription.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delivery {
    pub id: String,
    pub subscription: String,
    /// The event's type; `body` is the event as JSON.
    pub kind: String,
    pub body: String,
    /// Number of attempts so far.
    pub tries: usize,
    pub created: i64,
    /// The error of the last attempt.
    pub error: Option<String>,
    pub dead: bool,
}

/// The outcome of one attempt to deliver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeliveryOutcome {
    Done,
    /// The attempt failed. The next one is due after the given milliseconds; the text is the error.
    Again(u64, String),
    Dead(String),
}

/// The state of a delivery that did not succeed yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryState {
    /// It is tried again.
    Pending,
    /// Its retries are exhausted.
    Dead,
}

#[derive(Serialize)]
struct SubscriptionSave<'a> {
    id: &'a str,
    before: Option<String>,
    document: Option<String>,
    most: usize,
    newest: &'a str,
}

#[derive(Serialize)]
struct DeliveryCreate<'a> {
    before: &'a str,
    after: &'a str,
    most: usize,
    deliveries: Vec<NewDelivery<'a>>,
}

#[derive(Serialize)]
struct NewDelivery<'a> {
    id: &'a str,
    subscription: &'a str,
    kind: &'a str,
    body: &'a str,
}

#[derive(Serialize)]
struct DeliveryClaim {
    most: usize,
    retry_ms: u64,
}

#[derive(Deserialize)]
struct ClaimedDeliveries {
    now: i64,
    deliveries: Vec<ClaimedDelivery>,
}

#[derive(Deserialize)]
struct ClaimedDelivery {
    id: String,
    subscription: String,
    kind: String,
    body: String,
    tries: usize,
}

#[derive(Serialize)]
struct DeliveryFinish<'a> {
    id: &'a str,
    outcome: Finished,
    keep_ms: u64,
    most_dead: usize,
}

/// A [`DeliveryOutcome`] with its error as JSON.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Finished {
    Done,
    Again { retry_ms: u64, error: String },
    Dead { error: String },
}

#[derive(Serialize)]
struct DeliveryRetry<'a> {
    id: &'a str,
}

impl Store {
    /// Stores a new subscription, or replaces `old`.
    pub async fn subscribe(
        &self,
        new: &Subscription,
        old: Option<&Subscription>,
    ) -> Result<SaveSubscriptionOutcome, Error> {
        self.change_subscription(&new.id, old, Some(new)).await
    }

    /// Removes a subscription.
    pub async fn unsubscribe(&self, old: &Subscription) -> Result<SaveSubscriptionOutcome, Error> {
        self.change_subscription(&old.id, Some(old), None).await
    }

    async fn change_subscription(
        &self,
        id: &str,
        old: Option<&Subscription>,
        new: Option<&Subscription>,
    ) -> Result<SaveSubscriptionOutcome, Error> {
        let newest = self.last_event().await?.unwrap_or_default();
        let document = |subscription: Option<&Subscription>| subscription.map(Subscription::document);
        let (before, document, newest) = (document(old), document(new), newest.as_str());
        let args = SubscriptionSave { id, before, document, most: MOST_SUBSCRIPTIONS, newest };
        SUBSCRIPTION_SAVE.call_packed(&self.core, &args).await
    }

    /// Returns all subscriptions, oldest first.
    pub async fn subscriptions(&self) -> Result<Vec<Subscription>, Error> {
        let mut command = redis::cmd("HVALS");
        command.arg(self.core.keys.hooks());
        let documents = reply::texts(self.core.command("subscriptions", command).await?, "subscriptions")?;
        let mut found: Vec<Subscription> = documents.iter().filter_map(|text| Subscription::stored(text)).collect();
        found.sort_by(|left, right| (left.created, &left.id).cmp(&(right.created, &right.id)));
        Ok(found)
    }

    /// Returns a subscription by its id.
    pub async fn subscription(&self, id: &str) -> Result<Option<Subscription>, Error> {
        let mut command = redis::cmd("HGET");
        command.arg(self.core.keys.hooks()).arg(id);
        Ok(Subscription::stored(&reply::text(self.core.command("subscription", command).await?, "subscription")?))
    }

    /// Returns the id of the last event for which deliveries were created.
    pub async fn delivered_up_to(&self) -> Result<String, Error> {
        let mut command = redis::cmd("GET");
        command.arg(self.core.keys.hooked());
        reply::text(self.core.command("hooked", command).await?, "hooked")
    }

    /// Creates the deliveries of the events after `from` up to `to`. Returns false if another
    /// process has done so.
    pub async fn create_deliveries(&self, from: &str, to: &str, deliveries: &[Delivery]) -> Result<bool, Error> {
        let deliveries = deliveries.iter().map(|delivery| NewDelivery {
            id: &delivery.id,
            subscription: &delivery.subscription,
            kind: &delivery.kind,
            body: &delivery.body,
        });
        let deliveries = deliveries.collect();
        let args = DeliveryCreate { before: from, after: to, most: MOST_DELIVERIES, deliveries };
        DELIVERY_CREATE.call_packed(&self.core, &args).await
    }

    /// Returns the store's time and deliveries that are due. No other process gets them for
    /// `lease_ms`.
    pub async fn claim_deliveries(&self, limit: usize, lease_ms: u64) -> Result<(i64, Vec<Delivery>), Error> {
        let args = DeliveryClaim { most: limit, retry_ms: lease_ms };
        let claimed: ClaimedDeliveries = DELIVERY_CLAIM.call_packed(&self.core, &args).await?;
        let deliveries = claimed.deliveries.into_iter().map(|claimed| Delivery {
            id: claimed.id,
            subscription: claimed.subscription,
            kind: claimed.kind,
            body: claimed.body,
            tries: claimed.tries,
            ..Delivery::default()
        });
        Ok((claimed.now, deliveries.collect()))
    }

    /// Records the outcome of an attempt.
    pub async fn finish_delivery(&self, id: &str, outcome: &DeliveryOutcome) -> Result<(), Error> {
        let outcome = match outcome {
            DeliveryOutcome::Done => Finished::Done,
            DeliveryOutcome::Again(after, error) => Finished::Again { retry_ms: *after, error: json::quoted(error) },
            DeliveryOutcome::Dead(error) => Finished::Dead { error: json::quoted(error) },
        };
        let args = DeliveryFinish { id, outcome, keep_ms: KEEP_DEAD_MS, most_dead: MOST_DEAD };
        let _existed: bool = DELIVERY_FINISH.call_packed(&self.core, &args).await?;
        Ok(())
    }

    /// Schedules one more attempt of a dead delivery. Returns false if there is none with this id.
    pub async fn redeliver(&self, id: &str) -> Result<bool, Error> {
        DELIVERY_RETRY.call_packed(&self.core, &DeliveryRetry { id }).await
    }

    /// Returns a page of ids of pending or dead deliveries, newest first, and the number of all.
    pub async fn delivery_ids(
        &self,
        state: DeliveryState,
        offset: usize,
        limit: usize,
    ) -> Result<(Vec<String>, usize), Error> {
        let key = match state {
            DeliveryState::Pending => self.core.keys.deliveries(),
            DeliveryState::Dead => self.core.keys.undelivered(),
        };
        let mut count = redis::cmd("ZCARD");
        count.arg(&key);
        let total = reply::number(self.core.command("deliveries", count).await?, "deliveries")? as usize;
        let mut command = redis::cmd("ZREVRANGE");
        command.arg(&key).arg(offset).arg(offset + limit - 1);
        Ok((reply::texts(self.core.command("deliveries", command).await?, "deliveries")?, total))
    }

    /// Returns a pending or dead delivery by its id.
    pub async fn delivery(&self, id: &str) -> Result<Option<Delivery>, Error> {
        let mut command = redis::cmd("HMGET");
        command.arg(self.core.keys.delivery(id)).arg(&["sub", "kind", "body", "n", "created", "error", "dead"]);
        let fields = reply::array(self.core.command("delivery", command).await?, "delivery")?;
        let text = |value| match value {
            Value::Nil => Ok(None),
            value => reply::text(value, "delivery").map(Some),
        };
        let fields: Vec<Option<String>> = fields.into_iter().map(text).collect::<Result<_, _>>()?;
        let mut fields = fields.into_iter();
        let mut next = || fields.next().flatten();
        let Some(subscription) = next() else { return Ok(None) };
        Ok(Some(Delivery {
            id: id.to_owned(),
            subscription,
            kind: next().unwrap_or_default(),
            body: next().unwrap_or_default(),
            tries: next().and_then(|tries| tries.parse().ok()).unwrap_or(0),
            created: next().and_then(|at| at.parse().ok()).unwrap_or(0),
            error: next(),
            dead: next().is_some(),
        }))
    }
}
