//! The terms on which tenants are served: those of the file to start with, and what was changed at run time. Each tenant's are a
//! document of their own in the store, because there may be very many, and scripts look them up by themselves.

use super::rulebook::{ATTEMPTS, Removed, Rulebook};
use crate::config;
use crate::fairness::{TenantLimits, TenantRule, TenantSettings};
use crate::job::time;
use crate::store::{Error, FileTenant, TenantChange, TenantJobs};
use serde_json::{Value, json};

/// Changes that a tenant's document remembers.
const MOST_CHANGES: usize = 20;

/// On which terms a tenant is served, and who says so.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Served {
    pub terms: TenantSettings,
    /// `api`, `file`, `tier`, or `default` where nobody says anything.
    pub source: &'static str,
    /// The tier that it is in, if its terms are the tier's.
    pub tier: Option<String>,
    /// When it was configured.
    pub created: Option<i64>,
    /// What was changed at run time, newest first.
    pub changes: Vec<Value>,
    document: String,
}

/// Who changes terms at run time, and why.
#[derive(Clone, Debug, Default)]
pub struct Author {
    pub by: String,
    pub reason: Option<String>,
}

/// Why a tenant's terms were not changed.
#[derive(Debug, thiserror::Error)]
pub enum TenantSettingsRefused {
    /// What was asked for is full of mistakes.
    #[error("it is full of mistakes")]
    Mistakes(Vec<config::Problem>),
    /// The tenant has jobs.
    #[error("the tenant has jobs")]
    Busy(TenantJobs),
    #[error(transparent)]
    Store(#[from] Error),
}

/// The document of a tenant: its first byte tells who set it, which is all that scripts look at.
fn document(terms: &TenantSettings, created: i64, changes: &[Value], at_run_time: bool) -> String {
    let mark = if at_run_time { 'a' } else { 'f' };
    format!(
        "{mark}{}",
        json!({"terms": terms.to_json(), "weighs": terms.weight.is_some(), "created": created, "changes": changes})
    )
}

/// Members of an event about a tenant, without the braces.
fn members(value: &Value) -> String {
    let text = value.to_string();
    text[1..text.len() - 1].to_owned()
}

fn created_event(id: &str, terms: &TenantSettings, source: &str) -> String {
    let mut data = json!({"tenant_id": id, "source": source});
    let terms = terms.to_json();
    for name in ["fairness_weight", "priority_boost", "limits"] {
        data[name] = terms[name].clone();
    }
    members(&data)
}

impl Rulebook {
    /// Makes the file's tenants hold, except those that were changed at run time.
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
                document: document(&rule.terms, 0, &[], false),
                data: created_event(&rule.id, &rule.terms, "file"),
            })
            .collect();
        self.inner.store.seed_tenants(rules, &tenants).await
    }

    /// Whether the store knows tenants of a file, perhaps of an earlier one.
    async fn has_tiers(&self) -> Result<bool, Error> {
        self.inner.store.has_file_tenants().await
    }

    /// On which terms tenants are served.
    pub async fn served(&self, ids: &[&str]) -> Result<Vec<Served>, Error> {
        let documents = self.inner.store.tenant_documents(ids).await?;
        Ok(ids.iter().zip(documents).map(|(id, document)| self.read_served(id, document)).collect())
    }

    async fn served_one(&self, id: &str) -> Result<Served, Error> {
        Ok(self.served(&[id]).await?.pop().unwrap_or_default())
    }

    /// Reads a tenant's document, or finds its tier.
    pub fn read_served(&self, id: &str, document: String) -> Served {
        let Some((mark, text)) = document.split_at_checked(1).filter(|(mark, _)| !mark.is_empty()) else {
            let rule = TenantRule::of(&self.inner.tenants, id).filter(|rule| rule.prefix().is_some());
            let source = if rule.is_some() { "tier" } else { "default" };
            let tier = rule.map(|rule| rule.id.clone());
            let terms = rule.map(|rule| rule.terms.clone()).unwrap_or_default();
            return Served { terms, source, tier, ..Served::default() };
        };
        let stored: Value = serde_json::from_str(text).unwrap_or_default();
        let terms = config::tenant_from_json(id, stored["terms"].clone()).map(|(terms, _)| terms);
        let mut terms = terms.unwrap_or_else(|problems| {
            tracing::error!(tenant = id, ?problems, "cannot read the stored terms of a tenant");
            TenantSettings::default()
        });
        if stored["weighs"] != true {
            terms.weight = None;
        }
        let source = if mark == "a" { "api" } else { "file" };
        let created = stored["created"].as_i64().filter(|at| *at > 0);
        let changes = stored["changes"].as_array().cloned().unwrap_or_default();
        Served { terms, source, tier: None, created, changes, document }
    }

    /// Sets a tenant's terms. Whether it had none of its own.
    pub async fn put_tenant(
        &self,
        id: &str,
        terms: &TenantSettings,
        author: &Author,
    ) -> Result<bool, TenantSettingsRefused> {
        let before = self.change_tenant(id, author, |_| Ok(terms.clone())).await?;
        Ok(before.document.is_empty())
    }

    /// Changes a tenant's limits as the body of a request says; those of its tier become its own.
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

    /// Changes a tenant's terms; somebody else's change in between is taken into account. What held before.
    async fn change_tenant(
        &self,
        id: &str,
        author: &Author,
        change: impl Fn(&Served) -> Result<TenantSettings, TenantSettingsRefused>,
    ) -> Result<Served, TenantSettingsRefused> {
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
            let document = document(&terms, before.created.unwrap_or(now), &changes, true);
            let mut told = entry;
            told["tenant_id"] = id.into();
            let created = created_event(id, &terms, "api");
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

    /// Removes a tenant's own terms, or what was changed about one of the file. While it has jobs only if `force` says so: they stay, and are
    /// served on the terms that hold then.
    pub async fn remove_tenant(
        &self,
        id: &str,
        jobs: TenantJobs,
        force: bool,
    ) -> Result<Removed, TenantSettingsRefused> {
        let of_file = self.inner.tenants.iter().find(|rule| rule.id == id);
        for _ in 0..ATTEMPTS {
            let before = self.served_one(id).await?;
            match before.source {
                "api" => {}
                "file" => return Ok(Removed::InFile),
                _ => return Ok(Removed::Unknown),
            }
            if jobs.total() > 0 && !force {
                return Err(TenantSettingsRefused::Busy(jobs));
            }
            let restored = of_file.map(|rule| (document(&rule.terms, 0, &[], false), &rule.terms));
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
