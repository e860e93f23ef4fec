//! Requests to the server.

use super::state::{Action, Target};
use super::tab::Tab;
use crate::cli::server::segment;
use crate::remote::{Error, ErrorKind, Remote};
use serde_json::{Value, json};

/// The number of entries that are read of a list, the most that the API returns at once.
const PAGE: usize = 200;

/// The lists that the screen needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Question {
    pub(super) tab: Tab,
    /// The rule whose tenants to list; without it, or if it does not exist, the first rule.
    pub(super) rule: Option<String>,
}

/// The answer to a question.
#[derive(Debug)]
pub(super) struct Reading {
    pub(super) tab: Tab,
    pub(super) outcome: Result<Figures, Failure>,
}

/// The state of the server.
#[derive(Debug, Default)]
pub(super) struct Figures {
    /// The health report.
    pub(super) report: Value,
    /// The list of plan rules.
    pub(super) rules: Value,
    /// The list of another view.
    pub(super) list: Option<Value>,
    /// The rule whose tenants `list` has.
    pub(super) rule: Option<String>,
}

/// A request that failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Failure {
    #[error("API key refused; use FAIRGATE_API_KEY or --key-file with a key of role operator or admin ({0})")]
    Refused(String),
    #[error("no answer from the server ({0})")]
    Away(String),
    #[error("{0}")]
    Other(String),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        match error.kind {
            ErrorKind::Unauthorized => Failure::Refused(error.text),
            ErrorKind::Unreachable => Failure::Away(error.text),
            _ => Failure::Other(error.text),
        }
    }
}

/// Reads and changes the state of a server.
#[derive(Clone)]
pub(super) struct Poller {
    client: Remote,
}

impl Poller {
    pub(super) fn new(client: Remote) -> Poller {
        Poller { client }
    }

    /// Returns the address of the server.
    pub(super) fn place(&self) -> String {
        self.client.place().to_owned()
    }

    /// Reads the health report, the rules and the list of the view.
    pub(super) async fn read(&self, question: Question) -> Reading {
        let tab = question.tab;
        Reading { tab, outcome: self.figures(question).await.map_err(Failure::from) }
    }

    async fn figures(&self, question: Question) -> Result<Figures, Error> {
        let report = self.client.api_get("/ojs/v1/admin/health-report").await?;
        let rules = self.list(&Tab::Rules.path("")).await?;
        let (list, rule) = match question.tab {
            Tab::Rules => (None, None),
            Tab::Tenants => match existing(&rules, question.rule) {
                Some(rule) => (Some(self.list(&Tab::Tenants.path(&rule)).await?), Some(rule)),
                None => (None, None),
            },
            tab => (Some(self.list(&tab.path("")).await?), None),
        };
        Ok(Figures { report, rules, list, rule })
    }

    async fn list(&self, path: &str) -> Result<Value, Error> {
        self.client.api_get(&format!("/ojs/v1{path}?limit={PAGE}")).await
    }

    /// Pauses or resumes a rule or a queue.
    pub(super) async fn act(&self, action: &Action) -> Result<(), Failure> {
        let folder = match action.target {
            Target::Rule => "planner",
            Target::Queue => "queues",
        };
        let path = format!("/ojs/v1/admin/{folder}/{}/{}", segment(&action.name), action.verb.name());
        self.client.api_post(&path, &json!({})).await?;
        Ok(())
    }
}

/// Returns the rule if the list has it, else the first one.
fn existing(rules: &Value, rule: Option<String>) -> Option<String> {
    let items = rules["items"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut names = items.iter().filter_map(|item| item["rule"].as_str());
    let first = names.clone().next();
    let wanted = rule.filter(|rule| names.any(|name| name == rule));
    wanted.or(first.map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_rule_replaces_one_that_does_not_exist() {
        let rules = json!({"items": [{"rule": "a"}, {"rule": "b"}]});
        for (asked, expected) in [(None, "a"), (Some("a"), "a"), (Some("b"), "b"), (Some("c"), "a")] {
            assert_eq!(existing(&rules, asked.map(str::to_owned)).as_deref(), Some(expected));
        }
        assert_eq!(existing(&json!({"items": []}), None), None);
    }
}
