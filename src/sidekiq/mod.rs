//! Import of jobs that clients of a Sidekiq push, and their return. Delivery to a Sidekiq is in
//! `main_queue`.

mod arrival;
mod importer;
mod releaser;
mod sources;
mod staging_reporter;
mod stock;

pub use importer::Importer;
pub use releaser::{ReleaseError, Releaser};
pub use sources::ImportSources;
pub use staging_reporter::{Finding, KeyMismatch, StagingReporter};
pub use stock::Stock;
