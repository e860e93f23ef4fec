//! Findings about the weights webhook of a rule.

use super::{Finding, SubjectKind, Urgency};
use crate::domain::words::duration;

/// The state of a webhook at the end of the last round. Times are in milliseconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WebhookHealth {
    pub rule: String,
    pub now: i64,
    /// Time of the first failure in a row.
    pub failing_since: Option<i64>,
    pub last_error: Option<String>,
    /// Name of the weights that are used instead.
    pub fallback: Option<String>,
}

impl WebhookHealth {
    pub fn findings(&self) -> Vec<Finding> {
        let Some(since) = self.failing_since else { return Vec::new() };
        let failing = u64::try_from(self.now - since).unwrap_or(0);
        let error = self.last_error.as_deref().unwrap_or("unknown error");
        let instead = match self.fallback.as_deref() {
            Some("hold") => "its tenants are held, so their jobs wait",
            Some("default_weight") => "static and default weights are used",
            _ => "the last good weights are used",
        };
        // Held tenants get nothing until the webhook answers.
        let urgency = if self.fallback.as_deref() == Some("hold") { Urgency::Critical } else { Urgency::Warning };
        vec![
            Finding::new(SubjectKind::Webhook, &self.rule, urgency, "webhook_failing")
                .sentence(format!(
                    "the weights webhook has failed for {}: {error}; {instead}",
                    duration(failing as i64)
                ))
                .next_step(format!("run `fairgate weights test {}`, and look at the logs of the endpoint", self.rule))
                .since(Some(since))
                .with("failing_ms", failing as f64),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_webhook_is_reported_with_what_is_used_instead() {
        let failing = WebhookHealth {
            rule: "reports".to_owned(),
            now: 500_000,
            failing_since: Some(200_000),
            last_error: Some("HTTP 500".to_owned()),
            fallback: Some("default_weight".to_owned()),
        };
        let [finding] = &failing.findings()[..] else { panic!("one finding") };
        assert_eq!(
            finding.sentence,
            "the weights webhook has failed for 5 min: HTTP 500; static and default weights are used"
        );
        assert_eq!(finding.urgency, Urgency::Warning);
        let held = WebhookHealth { fallback: Some("hold".to_owned()), ..failing.clone() };
        assert_eq!(held.findings()[0].urgency, Urgency::Critical);
        assert_eq!(WebhookHealth { failing_since: None, ..failing }.findings(), []);
    }
}
