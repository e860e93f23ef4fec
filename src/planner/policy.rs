//! The dispatch policy that holds: that of the file to start with, and what was changed at run time. It is kept beside the plan
//! rules, under the same version.

use super::rulebook::{ATTEMPTS, Known, Removed, Rulebook, Source};
use crate::config;
use crate::fairness::{Policy, Pool, PoolConflict, rebalance};
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

    /// Where a pool comes from.
    pub fn source_of(&self, pool: &str) -> Source {
        if self.pools.contains(pool) { Source::Api } else { Source::File }
    }

    /// Where what holds for all pools and for queues comes from.
    pub fn scheduling_source(&self) -> Source {
        if self.scheduling { Source::Api } else { Source::File }
    }

    /// The same with a pool that is set at run time.
    fn with(&self, pool: &Pool) -> Result<Held, PolicyRefused> {
        let mut held = self.clone();
        held.policy.set_pool(pool.clone()).map_err(PolicyRefused::Conflicts)?;
        held.pools.insert(pool.name.clone());
        Ok(held)
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

/// Why a change of the policy was not made.
#[derive(Debug, thiserror::Error)]
pub enum PolicyRefused {
    /// A pool does not go with the others.
    #[error("the pool does not go with the others")]
    Conflicts(Vec<PoolConflict>),
    /// There is a pool of that name.
    #[error("there is a pool {0} already")]
    Exists(String),
    /// What was asked for is full of mistakes.
    #[error("it is full of mistakes")]
    Mistakes(Vec<config::Problem>),
    #[error(transparent)]
    Store(#[from] Error),
}

impl Rulebook {
    /// Makes the file's policy hold, except what was changed at run time.
    pub(super) async fn start_policy(&self) -> Result<Arc<Known>, Error> {
        self.change_policy(false, |held| Ok(held.on_top_of(&self.inner.policy))).await
    }

    /// Adds a pool or replaces the one of that name. Whether it is new.
    pub async fn put_pool(&self, pool: Pool) -> Result<bool, PolicyRefused> {
        let is_new = self.reload().await?.dispatch.policy.pool(&pool.name).is_none();
        self.change_policy(true, |held| held.with(&pool)).await?;
        Ok(is_new)
    }

    /// Adds a pool, unless there is one of that name.
    pub async fn add_pool(&self, pool: Pool) -> Result<(), PolicyRefused> {
        self.reload().await?;
        let add = |held: &Held| match held.policy.pool(&pool.name) {
            Some(_) => Err(PolicyRefused::Exists(pool.name.clone())),
            None => held.with(&pool),
        };
        self.change_policy(true, add).await.map(drop)
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
        self.change_policy::<Error>(true, |held| {
            let mut held = held.clone();
            held.pools.remove(name);
            held.policy.remove_pool(name);
            Ok(held.on_top_of(&self.inner.policy))
        })
        .await?;
        Ok(if in_file { Removed::Restored } else { Removed::Gone })
    }

    /// Changes what holds for all pools and for single queues, as the body of a request says.
    pub async fn put_scheduling(&self, change: &Value) -> Result<Arc<Known>, PolicyRefused> {
        self.reload().await?;
        self.change_policy(true, |held| {
            let policy = config::scheduling_from_json(change.clone(), &held.policy).map_err(PolicyRefused::Mistakes)?;
            Ok(Held { policy, scheduling: true, ..held.clone() })
        })
        .await
    }

    /// Like the change of rules: somebody else's change in between is taken into account.
    async fn change_policy<E: From<Error>>(
        &self,
        tells: bool,
        change: impl Fn(&Held) -> Result<Held, E>,
    ) -> Result<Arc<Known>, E> {
        for _ in 0..ATTEMPTS {
            let before = self.read().await?;
            let new = change(&before.dispatch)?;
            if new == before.dispatch {
                return Ok(before);
            }
            let (store, old) = (&self.inner.store, &before.dispatch.policy);
            let told = if tells { rebalance::changes(old, &new.policy) } else { Vec::new() };
            if store.replace_policy(&before.version, &new.policy, &new.document(), &told).await? {
                return Ok(self.read().await?);
            }
        }
        Err(Error::Busy.into())
    }
}
