//! Plan rules in effect. All of them are replaced at once; each can be paused.

use super::script::{RULE_PAUSE, RULES};
use super::{Error, Store, or_empty};
use crate::fairness::{Batch, OnWebhookError, Pace, Rule};
use crate::job::escape::escape;
use crate::job::{id, json};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A rule for scripts, and its document, which only the writer interprets.
#[derive(Clone, Debug)]
pub struct StoredRule<'a> {
    pub rule: &'a Rule,
    pub document: String,
}

/// The rules in effect.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct RuleSet {
    /// Version of the rules and the policy; empty if there never were any.
    pub version: String,
    /// Names and documents of the rules.
    pub documents: Vec<(String, String)>,
    /// Removed rules that still have staged jobs, each with its main queue.
    pub draining: Vec<(String, String)>,
    /// Document of the dispatch policy; empty if there never was one.
    pub policy: String,
}

#[derive(Serialize)]
struct RulesArgs<'a> {
    replace: Option<Replacement<'a>>,
}

#[derive(Serialize)]
struct Replacement<'a> {
    before: &'a str,
    version: &'a str,
    rules: Vec<PutRule<'a>>,
}

#[derive(Serialize)]
struct PutRule<'a> {
    name: &'a str,
    document: &'a str,
    /// Fields of the hash that scripts read: `lua/commands/rules.lua` describes them.
    fields: BTreeMap<&'static str, String>,
    weights: Vec<(String, String)>,
}

#[derive(Serialize)]
struct RulePause<'a> {
    rule: &'a str,
    pauses: bool,
    by: &'a str,
}

impl Store {
    /// Returns the plan rules in effect.
    pub async fn rules(&self) -> Result<RuleSet, Error> {
        self.exchange_rules(&RulesArgs { replace: None }).await
    }

    /// Replaces all plan rules if `expected` is still the current version; returns false if it is
    /// not.
    pub async fn replace_rules(&self, expected: &str, rules: &[StoredRule<'_>]) -> Result<bool, Error> {
        let version = &id::generate();
        let rules = rules.iter().map(put_rule).collect();
        let args = RulesArgs { replace: Some(Replacement { before: expected, version, rules }) };
        Ok(self.exchange_rules(&args).await?.version == *version)
    }

    async fn exchange_rules(&self, args: &RulesArgs<'_>) -> Result<RuleSet, Error> {
        RULES.call_packed(&self.core, args).await
    }

    /// Pauses or resumes a rule. While it is paused, jobs are staged but not promoted.
    pub async fn pause_rule(&self, rule: &str, paused: bool, by: &str) -> Result<(), Error> {
        let args = RulePause { rule, pauses: paused, by: &json::quoted(by) };
        let _existed: bool = RULE_PAUSE.call_packed(&self.core, &args).await?;
        Ok(())
    }
}

fn put_rule<'a>(StoredRule { rule, document }: &'a StoredRule<'_>) -> PutRule<'a> {
    let jobs = match rule.batch {
        Batch::Auto => 0,
        Batch::Jobs(jobs) => jobs,
    };
    let every = match rule.pace {
        Pace::Every(ms) => Some(ms),
        Pace::Cron { .. } => None,
    };
    let flag = |is_set: bool| u8::from(is_set).to_string();
    let weights = &rule.weights;
    let asks = weights.webhook.is_some();
    let fields = [
        ("state", if rule.shadow { "shadow" } else { "running" }.to_owned()),
        ("restage", flag(rule.restage)),
        ("latency", rule.latency_threshold.to_string()),
        ("depth", rule.max_depth.to_string()),
        ("strict", flag(rule.strict_interval)),
        ("jobs", jobs.to_string()),
        ("every", or_empty(every)),
        ("most", or_empty(rule.max_staged)),
        ("tag", or_empty(asks.then_some(weights.max_weight_age))),
        ("hold", flag(asks && weights.on_webhook_error == Some(OnWebhookError::Hold))),
        ("ask", flag(weights.asks_first())),
        ("blocked", rule.max_blocked.to_string()),
        ("main", rule.main_queue.clone()),
        ("priority", rule.priority.name().to_owned()),
        ("default", weights.default_weight.thousandths().to_string()),
        ("fixed", weights.fixed.len().to_string()),
    ];
    PutRule {
        name: &rule.name,
        document,
        fields: fields.into_iter().collect(),
        weights: weights.fixed.iter().map(|(id, weight)| (escape(id), weight.thousandths().to_string())).collect(),
    }
}
