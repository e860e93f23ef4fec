//! The active dispatch policy: that of the configuration file plus changes made at run time. It is
//! stored with the plan rules, under the same version.

use super::rulebook::ATTEMPTS;
use super::{KnownRules, Removed, RuleSource, Rulebook};
use crate::config;
use crate::domain::pool::{Policy, Pool, PoolConflict, rebalance};
use crate::store::Error;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A policy, and the parts of it that were changed at run time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ActivePolicy {
    pub policy: Policy,
    /// Names of pools that were set at run time.
    pub pools: BTreeSet<String>,
    /// True if the defaults or the settings of queues were changed at run time.
    pub scheduling: bool,
}

/// The stored form of a policy.
#[derive(Deserialize, Serialize)]
struct Document {
    policy: Value,
    pools: BTreeSet<String>,
    scheduling: bool,
}

impl ActivePolicy {
    /// Parses the text written by [`ActivePolicy::document`]. An empty text is the default policy.
    pub(super) fn from_document(text: &str) -> ActivePolicy {
        if text.is_empty() {
            return ActivePolicy::default();
        }
        let report = |problems: Vec<config::Problem>| {
            tracing::error!(
                ?problems,
                "cannot parse the stored dispatch policy; its pools and type limits are unknown to this process"
            );
        };
        let Document { policy, pools, scheduling } = match serde_json::from_str(text) {
            Ok(document) => document,
            Err(error) => {
                report(vec![error.into()]);
                return ActivePolicy::default();
            }
        };
        let policy = config::policy_from_json(policy).unwrap_or_else(|problems| {
            report(problems);
            Policy::default()
        });
        ActivePolicy { policy, pools, scheduling }
    }

    fn document(&self) -> String {
        let document =
            Document { policy: self.policy.to_json(), pools: self.pools.clone(), scheduling: self.scheduling };
        json!(document).to_string()
    }

    /// Returns the source of a pool.
    pub fn source_of(&self, pool: &str) -> RuleSource {
        if self.pools.contains(pool) { RuleSource::Api } else { RuleSource::File }
    }

    /// Returns the source of the defaults and the settings of queues.
    pub fn scheduling_source(&self) -> RuleSource {
        if self.scheduling { RuleSource::Api } else { RuleSource::File }
    }

    /// Returns the policy with a pool that is set at run time.
    fn with(&self, pool: &Pool) -> Result<ActivePolicy, PolicyRefused> {
        let mut active = self.clone();
        active.policy.set_pool(pool.clone()).map_err(PolicyRefused::Conflicts)?;
        active.pools.insert(pool.name.clone());
        Ok(active)
    }

    /// Returns the policy of the file with the changes made at run time.
    fn on_top_of(&self, file: &Policy) -> ActivePolicy {
        let mut active = ActivePolicy { policy: file.clone(), ..self.clone() };
        if self.scheduling {
            active.policy.starvation = self.policy.starvation;
            active.policy.tenant_fairness = self.policy.tenant_fairness.clone();
            active.policy.queues = self.policy.queues.clone();
        }
        for name in &self.pools {
            let pool = self.policy.pool(name).cloned();
            if pool.is_none_or(|pool| active.policy.set_pool(pool).is_err()) {
                tracing::warn!(
                    pool = name,
                    "dropped a pool set at run time because it conflicts with the configuration file"
                );
                active.pools.remove(name);
            }
        }
        active
    }
}

/// The reason for which a change of the policy was refused.
#[derive(Debug, thiserror::Error)]
pub enum PolicyRefused {
    /// The pool conflicts with other pools.
    #[error("the pool conflicts with other pools")]
    Conflicts(Vec<PoolConflict>),
    /// A pool of that name exists.
    #[error("pool {0:?} already exists")]
    Exists(String),
    /// The request is invalid.
    #[error("invalid scheduling settings")]
    Mistakes(Vec<config::Problem>),
    #[error(transparent)]
    Store(#[from] Error),
}

impl Rulebook {
    /// Applies the file's policy, keeping the changes made at run time.
    pub(super) async fn start_policy(&self) -> Result<Arc<KnownRules>, Error> {
        self.change_policy(false, |active| Ok(active.on_top_of(&self.inner.policy))).await
    }

    /// Adds a pool or replaces the one of that name. Returns true if it is new.
    pub async fn put_pool(&self, pool: Pool) -> Result<bool, PolicyRefused> {
        let is_new = self.reload().await?.dispatch.policy.pool(&pool.name).is_none();
        self.change_policy(true, |active| active.with(&pool)).await?;
        Ok(is_new)
    }

    /// Adds a pool. Fails if one of that name exists.
    pub async fn add_pool(&self, pool: Pool) -> Result<(), PolicyRefused> {
        self.reload().await?;
        let add = |active: &ActivePolicy| match active.policy.pool(&pool.name) {
            Some(_) => Err(PolicyRefused::Exists(pool.name.clone())),
            None => active.with(&pool),
        };
        self.change_policy(true, add).await.map(drop)
    }

    /// Removes a pool, or the run-time changes to a pool of the file.
    pub async fn remove_pool(&self, name: &str) -> Result<Removed, Error> {
        let known = self.reload().await?;
        let in_file = self.inner.policy.pool(name).is_some();
        match (known.dispatch.policy.pool(name), known.dispatch.pools.contains(name)) {
            (None, _) => return Ok(Removed::Unknown),
            (Some(_), false) => return Ok(Removed::InFile),
            (Some(_), true) => {}
        }
        self.change_policy::<Error>(true, |active| {
            let mut active = active.clone();
            active.pools.remove(name);
            active.policy.remove_pool(name);
            Ok(active.on_top_of(&self.inner.policy))
        })
        .await?;
        Ok(if in_file { Removed::Restored } else { Removed::Gone })
    }

    /// Changes the defaults and the settings of queues according to a request body.
    pub async fn put_scheduling(&self, change: &Value) -> Result<Arc<KnownRules>, PolicyRefused> {
        self.reload().await?;
        self.change_policy(true, |active| {
            let policy =
                config::scheduling_from_json(change.clone(), &active.policy).map_err(PolicyRefused::Mistakes)?;
            Ok(ActivePolicy { policy, scheduling: true, ..active.clone() })
        })
        .await
    }

    /// Applies a change, and repeats it if another process changed the policy meanwhile.
    async fn change_policy<E: From<Error>>(
        &self,
        tells: bool,
        change: impl Fn(&ActivePolicy) -> Result<ActivePolicy, E>,
    ) -> Result<Arc<KnownRules>, E> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_reads_back_and_a_broken_one_is_the_default_policy() {
        let pools = BTreeSet::from(["a".to_owned()]);
        let active = ActivePolicy { policy: Policy::default(), pools, scheduling: true };
        assert_eq!(ActivePolicy::from_document(&active.document()), active);
        let unknown = active.document().replace("\"policy\":{", "\"policy\":{\"unknown\":1,");
        assert_eq!(ActivePolicy::from_document(&unknown), active, "what surrounds the policy is kept");
        for broken in ["{", "{}", r#"{"policy":{},"pools":[1],"scheduling":true}"#] {
            assert_eq!(ActivePolicy::from_document(broken), ActivePolicy::default(), "{broken}");
        }
    }
}
