//! The health report.

use super::types::Timestamp;
use crate::domain::health;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// The server's assessment of rules, main queues, webhooks, queues and limits.
#[derive(Serialize, JsonSchema)]
pub struct HealthReport {
    /// `ok`, or the urgency of the most urgent finding.
    #[schemars(extend("enum" = ["ok", "notice", "warning", "critical"]))]
    pub verdict: &'static str,
    /// The result in one sentence.
    pub summary: String,
    pub generated_at: Timestamp,
    pub checked: Checked,
    /// Findings, most urgent first. Things without fresh figures have no findings.
    pub findings: Vec<Finding>,
}

/// Numbers of things that were examined.
#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
pub struct Checked {
    pub rules: usize,
    pub queues: usize,
    pub limits: usize,
    /// There were more than one report examines.
    pub truncated: bool,
}

/// A problem that the figures show.
#[derive(Serialize, JsonSchema)]
pub struct Finding {
    #[schemars(extend("enum" = ["notice", "warning", "critical"]))]
    pub urgency: &'static str,
    /// Identifier of the problem, for programs.
    pub code: &'static str,
    pub subject: Subject,
    /// The problem, with the figures that show it.
    pub sentence: String,
    pub next_step: String,
    /// Time since when it is so, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// The figures of the sentence.
    pub evidence: BTreeMap<&'static str, f64>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
pub struct Subject {
    #[schemars(extend("enum" = ["rule", "queue", "limit", "webhook", "main_queue"]))]
    pub kind: &'static str,
    /// Name of the rule, queue, limit or main queue; the rule of a webhook.
    pub name: String,
}

impl From<&health::HealthReport> for HealthReport {
    fn from(report: &health::HealthReport) -> Self {
        let health::Checked { rules, queues, limits, is_truncated } = report.checked;
        HealthReport {
            verdict: report.verdict(),
            summary: report.summary(),
            generated_at: Timestamp(report.now),
            checked: Checked { rules, queues, limits, truncated: is_truncated },
            findings: report.findings.iter().map(Finding::from).collect(),
        }
    }
}

impl From<&health::Finding> for Finding {
    fn from(finding: &health::Finding) -> Self {
        Finding {
            urgency: finding.urgency.name(),
            code: finding.code,
            subject: Subject { kind: finding.kind.name(), name: finding.name.clone() },
            sentence: finding.sentence.clone(),
            next_step: finding.next_step.clone(),
            since: finding.since.map(Timestamp),
            evidence: finding.evidence.clone(),
        }
    }
}
