//! Tenants: who may access what, their identification, weights and settings.

mod scope;
mod settings;
mod tenancy;
mod weight;

pub use scope::{Foreign, Scope};
pub use settings::{TenantLimits, TenantRule, TenantSettings};
pub use tenancy::{Isolation, Tenancy, TenantSource};
pub use weight::Weight;
