//! A weights webhook that fails, or gives what is no weight: told once when it begins, in the log and as an event, and when
//! it is over.

use crate::job::json;
use crate::store::{Error, Store};
use crate::weights;

/// What is known to be wrong with the answers of a rule's webhook.
#[derive(Debug, Default)]
pub struct WebhookTrouble {
    cause: Option<&'static str>,
}

impl WebhookTrouble {
    /// Tells how the webhook answered, if that is news.
    pub async fn tell(&mut self, store: &Store, rule: &str, answer: &weights::Answer) -> Result<(), Error> {
        let refused = answer.as_ref().map(|outcome| outcome.refused.first());
        let cause = match refused {
            Err(error) => Some(error.kind.as_str()),
            Ok(Some(_)) => Some("refused_value"),
            Ok(None) => None,
        };
        if cause == std::mem::replace(&mut self.cause, cause) {
            return Ok(());
        }
        let (event, data) = match refused {
            Err(error) => {
                let (kind, text) = (error.kind.as_str(), &error.text);
                tracing::warn!(
                    rule,
                    kind,
                    error = text,
                    "the weights webhook failed: going on with the last good weights"
                );
                ("weights.failed", format!("\"kind\":\"{kind}\",\"message\":{}", json::quoted(text)))
            }
            Ok(Some((tenant, reason))) => {
                tracing::warn!(rule, tenant, reason, "the weights webhook gave no weight: the last good one stays");
                (
                    "weights.refused",
                    format!("\"tenant_id\":{},\"reason\":{}", json::quoted(tenant), json::quoted(reason)),
                )
            }
            Ok(None) => {
                tracing::info!(rule, "the weights webhook answers well again");
                ("weights.recovered", String::new())
            }
        };
        store.announce(event, rule, &data).await
    }
}
