//! A plan rule: the job types that wait in staging, and how they are promoted.

use super::TenantKey;
use crate::domain::names;
use crate::domain::tenant::Weight;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The name of fairgate's own main queue.
pub const BUILTIN: &str = "builtin";

/// A plan rule with all its options. Times are in milliseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    pub name: String,
    /// Exact types or globs such as `report.*`.
    pub types: Vec<String>,
    /// The main queue to promote into; `None` for the job's own queue.
    pub queue: Option<String>,
    /// The times at which scheduled rounds run.
    pub pace: Pace,
    /// Number of jobs that a round promotes.
    pub batch: Batch,
    /// At most one batch per interval, including pass-through and wake-ups.
    pub strict_interval: bool,
    pub tenant_key: TenantKey,
    pub on_missing_tenant: OnMissingTenant,
    /// The scope of job priorities.
    pub priority: PriorityScope,
    pub weights: Weights,
    /// The gate closes if the oldest runnable job of the main queue is older.
    pub latency_threshold: u64,
    /// The gate closes if the main queue holds this many runnable jobs.
    pub max_depth: u64,
    /// Target latency of `Batch::Auto`.
    pub target_latency: u64,
    /// Maximum number of staged jobs of the rule; further jobs are refused.
    pub max_staged: Option<u64>,
    /// A tenant with this many promoted but limit-blocked jobs stays in staging.
    pub max_blocked: u64,
    pub planner_lock_ttl: u64,
    /// The processes that run this rule's rounds.
    pub planner_group: String,
    /// True if retries and due scheduled jobs go through staging.
    pub restage: bool,
    /// True if the rule only watches a main queue that is not fairgate's own. Jobs that are staged
    /// already are still promoted.
    pub shadow: bool,
    /// `builtin`, or the name of a `[[main_queue]]`.
    pub main_queue: String,
    /// The Ruby class that runs jobs enqueued over HTTP, if the main queue is a Sidekiq.
    pub class: Option<String>,
}

/// The times at which scheduled rounds run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pace {
    /// A fixed interval in milliseconds.
    Every(u64),
    /// A cron expression in a time zone.
    Cron { expression: String, timezone: String },
}

/// Number of jobs that a round promotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Batch {
    /// Computed from what workers take within the target latency, see
    /// [`DrainRate`](super::DrainRate).
    Auto,
    Jobs(u32),
}

/// Handling of jobs whose arguments lack the tenant that the rule expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnMissingTenant {
    Reject,
    Default,
}

/// The scope in which job priorities order staged jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PriorityScope {
    /// All tenants: they share the promotions of each priority.
    Global,
    /// Each tenant separately, for products whose tenants choose their own priorities.
    WithinTenant,
}

impl PriorityScope {
    /// Returns the name used in the configuration.
    pub const fn name(self) -> &'static str {
        match self {
            PriorityScope::Global => "global",
            PriorityScope::WithinTenant => "within_tenant",
        }
    }
}

/// The weight of tenants if the webhook's last answer is too old.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnWebhookError {
    DefaultWeight,
    Hold,
}

/// Handling of a tenant whose weight the webhook has not returned yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnUnknownWeight {
    /// Serve it only after a request to the webhook.
    #[default]
    Ask,
    /// Serve it by the rule's own weight until the webhook answers.
    DefaultWeight,
}

/// The sources of weights: the webhook takes precedence over `fixed`, and `fixed` over the default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Weights {
    /// `static` in the configuration.
    pub fixed: BTreeMap<String, Weight>,
    pub default_weight: Weight,
    pub webhook: Option<Webhook>,
    /// Time for which the webhook's last good answers are used, in milliseconds.
    pub max_weight_age: u64,
    pub on_webhook_error: Option<OnWebhookError>,
    pub on_unknown_weight: OnUnknownWeight,
}

/// The weights webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Webhook {
    pub url: String,
    pub timeout: u64,
    /// The environment variable that holds the secret of the signature.
    pub secret_env: Option<String>,
}

impl Weights {
    /// Returns true if the webhook has to be asked about a tenant before the tenant is served for
    /// the first time.
    pub fn asks_first(&self) -> bool {
        self.webhook.is_some() && self.on_unknown_weight == OnUnknownWeight::Ask
    }

    /// Returns the source as answers and records name it. Everything without a webhook is `static`,
    /// including the default.
    pub fn source(&self) -> &'static str {
        if self.webhook.is_some() { "webhook" } else { "static" }
    }
}

impl Rule {
    /// Creates a rule with every option at its default.
    pub fn new(name: &str, types: &[&str]) -> Rule {
        Rule {
            name: name.to_owned(),
            types: types.iter().map(|kind| (*kind).to_owned()).collect(),
            queue: None,
            pace: Pace::Every(1000),
            batch: Batch::Auto,
            strict_interval: false,
            tenant_key: TenantKey::Meta(vec!["tenant_id".to_owned()]),
            on_missing_tenant: OnMissingTenant::Reject,
            priority: PriorityScope::Global,
            weights: Weights { max_weight_age: 300_000, ..Weights::default() },
            latency_threshold: 60_000,
            max_depth: 10_000,
            target_latency: 500,
            max_staged: None,
            max_blocked: 100,
            planner_lock_ttl: 10_000,
            planner_group: "default".to_owned(),
            restage: true,
            shadow: false,
            main_queue: BUILTIN.to_owned(),
            class: None,
        }
    }

    /// Returns true if it promotes into fairgate's own queues.
    pub fn is_builtin(&self) -> bool {
        self.main_queue == BUILTIN
    }

    /// Returns true if the rule applies to a job type.
    pub fn covers(&self, kind: &str) -> bool {
        self.types.iter().any(|pattern| names::fits(pattern, kind))
    }

    /// Returns the weight of a tenant without an answer of the webhook. `everywhere` is the
    /// tenant's weight for all rules.
    pub fn own_weight(&self, tenant: &str, everywhere: Option<Weight>) -> Weight {
        self.weights.fixed.get(tenant).copied().or(everywhere).unwrap_or(self.weights.default_weight)
    }

    /// Returns the weight of a tenant after a failed webhook request, if the webhook never answered
    /// for it.
    pub fn unanswered_weight(&self, tenant: &str, everywhere: Option<Weight>) -> Weight {
        match self.weights.on_webhook_error {
            Some(OnWebhookError::Hold) => Weight::HELD,
            Some(OnWebhookError::DefaultWeight) | None => self.own_weight(tenant, everywhere),
        }
    }

    /// Returns the options with the names of the configuration.
    pub fn to_json(&self) -> Value {
        let ms = |ms: u64| format!("{ms}ms");
        let weights = &self.weights;
        let fixed: BTreeMap<_, _> = weights.fixed.iter().map(|(tenant, weight)| (tenant, weight.as_f64())).collect();
        let mut of_weights = json!({"static": fixed, "default_weight": weights.default_weight.as_f64()});
        if let Some(webhook) = &weights.webhook {
            of_weights["webhook"] = json!({"url": webhook.url, "timeout": ms(webhook.timeout)});
            if let Some(name) = &webhook.secret_env {
                of_weights["webhook"]["secret_env"] = json!(name);
            }
        }
        let mut rule = json!({
            "name": self.name,
            "types": self.types,
            "enqueue_jobs": match self.batch { Batch::Auto => json!("auto"), Batch::Jobs(jobs) => json!(jobs) },
            "strict_interval": self.strict_interval,
            "tenant_key": self.tenant_key.to_string(),
            "on_missing_tenant": match self.on_missing_tenant {
                OnMissingTenant::Reject => "reject",
                OnMissingTenant::Default => "default",
            },
            "priority": self.priority.name(),
            "weights": of_weights,
            "max_weight_age": ms(weights.max_weight_age),
            "on_webhook_error": match weights.on_webhook_error {
                Some(OnWebhookError::Hold) => "hold",
                _ => "default_weight",
            },
            "on_unknown_weight": match weights.on_unknown_weight {
                OnUnknownWeight::Ask => "ask",
                OnUnknownWeight::DefaultWeight => "default_weight",
            },
            "latency_threshold": ms(self.latency_threshold),
            "max_depth": self.max_depth,
            "target_latency": ms(self.target_latency),
            "max_blocked": self.max_blocked,
            "planner_lock_ttl": ms(self.planner_lock_ttl),
            "planner_group": self.planner_group,
            "restage": self.restage,
            "shadow": self.shadow,
            "main_queue": self.main_queue,
        });
        match &self.pace {
            Pace::Every(interval) => rule["enqueue_interval"] = json!(ms(*interval)),
            Pace::Cron { expression, timezone } => {
                rule["schedule"] = json!(expression);
                rule["timezone"] = json!(timezone);
            }
        }
        if let Some(queue) = &self.queue {
            rule["queue"] = json!(queue);
        }
        if let Some(class) = &self.class {
            rule["class"] = json!(class);
        }
        if let Some(most) = self.max_staged {
            rule["max_staged"] = json!(most);
        }
        rule
    }
}
