//! Events are delivered to those who subscribed to them: at least once, signed, tried again for two days, then given up.
//!
//! It reads the log of events like any other client does, so that no job waits for a webhook. Every process with this role works:
//! moving on in the log is one script which one of them passes, and a delivery is claimed before it is sent.

use crate::config::Secret;
use crate::job::{Subscription, id};
use crate::store::{Delivery, DeliveryOutcome, Error, EventFilter, EventPage, Store};
use crate::webhooks::{Letter, Sender, Sent};
use futures_util::future::join_all;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How often it looks.
const EVERY: Duration = Duration::from_millis(500);
/// Events read at once.
const PORTION: usize = 200;
/// Deliveries sent at once.
const AT_ONCE: usize = 16;
/// Longer than a try takes.
const LEASE_MS: u64 = 60_000;
/// From one try to the next, in seconds; then it is given up.
const WAITS: [u64; 7] = [30, 120, 600, 3600, 14_400, 43_200, 86_400];
/// The longest wait that an endpoint may ask for.
const LONGEST_WAIT: u64 = 86_400;

/// The component that delivers.
pub struct WebhookDelivery {
    store: Store,
    sender: Sender,
}

impl WebhookDelivery {
    /// One that reads events of a store.
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
            // A try that is under way when we stop is claimed by nobody for a minute, and tried again after that.
            let outcome = tokio::select! {
                () = stop.cancelled() => return,
                outcome = self.once() => outcome,
            };
            if let (Err(error), false) = (&outcome, failing) {
                tracing::warn!(%error, "cannot deliver events: webhooks wait until Redis is back");
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
            let (now, due) = self.store.claim(AT_ONCE, LEASE_MS).await?;
            if due.is_empty() {
                return Ok(());
            }
            let sent = join_all(due.iter().map(|delivery| self.deliver(delivery, &subscriptions, now))).await;
            sent.into_iter().collect::<Result<Vec<()>, Error>>()?;
        }
    }

    /// Makes deliveries of the next events; whether there are more.
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
        self.store.enlist(&from, &to, &deliveries).await?;
        Ok(has_more)
    }

    async fn deliver(&self, delivery: &Delivery, subscriptions: &[Subscription], now: i64) -> Result<(), Error> {
        let subscription = subscriptions.iter().find(|one| one.id == delivery.subscription && one.active);
        let settled = match subscription {
            None => DeliveryOutcome::Done, // nobody wants it any more
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

/// What becomes of a delivery that was tried so often before.
fn verdict(tries: usize, outcome: Result<Sent, String>) -> DeliveryOutcome {
    let (error, wait) = match outcome {
        Ok(sent) if sent.is_taken() => return DeliveryOutcome::Done,
        Ok(sent) if !sent.may_be_repeated() => return DeliveryOutcome::Dead(format!("answered {}", sent.status)),
        Ok(sent) => (format!("answered {}", sent.status), sent.retry_after),
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
                DeliveryOutcome::Again(seconds * 1000, "answered 500".to_owned())
            );
        }
        assert_eq!(verdict(7, answered(500, None)), DeliveryOutcome::Dead("answered 500".to_owned()));
        assert_eq!(verdict(7, Err("no answer".to_owned())), DeliveryOutcome::Dead("no answer".to_owned()));
        assert_eq!(verdict(0, answered(429, Some(7))), DeliveryOutcome::Again(7000, "answered 429".to_owned()));
        for status in [301, 400, 404, 410] {
            assert_eq!(verdict(0, answered(status, None)), DeliveryOutcome::Dead(format!("answered {status}")));
        }
    }
}
