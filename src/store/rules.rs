//! Plan rules in effect. All of them are replaced at once; each can be paused.

use super::script::{RULE_PAUSE, RULES};
use super::{Error, Store, or_empty, reply};
use crate::fairness::{Batch, OnWebhookError, Pace, Rule};
use crate::job::escape::escape;
use crate::job::{id, json};

/// A rule for scripts, and its document, which only the writer interprets.
#[derive(Clone, Debug)]
pub struct StoredRule<'a> {
    pub rule: &'a Rule,
    pub document: String,
}

/// The rules in effect.
#[derive(Clone, Debug, Default)]
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

impl Store {
    /// Returns the plan rules in effect.
    pub async fn rules(&self) -> Result<RuleSet, Error> {
        self.exchange_rules(None).await
    }

    /// Replaces all plan rules if `expected` is still the current version; returns false if it is
    /// not.
    pub async fn replace_rules(&self, expected: &str, rules: &[StoredRule<'_>]) -> Result<bool, Error> {
        let version = id::generate();
        Ok(self.exchange_rules(Some((expected, &version, rules))).await?.version == version)
    }

    async fn exchange_rules(&self, new: Option<(&str, &str, &[StoredRule<'_>])>) -> Result<RuleSet, Error> {
        let fill = |command: &mut redis::Cmd, _: bool| {
            let command = self.core.begin(command);
            let Some((expected, version, rules)) = new else {
                command.arg("");
                return;
            };
            command.arg(expected).arg(version).arg(rules.len());
            rules.iter().for_each(|stored| push_rule(command, stored));
        };
        let answer = RULES.call(&self.core.connection, fill).await?;
        let mut parts = reply::array(answer, "rules")?.into_iter();
        let mut next = || parts.next().ok_or_else(|| Error::unreadable("rules"));
        let version = reply::text(next()?, "rules")?;
        let documents = reply::pairs(next()?, "rules")?;
        let draining = reply::pairs(next()?, "rules")?;
        Ok(RuleSet { version, documents, draining, policy: reply::text(next()?, "rules")? })
    }

    /// Pauses or resumes a rule. While it is paused, jobs are staged but not promoted.
    pub async fn pause_rule(&self, rule: &str, paused: bool, by: &str) -> Result<(), Error> {
        let fill = |command: &mut redis::Cmd, _: bool| {
            self.core.begin(command).arg(rule).arg(u8::from(paused)).arg(json::quoted(by));
        };
        RULE_PAUSE.call(&self.core.connection, fill).await.map(drop)
    }
}

fn push_rule(command: &mut redis::Cmd, StoredRule { rule, document }: &StoredRule<'_>) {
    let jobs = match rule.batch {
        Batch::Auto => 0,
        Batch::Jobs(jobs) => jobs,
    };
    let every = match rule.pace {
        Pace::Every(ms) => Some(ms),
        Pace::Cron { .. } => None,
    };
    command.arg(&rule.name).arg(document).arg(if rule.shadow { "shadow" } else { "running" });
    command.arg(u8::from(rule.restage)).arg(rule.latency_threshold).arg(rule.max_depth);
    command.arg(u8::from(rule.strict_interval)).arg(jobs).arg(or_empty(every)).arg(or_empty(rule.max_staged));
    let weights = &rule.weights;
    let asks = weights.webhook.is_some();
    command.arg(or_empty(asks.then_some(weights.max_weight_age)));
    command.arg(u8::from(asks && weights.on_webhook_error == Some(OnWebhookError::Hold)));
    command.arg(u8::from(weights.asks_first()));
    command
        .arg(rule.max_blocked)
        .arg(&rule.main_queue)
        .arg(rule.priority.name())
        .arg(weights.default_weight.thousandths())
        .arg(weights.fixed.len());
    for (tenant, weight) in &weights.fixed {
        command.arg(escape(tenant)).arg(weight.thousandths());
    }
}
