//! The settings in force: plan rules, the dispatch policy and settings of tenants, each from the
//! configuration file with the changes made at run time on top. The store holds them, so that all
//! processes agree; a [`Rulebook`] follows changes by others.

mod policy;
mod rulebook;
mod tasks;
mod tenant_directory;
mod tenant_settings;

pub use policy::{Held, PolicyRefused};
pub use rulebook::{Known, Removed, Rulebook, Source};
pub use tasks::run_per_rule;
pub use tenant_directory::{DirectoryFilter, DirectoryOrder, TenantDirectory, TenantEntry};
pub use tenant_settings::{Author, Served, TenantSettingsRefused};
