//! The path of workflows: each of their jobs is assigned to its plan rule before the workflow is
//! stored.

use super::service::ATTEMPTS;
use super::{EnqueueService, Refusal};
use crate::domain::invalid::Invalid;
use crate::domain::tenant::Foreign;
use crate::domain::workflow::NewWorkflow;
use crate::store::{self, StartWorkflowOutcome};

impl EnqueueService {
    /// Starts a workflow. `header` returns a request header by its lower-case name.
    pub async fn start_workflow(
        &self,
        workflow: &mut NewWorkflow,
        header: &(dyn Fn(&str) -> Option<String> + Sync),
    ) -> Result<StartWorkflowOutcome, Refusal> {
        let scope = self.store.scope();
        let inside = |foreign: Foreign, path: &str| {
            Refusal::Foreign(Foreign { field: format!("{path}.{}", foreign.field), ..foreign }, None)
        };
        for (job, path) in workflow.jobs_mut() {
            scope.claim(job).map_err(|foreign| inside(foreign, path))?;
        }
        if let Some(tenant) = scope.tenant() {
            workflow.tenant = Some(tenant.to_owned());
        }
        self.find_ancestors(workflow.jobs_mut().map(|(job, _)| job)).await?;
        workflow.jobs_mut().for_each(|(job, _)| job.inherit_tenant(&self.tenancy.default_tenant));
        workflow.unite().map_err(Refusal::Invalid)?;
        for _ in 0..ATTEMPTS {
            let (known, now) = (self.rules.known().await?, self.store.clock().now_ms());
            for (job, path) in workflow.jobs_mut() {
                self.plan(&known, job, header, now).map_err(|problem| match problem {
                    Refusal::Invalid(problem) => Refusal::Invalid(problem.within(path)),
                    Refusal::Foreign(foreign, _) => inside(foreign, path),
                    other => other,
                })?;
                // The other system does not report the end of the job, so the workflow would never
                // continue.
                if job.outward.is_some() {
                    let expected =
                        "a type whose jobs run from fairgate's own queues; jobs of this type go to another main queue";
                    return Err(Refusal::Invalid(Invalid::field("type", expected, &job.kind).within(path)));
                }
            }
            match self.store.start_workflow(workflow, &known.version).await? {
                StartWorkflowOutcome::Stale => self.rules.reload().await?,
                done => return Ok(done),
            };
        }
        Err(Refusal::Store(store::Error::Busy))
    }
}
