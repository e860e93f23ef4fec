//! `[plan_defaults]`: defaults of plan rules.

use super::{RuleContext, read_options};
use crate::config::reader::SettingsReader;
use crate::config::report::{Findings, is_within};
use crate::config::tree::{Kind, Origin, Table, Value, merge};
use crate::config::{DEFAULTS, file};
use crate::domain::plan::Rule;

/// Default options of plan rules, all of them valid.
#[derive(Clone, Debug, PartialEq)]
pub struct PlanDefaults(Table);

/// The validated numbers contain no NaN, so equality is total.
impl Eq for PlanDefaults {}

/// The built-in options only.
impl Default for PlanDefaults {
    fn default() -> Self {
        Self::of(&Table::new(), RuleContext::ANY)
    }
}

impl PlanDefaults {
    /// Merges the built-in options with the valid ones of the configuration.
    ///
    /// Invalid ones are left out, so that they are reported once and not again for each rule that
    /// would inherit them.
    pub(in crate::config) fn of(values: &Table, scope: RuleContext<'_>) -> Self {
        let mut defaults = section(&file::parse_defaults(DEFAULTS));
        let mut usable = section(values);
        let mut report = Findings::default();
        SettingsReader::root(&usable, &mut report, |reader| read_options(reader, Rule::new("", &[]), scope));
        let (problems, _) = report.finish();
        usable.retain(|key, _| !problems.iter().any(|problem| is_within(&problem.path, key)));
        merge(&mut defaults, usable);
        choose_pace(&mut defaults);
        Self(defaults)
    }

    /// Reports errors in `[plan_defaults]`.
    pub(in crate::config) fn read(self, reader: &mut SettingsReader<'_>, scope: RuleContext<'_>) -> Self {
        read_options(reader, Rule::new("", &[]), scope);
        self
    }

    /// Completes every `[[plan]]` of the merged configuration.
    pub(in crate::config) fn complete_all(&self, values: &mut Table) {
        if let Some(Value { kind: Kind::Table(section), .. }) = values.get_mut("plan_defaults") {
            choose_pace(section);
        }
        let Some(Value { kind: Kind::List(rules), .. }) = values.get_mut("plan") else { return };
        for rule in rules {
            if let Kind::Table(rule) = &mut rule.kind {
                self.complete(rule);
            }
        }
    }

    /// Adds the options that a rule leaves out. An option of the rule replaces the default as a
    /// whole, even if it is a list or a table. Only `weights` is merged option by option.
    pub(super) fn complete(&self, rule: &mut Table) {
        let Self(defaults) = self;
        let paced = rule.contains_key("enqueue_interval") || rule.contains_key("schedule");
        let scheduled = rule.contains_key("schedule") || !paced && defaults.contains_key("schedule");
        for (key, value) in defaults {
            let is_moot = match key.as_str() {
                "enqueue_interval" | "schedule" => paced,
                "timezone" => !scheduled,
                _ => false,
            };
            match (rule.get_mut(key).map(|own| &mut own.kind), &value.kind) {
                (Some(Kind::Table(own)), Kind::Table(inherited)) => {
                    for (key, value) in inherited {
                        own.entry(key.clone()).or_insert_with(|| value.clone());
                    }
                }
                (None, _) if !is_moot => drop(rule.insert(key.clone(), value.clone())),
                _ => {}
            }
        }
    }
}

fn section(values: &Table) -> Table {
    match values.get("plan_defaults").map(|value| &value.kind) {
        Some(Kind::Table(table)) => table.clone(),
        _ => Table::new(),
    }
}

/// Removes the built-in interval if a schedule is set.
fn choose_pace(table: &mut Table) {
    let unset = table.get("enqueue_interval").is_some_and(|value| value.origin == Origin::Default);
    if unset && table.contains_key("schedule") {
        table.remove("enqueue_interval");
    }
}
