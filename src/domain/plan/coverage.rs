//! Detection of plan-rule types that can never match, because an earlier rule covers them.

use super::{Rule, Rules};
use crate::domain::job::sidekiq;
use crate::domain::names;
use crate::domain::names::fits;
use std::fmt;
use std::sync::Arc;

/// Types of one rule that earlier rules cover.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Covered {
    pub rule: String,
    /// The names of the earlier rules.
    pub by: Vec<String>,
    pub types: Vec<String>,
    /// True if these are all types of the rule, so that the rule can never match.
    pub is_whole: bool,
}

impl Rules {
    /// Returns the types that can never match, by rule.
    pub fn covered(&self) -> Vec<Covered> {
        let rules: Vec<&Arc<Rule>> = self.iter().collect();
        let of_rule = |(place, rule): (usize, &&Arc<Rule>)| {
            let mut covered = Covered { rule: rule.name.clone(), by: Vec::new(), types: Vec::new(), is_whole: false };
            for pattern in &rule.types {
                let Some(by) = rules[..place].iter().find(|earlier| covers(earlier, rule, pattern)) else { continue };
                covered.types.push(pattern.clone());
                if !covered.by.contains(&by.name) {
                    covered.by.push(by.name.clone());
                }
            }
            covered.is_whole = covered.types.len() == rule.types.len();
            (!covered.types.is_empty()).then_some(covered)
        };
        rules.iter().enumerate().filter_map(of_rule).collect()
    }
}

/// Returns true if an earlier rule matches everything that a pattern of `rule` could match. Only a
/// `*` matches the `*` of a pattern, so what holds for the pattern as a text holds for every text
/// that it matches.
fn covers(earlier: &Rule, rule: &Rule, pattern: &str) -> bool {
    // Classes are looked up among the rules of their main queue, types of jobs over HTTP among all
    // rules.
    let is_type_only = !sidekiq::is_class_pattern(pattern) && (names::is_type(pattern) || pattern.contains('.'));
    let is_asked_first = rule.is_builtin() || is_type_only || earlier.main_queue == rule.main_queue;
    is_asked_first && earlier.types.iter().any(|outer| fits(outer, pattern))
}

impl fmt::Display for Covered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Covered { rule, by, types, is_whole } = self;
        let names: Vec<String> = by.iter().map(|name| format!("\"{name}\"")).collect();
        let (rules, comes, covers, above) = match by.len() {
            1 => (format!("plan rule {}", names[0]), "comes", "covers", "above it"),
            _ => (format!("plan rules {}", names.join(", ")), "come", "cover", "above them"),
        };
        let listed = types.join(", ");
        let (kinds, them) = if types.len() == 1 { ("type", "it") } else { ("types", "them") };
        match is_whole {
            true => write!(
                f,
                "plan rule \"{rule}\" can never match: {rules} {comes} before it and {covers} all its types ({listed}); \
                 move \"{rule}\" {above} or remove it"
            ),
            false => write!(
                f,
                "plan rule \"{rule}\" never gets jobs of {kinds} {listed}: {rules} {comes} before it and {covers} {them}; \
                 move \"{rule}\" {above} or remove the {kinds}"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(rules: &[(&str, &str, &[&str])]) -> Vec<String> {
        let rule = |(name, main_queue, types): &(&str, &str, &[&str])| {
            let mut rule = Rule::new(name, types);
            rule.main_queue = (*main_queue).to_owned();
            rule
        };
        let covered = Rules::new(rules.iter().map(rule)).covered();
        covered
            .iter()
            .map(|one| format!("{} {} {} {}", one.rule, one.by.join("+"), one.types.join("+"), one.is_whole))
            .collect()
    }

    #[test]
    fn finds_types_that_an_earlier_rule_takes() {
        for (earlier, later, is_covered) in [
            ("report.*", "report.daily", true),
            ("report.*", "report.*", true),
            ("report.*", "report.*.pdf", true),
            ("*", "report.*", true),
            ("report.*.pdf", "report.*", false),
            ("report.daily", "report.*", false),
            ("*.pdf", "report.*", false),
            ("*a*", "*b*", false),
            ("report.daily", "report.daily", true),
        ] {
            let found = told(&[("a", "builtin", &[earlier]), ("b", "builtin", &[later])]);
            assert_eq!(!found.is_empty(), is_covered, "{earlier} before {later}: {found:?}");
        }
        assert_eq!(told(&[("b", "builtin", &["report.daily"]), ("a", "builtin", &["report.*"])]), Vec::<String>::new());
    }

    #[test]
    fn several_rules_may_cover_one_together() {
        let rules: [(&str, &str, &[&str]); 3] =
            [("a", "builtin", &["x.*"]), ("b", "builtin", &["y"]), ("c", "builtin", &["x.1", "y", "z"])];
        assert_eq!(told(&rules), ["c a+b x.1+y false"]);
        let whole = Covered {
            rule: "c".to_owned(),
            by: vec!["a".to_owned(), "b".to_owned()],
            types: vec!["x".to_owned()],
            is_whole: true,
        };
        assert!(whole.to_string().contains("plan rules \"a\", \"b\" come before it and cover all"), "{whole}");
    }

    #[test]
    fn classes_are_looked_up_among_the_rules_of_their_main_queue() {
        for (earlier, later, is_covered) in [
            (("old", "*Job"), ("old", "HeavyJob"), true),
            (("new", "*Job"), ("old", "HeavyJob"), false),
            (("builtin", "*"), ("old", "HeavyJob"), false),
            (("builtin", "*"), ("old", "*"), false),
            (("old", "*"), ("old", "*"), true),
            (("builtin", "report.*"), ("old", "report.daily"), true),
            (("old", "report.*"), ("builtin", "report.daily"), true),
        ] {
            let found = told(&[("a", earlier.0, &[earlier.1]), ("b", later.0, &[later.1])]);
            assert_eq!(!found.is_empty(), is_covered, "{earlier:?} before {later:?}: {found:?}");
        }
    }
}
