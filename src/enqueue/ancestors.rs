//! Lookup of the owners of workflows and jobs that new jobs name as their origin, before the jobs
//! are stored.
//!
//! The tenant of a job or workflow never changes, so the result is still valid when the job is
//! stored.

use super::{EnqueueService, Refusal};
use crate::domain::job::NewJob;
use crate::domain::job::Origin;
use crate::domain::tenant::Scope;
use crate::domain::tenant_id::DEFAULT;
use crate::store;
use std::collections::HashMap;

impl EnqueueService {
    /// Looks up the tenants of all ancestors that jobs name, regardless of the caller's scope.
    pub(super) async fn find_ancestors<'j>(
        &self,
        jobs: impl Iterator<Item = &'j mut NewJob>,
    ) -> Result<(), store::Error> {
        let mut jobs: Vec<&mut NewJob> = jobs.filter(|job| !job.ancestors.is_empty()).collect();
        if jobs.is_empty() {
            return Ok(());
        }
        let ids = |origin: Origin| {
            let all = jobs.iter().flat_map(|job| &job.ancestors).filter(|ancestor| ancestor.origin == origin);
            let mut ids: Vec<String> = all.map(|ancestor| ancestor.id.clone()).collect();
            ids.sort();
            ids.dedup();
            ids
        };
        let (parents, workflows) = (ids(Origin::Job), ids(Origin::Workflow));
        let store = self.store.within(&Scope::ALL);
        let mut owners = HashMap::new();
        for record in store.jobs(&parents).await? {
            owners.insert((Origin::Job, record.id), record.tenant);
        }
        for (id, tenant) in store.workflow_owners(&workflows).await? {
            owners.insert((Origin::Workflow, id), tenant);
        }
        for ancestor in jobs.iter_mut().flat_map(|job| &mut job.ancestors) {
            let owner = owners.get(&(ancestor.origin, ancestor.id.clone())).cloned();
            ancestor.owner = owner.map(|tenant| tenant.unwrap_or_else(|| DEFAULT.to_owned()));
        }
        Ok(())
    }

    /// Refuses a planned job that belongs to a different tenant than one of its ancestors.
    pub(super) fn check_ancestors(&self, job: &NewJob) -> Result<(), Refusal> {
        let Some(foreign) = job.foreign_ancestor() else { return Ok(()) };
        let scope = self.store.scope();
        match scope.tenant() {
            Some(_) => Err(Refusal::Foreign(scope.foreign(&foreign.field), None)),
            None => Err(Refusal::Invalid(foreign.refusal(job))),
        }
    }
}

/// Fills in ancestors that are earlier jobs of the same request.
pub(super) fn find_among(earlier: &[NewJob], job: &mut NewJob) {
    for ancestor in
        job.ancestors.iter_mut().filter(|ancestor| ancestor.origin == Origin::Job && ancestor.owner.is_none())
    {
        let parent = earlier.iter().find(|earlier| earlier.id == ancestor.id);
        ancestor.owner = parent.map(|parent| parent.owner().unwrap_or(DEFAULT).to_owned());
    }
}
