//! Delivery of events to subscribed webhooks: at least once, signed, retried for two days and then
//! given up.
//!
//! It reads the event log as other clients do, so no job waits for a webhook. Every process with
//! this role takes part: one script advances the position in the log and succeeds for one process
//! only, and a delivery is claimed before it is sent.

use crate::config::Secret;
use crate::domain::job::id;
use crate::domain::subscription::Subscription;
use crate::store::{Delivery, DeliveryOutcome, Error, EventFilter, EventPage, Store};
use crate::webhooks::{Letter, Sender, Sent};
use futures_util::future::join_all;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Interval between checks.
const EVERY: Duration = Duration::from_millis(500);
/// Maximum number of events read at once.
const PORTION: usize = 200;
/// Maximum number of deliveries sent at once.
const AT_ONCE: usize = 16;
/// Duration of a claim in milliseconds; longer than an attempt takes.
const LEASE_MS: u64 = 60_000;
/// Delays between attempts, in seconds; after the last one the delivery is given up.
const WAITS: [u64; 7] = [30, 120, 600, 3600, 14_400, 43_200, 86_400];
/// Maximum delay that an endpoint may ask for, in seconds.
const LONGEST_WAIT: u64 = 86_400;

/// Delivers events to webhooks.
pub struct WebhookDelivery {
    store: Store,
    sender: Sender,
}

impl WebhookDelivery {
    /// Creates a delivery task for a store.
    pub fn new(store: Store, sender: Sender) -> Self {
        WebhookDelivery { store, sender }
    }

    /// Delivers until `stop`.
    pub async fn run(self, stop: CancellationToken) {
        let mut failing = false;
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(EVERY) => {}
            }
            // An attempt that is interrupted by the stop stays claimed for a minute and is repeated
            // after that.
            let outcome = tokio::select! {
                () = stop.cancelled() => return,
                outcome = self.once() => outcome,
            };
            if let (Err(error), false) = (&outcome, failing) {
                tracing::warn!(%error, "cannot deliver events; webhooks wait until Redis is back");
            }
            failing = outcome.is_err();
        }
    }

    async fn once(&self) -> Result<(), Error> {
        let subscriptions = self.store.subscriptions().await?;
        if !subscriptions.is_empty() {
            while self.enlist(&subscriptions).await? {}
        }
        loop {
            let (now, due) = self.store.claim_deliveries(AT_ONCE, LEASE_MS).await?;
            if due.is_empty() {
                return Ok(());
            }
            let sent = join_all(due.iter().map(|delivery| self.deliver(delivery, &subscriptions, now))).await;
            sent.into_iter().collect::<Result<Vec<()>, Error>>()?;
        }
    }

    /// Creates deliveries for the next events. Returns true if there are more events.
    async fn enlist(&self, subscriptions: &[Subscription]) -> Result<bool, Error> {
        let from = self.store.delivered_up_to().await?;
        let after = (!from.is_empty()).then_some(from.as_str());
        let page = self.store.events(&EventFilter::default(), after, PORTION).await?;
        let Some(EventPage { events, cursor: Some(to), has_more }) = page else { return Ok(false) };
        let mut deliveries = Vec::new();
        for event in &events {
            let wants = |one: &&Subscription| one.wants(&event.kind, &event.queue, &event.job_type, event.time);
            for subscription in subscriptions.iter().filter(wants) {
                deliveries.push(Delivery {
                    id: format!("dlv_{}", id::generate()),
                    subscription: subscription.id.clone(),
                    kind: event.kind.clone(),
                    body: event.to_json(),
                    ..Delivery::default()
                });
            }
        }
        self.store.create_deliveries(&from, &to, &deliveries).await?;
        Ok(has_more)
    }

    async fn deliver(&self, delivery: &Delivery, subscriptions: &[Subscription], now: i64) -> Result<(), Error> {
        let subscription = subscriptions.iter().find(|one| one.id == delivery.subscription && one.active);
        let settled = match subscription {
            None => DeliveryOutcome::Done, // the subscription was removed or deactivated
            Some(subscription) => {
                let secrets: Vec<Secret> = subscription.secrets(now).into_iter().map(Secret::new).collect();
                let letter = Letter {
                    url: &subscription.url,
                    secrets: &secrets,
                    delivery: &delivery.id,
                    subscription: &subscription.id,
                    kind: &delivery.kind,
                    body: &delivery.body,
                    timestamp: now / 1000,
                };
                verdict(delivery.tries, self.sender.send(&letter).await)
            }
        };
        self.store.finish_delivery(&delivery.id, &settled).await
    }
}

/// Returns the outcome of an attempt after `tries` previous ones.
fn verdict(tries: usize, outcome: Result<Sent, String>) -> DeliveryOutcome {
    let (error, wait) = match outcome {
        Ok(sent) if sent.is_taken() => return DeliveryOutcome::Done,
        Ok(sent) if !sent.may_be_repeated() => return DeliveryOutcome::Dead(format!("returned HTTP {}", sent.status)),
        Ok(sent) => (format!("returned HTTP {}", sent.status), sent.retry_after),
        Err(error) => (error, None),
    };
    match WAITS.get(tries) {
        Some(usual) => DeliveryOutcome::Again(wait.map_or(*usual, |wait| wait.clamp(1, LONGEST_WAIT)) * 1000, error),
        None => DeliveryOutcome::Dead(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delivery_is_tried_again_with_growing_waits_and_then_given_up() {
        let answered = |status, retry_after| Ok(Sent { status, retry_after });
        assert_eq!(verdict(0, answered(204, None)), DeliveryOutcome::Done);
        for (tries, seconds) in WAITS.into_iter().enumerate() {
            assert_eq!(
                verdict(tries, answered(500, None)),
                DeliveryOutcome::Again(seconds * 1000, "returned HTTP 500".to_owned())
            );
        }
        assert_eq!(verdict(7, answered(500, None)), DeliveryOutcome::Dead("returned HTTP 500".to_owned()));
        assert_eq!(verdict(7, Err("no answer".to_owned())), DeliveryOutcome::Dead("no answer".to_owned()));
        assert_eq!(verdict(0, answered(429, Some(7))), DeliveryOutcome::Again(7000, "returned HTTP 429".to_owned()));
        for status in [301, 400, 404, 410] {
            assert_eq!(verdict(0, answered(status, None)), DeliveryOutcome::Dead(format!("returned HTTP {status}")));
        }
    }
}
