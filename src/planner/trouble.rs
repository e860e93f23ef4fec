//! A main queue that cannot be used: told once when it begins, in the log and as an event, and when it is over.

use crate::job::json;
use crate::store::{Error, Store};

/// What is known to be wrong with the main queue of a rule.
#[derive(Debug, Default)]
pub struct Trouble {
    cause: Option<&'static str>,
}

impl Trouble {
    /// Tells how a call to the main queue ended, if that is news.
    pub async fn tell(&mut self, store: &Store, rule: &str, main_queue: &str, failure: Option<&Error>) {
        let cause = failure.map(Error::cause);
        if cause == std::mem::replace(&mut self.cause, cause) {
            return;
        }
        let (event, more) = match failure {
            Some(error) => {
                let (cause, message) = (error.cause(), error.reason());
                tracing::warn!(
                    rule,
                    main_queue,
                    cause,
                    error = message,
                    "the main queue cannot be used: jobs stay where they are"
                );
                ("main_queue.failed", format!(",\"cause\":\"{cause}\",\"message\":{}", json::quoted(&message)))
            }
            None => {
                tracing::info!(rule, main_queue, "the main queue can be used again");
                ("main_queue.recovered", String::new())
            }
        };
        let data = format!("\"rule\":{}{more}", json::quoted(rule));
        if let Err(error) = store.announce(event, main_queue, &data).await {
            tracing::debug!(%error, "cannot announce how the main queue is");
        }
    }
}
