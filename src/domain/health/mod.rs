//! The server's assessment of itself: problems in sentences, with figures and a next step.
//!
//! Each file judges one kind of subject. A subject without fresh figures gets no finding.

mod limit;
mod main_queue;
mod queue;
mod report;
mod rule;
mod webhook;

pub use limit::LimitHealth;
pub use main_queue::MainQueueHealth;
pub use queue::QueueHealth;
pub use report::{Checked, HealthReport};
pub use rule::RuleHealth;
pub use webhook::WebhookHealth;

use std::collections::BTreeMap;

/// The urgency of a finding, most urgent last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Urgency {
    /// Works as configured, but delays jobs.
    Notice,
    /// Delays jobs for a reason that somebody should look at.
    Warning,
    /// Jobs do not move until somebody acts.
    Critical,
}

impl Urgency {
    pub fn name(self) -> &'static str {
        match self {
            Urgency::Notice => "notice",
            Urgency::Warning => "warning",
            Urgency::Critical => "critical",
        }
    }
}

/// The kind of thing that a finding is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubjectKind {
    Rule,
    Queue,
    Limit,
    /// The weights webhook of a rule.
    Webhook,
    MainQueue,
}

impl SubjectKind {
    pub fn name(self) -> &'static str {
        match self {
            SubjectKind::Rule => "rule",
            SubjectKind::Queue => "queue",
            SubjectKind::Limit => "limit",
            SubjectKind::Webhook => "webhook",
            SubjectKind::MainQueue => "main_queue",
        }
    }
}

/// A problem that the figures show.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    pub kind: SubjectKind,
    /// Name of the rule, queue, limit or main queue; the rule of a webhook.
    pub name: String,
    pub urgency: Urgency,
    /// Identifier of the problem, which does not change between versions.
    pub code: &'static str,
    /// The problem, with the figures that show it.
    pub sentence: String,
    pub next_step: String,
    /// Time since when it is so, in milliseconds, if known.
    pub since: Option<i64>,
    /// The figures of the sentence by name.
    pub evidence: BTreeMap<&'static str, f64>,
}

impl Finding {
    fn new(kind: SubjectKind, name: &str, urgency: Urgency, code: &'static str) -> Finding {
        Finding {
            kind,
            name: name.to_owned(),
            urgency,
            code,
            sentence: String::new(),
            next_step: String::new(),
            since: None,
            evidence: BTreeMap::new(),
        }
    }

    fn sentence(mut self, sentence: String) -> Finding {
        self.sentence = sentence;
        self
    }

    fn next_step(mut self, next_step: impl Into<String>) -> Finding {
        self.next_step = next_step.into();
        self
    }

    fn since(mut self, since: Option<i64>) -> Finding {
        self.since = since;
        self
    }

    fn with(mut self, name: &'static str, figure: f64) -> Finding {
        self.evidence.insert(name, figure);
        self
    }
}
