//! Subscriptions to events, and deliveries of events to them.

use super::reply;
use super::script::{DELIVERY_CLAIM, DELIVERY_CREATE, DELIVERY_FINISH, DELIVERY_RETRY, SUBSCRIPTION_SAVE};
use super::{Error, Store};
use crate::domain::subscription::Subscription;
use redis::Value;

/// Largest number of subscriptions: every event is matched against all of them.
const MOST_SUBSCRIPTIONS: usize = 100;
/// Largest number of pending deliveries. More are dropped, which is reported.
const MOST_DELIVERIES: usize = 100_000;
/// Largest number of dead deliveries that are kept, and how long they are kept.
const MOST_DEAD: usize = 1000;
const KEEP_DEAD_MS: u64 = 7 * 86_400_000;

/// The outcome of changing a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
        let document =
            |subscription: Option<&Subscription>| subscription.map(Subscription::document).unwrap_or_default();
        let answer = SUBSCRIPTION_SAVE
            .call(&self.core.connection, |command, _| {
                self.core.begin(command).arg(id).arg(document(old)).arg(document(new));
                command.arg(MOST_SUBSCRIPTIONS).arg(&newest);
            })
            .await?;
        match reply::text(answer, "subscription_save")?.as_str() {
            "ok" => Ok(SaveSubscriptionOutcome::Done),
            "stale" => Ok(SaveSubscriptionOutcome::Stale),
            "full" => Ok(SaveSubscriptionOutcome::Full),
            _ => Err(Error::unreadable("subscription_save")),
        }
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
        let answer = DELIVERY_CREATE
            .call(&self.core.connection, |command, _| {
                self.core.begin(command).arg(from).arg(to).arg(MOST_DELIVERIES);
                for delivery in deliveries {
                    command.arg(&delivery.id).arg(&delivery.subscription).arg(&delivery.kind).arg(&delivery.body);
                }
            })
            .await?;
        Ok(reply::number(answer, "delivery_create")? == 1)
    }

    /// Returns the store's time and deliveries that are due. No other process gets them for
    /// `lease_ms`.
    pub async fn claim_deliveries(&self, limit: usize, lease_ms: u64) -> Result<(i64, Vec<Delivery>), Error> {
        let fill = |command: &mut redis::Cmd, _: bool| {
            self.core.begin(command).arg(limit).arg(lease_ms);
        };
        let mut parts =
            reply::array(DELIVERY_CLAIM.call(&self.core.connection, fill).await?, "delivery_claim")?.into_iter();
        let now = reply::number(parts.next().unwrap_or(Value::Nil), "delivery_claim")?;
        let mut deliveries = Vec::new();
        while let (Some(id), Some(fields)) = (parts.next(), parts.next()) {
            let [subscription, kind, body, tries] = <[String; 4]>::try_from(reply::texts(fields, "delivery_claim")?)
                .map_err(|_| Error::unreadable("delivery_claim"))?;
            let tries = reply::parse(&tries, "delivery_claim")?;
            deliveries.push(Delivery {
                id: reply::text(id, "delivery_claim")?,
                subscription,
                kind,
                body,
                tries,
                ..Delivery::default()
            });
        }
        Ok((now, deliveries))
    }

    /// Records the outcome of an attempt.
    pub async fn finish_delivery(&self, id: &str, outcome: &DeliveryOutcome) -> Result<(), Error> {
        let (word, after, error) = match outcome {
            DeliveryOutcome::Done => ("done", 0, ""),
            DeliveryOutcome::Again(after, error) => ("again", *after, error.as_str()),
            DeliveryOutcome::Dead(error) => ("dead", 0, error.as_str()),
        };
        let error = crate::domain::json::quoted(error);
        let fill = |command: &mut redis::Cmd, _: bool| {
            self.core.begin(command).arg(id).arg(word).arg(after).arg(&error).arg(KEEP_DEAD_MS).arg(MOST_DEAD);
        };
        DELIVERY_FINISH.call(&self.core.connection, fill).await.map(drop)
    }

    /// Schedules one more attempt of a dead delivery. Returns false if there is none with this id.
    pub async fn redeliver(&self, id: &str) -> Result<bool, Error> {
        let answer =
            DELIVERY_RETRY.call(&self.core.connection, |command, _| _ = self.core.begin(command).arg(id)).await?;
        Ok(reply::number(answer, "delivery_retry")? == 1)
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
