//! The active plan rules, in their order.

use super::Rule;
use std::sync::Arc;

/// Plan rules; the first one that covers a type wins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    rules: Vec<Arc<Rule>>,
}

impl Rules {
    /// Creates a list of rules in order of precedence.
    pub fn new(rules: impl IntoIterator<Item = Rule>) -> Rules {
        Rules { rules: rules.into_iter().map(Arc::new).collect() }
    }

    /// Returns the rule of a job type.
    pub fn of_type(&self, kind: &str) -> Option<&Arc<Rule>> {
        self.rules.iter().find(|rule| rule.covers(kind))
    }

    /// Returns the rule of a Ruby class whose jobs come from a main queue.
    pub fn of_class(&self, main_queue: &str, class: &str) -> Option<&Arc<Rule>> {
        self.rules.iter().find(|rule| rule.main_queue == main_queue && rule.covers(class))
    }

    /// Returns the rule of that name.
    pub fn get(&self, name: &str) -> Option<&Arc<Rule>> {
        self.rules.iter().find(|rule| rule.name == name)
    }

    /// Returns all rules in order.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Rule>> + Clone {
        self.rules.iter()
    }

    /// Returns true if there are no rules.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_match_wins() {
        let rules = Rules::new([Rule::new("daily", &["report.daily"]), Rule::new("reports", &["report.*"])]);
        let name = |kind: &str| rules.of_type(kind).map(|rule| rule.name.clone());
        assert_eq!(name("report.daily").as_deref(), Some("daily"));
        assert_eq!(name("report.weekly").as_deref(), Some("reports"));
        assert_eq!(name("email.send"), None);
    }
}
