//! The weights that a rule uses while its webhook fails.

use crate::domain::plan::{OnUnknownWeight, OnWebhookError, Rule};
use crate::domain::tenant::Weight;

/// The weights in use while a webhook fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fallback {
    /// Those of the last answer, which is this old.
    LastWeights { age_ms: u64 },
    /// `static` and `default_weight`: the last answer is too old, or there was none.
    DefaultWeight,
    /// None: all tenants wait for the webhook.
    Hold,
}

impl Fallback {
    /// Returns the fallback of a rule, given the age of the webhook's last answer.
    pub fn of(rule: &Rule, age_ms: Option<u64>) -> Fallback {
        match (age_ms, rule.weights.on_webhook_error) {
            (Some(age_ms), _) if age_ms <= rule.weights.max_weight_age => Fallback::LastWeights { age_ms },
            (_, Some(OnWebhookError::Hold)) => Fallback::Hold,
            (_, Some(OnWebhookError::DefaultWeight) | None) => Fallback::DefaultWeight,
        }
    }

    /// Returns the name used in statistics and events.
    pub fn name(self) -> &'static str {
        match self {
            Fallback::LastWeights { .. } => "last_weights",
            Fallback::DefaultWeight => "default_weight",
            Fallback::Hold => "hold",
        }
    }

    /// Describes the effect on the tenants of a rule.
    pub fn describe(self, rule: &Rule) -> String {
        let is_held = rule.weights.on_webhook_error == Some(OnWebhookError::Hold)
            && rule.weights.on_unknown_weight == OnUnknownWeight::Ask;
        let new_tenants = if is_held { "new tenants are held" } else { "new tenants get static or default weights" };
        match self {
            Fallback::LastWeights { age_ms } => {
                format!("using weights from {:.1} s ago; {new_tenants}", age_ms as f64 / 1e3)
            }
            Fallback::DefaultWeight => "using static and default weights".to_owned(),
            Fallback::Hold => "all tenants are held until it answers".to_owned(),
        }
    }
}

/// Returns the weight that replaces a tenant's last good one, once the webhook's last success is
/// too old. A webhook that never answered counts as too old.
pub fn stale_weight(
    rule: &Rule,
    last_success_ms: Option<i64>,
    now_ms: i64,
    tenant: &str,
    everywhere: Option<Weight>,
) -> Option<Weight> {
    rule.weights.webhook.as_ref()?;
    // If the clock stepped back, the answer counts as new.
    let age = last_success_ms.map(|at| u64::try_from(now_ms.saturating_sub(at)).unwrap_or(0));
    match Fallback::of(rule, age) {
        Fallback::LastWeights { .. } => None,
        Fallback::DefaultWeight | Fallback::Hold => Some(rule.unanswered_weight(tenant, everywhere)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::plan::Webhook;

    #[test]
    fn last_good_weights_serve_for_their_time() {
        let mut rule = Rule::new("reports", &["report.*"]);
        rule.weights.fixed.insert("big".to_owned(), Weight::of(3.0).unwrap());
        assert_eq!(stale_weight(&rule, None, 0, "big", None), None, "without a webhook nothing is stale");
        rule.weights.webhook = Some(Webhook { url: "http://localhost/".to_owned(), timeout: 2000, secret_env: None });
        rule.weights.max_weight_age = 1000;
        let (big, held) = (Weight::of(3.0), Some(Weight::HELD));
        for (last_success, now, tenant, otherwise, on_hold) in [
            (Some(5_000), 5_000, "big", None, None),
            (Some(5_000), 6_000, "big", None, None),
            (Some(5_000), 4_000, "big", None, None),
            (Some(5_000), 6_001, "big", big, held),
            (Some(5_000), 6_001, "small", Some(Weight::ONE), held),
            (Some(i64::MIN), i64::MAX, "big", big, held),
            (None, 0, "big", big, held),
        ] {
            for (then, expected) in [
                (None, otherwise),
                (Some(OnWebhookError::DefaultWeight), otherwise),
                (Some(OnWebhookError::Hold), on_hold),
            ] {
                rule.weights.on_webhook_error = then;
                assert_eq!(
                    stale_weight(&rule, last_success, now, tenant, None),
                    expected,
                    "{last_success:?} {now} {then:?}"
                );
            }
        }
    }

    #[test]
    fn says_which_weights_are_used() {
        let mut rule = Rule::new("reports", &["report.*"]);
        rule.weights.max_weight_age = 60_000;
        let described = |rule: &Rule, age| {
            let fallback = Fallback::of(rule, age);
            (fallback.name(), fallback.describe(rule))
        };
        let last = |new: &str| ("last_weights", format!("using weights from 12.3 s ago; {new}"));
        assert_eq!(described(&rule, Some(12_300)), last("new tenants get static or default weights"));
        let default = ("default_weight", "using static and default weights".to_owned());
        assert_eq!([described(&rule, Some(60_001)), described(&rule, None)], [default.clone(), default]);
        rule.weights.on_webhook_error = Some(OnWebhookError::Hold);
        assert_eq!(described(&rule, Some(12_300)), last("new tenants are held"));
        assert_eq!(described(&rule, None), ("hold", "all tenants are held until it answers".to_owned()));
        rule.weights.on_unknown_weight = OnUnknownWeight::DefaultWeight;
        assert_eq!(described(&rule, Some(12_300)), last("new tenants get static or default weights"));
    }
}
