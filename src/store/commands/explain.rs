//! The facts about the reasons why a job waits.

use super::script::EXPLAIN;
use super::{Error, Store};
use crate::domain::escape::unescape;
use crate::domain::explain::{Holder, JobFacts};
use crate::domain::limit::LimitKey;
use serde::Serialize;

/// The facts about a job in the names of the caller.
#[derive(Clone, Debug)]
pub struct ExplainedJob {
    pub facts: JobFacts,
    /// The name of its queue in the store.
    pub stored_queue: String,
}

#[derive(Serialize)]
struct Explain<'a> {
    id: &'a str,
    tenant: &'a str,
}

impl Store {
    /// Returns the facts about a job, read in one step; `None` if the job does not exist.
    pub async fn explain(&self, id: &str) -> Result<Option<ExplainedJob>, Error> {
        let args = Explain { id, tenant: &self.scope.word() };
        let Some(mut facts) = EXPLAIN.call_packed::<Option<JobFacts>>(&self.core, &args).await? else {
            return Ok(None);
        };
        let stored_queue = facts.queue.clone();
        facts.queue = self.own_queue(&facts.queue);
        facts.tenant = unescape(&facts.tenant);
        if let Some(postponed) = &mut facts.postponed {
            postponed.key = postponed.key.as_deref().and_then(|key| self.own_key(key));
        }
        if let Some(dispatch) = &mut facts.dispatch {
            for limit in &mut dispatch.limits {
                limit.label = self.own_key(&limit.key);
                self.rename(&mut limit.holders);
            }
            dispatch.pools.retain_mut(|pool| {
                let own = self.scope.unqualified(&pool.name).map(str::to_owned);
                self.rename(&mut pool.holders);
                own.map(|own| pool.name = own).is_some()
            });
        }
        Ok(Some(ExplainedJob { facts, stored_queue }))
    }

    fn own_queue(&self, stored: &str) -> String {
        self.scope.unqualified(stored).unwrap_or(stored).to_owned()
    }

    /// Returns a stored key as the caller knows it, if it belongs to the caller.
    fn own_key(&self, stored: &str) -> Option<String> {
        self.scope.own_rate_key(&LimitKey::from_stored(stored)).map(|key| key.to_string())
    }

    fn rename(&self, holders: &mut [Holder]) {
        holders.iter_mut().for_each(|holder| holder.queue = self.own_queue(&holder.queue));
    }
}
