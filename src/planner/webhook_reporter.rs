//! Reporting of the state of a rule's weights webhook: failures with the weights that are used
//! instead, invalid values, and answers that are probably mistakes.

use super::{FailureReporter, Notice};
use crate::domain::json;
use crate::domain::plan::Rule;
use crate::store::{Error, Store};
use crate::weights::{Doubt, Fallback, WebhookAnswer};
use serde_json::Value;

/// Number of doubtful answers in a row before a report, if the webhook has given good ones: it may
/// leave out tenants on purpose.
const DOUBTS: u32 = 3;
const INVALID: &str = "invalid";

/// The reporter of one rule's webhook.
#[derive(Debug, Default)]
pub struct WebhookReporter {
    failures: FailureReporter,
    /// True once the reports of the previous planning process were read.
    is_resumed: bool,
    has_worked: bool,
    /// Number of doubtful answers in a row.
    doubts: u32,
}

/// The state of a webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Condition {
    Works,
    Failed { kind: &'static str, error: String },
    Invalid { tenant: String, reason: String },
    Doubtful(Doubt),
}

impl WebhookReporter {
    /// Reports the state of a rule's webhook after an answer, if it changed. `fallback` applies if
    /// the answer contains no weights.
    pub async fn report(
        &mut self,
        store: &Store,
        rule: &Rule,
        answer: &WebhookAnswer,
        fallback: Fallback,
    ) -> Result<(), Error> {
        if !self.is_resumed {
            let last = store.recorded_rounds(&rule.name, None, 1).await?;
            self.failures.resume(last.first().and_then(|round| reported_in(&round.document)));
            self.is_resumed = true;
        }
        let condition = self.judge(answer);
        let name = match &condition {
            Condition::Works => None,
            // The kind of failure may vary; only a change of the fallback is reported again.
            Condition::Failed { .. } => Some(fallback.name()),
            Condition::Invalid { .. } => Some(INVALID),
            Condition::Doubtful(doubt) => Some(doubt.name()),
        };
        self.failures.report(store, name, || condition.notice(rule, fallback)).await;
        Ok(())
    }

    fn judge(&mut self, answer: &WebhookAnswer) -> Condition {
        let outcome = match answer {
            Err(error) => return Condition::Failed { kind: error.kind.name(), error: error.text.clone() },
            Ok(outcome) => outcome,
        };
        if let Some(error) = outcome.complaint() {
            return Condition::Failed { kind: INVALID, error };
        }
        let Some(doubt) = Doubt::of(outcome) else {
            (self.has_worked, self.doubts) = (true, 0);
            let invalid = outcome.invalid.first().cloned();
            return invalid.map_or(Condition::Works, |(tenant, reason)| Condition::Invalid { tenant, reason });
        };
        self.doubts += 1;
        if self.has_worked && self.doubts < DOUBTS { Condition::Works } else { Condition::Doubtful(doubt) }
    }
}

impl Condition {
    /// Logs the start of a condition and returns its event.
    fn notice(&self, rule: &Rule, fallback: Fallback) -> Notice {
        let name = rule.name.as_str();
        let (event, data) = match self {
            Condition::Works => {
                tracing::info!(rule = name, "weights webhook recovered");
                ("weights.recovered", String::new())
            }
            Condition::Failed { kind, error } => {
                let now = fallback.describe(rule);
                tracing::warn!(rule = name, kind, error, fallback = now, "weights webhook failed");
                let age = match fallback {
                    Fallback::LastWeights { age_ms } => age_ms.to_string(),
                    Fallback::DefaultWeight | Fallback::Hold => "null".to_owned(),
                };
                let data = format!(
                    "\"kind\":\"{kind}\",\"message\":{},\"fallback\":\"{}\",\"weights_age_ms\":{age}",
                    json::quoted(&format!("{error}; {now}")),
                    fallback.name()
                );
                ("weights.failed", data)
            }
            Condition::Invalid { tenant, reason } => {
                tracing::warn!(
                    rule = name,
                    tenant,
                    reason,
                    "weights webhook returned an invalid weight; the tenant keeps its last one"
                );
                let data = format!("\"tenant_id\":{},\"reason\":{}", json::quoted(tenant), json::quoted(reason));
                ("weights.invalid", data)
            }
            Condition::Doubtful(doubt) => {
                let reason = doubt.name();
                tracing::warn!(
                    rule = name,
                    reason,
                    detail = doubt.describe(),
                    "weights webhook returns doubtful weights"
                );
                let message = json::quoted(doubt.describe());
                ("weights.doubtful", format!("\"reason\":\"{reason}\",\"message\":{message}"))
            }
        };
        Notice { event, subject: name.to_owned(), data }
    }
}

/// Returns the failure that another process reported, from its last round report
/// (`weights_webhook.fallback`).
fn reported_in(round: &str) -> Option<&'static str> {
    let round: Value = serde_json::from_str(round).ok()?;
    let fallback = round["weights_webhook"]["fallback"].as_str()?;
    [Fallback::LastWeights { age_ms: 0 }, Fallback::DefaultWeight, Fallback::Hold]
        .map(Fallback::name)
        .into_iter()
        .find(|name| *name == fallback)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::tenant::Weight;
    use crate::weights::ReceivedWeights;

    #[test]
    fn an_answer_is_doubted_at_once_before_a_good_one_and_after_three_in_a_row_behind_it() {
        let good = Ok(ReceivedWeights { weights: vec![("a".to_owned(), Weight::ONE)], ..ReceivedWeights::default() });
        let empty = Ok(ReceivedWeights { missing: 1, ..ReceivedWeights::default() });
        let (works, doubtful) = (Condition::Works, Condition::Doubtful(Doubt::Empty));
        let mut reporter = WebhookReporter::default();
        for (answer, expected) in [
            (&empty, &doubtful),
            (&good, &works),
            (&empty, &works),
            (&empty, &works),
            (&good, &works),
            (&empty, &works),
            (&empty, &works),
            (&empty, &doubtful),
            (&empty, &doubtful),
            (&good, &works),
        ] {
            assert_eq!(reporter.judge(answer), *expected);
        }
    }

    #[test]
    fn what_another_process_reported_is_read_from_its_last_round() {
        for (round, expected) in [
            (r#"{"weights_webhook": {"fallback": "hold"}}"#, Some("hold")),
            (r#"{"weights_webhook": {"fallback": "last_weights"}}"#, Some("last_weights")),
            (r#"{"weights_webhook": {"fallback": null}}"#, None),
            (r#"{"weights_webhook": null}"#, None),
            ("{}", None),
            ("junk", None),
        ] {
            assert_eq!(reported_in(round), expected, "{round}");
        }
    }
}
