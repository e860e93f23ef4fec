//! The reasons why a staged job is not promoted yet: the gate of its main queue and the state of
//! its tenant.

use super::RunnerRegistry;
use crate::domain::plan::Closed;
use crate::store::{Error, StagedTenant};

/// The reasons why a staged job is not promoted yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StagedStatus {
    /// The reason why rounds promote nothing into the queue, if they do not.
    closed: Option<Closed>,
    tenant: TenantState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TenantState {
    /// It takes its turn with the others.
    Waiting,
    /// Its weight is 0.
    Held,
    /// The webhook has not returned its weight yet.
    AwaitsWeight,
    /// It has as many promoted but limit-blocked jobs as the rule allows.
    Blocked,
}

impl TenantState {
    fn of(tenant: Option<&StagedTenant>) -> TenantState {
        match tenant {
            Some(tenant) if tenant.weight.is_held() => TenantState::Held,
            Some(tenant) if tenant.is_unknown => TenantState::AwaitsWeight,
            Some(tenant) if tenant.start.is_none() => TenantState::Blocked,
            _ => TenantState::Waiting,
        }
    }

    fn name(self) -> &'static str {
        match self {
            TenantState::Waiting => "waiting",
            TenantState::Held => "held",
            TenantState::AwaitsWeight => "awaits_weight",
            TenantState::Blocked => "blocked",
        }
    }
}

impl StagedStatus {
    /// Reads the state of a rule, a queue (by its stored name) and a tenant. Returns `None` if
    /// there is no such rule.
    pub async fn read(
        registry: &RunnerRegistry,
        rule: &str,
        queue: &str,
        tenant: &str,
    ) -> Result<Option<StagedStatus>, Error> {
        let Some(rule) = registry.rules().known().await?.find(rule) else { return Ok(None) };
        let status = registry.status(&rule).await?;
        let seen = status.queues.iter().find(|seen| seen.queue == queue);
        let closed = seen.and_then(|seen| seen.gate(&rule, status.now).closed);
        let names = [tenant.to_owned()];
        let tenants = registry.store().tenants(&rule.name, queue, &names).await?;
        Ok(Some(StagedStatus {
            closed: if status.paused { Some(Closed::Paused) } else { closed },
            tenant: TenantState::of(tenants.first()),
        }))
    }

    /// Returns the reason why rounds promote nothing into the queue, if they do not.
    pub fn closed(&self) -> Option<Closed> {
        self.closed
    }

    /// Returns the name of the tenant's state.
    pub fn tenant_state(&self) -> &'static str {
        self.tenant.name()
    }
}
