//! The active settings of tenants: those of the configuration file plus changes made at run time.
//! The store has one document per tenant, because there may be very many tenants, and scripts look
//! them up by themselves.

use super::rulebook::ATTEMPTS;
use super::{Removed, RuleSource, Rulebook};
use crate::config;
use crate::domain::tenant::{TenantLimits, TenantRule, TenantSettings};
use crate::domain::time;
use crate::store::{Error, FileTenant, TenantChange, TenantJobs};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Maximum number of changes in a tenant's document.
const MOST_CHANGES: usize = 20;

/// The source of a tenant's settings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SettingsSource {
    /// They were set at run time.
    Api,
    /// The configuration file names the tenant.
    File,
    /// The tenant is in a tier of the configuration file.
    Tier,
    /// There are no settings.
    #[default]
    Default,
}

impl SettingsSource {
    /// Returns the name used in API answers and events.
    pub fn name(self) -> &'static str {
        match self {
            SettingsSource::Api => "api",
            SettingsSource::File => "file",
            SettingsSource::Tier => "tier",
            SettingsSource::Default => "default",
        }
    }
}

/// The settings of a tenant and their source.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EffectiveSettings {
    pub terms: TenantSettings,
    pub source: SettingsSource,
    /// The tier, if the settings come from it.
    pub tier: Option<String>,
    /// The time at which it was configured.
    pub created: Option<i64>,
    /// Changes made at run time, the newest first.
    pub changes: Vec<Value>,
    document: String,
}

/// The reaction to the removal of settings whose tenant has jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfBusy {
    /// The settings stay.
    Refuse,
    /// The settings are removed, and the jobs stay.
    Remove,
}

/// The author of a run-time change, and the reason for it.
#[derive(Clone, Debug, Default)]
pub struct Author {
    pub by: String,
    pub reason: Option<String>,
}

/// The reason for which a tenant's settings were not changed.
#[derive(Debug, thiserror::Error)]
pub enum TenantSettingsRefused {
    /// The request is invalid.
    #[error("invalid tenant settings")]
    Mistakes(Vec<config::Problem>),
    /// The tenant has jobs.
    #[error("the tenant has jobs")]
    Busy(TenantJobs),
    #[error(transparent)]
    Store(#[from] Error),
}

/// The stored form of a tenant's settings, behind the byte that identifies the source.
#[derive(Deserialize, Serialize)]
struct Document {
    changes: Vec<Value>,
    /// The time at which it was configured; 0 in the file.
    created: i64,
    terms: Value,
    /// True if the tenant has a weight of its own.
    weighs: bool,
}

/// Returns the document of a tenant. Its first byte identifies the source, which is all that
/// scripts read of it.
fn document(terms: &TenantSettings, created: i64, changes: &[Value], source: RuleSource) -> String {
    let mark = match source {
        RuleSource::Api => 'a',
        RuleSource::File => 'f',
    };
    let document =
        Document { changes: changes.to_vec(), created, terms: terms.to_json(), weighs: terms.weight.is_some() };
    format!("{mark}{}", json!(document))
}

/// Returns the members of an event about a tenant, without the braces.
fn members(value: &Value) -> String {
    let text = value.to_string();
    text[1..text.len() - 1].to_owned()
}

fn created_event(id: &str, terms: &TenantSettings, source: RuleSource) -> String {
    let mut data = json!({"tenant_id": id, "source": source.name()});
    let terms = terms.to_json();
    for name in ["fairness_weight", "priority_boost", "limits"] {
        data[name] = terms[name].clone();
    }
    members(&data)
}

impl Rulebook {
    /// Writes the file's tenants to the store, keeping those that were changed at run time.
    pub(super) async fn start_tenants(&self) -> Result<(), Error> {
        let rules = &self.inner.tenants;
        if rules.is_empty() && !self.has_tiers().await? {
            return Ok(());
        }
        let tenants: Vec<FileTenant<'_>> = rules
            .iter()
            .filter(|rule| rule.prefix().is_none())
            .map(|rule| FileTenant {
                rule,
                document: document(&rule.terms, 0, &[], RuleSource::File),
                data: created_event(&rule.id, &rule.terms, RuleSource::File),
            })
            .collect();
        self.inner.store.seed_tenants(rules, &tenants).await
    }

    /// Returns true if the store knows tenants of a file, perhaps of an earlier one.
    async fn has_tiers(&self) -> Result<bool, Error> {
        self.inner.store.has_file_tenants().await
    }

    /// Returns the settings of tenants.
    pub async fn served(&self, ids: &[&str]) -> Result<Vec<EffectiveSettings>, Error> {
        let documents = self.inner.store.tenant_documents(ids).await?;
        Ok(ids.iter().zip(documents).map(|(id, document)| self.read_served(id, document)).collect())
    }

    async fn served_one(&self, id: &str) -> Result<EffectiveSettings, Error> {
        Ok(self.served(&[id]).await?.pop().unwrap_or_default())
    }

    /// Parses a tenant's document; if it is empty, looks up the tenant's tier.
    pub fn read_served(&self, id: &str, document: String) -> EffectiveSettings {
        let Some((mark, text)) = document.split_at_checked(1).filter(|(mark, _)| !mark.is_empty()) else {
            let rule = TenantRule::of(&self.inner.tenants, id).filter(|rule| rule.prefix().is_some());
            let source = if rule.is_some() { SettingsSource::Tier } else { SettingsSource::Default };
            let tier = rule.map(|rule| rule.id.clone());
            let terms = rule.map(|rule| rule.terms.clone()).unwrap_or_default();
            return EffectiveSettings { terms, source, tier, ..EffectiveSettings::default() };
        };
        let report = |problems: Vec<config::Problem>| {
            tracing::error!(tenant = id, ?problems, "cannot parse the stored settings of a tenant; using the defaults");
        };
        let source = if mark == "a" { SettingsSource::Api } else { SettingsSource::File };
        let Document { changes, created, terms, weighs } = match serde_json::from_str(text) {
            Ok(stored) => stored,
            Err(error) => {
                report(vec![error.into()]);
                return EffectiveSettings { source, document, ..EffectiveSettings::default() };
            }
        };
        let terms = config::tenant_from_json(id, terms).map(|(terms, _)| terms);
        let mut terms = terms.unwrap_or_else(|problems| {
            report(problems);
            TenantSettings::default()
        });
        if !weighs {
            terms.weight = None;
        }
        let created = Some(created).filter(|at| *at > 0);
        EffectiveSettings { terms, source, tier: None, created, changes, document }
    }

    /// Sets a tenant's settings. Returns true if it had none of its own.
    pub async fn put_tenant(
        &self,
        id: &str,
        terms: &TenantSettings,
        author: &Author,
    ) -> Result<bool, TenantSettingsRefused> {
        let before = self.change_tenant(id, author, |_| Ok(terms.clone())).await?;
        Ok(before.document.is_empty())
    }

    /// Changes a tenant's limits according to a request body. Limits inherited from a tier become
    /// its own.
    pub async fn put_tenant_limits(&self, id: &str, body: &Value, by: &str) -> Result<(), TenantSettingsRefused> {
        let read = |limits: &TenantLimits| {
            config::limits_from_json(body.clone(), limits).map_err(TenantSettingsRefused::Mistakes)
        };
        let (_, reason) = read(&TenantLimits::default())?;
        let author = Author { by: by.to_owned(), reason };
        self.change_tenant(id, &author, |served| {
            Ok(TenantSettings { limits: read(&served.terms.limits)?.0, ..served.terms.clone() })
        })
        .await
        .map(drop)
    }

    /// Changes a tenant's settings, and repeats that if another process changed them meanwhile.
    /// Returns the previous settings.
    async fn change_tenant(
        &self,
        id: &str,
        author: &Author,
        change: impl Fn(&EffectiveSettings) -> Result<TenantSettings, TenantSettingsRefused>,
    ) -> Result<EffectiveSettings, TenantSettingsRefused> {
        self.reload().await?;
        for _ in 0..ATTEMPTS {
            let before = self.served_one(id).await?;
            let terms = change(&before)?;
            let now = self.inner.store.clock().now_ms();
            let is_new = before.document.is_empty();
            let entry = json!({
                "at": time::rfc3339(now),
                "by": author.by,
                "reason": author.reason,
                "from": before.terms.to_json(),
                "to": terms.to_json(),
            });
            let mut changes = vec![entry.clone()];
            changes.extend(before.changes.iter().take(MOST_CHANGES - 1).cloned());
            let document = document(&terms, before.created.unwrap_or(now), &changes, RuleSource::Api);
            let mut told = entry;
            told["tenant_id"] = id.into();
            let created = created_event(id, &terms, RuleSource::Api);
            let (event, data) = if is_new { ("tenant.created", created) } else { ("tenant.changed", members(&told)) };
            let after = Some((document.as_str(), &terms));
            let change = TenantChange { id, before: &before.document, after, event, data: &data };
            if self.inner.store.change_tenant(&change).await? {
                self.read().await?;
                return Ok(before);
            }
        }
        Err(Error::Busy.into())
    }

    /// Removes a tenant's own settings, or the run-time changes to a tenant of the file. Jobs
    /// that stay are served with the settings that apply then.
    pub async fn remove_tenant(
        &self,
        id: &str,
        jobs: TenantJobs,
        if_busy: IfBusy,
    ) -> Result<Removed, TenantSettingsRefused> {
        let of_file = self.inner.tenants.iter().find(|rule| rule.id == id);
        for _ in 0..ATTEMPTS {
            let before = self.served_one(id).await?;
            match before.source {
                SettingsSource::Api => {}
                SettingsSource::File => return Ok(Removed::InFile),
                SettingsSource::Tier | SettingsSource::Default => return Ok(Removed::Unknown),
            }
            if jobs.total() > 0 && if_busy == IfBusy::Refuse {
                return Err(TenantSettingsRefused::Busy(jobs));
            }
            let restored = of_file.map(|rule| (document(&rule.terms, 0, &[], RuleSource::File), &rule.terms));
            let after = restored.as_ref().map(|(document, terms)| (document.as_str(), *terms));
            let data = members(&json!({"tenant_id": id, "jobs": jobs.total()}));
            let change = TenantChange { id, before: &before.document, after, event: "tenant.removed", data: &data };
            if self.inner.store.change_tenant(&change).await? {
                self.read().await?;
                return Ok(if of_file.is_some() { Removed::Restored } else { Removed::Gone });
            }
        }
        Err(Error::Busy.into())
    }
}
