//! The dispatch policy that holds: that of the file to start with, and what was changed at run time. It is kept beside the plan
//! rules, under the same version.

use super::rulebook::{ATTEMPTS, Known, Removed, Rulebook};
use crate::config;
use crate::fair::{Clash, Policy, Pool};
use crate::store::Error;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A policy, and what of it was changed at run time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Held {
    pub policy: Policy,
    /// Names of pools that were set at run time.
    pub pools: BTreeSet<String>,
    /// Whether what holds for all pools and for queues was set at run time.
    pub scheduling: bool,
}

impl Held {
    /// Reads what [`Held::document`] wrote; a plain policy where nothing was written.
    pub(super) fn from_document(text: &str) -> Held {
        if text.is_empty() {
            return Held::default();
        }
        let document: Value = serde_json::from_str(text).unwrap_or_default();
        let policy = config::policy_from_json(document["policy"].clone()).unwrap_or_else(|problems| {
            tracing::error!(?problems, "cannot read the stored dispatch policy: pools and limits of types are unknown");
            Policy::default()
        });
        let names = document["pools"].as_array().into_iter().flatten();
        Held {
            policy,
            pools: names.filter_map(|name| name.as_str().map(str::to_owned)).collect(),
            scheduling: document["scheduling"] == true,
        }
    }

    fn document(&self) -> String {
        json!({"policy": self.policy.to_json(), "pools": self.pools, "scheduling": self.scheduling}).to_string()
    }

    /// What the file says, except where it was changed at run time.
    fn on_top_of(&self, file: &Policy) -> Held {
        let mut held = Held { policy: file.clone(), ..self.clone() };
        if self.scheduling {
            held.policy.starvation = self.policy.starvation;
            held.policy.tenant_fairness = self.policy.tenant_fairness.clone();
            held.policy.queues = self.policy.queues.clone();
        }
        for name in &self.pools {
            let pool = self.policy.pool(name).cloned();
            if pool.is_none_or(|pool| held.policy.set_pool(pool).is_err()) {
                tracing::warn!(
                    pool = name,
                    "a pool that was set at run time does not go with the file's: it is dropped"
                );
                held.pools.remove(name);
            }
        }
        held
    }
}

/// Why a pool was not set.
#[derive(Debug, thiserror::Error)]
pub enum PoolRefused {
    /// It does not go with the others.
    #[error("the pool does not go with the others")]
    Clashes(Vec<Clash>),
    #[error(transparent)]
    Store(#[from] Error),
}

impl Rulebook {
    /// Makes the file's policy hold, except what was changed at run time.
    pub(super) async fn start_policy(&self) -> Result<Arc<Known>, Error> {
        self.change_policy(false, |held| held.on_top_of(&self.inner.policy)).await
    }

    /// Adds a pool or replaces the one of that name. Whether it is new.
    pub async fn put_pool(&self, pool: Pool) -> Result<bool, PoolRefused> {
        let mut trial = self.reload().await?.dispatch.policy.clone();
        let is_new = trial.pool(&pool.name).is_none();
        trial.set_pool(pool.clone()).map_err(PoolRefused::Clashes)?;
        self.change_policy(true, |held| {
            let mut held = held.clone();
            // What clashes with somebody else's change in between changes nothing.
            if held.policy.set_pool(pool.clone()).is_ok() {
                held.pools.insert(pool.name.clone());
            }
            held
        })
        .await?;
        Ok(is_new)
    }

    /// Removes a pool, or what was changed about one of the file.
    pub async fn remove_pool(&self, name: &str) -> Result<Removed, Error> {
        let known = self.reload().await?;
        let in_file = self.inner.policy.pool(name).is_some();
        match (known.dispatch.policy.pool(name), known.dispatch.pools.contains(name)) {
            (None, _) => return Ok(Removed::Unknown),
            (Some(_), false) => return Ok(Removed::InFile),
            (Some(_), true) => {}
        }
        self.change_policy(true, |held| {
            let mut held = held.clone();
            held.pools.remove(name);
            held.policy.remove_pool(name);
            held.on_top_of(&self.inner.policy)
        })
        .await?;
        Ok(if in_file { Removed::Restored } else { Removed::Gone })
    }

    /// Replaces what holds for all pools and for single queues by what `change` makes of it.
    pub async fn put_scheduling(&self, change: impl Fn(&Policy) -> Policy) -> Result<Arc<Known>, Error> {
        self.change_policy(true, |held| Held { policy: change(&held.policy), scheduling: true, ..held.clone() }).await
    }

    /// Like the change of rules: somebody else's change in between is taken into account.
    async fn change_policy(&self, tells: bool, change: impl Fn(&Held) -> Held) -> Result<Arc<Known>, Error> {
        for _ in 0..ATTEMPTS {
            let before = self.read().await?;
            let new = change(&before.dispatch);
            if new == before.dispatch {
                return Ok(before);
            }
            let store = &self.inner.store;
            if store.replace_policy(&before.version, &new.policy, &new.document(), tells).await? {
                return self.read().await;
            }
        }
        Err(Error::Busy)
    }
}
