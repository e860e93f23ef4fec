//! The views of the screen.

use crate::cli::lists::column::Column;
use crate::cli::lists::columns;
use crate::cli::server::segment;
use clap::ValueEnum;
use serde_json::Value;

/// A view, which shows one list of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Tab {
    /// Plan rules
    Rules,
    /// Tenants with staged jobs of one plan rule
    Tenants,
    /// Queues
    Queues,
    /// Rate limits
    Limits,
    /// Workers
    Workers,
}

/// The urgency of a row, or of the health report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tone {
    Normal,
    Warning,
    Critical,
}

impl Tab {
    pub(super) const ALL: [Tab; 5] = [Tab::Rules, Tab::Tenants, Tab::Queues, Tab::Limits, Tab::Workers];

    /// Returns the position, which is that of the key: 0 for key 1.
    pub(super) fn index(self) -> usize {
        self as usize
    }

    pub(super) fn next(self) -> Tab {
        Self::ALL[(self.index() + 1) % Self::ALL.len()]
    }

    pub(super) fn previous(self) -> Tab {
        Self::ALL[(self.index() + Self::ALL.len() - 1) % Self::ALL.len()]
    }

    pub(super) fn title(self) -> &'static str {
        match self {
            Tab::Rules => "Rules",
            Tab::Tenants => "Tenants",
            Tab::Queues => "Queues",
            Tab::Limits => "Limits",
            Tab::Workers => "Workers",
        }
    }

    pub(super) fn columns(self) -> &'static [Column] {
        match self {
            Tab::Rules => columns::RULES,
            Tab::Tenants => columns::RULE_TENANTS,
            Tab::Queues => columns::QUEUES,
            Tab::Limits => columns::LIMITS,
            Tab::Workers => columns::WORKERS,
        }
    }

    /// Returns the path of the list below `/ojs/v1`.
    pub(super) fn path(self, rule: &str) -> String {
        match self {
            Tab::Rules => "/admin/planner".to_owned(),
            Tab::Tenants => format!("/admin/planner/{}/tenants", segment(rule)),
            Tab::Queues => "/admin/queues".to_owned(),
            Tab::Limits => "/rate-limits".to_owned(),
            Tab::Workers => "/admin/workers".to_owned(),
        }
    }

    /// Returns the identity of a row, by which it keeps its place. A tenant has a row for each main
    /// queue.
    pub(super) fn id(self, item: &Value) -> String {
        let text = |name: &str| item[name].as_str().unwrap_or_default();
        match self {
            Tab::Rules => text("rule").to_owned(),
            Tab::Tenants => format!("{}\n{}", text("tenant_id"), text("queue")),
            Tab::Queues => text("name").to_owned(),
            Tab::Limits => text("key").to_owned(),
            Tab::Workers => text("id").to_owned(),
        }
    }

    /// Returns the urgency of a row.
    pub(super) fn tone(self, item: &Value) -> Tone {
        let is = |name: &str, value: &str| item[name] == value;
        match self {
            Tab::Rules if is("state", "stalled") => Tone::Critical,
            Tab::Rules if is("state", "paused") || item["gate"]["open"] == false => Tone::Warning,
            Tab::Tenants if item["held"] == true => Tone::Warning,
            Tab::Queues if item["paused"] == true => Tone::Warning,
            Tab::Limits if item["waiting_count"].as_u64() > Some(0) => Tone::Warning,
            Tab::Workers if is("state", "stale") => Tone::Critical,
            _ => Tone::Normal,
        }
    }
}

impl Tone {
    /// Returns the tone of a verdict of the health report.
    pub(super) fn of_verdict(verdict: &str) -> Tone {
        match verdict {
            "critical" => Tone::Critical,
            "warning" => Tone::Warning,
            _ => Tone::Normal,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn tabs_are_a_cycle_in_the_order_of_their_keys() {
        for (index, tab) in Tab::ALL.into_iter().enumerate() {
            assert_eq!((tab.index(), tab.next().previous()), (index, tab));
        }
        assert_eq!(Tab::Workers.next(), Tab::Rules);
    }

    #[test]
    fn rows_that_need_attention_stand_out() {
        for (tab, item, tone) in [
            (Tab::Rules, json!({"state": "running", "gate": {"open": true}}), Tone::Normal),
            (Tab::Rules, json!({"state": "running", "gate": {"open": false}}), Tone::Warning),
            (Tab::Rules, json!({"state": "stalled", "gate": {"open": false}}), Tone::Critical),
            (Tab::Queues, json!({"paused": true}), Tone::Warning),
            (Tab::Limits, json!({"waiting_count": 0}), Tone::Normal),
            (Tab::Limits, json!({"waiting_count": 2}), Tone::Warning),
            (Tab::Workers, json!({"state": "stale"}), Tone::Critical),
            (Tab::Tenants, json!({}), Tone::Normal),
        ] {
            assert_eq!(tab.tone(&item), tone, "{item}");
        }
    }

    #[test]
    fn a_rule_is_one_segment_of_the_path() {
        assert_eq!(Tab::Tenants.path("a/b"), "/admin/planner/a%2Fb/tenants");
    }
}
