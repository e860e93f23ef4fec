//! Reporting of lasting failures, in the log and as an event: once when a failure begins or
//! changes, and once when it ends.

use crate::domain::json;
use crate::store::{Error, Store};

/// Remembers the failure that was reported last.
#[derive(Debug, Default)]
pub struct FailureReporter {
    /// The name of the failure that was reported last; `None` if there is no failure.
    reported: Option<&'static str>,
    /// An event that could not be stored yet.
    unsent: Option<Notice>,
}

/// An event about a failure or about its end.
#[derive(Debug)]
pub struct Notice {
    pub event: &'static str,
    pub subject: String,
    /// Members of a JSON object, without the braces.
    pub data: String,
}

impl FailureReporter {
    /// Continues with the state of another reporter.
    pub fn resume(&mut self, reported: Option<&'static str>) {
        self.reported = reported;
    }

    /// Reports a failure by its name, or its end, if that differs from the last report. `notice`
    /// writes the log line. An event that cannot be stored is sent with the next report, unless
    /// there is a newer one.
    pub async fn report(&mut self, store: &Store, failure: Option<&'static str>, notice: impl FnOnce() -> Notice) {
        if failure != std::mem::replace(&mut self.reported, failure) {
            self.unsent = Some(notice());
        }
        let Some(Notice { event, subject, data }) = &self.unsent else { return };
        match store.announce(event, subject, data).await {
            Ok(()) => self.unsent = None,
            Err(error) => tracing::debug!(event, %error, "cannot store an event; trying again later"),
        }
    }

    /// Reports the result of a call to the main queue of a rule.
    pub async fn main_queue(&mut self, store: &Store, rule: &str, main_queue: &str, failure: Option<&Error>) {
        let notice = || {
            let (event, more) = match failure {
                Some(error) => {
                    let (cause, message) = (error.cause(), error.reason());
                    tracing::warn!(
                        rule,
                        main_queue,
                        cause,
                        error = message,
                        "main queue failed; jobs stay where they are"
                    );
                    ("main_queue.failed", format!(",\"cause\":\"{cause}\",\"message\":{}", json::quoted(&message)))
                }
                None => {
                    tracing::info!(rule, main_queue, "main queue recovered");
                    ("main_queue.recovered", String::new())
                }
            };
            let data = format!("\"rule\":{}{more}", json::quoted(rule));
            Notice { event, subject: main_queue.to_owned(), data }
        };
        self.report(store, failure.map(Error::cause), notice).await;
    }
}
