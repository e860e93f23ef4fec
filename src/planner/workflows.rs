//! The way in for workflows: each of their jobs is put under its plan rule, whenever its turn comes.

use super::intake::{ATTEMPTS, Intake, Refusal, plan};
use crate::job::NewWorkflow;
use crate::store::{self, WorkflowBegun};

impl Intake {
    /// Begins a workflow. `header` looks up the request's headers by lower-case name.
    pub async fn begin_workflow(
        &self,
        workflow: &mut NewWorkflow,
        header: &(dyn Fn(&str) -> Option<String> + Sync),
    ) -> Result<WorkflowBegun, Refusal> {
        for _ in 0..ATTEMPTS {
            let known = self.rules.known().await?;
            for (job, path) in workflow.jobs_mut() {
                plan(&known, job, header).map_err(|problem| Refusal::Invalid(problem.within(path)))?;
            }
            match self.store.begin_workflow(workflow, &known.version).await? {
                WorkflowBegun::Stale => self.rules.reload().await?,
                done => return Ok(done),
            };
        }
        Err(Refusal::Store(store::Error::Busy))
    }
}
