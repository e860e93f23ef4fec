//! Identification of tenants and their isolation.

use crate::domain::tenant_id;

/// A part of a request that may name the tenant of its jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TenantSource {
    /// `meta.tenant_id` of a job.
    Meta,
    /// The header `X-OJS-Tenant`.
    Header,
    /// The API key that authenticates the request.
    ApiKey,
}

/// Degrees of isolation between tenants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Isolation {
    /// Tenants have lanes in queues that workers serve for all tenants.
    #[default]
    Sharded,
    /// Tenants share queues and lanes; jobs only carry their tenant's name.
    Shared,
    /// Tenants have their own queues, from which only their own workers fetch.
    Namespace,
}

impl Isolation {
    /// Returns the name used in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Isolation::Sharded => "sharded",
            Isolation::Shared => "shared",
            Isolation::Namespace => "namespace",
        }
    }
}

/// The tenancy settings of a deployment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tenancy {
    pub sources: Vec<TenantSource>,
    /// The owner of jobs that do not name a tenant.
    pub default_tenant: String,
    /// True if a job must name its tenant.
    pub require_tenant: bool,
    pub isolation: Isolation,
}

impl Default for Tenancy {
    fn default() -> Self {
        Tenancy {
            sources: vec![TenantSource::Meta, TenantSource::Header, TenantSource::ApiKey],
            default_tenant: tenant_id::DEFAULT.to_owned(),
            require_tenant: false,
            isolation: Isolation::default(),
        }
    }
}

impl Tenancy {
    /// Returns true if requests may name a tenant there.
    pub fn has(&self, source: TenantSource) -> bool {
        self.sources.contains(&source)
    }

    /// Returns the default tenant, if it has a name that jobs can carry.
    pub fn named_default(&self) -> Option<&str> {
        Some(self.default_tenant.as_str()).filter(|name| *name != tenant_id::DEFAULT)
    }
}
