//! How tenants are told apart, and how far they are kept apart.

use crate::job::tenant;

/// Where a request may say whose its jobs are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TenantSource {
    /// `meta.tenant_id` of a job.
    Meta,
    /// The header `X-OJS-Tenant`.
    Header,
    /// The API key that a request is authenticated by.
    ApiKey,
}

/// What tenants have for themselves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Isolation {
    /// Lanes of their own in queues that workers serve for all.
    #[default]
    Sharded,
    /// Nothing but their name on their jobs.
    Shared,
    /// Queues of their own, from which only their own workers fetch.
    Namespace,
}

impl Isolation {
    /// As the configuration names it.
    pub fn name(self) -> &'static str {
        match self {
            Isolation::Sharded => "sharded",
            Isolation::Shared => "shared",
            Isolation::Namespace => "namespace",
        }
    }
}

/// How this deployment deals with tenants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tenancy {
    pub sources: Vec<TenantSource>,
    /// Who owns jobs that name nobody.
    pub default_tenant: String,
    /// Whether a job must name its tenant.
    pub require_tenant: bool,
    pub isolation: Isolation,
}

impl Default for Tenancy {
    fn default() -> Self {
        Tenancy {
            sources: vec![TenantSource::Meta, TenantSource::Header, TenantSource::ApiKey],
            default_tenant: tenant::DEFAULT.to_owned(),
            require_tenant: false,
            isolation: Isolation::default(),
        }
    }
}

impl Tenancy {
    /// Whether requests may name a tenant there.
    pub fn has(&self, source: TenantSource) -> bool {
        self.sources.contains(&source)
    }

    /// The default tenant, if it has a name that jobs can carry.
    pub fn named_default(&self) -> Option<&str> {
        Some(self.default_tenant.as_str()).filter(|name| *name != tenant::DEFAULT)
    }
}
