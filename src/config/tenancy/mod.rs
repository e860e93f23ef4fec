//! `[tenancy]` and `[[tenant]]`: how tenants are determined and isolated, and their settings.

mod request;

use std::collections::HashSet;

use super::convert::{Choice, FromValue, Refused};
use super::policy::{Period, Share};
use super::reader::SettingsReader;
use super::tree::Value;
use crate::domain::limit::Window;
use crate::domain::limit::quota::{MOST_CONCURRENCY, MOST_STARTS};
use crate::domain::tenant::{Isolation, Tenancy, TenantLimits, TenantRule, TenantSettings, TenantSource};
use crate::domain::tenant_id;

pub use request::{limits_from_json, tenant_from_json};

impl Choice for TenantSource {
    const CHOICES: &'static [(&'static str, Self)] =
        &[("meta", Self::Meta), ("header", Self::Header), ("api_key", Self::ApiKey)];
}

impl Choice for Isolation {
    const CHOICES: &'static [(&'static str, Self)] =
        &[("sharded", Self::Sharded), ("shared", Self::Shared), ("namespace", Self::Namespace)];
}

/// Reaction to an enqueue above a limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Enforcement {
    #[default]
    Hard,
    Soft,
}

impl Choice for Enforcement {
    const CHOICES: &'static [(&'static str, Self)] = &[("hard", Self::Hard), ("soft", Self::Soft)];
}

/// Value that is added to priorities, from -100 to 100.
struct Boost(i8);

impl FromValue for Boost {
    fn from_value(value: &Value) -> Result<Self, Refused> {
        let number = f64::from_value(value).ok().filter(|number| number.fract() == 0.0 && number.abs() <= 100.0);
        number.map(|number| Boost(number as i8)).ok_or_else(|| Refused::new("a whole number from -100 to 100"))
    }
}

/// Reads `[tenancy]`.
pub fn read_tenancy(reader: &mut SettingsReader<'_>) -> Tenancy {
    let default = |name: &String| name == tenant_id::DEFAULT || tenant_id::is_name(name);
    let tenancy = Tenancy {
        sources: reader.list("sources"),
        default_tenant: reader.get_such("default_tenant", tenant_id::NAME_EXPECTED, default),
        require_tenant: reader.get("require_tenant"),
        isolation: reader.get("isolation"),
    };
    if reader.is_sound(&["sources"]) && tenancy.sources.is_empty() && tenancy.require_tenant {
        let message = "a tenant is required, but sources is empty";
        reader.conflict(&["require_tenant"], message, Some("add meta or header to sources"));
    }
    tenancy
}

/// Reads all `[[tenant]]` tables.
pub fn read_tenants(root: &mut SettingsReader<'_>) -> Vec<TenantRule> {
    let mut ids = HashSet::new();
    let rules = root.each("tenant", |reader| {
        let id = reader.get_such("id", TenantRule::EXPECTED, |id: &String| TenantRule::is_id(id));
        if reader.is_sound(&["id"]) && !ids.insert(id.clone()) {
            reader.conflict(&["id"], format!("there is another tenant \"{id}\""), Some("merge the two"));
        }
        TenantRule { id, terms: read_terms(reader) }
    });
    if rules.len() > TenantRule::MOST {
        let message = format!("expected at most {} tenants, found {}", TenantRule::MOST, rules.len());
        root.conflict(&["tenant"], message, Some("a tier such as free-* counts as one; others can be set at run time"));
    }
    rules
}

fn read_terms(reader: &mut SettingsReader<'_>) -> TenantSettings {
    TenantSettings {
        weight: reader.find("fairness_weight").map(|Share(weight)| weight),
        boost: reader.find("priority_boost").map_or(0, |Boost(boost)| boost),
        limits: reader
            .find_section("limits", |reader| read_limits(reader, &TenantLimits::default()))
            .unwrap_or_default(),
    }
}

/// Reads limits. Absent ones keep their value from `base`; `null` removes a limit.
fn read_limits(reader: &mut SettingsReader<'_>, base: &TenantLimits) -> TenantLimits {
    let mut unless_null = |name: &str| !reader.is_null(name);
    let [concurrency, rate, depth, scheduled] =
        ["max_concurrency", "max_enqueue_rate", "max_queue_depth", "max_scheduled"].map(&mut unless_null);
    let jobs = ..=TenantLimits::MOST_JOBS;
    TenantLimits {
        max_concurrency: concurrency
            .then(|| reader.find_in("max_concurrency", ..=MOST_CONCURRENCY).or(base.max_concurrency))
            .flatten(),
        max_enqueue_rate: rate
            .then(|| reader.find_section("max_enqueue_rate", read_window).or(base.max_enqueue_rate))
            .flatten(),
        max_queue_depth: depth.then(|| reader.find_in("max_queue_depth", jobs).or(base.max_queue_depth)).flatten(),
        max_scheduled: scheduled.then(|| reader.find_in("max_scheduled", jobs).or(base.max_scheduled)).flatten(),
        soft: reader.find("enforcement").map_or(base.soft, |enforcement: Enforcement| enforcement == Enforcement::Soft),
    }
}

fn read_window(reader: &mut SettingsReader<'_>) -> Window {
    let limit = reader.get_in("limit", 1..=MOST_STARTS);
    let Period(period) = reader.get("period");
    Window { limit, period }
}

/// Returns a sentence for each setting.
pub fn describe(tenancy: &Tenancy, rules: &[TenantRule]) -> Vec<String> {
    let mut sentences = Vec::new();
    if *tenancy != Tenancy::default() {
        let missing = match tenancy.require_tenant {
            true => "jobs must name one".to_owned(),
            false => format!("jobs that name none belong to {}", tenancy.default_tenant),
        };
        sentences.push(format!("tenants: isolation \"{}\"; {missing}", tenancy.isolation.name()));
    }
    sentences.extend(rules.iter().map(|rule| format!("tenant \"{}\": {}", rule.id, rule.terms.to_json())));
    sentences
}

#[cfg(test)]
mod tests;
