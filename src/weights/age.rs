//! How long last-good weights serve.

use crate::fair::{OnWebhookError, Rule, Weight};

/// The weight that replaces a tenant's last-good one: none while the webhook's last success is young enough, then what
/// the rule says. A webhook that never answered is as one whose answer is too old.
pub fn stale_weight(
    rule: &Rule,
    last_success_ms: Option<i64>,
    now_ms: i64,
    tenant: &str,
    everywhere: Option<Weight>,
) -> Option<Weight> {
    let weights = &rule.weights;
    weights.webhook.as_ref()?;
    // A clock that stepped back makes an answer new, not old.
    let age = last_success_ms.map(|at| u64::try_from(now_ms.saturating_sub(at)).unwrap_or(0));
    if age.is_some_and(|age| age <= weights.max_weight_age) {
        return None;
    }
    Some(match weights.on_webhook_error {
        Some(OnWebhookError::Hold) => Weight::HELD,
        Some(OnWebhookError::DefaultWeight) | None => rule.own_weight(tenant, everywhere),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fair::Webhook;

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
}
