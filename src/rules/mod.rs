//! The settings in force: plan rules, the dispatch policy and settings of tenants, each from the
//! configuration file with the changes made at run time on top. The store holds them, so that all
//! processes agree; a [`Rulebook`] follows changes by others.

mod policy;
mod rulebook;
mod tasks;
mod tenant_directory;
mod tenant_settings;

pub use policy::{ActivePolicy, PolicyRefused};
pub use rulebook::{KnownRules, Removed, RuleSource, Rulebook};
pub use tasks::run_per_rule;
pub use tenant_directory::{DirectoryFilter, DirectoryOrder, TenantDirectory, TenantEntry};
pub use tenant_settings::{Author, EffectiveSettings, IfBusy, SettingsSource, TenantSettingsRefused};
