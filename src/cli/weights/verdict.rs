//! Weights that result from a webhook's answer, with the reasons.

use crate::domain::plan::{OnWebhookError, Rule};
use crate::domain::tenant::{TenantRule, Weight};
use crate::weights::Trial;

/// Weight of a tenant, with the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) tenant: String,
    pub(super) weight: Weight,
    pub(super) why: String,
}

/// Returns the verdicts on the tenants of a request, assuming that the webhook has not answered for
/// any of them before.
pub(super) fn verdicts(rule: &Rule, terms: &[TenantRule], trial: &Trial, tenants: &[String]) -> Vec<Verdict> {
    tenants.iter().map(|tenant| verdict(rule, terms, trial, tenant)).collect()
}

fn verdict(rule: &Rule, terms: &[TenantRule], trial: &Trial, tenant: &str) -> Verdict {
    let of_all = TenantRule::of(terms, tenant).and_then(|terms| terms.terms.weight);
    let own = rule.own_weight(tenant, of_all);
    let source = match (rule.weights.fixed.contains_key(tenant), of_all) {
        (true, _) => "weights.static",
        (false, Some(_)) => "fairness_weight of its [[tenant]]",
        (false, None) => "default_weight",
    };
    let usable = trial.answer.as_ref().ok().filter(|outcome| outcome.is_usable());
    let value = trial.values.get(tenant);
    let given = usable.and_then(|outcome| outcome.weights.iter().find(|(id, _)| id == tenant));
    let (weight, why) = match (usable, given, value) {
        (_, Some((_, weight)), value) => (*weight, returned(*weight, value.map_or("", String::as_str))),
        (Some(_), None, None) => (own, format!("missing in the answer: {source}")),
        (Some(_), None, Some(value)) => (own, format!("invalid, the answer has {value}: {source}")),
        (None, None, value) => {
            let what =
                value.map_or("the webhook failed".to_owned(), |value| format!("invalid, the answer has {value}"));
            match rule.weights.on_webhook_error {
                Some(OnWebhookError::Hold) => (Weight::HELD, format!("{what}: held (on_webhook_error = \"hold\")")),
                Some(OnWebhookError::DefaultWeight) | None => (own, format!("{what}: {source}")),
            }
        }
    };
    Verdict { tenant: tenant.to_owned(), weight, why }
}

/// Explains a weight that the webhook returned.
fn returned(weight: Weight, value: &str) -> String {
    let is_rounded = value.parse().is_ok_and(|number: f64| number != weight.as_f64());
    match (weight.is_held(), is_rounded) {
        (true, _) => "returned 0: held until the webhook returns a higher weight".to_owned(),
        (false, true) => format!("returned {value}: weights range from 0.05 to 1000, in steps of 0.001"),
        (false, false) => "returned by the webhook".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::tenant::TenantSettings;
    use crate::weights::{ErrorKind, ReceivedWeights};
    use std::collections::BTreeMap;
    use std::time::Duration;

    fn trial(answer: crate::weights::WebhookAnswer, values: &[(&str, &str)]) -> Trial {
        let values: BTreeMap<_, _> = values.iter().map(|(id, value)| ((*id).to_owned(), (*value).to_owned())).collect();
        let (url, body, headers, response) = (String::new(), String::new(), Vec::new(), None);
        let (timeout, took) = (Duration::ZERO, Duration::ZERO);
        Trial { url, timeout, headers, body, took, response, answer, values }
    }

    fn told(rule: &Rule, trial: &Trial, tenants: &[&str]) -> Vec<(String, String)> {
        let terms = TenantSettings { weight: Weight::of(5.0), ..TenantSettings::default() };
        let terms = [TenantRule { id: "gold-*".to_owned(), terms }];
        let tenants: Vec<String> = tenants.iter().map(|tenant| (*tenant).to_owned()).collect();
        let verdicts = verdicts(rule, &terms, trial, &tenants);
        verdicts.into_iter().map(|verdict| (verdict.weight.to_string(), verdict.why)).collect()
    }

    fn expected(rows: &[(&str, &str)]) -> Vec<(String, String)> {
        rows.iter().map(|(weight, why)| ((*weight).to_owned(), (*why).to_owned())).collect()
    }

    #[test]
    fn each_weight_has_its_reason() {
        let mut rule = Rule::new("r", &["t.*"]);
        rule.weights.fixed.insert("fixed".to_owned(), Weight::of(2.0).expect("a weight"));
        let weights = [("a", 3.0), ("b", 0.0), ("c", 0.001)];
        let weights = weights.map(|(id, weight)| (id.to_owned(), Weight::of(weight).expect("a weight"))).to_vec();
        let outcome = ReceivedWeights { weights, invalid_total: 1, missing: 3, ..ReceivedWeights::default() };
        let answered = trial(Ok(outcome), &[("a", "3"), ("b", "0"), ("c", "0.001"), ("d", "\"3\"")]);
        assert_eq!(
            told(&rule, &answered, &["a", "b", "c", "d", "e", "fixed", "gold-1"]),
            expected(&[
                ("3", "returned by the webhook"),
                ("0", "returned 0: held until the webhook returns a higher weight"),
                ("0.05", "returned 0.001: weights range from 0.05 to 1000, in steps of 0.001"),
                ("1", "invalid, the answer has \"3\": default_weight"),
                ("1", "missing in the answer: default_weight"),
                ("2", "missing in the answer: weights.static"),
                ("5", "missing in the answer: fairness_weight of its [[tenant]]"),
            ])
        );
    }

    #[test]
    fn a_webhook_that_fails_leaves_it_to_the_rule() {
        let mut rule = Rule::new("r", &["t.*"]);
        let error = crate::weights::Error { kind: ErrorKind::Status, text: "answered 500".to_owned() };
        let failed = trial(Err(error), &[]);
        assert_eq!(told(&rule, &failed, &["a"]), expected(&[("1", "the webhook failed: default_weight")]));
        rule.weights.on_webhook_error = Some(OnWebhookError::Hold);
        let held = "the webhook failed: held (on_webhook_error = \"hold\")";
        assert_eq!(told(&rule, &failed, &["a"]), expected(&[("0", held)]));
        let useless = ReceivedWeights {
            invalid_total: 1,
            invalid: vec![("a".to_owned(), String::new())],
            ..ReceivedWeights::default()
        };
        let held = "invalid, the answer has null: held (on_webhook_error = \"hold\")";
        assert_eq!(told(&rule, &trial(Ok(useless), &[("a", "null")]), &["a"]), expected(&[("0", held)]));
    }
}
